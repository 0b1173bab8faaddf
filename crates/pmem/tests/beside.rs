//! What goes beside the log, and what space that was freed has to do with it.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::path::PathBuf;
use std::sync::Arc;

use tembo_pmem::{BYPASS_MIN, DomainRequest, Error, HEADER_SIZE, Region, RegionOptions};
use tembo_sim::SimDisk;

const SIZE: u64 = 4 << 20;
const PAGE: u64 = 4096;
/// Of the region: lines of a few words, and space for objects.
const OBJECTS: u64 = 1 << 20;

struct Fixture {
    path: PathBuf,
    options: RegionOptions,
    region: Region,
}

impl Fixture {
    fn new() -> Fixture {
        let options = RegionOptions {
            domain: DomainRequest::Logged,
            size_max: SIZE,
            log_size: 1 << 20,
            disk: Arc::new(SimDisk::default()),
            background: false,
            ..RegionOptions::default()
        };
        let path = PathBuf::from("/disk/pool");
        let region = Region::create(&path, SIZE, &options, |_| Ok::<(), Error>(())).unwrap();
        Fixture { path, options, region }
    }

    /// The process ends without a clean stop, and another opens the pool.
    fn reopen(self) -> Fixture {
        let Fixture { path, options, region } = self;
        drop(region);
        let region = Region::open(&path, &options).unwrap();
        Fixture { path, options, region }
    }

    fn put(&self, index: u64, value: u64) {
        let at = HEADER_SIZE + index * 64;
        let _section = self.region.reserve(1).unwrap();
        self.region.store(&self.region.words(at, 1).unwrap()[0], value);
        self.region.flush("test.put", at, 8);
        self.region.fence("test.fence");
    }

    fn get(&self, index: u64) -> u64 {
        self.region.words(HEADER_SIZE + index * 64, 1).unwrap()[0].load()
    }

    fn write(&self, at: u64, bytes: &[u8], room: u64) {
        let lines = self.region.write_lines(at, bytes.len() as u64);
        let _section = self.region.reserve(lines).unwrap();
        self.region.write_object("test.object", at, &[bytes], room).unwrap();
    }

    fn bytes(&self, at: u64, len: usize) -> Vec<u8> {
        self.region.media_bytes(at, len as u64).unwrap().to_vec()
    }

    /// Bytes that were written into the pool file, and into the log.
    fn written(&self) -> (u64, u64) {
        let report = self.region.report();
        (report.pool_bytes_written, report.log_bytes_written)
    }
}

#[test]
fn space_that_was_given_up_is_written_again_before_the_fence() {
    for len in [BYPASS_MIN, 20_000] {
        let pool = Fixture::new();
        let (first, second) = (vec![1; len as usize], vec![2; len as usize]);
        let room = len.next_multiple_of(PAGE);
        // No element came to refer to the first: its space is another's at once, with other bytes.
        pool.write(OBJECTS, &first, room);
        pool.region.frees().note_unused(OBJECTS, room);
        pool.write(OBJECTS, &second, room);
        pool.put(0, 7);
        pool.region.sync().unwrap();
        let pool = pool.reopen();
        assert_eq!(pool.get(0), 7, "what was synced, beside {len} bytes");
        assert_eq!(pool.bytes(OBJECTS, len as usize), second);
    }
}

#[test]
fn what_another_space_waits_for_does_not_send_a_record_through_the_log() {
    let pool = Fixture::new();
    let (len, far) = (10 * PAGE, OBJECTS + (1 << 20));
    let (before, _) = pool.written();
    // The far space is free by a group that is not synced; and it is freed once more while records are written.
    pool.put(1, 1);
    pool.region.frees().note(far, 2 * PAGE);
    pool.write(OBJECTS, &vec![1; len as usize], len);
    pool.region.frees().note(far + 2 * PAGE, 2 * PAGE);
    pool.put(0, 7);
    assert_eq!(pool.written().0 - before, len, "the record went into the pool file");
    // A record in the far space waits for the sync.
    pool.write(far, &vec![2; 4 * PAGE as usize], 4 * PAGE);
    pool.put(0, 8);
    assert_eq!(pool.written().0 - before, len);
    pool.region.sync().unwrap();
    let pool = pool.reopen();
    assert_eq!(pool.get(0), 8);
    assert_eq!(pool.bytes(OBJECTS, len as usize), vec![1; len as usize]);
    assert_eq!(pool.bytes(far, 4 * PAGE as usize), vec![2; 4 * PAGE as usize]);
}

#[test]
fn records_fill_pages_together_whatever_their_objects_have_behind_them() {
    let pool = Fixture::new();
    let (before, _) = pool.written();
    // Of 16 objects some end, with what they have behind the record, in the page behind the record's.
    let (len, room, count) = (1052, 1280, 16);
    for number in 0..count {
        pool.write(OBJECTS + number * room, &vec![number as u8 + 1; len], room);
    }
    pool.put(0, 7);
    assert_eq!(pool.written().0 - before, room * count, "whole pages");
    // Pages that hold nothing of the record are not written.
    let (before, _) = pool.written();
    pool.write(OBJECTS + (1 << 20), &vec![9; 5 * PAGE as usize], 8 * PAGE);
    pool.put(0, 8);
    assert_eq!(pool.written().0 - before, 5 * PAGE);
    pool.region.sync().unwrap();
    let pool = pool.reopen();
    for number in 0..count {
        assert_eq!(pool.bytes(OBJECTS + number * room, len), vec![number as u8 + 1; len]);
    }
}

/// Bytes written into the pool file, and into the log, by one fence after objects of a page each, in a pool on a disk that the
/// process may have `memory` for.
fn written_by_a_fence(pages: u64, memory: u64) -> (u64, u64) {
    let path =
        std::env::temp_dir().join(format!("tembo-beside-{}-{pages}-{memory}", std::process::id()));
    let log = PathBuf::from(format!("{}.log", path.display()));
    let options = RegionOptions {
        domain: DomainRequest::Logged,
        size_max: SIZE,
        memory: Some(memory),
        background: false,
        ..RegionOptions::default()
    };
    let region = Region::create(&path, SIZE, &options, |_| Ok::<(), Error>(())).unwrap();
    let before = region.report();
    {
        let _section = region.reserve(pages * region.write_lines(OBJECTS, PAGE)).unwrap();
        for at in (0..pages).map(|number| OBJECTS + number * PAGE) {
            region.write_object("test.small", at, &[&[7; PAGE as usize]], PAGE).unwrap();
        }
        region.fence("test.fence");
    }
    region.sync().unwrap();
    let after = region.report();
    drop(region);
    [path, log].iter().for_each(|path| drop(std::fs::remove_file(path)));
    (
        after.pool_bytes_written - before.pool_bytes_written,
        after.log_bytes_written - before.log_bytes_written,
    )
}

#[test]
fn a_fence_of_few_pages_costs_no_second_sync_where_memory_is_not_short() {
    let (short, ample) = (SIZE / 2, 2 * SIZE);
    let is_beside = |pages, memory| match written_by_a_fence(pages, memory) {
        (beside, _) if beside == pages * PAGE => true,
        (0, logged) if logged > pages * PAGE => false,
        other => panic!("{pages} pages: {other:?}"),
    };
    assert!(is_beside(4, short) && !is_beside(4, ample));
    assert!(is_beside(31, short) && !is_beside(31, ample));
    assert!(is_beside(32, short) && is_beside(32, ample));
    assert!(!is_beside(3, short));
}
