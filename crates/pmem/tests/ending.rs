//! A thread ends: what it has flushed, and what it changes while its thread-local values are being dropped.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::cell::RefCell;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};

use tembo_pmem::{DomainRequest, Error, HEADER_SIZE, Region, RegionOptions};
use tembo_sim::SimDisk;

/// Reserves when its thread ends, and says what came of it.
struct AtEnd(Arc<Region>, Sender<Result<(), Error>>);

impl Drop for AtEnd {
    fn drop(&mut self) {
        let _ = self.1.send(self.0.reserve(1).map(drop));
    }
}

thread_local! {
    static AT_END: RefCell<Option<AtEnd>> = const { RefCell::new(None) };
}

const POOL: &str = "/disk/pool";

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

fn create(disk: &SimDisk) -> Arc<Region> {
    let made = |_: &Region| Ok::<(), Error>(());
    Arc::new(Region::create(Path::new(POOL), 1 << 20, &options(disk), made).unwrap())
}

/// Stores a word of a line and flushes the line.
fn put(region: &Region, line: u64, value: u64) {
    let at = HEADER_SIZE + 64 * line;
    let _section = region.reserve(1).unwrap();
    region.store(&region.words(at, 1).unwrap()[0], value);
    region.flush("test.put", at, 8);
}

fn get(region: &Region, line: u64) -> u64 {
    region.words(HEADER_SIZE + 64 * line, 1).unwrap()[0].load()
}

/// Other threads find it in memory, and would take it for durable.
#[test]
fn what_a_thread_has_flushed_when_it_ends_is_in_the_log_and_takes_no_room() {
    let disk = SimDisk::default();
    let region = create(&disk);
    for value in 1..500 {
        std::thread::scope(|scope| scope.spawn(|| put(&region, 0, value)).join().unwrap());
        assert_eq!(get(&region, 0), value);
        put(&region, 1, value);
        region.fence("test.fence");
        if value % 100 == 1 {
            region.sync().unwrap();
            let disk = disk.snapshot().after_kill();
            let after = Region::open(Path::new(POOL), &options(&disk)).unwrap();
            assert_eq!([get(&after, 0), get(&after, 1)], [value; 2]);
        }
    }
}

/// What it flushes would be noted nowhere, and a sync would acknowledge it.
#[test]
fn a_thread_whose_notes_are_gone_is_refused_and_keeps_no_room() {
    let region = create(&SimDisk::default());
    for _ in 0..500 {
        let (says, said) = channel();
        let of_thread = region.clone();
        let thread = std::thread::spawn(move || {
            // Values are dropped in the reverse order of their first use.
            AT_END.with_borrow_mut(|at_end| *at_end = Some(AtEnd(of_thread.clone(), says)));
            let _section = of_thread.reserve(1).unwrap();
            of_thread.store(&of_thread.words(HEADER_SIZE, 1).unwrap()[0], 1);
            of_thread.flush("test.put", HEADER_SIZE, 8);
            of_thread.fence("test.fence");
        });
        thread.join().unwrap();
        let refused = said.recv().unwrap();
        assert!(matches!(refused, Err(Error::Unsupported { .. })), "{refused:?}");
    }
    drop(region.reserve(1).unwrap());
}
