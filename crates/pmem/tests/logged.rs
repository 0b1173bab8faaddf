//! The `logged` domain on real files.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use tembo_pmem::{Domain, DomainRequest, Error, HEADER_SIZE, Region, RegionOptions, SyncPolicy};

const SIZE: u64 = 4 << 20;

fn pool(name: &str) -> PathBuf {
    let path = std::env::temp_dir().join(format!("tembo-logged-{}-{name}", std::process::id()));
    remove(&path);
    path
}

fn log_of(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".log");
    name.into()
}

fn remove(path: &Path) {
    let _ = std::fs::remove_file(path);
    let _ = std::fs::remove_file(log_of(path));
}

fn options(sync: SyncPolicy) -> RegionOptions {
    RegionOptions { log_size: 1 << 20, sync, ..RegionOptions::default() }
}

fn create(path: &Path, options: &RegionOptions) -> Region {
    Region::create(path, SIZE, options, |region| {
        put(region, 0, 77);
        region.store(&region.words(HEADER_SIZE + 8, 1)?[0], 99); // never flushed: not kept
        Ok::<(), Error>(())
    })
    .unwrap()
}

fn put(region: &Region, index: u64, value: u64) {
    let at = HEADER_SIZE + index * 64;
    region.store(&region.words(at, 1).unwrap()[0], value);
    region.flush("test.put", at, 8);
    region.fence("test.fence");
}

fn get(region: &Region, index: u64) -> u64 {
    region.words(HEADER_SIZE + index * 64, 1).unwrap()[0].load()
}

#[test]
fn synced_stores_survive_the_process_under_every_policy() {
    let policies =
        [SyncPolicy::Always, SyncPolicy::Interval(Duration::from_millis(5)), SyncPolicy::Os];
    for (index, policy) in policies.into_iter().enumerate() {
        let path = pool(&format!("policy{index}"));
        let options = options(policy);
        let mut region = create(&path, &options);
        assert_eq!(region.domain(), Domain::Logged);
        assert_eq!(get(&region, 0), 77);
        for round in 0..5 {
            for index in 0..100 {
                put(&region, index, round * 1000 + index);
            }
            region.sync().unwrap();
            drop(region);
            region = Region::open(&path, &options).unwrap();
            for index in 0..100 {
                assert_eq!(get(&region, index), round * 1000 + index);
            }
            assert!(region.report().replayed_groups > 0);
        }
        region.close().unwrap();
        std::fs::remove_file(log_of(&path)).unwrap();
        let region = Region::open(&path, &options).unwrap();
        assert_eq!(get(&region, 99), 4099, "a closed pool is one file");
        assert_eq!(region.report().replayed_groups, 0);
        drop(region);
        remove(&path);
    }
}

#[test]
fn a_pool_changes_domains_with_all_its_data() {
    let path = pool("domains");
    let logged = options(SyncPolicy::Always);
    let flush = RegionOptions { domain: DomainRequest::Flush, ..logged.clone() };
    let region = create(&path, &logged);
    put(&region, 1, 1);
    region.sync().unwrap();
    drop(region);
    let region = Region::open(&path, &flush).unwrap();
    assert_eq!((get(&region, 0), get(&region, 1)), (77, 1));
    put(&region, 2, 2);
    drop(region);
    let logged = RegionOptions { domain: DomainRequest::Logged, ..logged };
    let region = Region::open(&path, &logged).unwrap();
    assert_eq!((get(&region, 1), get(&region, 2)), (1, 2));
    drop(region);
    remove(&path);
}

#[test]
fn a_log_is_missed_and_a_foreign_one_refused() {
    let (path, other) = (pool("missing"), pool("foreign"));
    let options = options(SyncPolicy::Always);
    let region = create(&path, &options);
    put(&region, 1, 1);
    region.sync().unwrap();
    drop(region);
    drop(create(&other, &options));
    let kept = std::fs::read(log_of(&path)).unwrap();
    std::fs::remove_file(log_of(&path)).unwrap();
    assert!(matches!(Region::open(&path, &options).err(), Some(Error::LogMissing { .. })));
    std::fs::copy(log_of(&other), log_of(&path)).unwrap();
    assert!(matches!(Region::open(&path, &options).err(), Some(Error::LogForeign { .. })));
    std::fs::write(log_of(&path), b"something else").unwrap();
    assert!(matches!(Region::open(&path, &options).err(), Some(Error::LogForeign { .. })));
    std::fs::write(log_of(&path), &kept).unwrap();
    let region = Region::open(&path, &options).unwrap();
    assert_eq!(get(&region, 1), 1);
    drop(region);
    std::fs::write(log_of(&path), &kept).unwrap();
    assert!(matches!(Region::open(&path, &options).err(), Some(Error::LogForeign { .. })), "old");
    remove(&path);
    remove(&other);
}

#[test]
fn threads_share_a_sync_and_lose_nothing() {
    let path = pool("threads");
    let options = options(SyncPolicy::Always);
    let region = create(&path, &options);
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let region = &region;
            scope.spawn(move || {
                for round in 0..200 {
                    let section = region.reserve(40).unwrap();
                    for slot in 0..40 {
                        let at = HEADER_SIZE + (thread * 1000 + slot) * 64;
                        region.store(&region.words(at, 1).unwrap()[0], round);
                        region.flush("test.put", at, 8);
                    }
                    drop(section);
                    region.fence("test.fence");
                    region.sync().unwrap();
                }
            });
        }
    });
    let report = region.report();
    assert!(report.checkpoints > 0, "the log went round: {report:?}");
    drop(region);
    let region = Region::open(&path, &options).unwrap();
    for thread in 0..8 {
        for slot in 0..40 {
            assert_eq!(get(&region, thread * 1000 + slot), 199);
        }
    }
    drop(region);
    remove(&path);
}

#[test]
fn large_records_go_beside_the_log() {
    let path = pool("bypass");
    let options = options(SyncPolicy::Always);
    let region = create(&path, &options);
    let at = 1 << 20;
    for round in 0..4_u8 {
        // The space held small things before.
        for line in 0..50 {
            put(&region, (at - HEADER_SIZE) / 64 + line * 20, 5);
        }
        region.sync().unwrap();
        let record = vec![round + 1; 100_000];
        region
            .write("test.large", at, &[&record[..10], &record[10..70_000], &record[70_000..]])
            .unwrap();
        put(&region, 3, u64::from(round));
        if round == 2 {
            region.checkpoint().unwrap();
        }
        region.sync().unwrap();
        assert_eq!(region.media_bytes(at, 100_000).unwrap().to_vec(), record);
    }
    assert!(region.report().log_bytes_written < 200_000);
    drop(region);
    let region = Region::open(&path, &options).unwrap();
    assert!(region.media_bytes(at, 100_000).unwrap().to_vec().iter().all(|byte| *byte == 4));
    assert_eq!(get(&region, 3), 3);
    drop(region);
    remove(&path);
}

/// Docs: `formats/redo-log.md`.
#[test]
fn a_page_costs_the_log_its_bytes_and_one_line() {
    let path = pool("page");
    let region = create(&path, &options(SyncPolicy::Always));
    let cost = |count: u64| {
        let before = region.report().log_bytes_written;
        let pages = vec![7; 4096 * count as usize];
        let _section = region.reserve(64 * count).unwrap();
        region.write("test.page", 1 << 20, &[&pages]).unwrap();
        region.fence("test.fence");
        region.sync().unwrap();
        region.report().log_bytes_written - before
    };
    assert_eq!(cost(1), 4096 + 64);
    assert_eq!(cost(2), 2 * 4096 + 64);
    drop(region);
    remove(&path);
}

#[test]
fn a_region_grows_while_it_is_used() {
    let path = pool("grow");
    let options = options(SyncPolicy::Always);
    let region = create(&path, &options);
    region.grow(4 * SIZE).unwrap();
    let last = (4 * SIZE - HEADER_SIZE) / 64 - 1;
    assert_eq!(get(&region, last), 0);
    put(&region, last, 8);
    region.sync().unwrap();
    assert!(matches!(region.grow(u64::MAX), Err(Error::Fault(_))));
    drop(region);
    let region = Region::open(&path, &options).unwrap();
    assert_eq!((region.size(), get(&region, last)), (4 * SIZE, 8));
    drop(region);
    let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
    file.set_len(4 * SIZE + 12345).unwrap();
    drop(Region::open(&path, &options).unwrap());
    file.set_len(2 * SIZE).unwrap();
    assert!(matches!(Region::open(&path, &options).err(), Some(Error::Truncated { .. })));
    remove(&path);
}

/// Stores to many lines, and syncs: one after another, or by several threads.
fn work(region: &Region, threads: u64, count: u64) {
    std::thread::scope(|scope| {
        for thread in 0..threads {
            scope.spawn(move || {
                for number in 0..count {
                    let section = region.reserve(1).unwrap();
                    put(region, 8 * thread + number % 8, number);
                    drop(section);
                    if number % 100 == 0 {
                        region.sync().unwrap();
                    }
                }
            });
        }
    });
    region.sync().unwrap();
}

#[test]
fn a_log_begins_small_grows_with_its_use_and_goes_round_at_last() {
    for background in [false, true] {
        let path = pool(&format!("extended{background}"));
        let (log_initial, log_size) = (64 << 10, 512 << 10);
        let options = options(SyncPolicy::Os);
        let options = RegionOptions { log_initial, log_size, background, ..options };
        let mut region = create(&path, &options);
        let mut capacities = vec![region.report().log_capacity];
        assert_eq!(capacities, [64 << 10]);
        let (mut last, mut carried) = (0, 0);
        for threads in [1, 4, 2, 3, 1, 4] {
            let count = 700 + threads;
            work(&region, threads, count);
            last = count - 1;
            // Behind the ring are as many bytes again, to be given up when the disk is full. A thread of the log extends the file
            // before the ring, and what is behind it last.
            let is_whole = || {
                let behind_header = log_of(&path).metadata().unwrap().len() - 4096;
                behind_header == 2 * region.report().log_capacity
            };
            let end = Instant::now() + Duration::from_secs(10);
            while background && !is_whole() && Instant::now() < end {
                std::thread::sleep(Duration::from_millis(1));
            }
            assert!(is_whole());
            capacities.push(region.report().log_capacity);
            // A ring that is all but full is not gone on with, and the one in its place may be smaller.
            let report = region.report();
            if report.log_capacity - report.log_used < 128 << 10 {
                region.checkpoint().unwrap();
            }
            // As after a kill.
            carried += region.report().checkpoints;
            drop(region);
            region = Region::open(&path, &options).unwrap();
            carried += region.report().replayed_bytes;
            (0..8 * threads).for_each(|line| assert!(get(&region, line) + 8 > last));
        }
        assert!(capacities.is_sorted() && capacities[1] > 64 << 10, "{capacities:?}");
        assert_eq!(capacities.last(), Some(&(512 << 10)));
        assert!(
            carried > 0,
            "checkpoints or replays have carried what a ring of this size cannot hold"
        );
        // A clean stop keeps it: its blocks are in use already.
        region.close().unwrap();
        let region = Region::open(&path, &options).unwrap();
        assert_eq!(region.report().log_capacity, 512 << 10);
        assert!(get(&region, 0) + 8 > last);
        drop(region);
        remove(&path);
    }
}

#[test]
fn a_log_is_as_large_as_its_operations_need() {
    let path = pool("needed");
    let options = RegionOptions { log_initial: 64 << 10, ..options(SyncPolicy::Os) };
    let region = create(&path, &options);
    // With each line in a group of its own, and a quarter of the log for an operation.
    drop(region.reserve(1000).unwrap());
    assert!(region.report().log_capacity >= 4 * 192 * 1000);
    let lines_max = ((1 << 20) / 4 - 256) / 192;
    drop(region.reserve(lines_max).unwrap());
    assert_eq!(region.report().log_capacity, 1 << 20);
    let refused = region.reserve(lines_max + 1).err();
    assert!(
        matches!(refused, Some(Error::TooLarge { lines_max: found, .. }) if found == lines_max)
    );
    drop(region);
    remove(&path);
}

/// What lies in the system's memory of the log takes the place of pages of the pool.
#[test]
fn a_log_has_an_eighth_of_the_memory_and_one_operation_more_that_needs_it() {
    for (memory, expected) in [(40 << 20, 8 << 20), (96 << 20, 12 << 20), (1 << 40, 32 << 20)] {
        let path = pool(&format!("eighth{memory}"));
        let options =
            RegionOptions { log_size: 32 << 20, memory: Some(memory), ..options(SyncPolicy::Os) };
        let size = 32 << 20;
        let region = Region::create(&path, size, &options, |_| Ok::<(), Error>(())).unwrap();
        // 40 MiB and more, 256 KiB at a time.
        for round in 1..=164 {
            let section = region.reserve(4096).unwrap();
            for line in 0..4096 {
                region.store(&region.words(HEADER_SIZE + line * 64, 1).unwrap()[0], round);
            }
            region.flush("test.put", HEADER_SIZE, 4096 * 64);
            region.fence("test.fence");
            drop(section);
        }
        assert_eq!(region.report().log_capacity, expected, "of {memory} bytes");
        drop(region);
        remove(&path);
        // Before it has gone round, an operation gets what it needs: here 21 MiB.
        let path = pool(&format!("needs{memory}"));
        let region = Region::create(&path, size, &options, |_| Ok::<(), Error>(())).unwrap();
        drop(region.reserve((21 << 20) / 4 / 192).unwrap());
        assert!(region.report().log_capacity >= 21 << 20);
        drop(region);
        remove(&path);
    }
}

/// Zeroes are written only some way before the groups.
#[test]
fn a_store_of_which_little_is_written_has_a_log_of_which_little_is_written() {
    let path = pool("little");
    let options = RegionOptions { log_size: 64 << 20, ..options(SyncPolicy::Always) };
    let region = create(&path, &RegionOptions { log_initial: 16 << 20, ..options });
    (0..200).for_each(|number| put(&region, number % 8, number));
    region.sync().unwrap();
    let file = std::fs::File::open(log_of(&path)).unwrap();
    let began = std::time::Instant::now();
    let hole = || rustix::fs::seek(&file, rustix::fs::SeekFrom::Hole(4096)).unwrap();
    // The thread that writes them may be late, and is given the time to write too many.
    while hole() < 128 << 10 && began.elapsed() < Duration::from_secs(60) {
        std::thread::sleep(Duration::from_millis(1));
    }
    std::thread::sleep(Duration::from_millis(100));
    assert!((128 << 10..512 << 10).contains(&hole()), "zeroes up to {}", hole());
    drop(region);
    remove(&path);
}

#[test]
fn pages_in_the_pool_file_are_given_back() {
    let path = pool("pages");
    let options = RegionOptions { private_max: 0, ..options(SyncPolicy::Os) };
    let region = create(&path, &options);
    for round in 0..20 {
        for page in 0..1000 {
            let section = region.reserve(1).unwrap();
            put(&region, page * 64, round * 1000 + page);
            drop(section);
        }
        for page in 0..1000 {
            assert_eq!(get(&region, page * 64), round * 1000 + page);
        }
    }
    region.checkpoint().unwrap();
    assert_eq!(region.report().private_bytes, 0);
    assert_eq!(get(&region, 999 * 64), 19_999);
    drop(region);
    remove(&path);
}
