//! What a turn of the server costs in the `logged` domain: `cargo run --release --example turns -- DIR`.
#![allow(clippy::print_stdout)]

use std::path::PathBuf;
use std::time::Instant;

use tembo_pmem::{DomainRequest, Error, HEADER_SIZE, Region, RegionOptions, SyncPolicy};

const SIZE: u64 = 256 << 20;
const LINES: u64 = (SIZE - HEADER_SIZE) / 64;

fn random(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state
}

fn main() -> Result<(), Error> {
    let directory = std::env::args_os().nth(1).map_or_else(std::env::temp_dir, PathBuf::from);
    let path = directory.join("turns.pool");
    for (name, sync, puts, turns) in [
        ("always, 50 puts", SyncPolicy::Always, 50, 6_000),
        ("always, 800 puts", SyncPolicy::Always, 800, 1_000),
        ("os, 50 puts", SyncPolicy::Os, 50, 20_000),
    ] {
        for suffix in ["", ".log", ".log.new", ".tmp"] {
            let mut name = path.as_os_str().to_owned();
            name.push(suffix);
            // It need not be there.
            let _ = std::fs::remove_file(PathBuf::from(name));
        }
        let options =
            RegionOptions { domain: DomainRequest::Logged, sync, ..RegionOptions::default() };
        let region = Region::create(&path, SIZE, &options, |_| Ok::<(), Error>(()))?;
        let (mut state, mut tail, mut fence_ns, mut sync_ns) = (88_172_645_463_325_252, 0, 0, 0);
        let value = [7; 128];
        let all = Instant::now();
        for turn in 0..turns {
            let section = region.reserve(puts * 4 + 8)?;
            let start = Instant::now();
            for _ in 0..puts {
                // A record behind the last one, and an entry somewhere.
                tail = (tail + 128) % (LINES * 32);
                region.write("turns.record", HEADER_SIZE + tail, &[&value])?;
                let entry = HEADER_SIZE + (LINES / 2 + random(&mut state) % (LINES / 2)) * 64;
                region.store(&region.words(entry, 1)?[0], turn);
                region.flush("turns.entry", entry, 8);
            }
            region.fence("turns.fence");
            fence_ns += start.elapsed().as_nanos();
            drop(section);
            let start = Instant::now();
            region.sync()?;
            sync_ns += start.elapsed().as_nanos();
        }
        let total = u128::from(puts * turns);
        let report = region.report();
        println!(
            "{name:18} {:9.0} puts/s, {:6.0} ns in fences, {:6.0} ns in syncs, {} log bytes a put, {} checkpoints",
            total as f64 / all.elapsed().as_secs_f64(),
            fence_ns as f64 / total as f64,
            sync_ns as f64 / total as f64,
            report.log_bytes_written / total as u64,
            report.checkpoints,
        );
        drop(region);
    }
    Ok(())
}
