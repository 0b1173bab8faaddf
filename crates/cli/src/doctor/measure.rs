//! What a fence and an `fdatasync` cost.

use std::fs::OpenOptions;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, Instant};

use tembo_pmem::{Error, HEADER_SIZE, LINE, Region};

use super::trial::Trial;

const PERSISTS: u64 = 200_000;
const PAGE: usize = 4096;
const FILE_PAGES: u64 = 256;
const SYNCS: u64 = 200;
const SYNCS_DURATION_MAX: Duration = Duration::from_secs(2);

/// Mean of storing, flushing and fencing one line after another in random order.
pub(super) fn persist_ns(region: &Region) -> Result<f64, Error> {
    let lines = (region.size() - HEADER_SIZE) / LINE;
    let mut random = 1_u64;
    let start = Instant::now();
    for count in 0..PERSISTS {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let offset = HEADER_SIZE + (random >> 33) % lines * LINE;
        region.store(&region.words(offset, 1)?[0], count);
        region.flush("doctor.flush", offset, 8);
        region.fence("doctor.fence");
    }
    Ok(start.elapsed().as_nanos() as f64 / PERSISTS as f64)
}

/// Median of overwriting a page of a file and syncing it; None if the file system cannot sync.
pub(super) fn fdatasync_us(folder: &Path) -> io::Result<Option<f64>> {
    let trial = Trial::new(folder);
    let file = OpenOptions::new().write(true).create_new(true).open(trial.path())?;
    file.write_all_at(&vec![1; PAGE * FILE_PAGES as usize], 0)?;
    if file.sync_all().is_err() {
        return Ok(None);
    }
    let mut times = Vec::new();
    let start = Instant::now();
    for count in 0..SYNCS {
        let each = Instant::now();
        file.write_all_at(&[count as u8; PAGE], count % FILE_PAGES * PAGE as u64)?;
        file.sync_data()?;
        times.push(each.elapsed());
        if start.elapsed() > SYNCS_DURATION_MAX {
            break;
        }
    }
    times.sort();
    Ok(Some(times[times.len() / 2].as_secs_f64() * 1e6))
}
