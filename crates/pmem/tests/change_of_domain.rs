//! A pool whose log is needed is opened in a domain that has none, and that opening fails half-way.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tembo_pmem::{
    BYPASS_MIN, DiskFile, DomainRequest, Error, HEADER_SIZE, Region, RegionOptions, SyncPolicy,
};
use tembo_sim::{Chooser, Rest, SimDisk};

#[path = "driver/meddled.rs"]
mod meddled;

use meddled::{Done, Meddled, Meddler};

const SIZE: u64 = 4 << 20;
const OBJECT: u64 = 1 << 20;
/// Of a word, behind all others.
const LINK: u64 = 2 << 20;

/// Whether an opening without a log cannot bring the last lines of the log into the pool file.
#[derive(Default)]
struct Fails(AtomicBool);

impl Meddler for Fails {
    fn write(&self, file: &dyn DiskFile, step: &'static str, bytes: &[u8], offset: u64) -> Done {
        let is_last = step == "open.replay_write" && offset >= LINK;
        if is_last && self.0.load(Ordering::SeqCst) {
            return Err(io::Error::other("a disk that fails"));
        }
        file.write_at(step, bytes, offset)
    }
}

/// One sync has a record beside the log, and words that were stored in it and elsewhere: nothing calls the record's group durable, and
/// its checksum fails once the pool file has the word in it.
#[test]
fn what_was_synced_outlasts_an_opening_without_a_log_that_fails() {
    let path = std::env::temp_dir().join(format!("tembo-change-{}", std::process::id()));
    let files = [path.clone(), PathBuf::from(format!("{}.log", path.display()))];
    files.iter().for_each(|path| drop(std::fs::remove_file(path)));
    let fails = Arc::<Fails>::default();
    let logged = RegionOptions {
        domain: DomainRequest::Logged,
        size_max: SIZE,
        log_size: 1 << 20,
        disk: Arc::new(Meddled(fails.clone())),
        background: false,
        ..RegionOptions::default()
    };
    let flushed = RegionOptions { domain: DomainRequest::Flush, ..logged.clone() };
    let region = Region::create(&path, SIZE, &logged, |_| Ok::<(), Error>(())).unwrap();
    let record = vec![3; BYPASS_MIN as usize];
    {
        let lines = region.write_lines(OBJECT, BYPASS_MIN) + 2;
        let _section = region.reserve(lines).unwrap();
        region.write_object("test.object", OBJECT, &[&record], BYPASS_MIN).unwrap();
        region.fence("test.record");
        for at in [OBJECT + 64, LINK] {
            region.store(&region.words(at, 1).unwrap()[0], 7);
            region.flush("test.word", at, 8);
        }
        region.fence("test.fence");
    }
    region.sync().unwrap();
    drop(region);

    let is_there = |region: &Region| {
        let mut expected = record.clone();
        expected[64..72].copy_from_slice(&7_u64.to_le_bytes());
        assert!(region.media_bytes(OBJECT, BYPASS_MIN).unwrap().to_vec() == expected);
        assert_eq!(region.words(LINK, 1).unwrap()[0].load(), 7);
    };
    fails.0.store(true, Ordering::SeqCst);
    for _ in 0..2 {
        assert!(Region::open(&path, &flushed).is_err());
    }
    is_there(&Region::open(&path, &logged).unwrap());
    assert!(Region::open(&path, &flushed).is_err());
    fails.0.store(false, Ordering::SeqCst);
    is_there(&Region::open(&path, &flushed).unwrap());
    is_there(&Region::open(&path, &logged).unwrap());
    files.iter().for_each(|path| drop(std::fs::remove_file(path)));
}

/// A process was killed when its last group was in the system's memory alone. The group is durable before a line of it reaches the
/// pool file.
#[test]
fn a_power_loss_in_an_opening_without_a_log_leaves_groups_whole() {
    let path = Path::new("/disk/pool");
    let options = |disk: &SimDisk, domain| RegionOptions {
        domain,
        sync: SyncPolicy::Os,
        size_max: SIZE,
        log_size: 1 << 20,
        disk: Arc::new(disk.clone()),
        background: false,
        ..RegionOptions::default()
    };
    let places = [HEADER_SIZE, LINK];
    let disk = SimDisk::mapped();
    let logged = options(&disk, DomainRequest::Logged);
    let region = Region::create(path, SIZE, &logged, |_| Ok::<(), Error>(())).unwrap();
    for value in 1..3 {
        let _section = region.reserve(2).unwrap();
        for at in places {
            region.store(&region.words(at, 1).unwrap()[0], value);
            region.flush("test.word", at, 8);
        }
        region.fence("test.fence");
        if value == 1 {
            region.checkpoint().unwrap();
        }
    }
    region.sync().unwrap();
    drop(region);
    disk.record();
    drop(Region::open(path, &options(&disk, DomainRequest::Flush)).unwrap());
    let mut seen = [0, 0];
    for point in disk.points() {
        let mut look = |rest| {
            let disk = point.snapshot.after_power_loss(Chooser::new(rest));
            let region = Region::open(path, &options(&disk, DomainRequest::Logged)).unwrap();
            let found = places.map(|at| region.words(at, 1).unwrap()[0].load());
            assert!(found == [1, 1] || found == [2, 2], "before {}: {found:?}", point.step);
            seen[found[0] as usize - 1] += 1;
            disk.decisions()
        };
        look(Rest::Old);
        for decision in look(Rest::New) {
            look(Rest::NewBut(decision.site));
            look(Rest::OldBut(decision.site));
        }
    }
    assert!(seen[0] > 0 && seen[1] > 0, "{seen:?}");
}
