//! Space that holds nothing goes back to the file system.
#![allow(clippy::unwrap_used)]

use std::path::Path;
use std::sync::Arc;

use tembo_pmem::{DomainRequest, Error, HEADER_SIZE, Region, RegionOptions};
use tembo_sim::{Chooser, Failure, Fault, Random, Rest, SimDisk, Slip};

const PATH: &str = "/disk/pool";
const SIZE: u64 = 1 << 20;
const PAGE: u64 = 4096;
/// Space for one object.
const OBJECT: u64 = 64 << 10;
const LEN: u64 = 4 * PAGE;
/// The word that links the object: of bytes of this value, or of zeroes.
const LINK: u64 = HEADER_SIZE;
const ZEROES: u64 = 256;

fn options(disk: &SimDisk) -> RegionOptions {
    RegionOptions {
        domain: DomainRequest::Logged,
        size_max: SIZE,
        log_size: 256 << 10,
        disk: Arc::new(disk.clone()),
        background: false,
        ..RegionOptions::default()
    }
}

fn made(disk: &SimDisk) -> Region {
    Region::create(Path::new(PATH), SIZE, &options(disk), |_| Ok::<(), Error>(())).unwrap()
}

fn link(region: &Region, value: u64) {
    let _section = region.reserve(1).unwrap();
    region.store(&region.words(LINK, 1).unwrap()[0], value);
    region.flush("test.link", LINK, 8);
    region.fence("test.link_fence");
}

/// Puts an object there that goes through the log, and links it.
fn put(region: &Region, value: u8) {
    let section = region.reserve(LEN / 64).unwrap();
    region.write("test.object", OBJECT, &[&vec![value; LEN as usize]]).unwrap();
    region.fence("test.object_fence");
    drop(section);
    link(region, value.into());
}

fn free(region: &Region) {
    link(region, 0);
    region.frees().note(OBJECT, LEN);
}

/// The object is what its link says.
fn is_right(region: &Region) -> bool {
    let link = region.words(LINK, 1).unwrap()[0].load();
    let bytes = region.media_bytes(OBJECT, LEN).unwrap().to_vec();
    link == 0 || bytes.iter().all(|byte| u64::from(*byte) == link % ZEROES)
}

#[test]
fn a_hole_takes_no_room_and_is_zero_until_it_is_used_again() {
    for disk in [SimDisk::default(), SimDisk::mapped()] {
        let region = made(&disk);
        put(&region, 7);
        free(&region);
        region.checkpoint().unwrap();
        let before = disk.room_taken(Path::new(PATH));
        assert!(region.can_punch() && region.punch(OBJECT, LEN).unwrap());
        assert_eq!(before - disk.room_taken(Path::new(PATH)), LEN as usize / 512);
        link(&region, ZEROES);
        assert!(is_right(&region));
        free(&region);
        put(&region, 9);
        region.close().unwrap();
        let region = Region::open(Path::new(PATH), &options(&disk)).unwrap();
        assert!(is_right(&region) && region.words(LINK, 1).unwrap()[0].load() == 9);
        assert_eq!(disk.room_taken(Path::new(PATH)), before);
    }
}

#[test]
fn a_range_that_the_log_may_need_is_not_punched() {
    let disk = SimDisk::default();
    let region = made(&disk);
    put(&region, 7);
    free(&region);
    assert!(!region.punch(OBJECT, LEN).unwrap(), "its unlinking is not durable");
    region.sync().unwrap();
    assert!(!region.punch(OBJECT, LEN).unwrap(), "a checkpoint has still to write its lines");
    region.checkpoint().unwrap();
    assert!(region.punch(OBJECT, LEN).unwrap());
    for (offset, len) in [(OBJECT + 64, PAGE), (OBJECT, 64), (0, PAGE), (SIZE, PAGE)] {
        let refused = region.punch(offset, len);
        assert!(matches!(refused, Err(Error::Fault(_))), "{offset} {len}: {refused:?}");
    }
}

/// Does work with a hole in it, and loses the power before each of its steps; how often an object was not what its link says.
fn wrong_after_crashes(slip: Option<Slip>) -> usize {
    let disk = SimDisk::default();
    let region = made(&disk);
    disk.slip(slip.clone());
    disk.record();
    for value in [7, 8] {
        put(&region, value);
        region.sync().unwrap();
        free(&region);
        region.checkpoint().unwrap();
        assert!(region.punch(OBJECT, LEN).unwrap());
        // Zeroes need no store.
        link(&region, ZEROES);
        region.sync().unwrap();
        free(&region);
    }
    region.sync().unwrap();
    let (mut random, mut wrong) = (Random::new(1), 0);
    for point in disk.points() {
        let chance = (0..8).map(|_| Rest::Random(Random::new(random.number())));
        for rest in [Rest::Old, Rest::New].into_iter().chain(chance) {
            let after = point.snapshot.after_power_loss(Chooser::new(rest));
            after.slip(slip.clone());
            let region = Region::open(Path::new(PATH), &options(&after)).unwrap();
            wrong += usize::from(!is_right(&region));
        }
    }
    wrong
}

#[test]
fn a_hole_is_durable_before_its_space_is_used() {
    assert_eq!(wrong_after_crashes(None), 0);
    for step in ["pool.hole_punch", "pool.hole_sync"] {
        let slip = Slip::Dropped { step: step.into() };
        assert!(wrong_after_crashes(Some(slip)) > 0, "{step} is missed");
    }
}

#[test]
fn a_hole_that_may_not_be_durable_ends_all_promises() {
    let disk = SimDisk::default();
    let region = made(&disk);
    put(&region, 7);
    free(&region);
    region.checkpoint().unwrap();
    disk.fail(Fault::once(Failure::Error, "pool.hole_sync", 1));
    let failed = region.punch(OBJECT, LEN);
    assert!(matches!(failed, Err(Error::Poisoned { .. })), "{failed:?}");
    disk.heal();
    assert!(matches!(region.reserve(1).map(drop), Err(Error::Poisoned { .. })));
}

#[test]
fn a_pool_with_holes_is_mapped_only_when_the_disk_has_room_for_all_of_it() {
    let disk = SimDisk::mapped();
    let region = made(&disk);
    put(&region, 7);
    free(&region);
    region.checkpoint().unwrap();
    let before = disk.room_taken(Path::new(PATH));
    assert!(region.punch(OBJECT, LEN).unwrap());
    region.close().unwrap();

    // A store into a hole of a mapped file on a full disk would end the process.
    let mapped = RegionOptions { domain: DomainRequest::Flush, ..options(&disk) };
    disk.leave_room(Some(0));
    let refused = Region::open(Path::new(PATH), &mapped).err();
    assert!(matches!(refused, Some(Error::DiskFull { .. })), "{refused:?}");
    disk.leave_room(None);
    let region = Region::open(Path::new(PATH), &mapped).unwrap();
    assert_eq!(disk.room_taken(Path::new(PATH)), before);
    assert_eq!(region.media_bytes(OBJECT, LEN).unwrap().to_vec(), vec![0; LEN as usize]);
}
