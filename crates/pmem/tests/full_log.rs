//! The disk is full when a log is to be extended, or made anew: what is there goes on, and serves.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::path::PathBuf;
use std::sync::Arc;

use tembo_pmem::{DomainRequest, Error, HEADER_SIZE, Region, RegionOptions};
use tembo_sim::{Failure, Fault, SimDisk};

const SIZE: u64 = 1 << 20;
/// Bytes of a small ring.
const SMALL: u64 = 64 << 10;
/// Lines of an operation that a small ring has no room for.
const MANY: u64 = 300;

fn pool() -> PathBuf {
    PathBuf::from("/disk/pool")
}

fn options(disk: &SimDisk) -> RegionOptions {
    RegionOptions {
        domain: DomainRequest::Logged,
        size_max: SIZE,
        log_size: 1 << 20,
        log_initial: SMALL,
        disk: Arc::new(disk.clone()),
        background: false,
        ..RegionOptions::default()
    }
}

fn create(disk: &SimDisk) -> Region {
    Region::create(&pool(), SIZE, &options(disk), |_| Ok::<(), Error>(())).unwrap()
}

/// From here on these steps find the disk full.
fn fill(disk: &SimDisk, steps: &[&'static str]) {
    let (failure, steps) = (Failure::Full, steps.to_vec());
    disk.fail(Fault { failure, steps, from: 1, count: u64::MAX });
}

fn put(region: &Region, value: u64) {
    let at = HEADER_SIZE + value % 64 * 64;
    let _section = region.reserve(1).unwrap();
    region.store(&region.words(at, 1).unwrap()[0], value);
    region.flush("test.put", at, 8);
    region.fence("test.fence");
}

fn get(region: &Region, value: u64) -> u64 {
    region.words(HEADER_SIZE + value % 64 * 64, 1).unwrap()[0].load()
}

#[test]
fn a_small_ring_that_went_round_is_gone_on_with_where_there_is_no_room_for_another() {
    let disk = SimDisk::default();
    let region = create(&disk);
    fill(&disk, &["log.extend_allocate"]);
    let count = 3 * SMALL / 128;
    (1..=count).for_each(|value| put(&region, value));
    region.sync().unwrap();
    drop(region);

    fill(&disk, &["log.allocate", "log.extend_allocate"]);
    for round in 1..=3 {
        let region = Region::open(&pool(), &options(&disk)).unwrap();
        let first = count + (round - 1) * 500;
        (0..60).for_each(|before| assert_eq!(get(&region, first - before), first - before));
        assert_eq!(region.report().log_capacity, SMALL);
        (1..=500).for_each(|value| put(&region, first + value));
        region.sync().unwrap();
    }
    // With room there is a larger one.
    disk.heal();
    let region = Region::open(&pool(), &options(&disk)).unwrap();
    assert!(region.report().log_capacity > SMALL);
    assert_eq!(get(&region, count + 1500), count + 1500);
}

#[test]
fn a_disk_that_is_full_when_the_header_of_a_larger_ring_is_written_poisons_nothing() {
    let disk = SimDisk::default();
    let region = create(&disk);
    fill(&disk, &["log.extend_write"]);
    let count = 3 * SMALL / 128;
    (1..=count).for_each(|value| put(&region, value));
    region.sync().unwrap();
    assert_eq!(region.report().log_capacity, SMALL);
    drop(region);
    disk.heal();
    let region = Region::open(&pool(), &options(&disk)).unwrap();
    assert_eq!(get(&region, count), count);
}

#[test]
fn a_ring_that_found_no_room_is_extended_once_there_is_some() {
    let disk = SimDisk::default();
    let region = create(&disk);
    fill(&disk, &["log.extend_allocate"]);
    put(&region, 1);
    for _ in 0..2 {
        let refused = region.reserve(MANY).map(drop);
        assert!(matches!(refused, Err(Error::DiskFull { .. })));
    }
    disk.heal();
    drop(region.reserve(MANY).unwrap());
    put(&region, 2);
    region.sync().unwrap();
    drop(region);
    let region = Region::open(&pool(), &options(&disk)).unwrap();
    assert_eq!((get(&region, 1), get(&region, 2)), (1, 2));
}

#[test]
fn sections_within_another_give_back_what_they_have_not_used() {
    let region = create(&SimDisk::default());
    let outer = region.reserve(4).unwrap();
    for value in 0..1000 {
        let _within = region.reserve(MANY).unwrap();
        put(&region, value);
    }
    // What the outer one has reserved is kept for it.
    put(&region, 1000);
    drop(outer);
    assert_eq!(get(&region, 1000), 1000);
}

#[test]
fn a_log_whose_name_another_has_taken_is_not_gone_on_with() {
    let disk = SimDisk::default();
    let region = create(&disk);
    fill(&disk, &["log.extend_allocate"]);
    let mut count = 3 * SMALL / 128;
    (1..=count).for_each(|value| put(&region, value));
    region.sync().unwrap();
    drop(region);

    fill(&disk, &["log.sync_dir"]);
    if let Ok(region) = Region::open(&pool(), &options(&disk)) {
        count += 1;
        put(&region, count);
        region.sync().unwrap();
    }
    let left = options(&disk.snapshot().after_kill());
    let region = Region::open(&pool(), &left).unwrap();
    (0..60).for_each(|before| assert_eq!(get(&region, count - before), count - before));
}
