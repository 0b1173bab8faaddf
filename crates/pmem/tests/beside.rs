//! What goes beside the log, and what space that was freed has to do with it.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::path::PathBuf;
use std::sync::Arc;

use tembo_pmem::{
    BYPASS_MIN, DomainRequest, Error, HEADER_SIZE, Region, RegionOptions, WholeObject,
};
use tembo_sim::{Chooser, Failure, Fault, Point, Rest, SimDisk, Snapshot};

const SIZE: u64 = 4 << 20;
const PAGE: u64 = 4096;
/// Of the region: lines of a few words, and space for objects.
const OBJECTS: u64 = 1 << 20;

struct Fixture {
    disk: SimDisk,
    path: PathBuf,
    options: RegionOptions,
    region: Region,
}

impl Fixture {
    fn new() -> Fixture {
        let disk = SimDisk::default();
        let options = RegionOptions {
            domain: DomainRequest::Logged,
            size_max: SIZE,
            log_size: 1 << 20,
            disk: Arc::new(disk.clone()),
            background: false,
            ..RegionOptions::default()
        };
        let path = PathBuf::from("/disk/pool");
        let region = Region::create(&path, SIZE, &options, |_| Ok::<(), Error>(())).unwrap();
        Fixture { disk, path, options, region }
    }

    /// What other processes open when this one is killed, and when the power is lost.
    fn ends(&self) -> [Fixture; 3] {
        let snapshot = self.disk.snapshot();
        let lost = |rest| snapshot.after_power_loss(Chooser::new(rest));
        [snapshot.after_kill(), lost(Rest::Old), lost(Rest::New)].map(|disk| self.left_on(&disk))
    }

    /// What another process opens on such a disk.
    fn left_on(&self, disk: &SimDisk) -> Fixture {
        let options = RegionOptions { disk: Arc::new(disk.clone()), ..self.options.clone() };
        let region = Region::open(&self.path, &options).unwrap();
        Fixture { disk: disk.clone(), path: self.path.clone(), options, region }
    }

    /// The process ends without a clean stop, and another opens the pool.
    fn reopen(self) -> Fixture {
        let Fixture { disk, path, options, region } = self;
        drop(region);
        let region = Region::open(&path, &options).unwrap();
        Fixture { disk, path, options, region }
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

/// What space held before it was freed.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Before {
    /// The pool file has it.
    InFile,
    /// Groups have it that no checkpoint has applied, so that a record waits before it overwrites the space.
    InLog,
}

/// A pool in which space of 64 KiB is free that held something.
fn pool_with_free_space(before: Before) -> Fixture {
    let pool = Fixture::new();
    for page in 0..BYPASS_MIN / PAGE {
        // By itself each goes through the log.
        pool.write(OBJECTS + page * PAGE, &[0xaa; PAGE as usize], PAGE);
        pool.region.fence("test.before");
    }
    pool.put(1, 1);
    pool.region.sync().unwrap();
    if before == Before::InFile {
        pool.region.checkpoint().unwrap();
    }
    pool.put(1, 2);
    pool.region.frees().note(OBJECTS, BYPASS_MIN);
    pool.put(1, 3);
    pool.region.sync().unwrap();
    pool
}

/// What is left of a disk when the log came to it, as far as it was written, and the pool file as far as it was synced.
fn with_log_alone(pool: &Fixture, snapshot: &Snapshot) -> Fixture {
    let log = PathBuf::from(format!("{}.log", pool.path.display()));
    let disk = snapshot.after_power_loss(Chooser::new(Rest::Old));
    disk.put(&log, &snapshot.after_kill().content(&log).unwrap());
    pool.left_on(&disk)
}

/// The thread that has the space next leaves out lines that are as it wants them: so they are there where its group is.
#[track_caller]
fn is_what_it_seems(pool: &Fixture, before: Before) {
    let seen = pool.bytes(OBJECTS, BYPASS_MIN as usize);
    let differs = |after: &Fixture| {
        let found = after.bytes(OBJECTS, BYPASS_MIN as usize);
        let at = found.iter().zip(&seen).position(|(found, seen)| found != seen);
        at.map(|at| (at, found[at], seen[at]))
    };
    pool.disk.record();
    pool.put(0, 7);
    pool.region.write_out().unwrap();
    pool.region.sync().unwrap();
    let mut kept = 0;
    for Point { step, snapshot, .. } in pool.disk.points() {
        let after = with_log_alone(pool, &snapshot);
        if after.get(0) == 7 {
            kept += 1;
            assert_eq!(differs(&after), None, "{before:?}, before {step}");
        }
    }
    assert!(kept > 1, "the log alone has it before the sync");
    for (end, after) in ["killed", "power lost", "nothing lost"].into_iter().zip(pool.ends()) {
        assert_eq!(after.get(0), 7, "{before:?}, {end}");
        assert_eq!(differs(&after), None, "{before:?}, {end}");
    }
}

#[test]
fn space_whose_record_was_given_up_holds_what_it_seems_to_hold() {
    for before in [Before::InFile, Before::InLog] {
        let pool = pool_with_free_space(before);
        pool.write(OBJECTS, &[0; BYPASS_MIN as usize], BYPASS_MIN);
        pool.region.frees().note_unused(OBJECTS, BYPASS_MIN);
        assert_eq!(pool.bytes(OBJECTS, 8), [0; 8]);
        is_what_it_seems(&pool, before);
        // Handed over by a thread that fences nothing.
        let pool = pool_with_free_space(before);
        pool.write(OBJECTS, &[0; BYPASS_MIN as usize], BYPASS_MIN);
        pool.region.hand_over();
        is_what_it_seems(&pool, before);
    }
}

#[test]
fn objects_that_were_written_together_and_given_up_are_what_they_seem_to_be() {
    let pool = pool_with_free_space(Before::InFile);
    let zeroes = [0; BYPASS_MIN as usize];
    {
        let _section = pool.region.reserve(2).unwrap();
        let object = WholeObject { offset: OBJECTS, bytes: &zeroes };
        assert_eq!(pool.region.write_together(&[object]).unwrap(), [true]);
    }
    pool.region.frees().note_unused(OBJECTS, BYPASS_MIN);
    is_what_it_seems(&pool, Before::InFile);
}

#[test]
fn space_of_which_a_write_has_failed_half_way_holds_what_it_seems_to_hold() {
    for before in [Before::InFile, Before::InLog] {
        let pool = pool_with_free_space(before);
        pool.disk.fail(Fault::once(Failure::Full, "pool.bypass_write", 1));
        let section = pool.region.reserve(pool.region.write_lines(OBJECTS, BYPASS_MIN)).unwrap();
        let zeroes: &[u8] = &[0; BYPASS_MIN as usize];
        let refused = pool.region.write_object("test.full", OBJECTS, &[zeroes], BYPASS_MIN);
        assert!(matches!(refused, Err(Error::DiskFull { .. })));
        drop(section);
        pool.disk.heal();
        pool.region.frees().note_unused(OBJECTS, BYPASS_MIN);
        is_what_it_seems(&pool, before);
    }
}

/// Lines that a thread has flushed and given up are no other thread's to flush, which finds them as it wants them.
#[test]
fn lines_that_were_handed_over_are_in_the_log() {
    let pool = pool_with_free_space(Before::InFile);
    std::thread::scope(|scope| {
        let hand_over = || {
            pool.write(OBJECTS, &[0; 64], 64);
            pool.region.frees().note_unused(OBJECTS, 64);
            pool.region.hand_over();
        };
        scope.spawn(hand_over).join().unwrap();
    });
    is_what_it_seems(&pool, Before::InFile);
}

/// A handle that lies in a thread-local value may be dropped behind the thread's notes: then it has nothing to hand over.
#[test]
fn what_a_thread_has_written_that_ends_is_what_it_seems_to_be() {
    for len in [64, BYPASS_MIN] {
        let pool = pool_with_free_space(Before::InFile);
        std::thread::scope(|scope| {
            let write = || pool.write(OBJECTS, &vec![0; len as usize], len);
            scope.spawn(write).join().unwrap();
        });
        is_what_it_seems(&pool, Before::InFile);
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

/// A pool on a disk that the process may have so much memory for.
fn on_disk(memory: u64) -> RegionOptions {
    RegionOptions {
        domain: DomainRequest::Logged,
        size_max: SIZE,
        memory: Some(memory),
        background: false,
        ..RegionOptions::default()
    }
}

/// Bytes written into the pool file, and into the log, by one fence after objects of a page each, in a pool on a disk that the
/// process may have `memory` for.
fn written_by_a_fence(pages: u64, memory: u64) -> (u64, u64) {
    let path =
        std::env::temp_dir().join(format!("tembo-beside-{}-{pages}-{memory}", std::process::id()));
    let log = PathBuf::from(format!("{}.log", path.display()));
    let options = on_disk(memory);
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

/// Bytes written into the pool file by a record of some pages before its fence, and pages of the process that it costs, in a pool on
/// a disk that the process may have `memory` for.
fn written_at_once(len: usize, memory: u64) -> (u64, u64) {
    let path =
        std::env::temp_dir().join(format!("tembo-at-once-{}-{len}-{memory}", std::process::id()));
    let log = PathBuf::from(format!("{}.log", path.display()));
    let options = on_disk(memory);
    let region = Region::create(&path, SIZE, &options, |_| Ok::<(), Error>(())).unwrap();
    let room = (len as u64).next_multiple_of(PAGE);
    let (first, record) = (region.report(), vec![9; len]);
    {
        let _section = region.reserve(region.write_lines(OBJECTS, len as u64)).unwrap();
        region.write_object("test.record", OBJECTS, &[&record[..7], &record[7..]], room).unwrap();
    }
    let written = region.report();
    assert_eq!(region.media_bytes(OBJECTS, len as u64).unwrap().to_vec(), record);
    region.fence("test.fence");
    let fenced = region.report();
    region.sync().unwrap();
    drop(region);
    let region = Region::open(&path, &options).unwrap();
    assert_eq!(region.media_bytes(OBJECTS, len as u64).unwrap().to_vec(), record);
    drop(region);
    [path, log].iter().for_each(|path| drop(std::fs::remove_file(path)));
    (
        written.pool_bytes_written - first.pool_bytes_written,
        (fenced.private_bytes - first.private_bytes) / PAGE,
    )
}

#[test]
fn a_record_of_enough_pages_is_written_at_once_where_memory_is_short() {
    let (short, ample) = (SIZE / 2, 2 * SIZE);
    let pages = |count: u64, rest: u64| (count * PAGE - rest) as usize;
    assert_eq!(written_at_once(pages(4, 0), short), (4 * PAGE, 0));
    assert_eq!(written_at_once(pages(5, 4000), short), (5 * PAGE, 0));
    // Of less, and where memory is not short, the fence takes what is in the mapping.
    assert_eq!(written_at_once(pages(3, 0), short), (0, 3));
    assert_eq!(written_at_once(pages(5, 4000), ample), (0, 5));
}
