//! Images of earlier versions still open. `TEMBO_BLESS=1` writes those of this version anew.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tembo_pmem::{DomainRequest, Error, HEADER_SIZE, Region, RegionOptions};
use tembo_sim::SimDisk;

const POOL: &str = "/disk/pool";
const LOG: &str = "/disk/pool.log";

fn options(disk: &SimDisk) -> RegionOptions {
    RegionOptions {
        domain: DomainRequest::Logged,
        size_max: 1 << 20,
        log_size: 64 << 10,
        disk: Arc::new(disk.clone()),
        background: false,
        ..RegionOptions::default()
    }
}

fn image(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/images").join(name)
}

fn put(region: &Region, offset: u64, value: u64) {
    region.store(&region.words(offset, 1).unwrap()[0], value);
    region.flush("test.put", offset, 8);
    region.fence("test.fence");
}

/// A pool whose log is needed: one word in the file, two in the log.
fn make() -> SimDisk {
    let disk = SimDisk::default();
    let region = Region::create(Path::new(POOL), 16 << 10, &options(&disk), |region| {
        put(region, HEADER_SIZE, 1);
        Ok::<(), Error>(())
    })
    .unwrap();
    put(&region, HEADER_SIZE + 64, 2);
    put(&region, HEADER_SIZE + 4096, 3);
    region.sync().unwrap();
    drop(region);
    disk.snapshot().after_kill()
}

#[test]
fn the_image_of_a_log_opens_and_is_what_is_written_today() {
    let made = make();
    let files = [(POOL, "pool_1.image"), (LOG, "log_1_runs.image")];
    if std::env::var_os("TEMBO_BLESS").is_some() {
        for (path, name) in files {
            std::fs::write(image(name), made.content(Path::new(path)).unwrap()).unwrap();
        }
    }
    for (path, name) in files {
        let golden = std::fs::read(image(name)).unwrap();
        let found = made.content(Path::new(path)).unwrap();
        let (same, behind) = found.split_at(golden.len().min(found.len()));
        // Behind the ring the file has blocks that hold nothing.
        let is_same = same == golden && behind.iter().all(|byte| *byte == 0);
        assert!(is_same && (path == LOG || behind.is_empty()), "{name} is written differently");
    }
    opens(files);
}

#[test]
fn the_images_of_earlier_logs_open() {
    opens([(POOL, "pool_1.image"), (LOG, "log_1.image")]);
    opens([(POOL, "pool_1.image"), (LOG, "log_1_extents_checked.image")]);
    opens([(POOL, "pool_1.image"), (LOG, "log_1_xxh3.image")]);
}

fn opens(files: [(&str, &str); 2]) {
    let disk = SimDisk::default();
    for (path, name) in files {
        disk.put(Path::new(path), &std::fs::read(image(name)).unwrap());
    }
    let to_read = RegionOptions { read_only: true, ..options(&disk) };
    let region = Region::open(Path::new(POOL), &to_read).unwrap();
    assert_eq!(region.words(HEADER_SIZE + 4096, 1).unwrap()[0].load(), 3);
    drop(region);
    for (path, name) in files {
        let golden = std::fs::read(image(name)).unwrap();
        assert!(disk.content(Path::new(path)).unwrap() == golden, "reading changes {name}");
    }
    let region = Region::open(Path::new(POOL), &options(&disk)).unwrap();
    assert_eq!(region.report().replayed_groups, 2);
    for (offset, value) in [(0, 1), (64, 2), (4096, 3)] {
        assert_eq!(region.words(HEADER_SIZE + offset, 1).unwrap()[0].load(), value);
    }
}
