//! A pool that is opened to be read: seen as it would be opened, and never changed.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tembo_pmem::{Domain, DomainRequest, Error, HEADER_SIZE, Region, RegionOptions};
use tembo_sim::SimDisk;

fn options(domain: DomainRequest) -> RegionOptions {
    RegionOptions { domain, log_size: 1 << 20, size_max: 1 << 30, ..RegionOptions::default() }
}

fn to_read() -> RegionOptions {
    RegionOptions { read_only: true, ..options(DomainRequest::Auto) }
}

fn dir(name: &str) -> PathBuf {
    let dir = std::env::temp_dir().join(format!("tembo-read-{}-{name}", std::process::id()));
    let _ = fs::remove_dir_all(&dir);
    fs::create_dir_all(&dir).unwrap();
    dir
}

fn put(region: &Region, at: u64, value: u64) {
    let _section = region.reserve(1).unwrap();
    region.store(&region.words(at, 1).unwrap()[0], value);
    region.flush("test.flush", at, 8);
    region.fence("test.fence");
    region.sync().unwrap();
}

fn get(region: &Region, at: u64) -> u64 {
    region.words(at, 1).unwrap()[0].load()
}

/// All files of a folder.
fn content(dir: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut files: Vec<_> = fs::read_dir(dir)
        .unwrap()
        .map(|file| file.unwrap().path())
        .map(|path| (path.clone(), fs::read(path).unwrap()))
        .collect();
    files.sort();
    files
}

/// Uses a region as a writer would.
fn use_all(region: &Region) {
    assert!(region.is_read_only());
    assert_eq!(region.domain(), Domain::Volatile);
    for at in [HEADER_SIZE, HEADER_SIZE + (1 << 20)] {
        put(region, at, 77);
        assert_eq!(get(region, at), 77);
    }
    region.write("test.write_private", 1 << 19, &[&vec![7; 200_000]]).unwrap();
    region.fence("test.fence_private");
    region.grow(8 << 20).unwrap();
    put(region, (8 << 20) - 8, 5);
    region.sync().unwrap();
    region.checkpoint().unwrap();
}

#[test]
fn what_is_read_is_what_an_opening_would_find_and_nothing_is_changed() {
    for domain in [DomainRequest::Logged, DomainRequest::Flush] {
        let dir = dir(&format!("{domain:?}"));
        let path = dir.join("pool");
        let region =
            Region::create(&path, 2 << 20, &options(domain), |_| Ok::<(), Error>(())).unwrap();
        put(&region, HEADER_SIZE, 1);
        region.checkpoint().unwrap();
        // In the log alone.
        put(&region, HEADER_SIZE + 64, 2);
        put(&region, HEADER_SIZE, 3);
        // As if the process ended here.
        drop(region);
        let before = content(&dir);
        for file in &before {
            fs::set_permissions(&file.0, fs::Permissions::from_mode(0o440)).unwrap();
        }
        let one = Region::open(&path, &to_read()).unwrap();
        let other = Region::open(&path, &to_read()).unwrap();
        for region in [&one, &other] {
            assert_eq!((get(region, HEADER_SIZE), get(region, HEADER_SIZE + 64)), (3, 2));
            let report = region.report();
            assert_eq!(report.replayed_groups > 0, domain == DomainRequest::Logged);
            assert!(report.identity != 0 && report.size == 2 << 20);
        }
        use_all(&one);
        assert_eq!(get(&other, HEADER_SIZE), 3, "each has its own memory");
        // A writer would change it under their eyes.
        for file in &before {
            fs::set_permissions(&file.0, fs::Permissions::from_mode(0o640)).unwrap();
        }
        assert!(matches!(Region::open(&path, &options(domain)), Err(Error::Held { .. })));
        one.close().unwrap();
        drop(other);
        assert!(content(&dir) == before, "{domain:?}");
        let region = Region::open(&path, &options(domain)).unwrap();
        assert_eq!((get(&region, HEADER_SIZE), get(&region, HEADER_SIZE + 64)), (3, 2));
        let held = Region::open(&path, &to_read());
        let own = std::process::id();
        assert!(matches!(held, Err(Error::Held { pid: Some(pid), .. }) if pid == own));
        region.close().unwrap();
        // A clean pool needs no log.
        fs::remove_file(dir.join("pool.log")).ok();
        let before = content(&dir);
        let region = Region::open(&path, &to_read()).unwrap();
        assert_eq!(get(&region, HEADER_SIZE), 3);
        use_all(&region);
        drop(region);
        assert!(content(&dir) == before, "{domain:?}");
        fs::remove_dir_all(dir).unwrap();
    }
}

#[test]
fn a_pool_is_not_created_to_be_read() {
    let dir = dir("create");
    let made = Region::create(&dir.join("pool"), 1 << 20, &to_read(), |_| Ok::<(), Error>(()));
    assert!(matches!(made, Err(Error::Unsupported { .. })));
    assert!(content(&dir).is_empty());
    fs::remove_dir_all(dir).unwrap();
}

#[test]
fn no_step_of_a_disk_is_taken_that_changes_it() {
    let (path, disk) = (Path::new("/disk/pool"), SimDisk::default());
    let options = RegionOptions {
        disk: Arc::new(disk.clone()),
        background: false,
        ..options(DomainRequest::Logged)
    };
    let region = Region::create(path, 2 << 20, &options, |_| Ok::<(), Error>(())).unwrap();
    put(&region, HEADER_SIZE + 64, 2);
    drop(region);
    let disk = disk.snapshot().after_kill();
    let files = || [path, Path::new("/disk/pool.log")].map(|file| disk.content(file));
    let before = files();
    let options = RegionOptions { disk: Arc::new(disk.clone()), read_only: true, ..options };
    let region = Region::open(path, &options).unwrap();
    assert_eq!(get(&region, HEADER_SIZE + 64), 2);
    use_all(&region);
    region.close().unwrap();
    assert!(files() == before);
}

/// Where the feature words of the two headers lie, and their checksum.
const POOL_FEATURES: [usize; 3] = [16, 24, 32];
const LOG_FEATURES: [usize; 3] = [88, 96, 104];

/// A feature that no program knows.
const UNKNOWN: u64 = 1 << 62;

/// Sets a feature bit in both slots of a header that hold one.
fn set_feature(path: &Path, at: usize) {
    let mut bytes = fs::read(path).unwrap();
    for slot in [0, 2048] {
        let slot = &mut bytes[slot..slot + 512];
        if slot.starts_with(b"TEMBO") {
            slot[at + 7] |= UNKNOWN.to_le_bytes()[7];
            let crc = crc32c::crc32c(&slot[..508]);
            slot[508..].copy_from_slice(&crc.to_le_bytes());
        }
    }
    fs::write(path, bytes).unwrap();
}

#[test]
fn unknown_features_are_refused_or_read_or_kept_as_they_say() {
    let files = [("pool", POOL_FEATURES), ("pool.log", LOG_FEATURES)];
    for (name, [must, may, read]) in files {
        for (kind, at) in [("must", must), ("may", may), ("read", read)] {
            let dir = dir(&format!("{name}-{kind}"));
            let path = dir.join("pool");
            let writing = options(DomainRequest::Logged);
            let region = Region::create(&path, 2 << 20, &writing, |_| Ok::<(), Error>(())).unwrap();
            put(&region, HEADER_SIZE, 1);
            drop(region);
            set_feature(&dir.join(name), at);
            let before = content(&dir);
            let reading = Region::open(&path, &to_read()).map(|region| get(&region, HEADER_SIZE));
            match (kind, reading) {
                ("must", Err(Error::UnknownFeatures { bits: UNKNOWN, .. })) => {}
                ("may" | "read", Ok(1)) => {}
                (_, other) => panic!("{name} {kind}: {other:?}"),
            }
            match (kind, Region::open(&path, &writing).map(|region| get(&region, HEADER_SIZE))) {
                ("must", Err(Error::UnknownFeatures { bits: UNKNOWN, .. })) => {}
                ("read", Err(Error::ReadOnlyFeatures { bits: UNKNOWN, .. })) => {}
                ("may", Ok(1)) => {
                    let kept = fs::read(dir.join(name)).unwrap();
                    assert!(
                        (kept[at + 7] | kept[2048 + at + 7]) & UNKNOWN.to_le_bytes()[7] != 0,
                        "{name}"
                    );
                }
                (_, other) => panic!("{name} {kind}: {other:?}"),
            }
            assert!(kind == "may" || content(&dir) == before, "{name} {kind}");
            fs::remove_dir_all(dir).unwrap();
        }
    }
}
