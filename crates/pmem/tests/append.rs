//! The log's one order: of two copies of a line the later in the log is the newer.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::thread::JoinHandle;
use std::time::Duration;

use tembo_pmem::{DomainRequest, Error, HEADER_SIZE, Observer, Region, RegionOptions, Stored};
use tembo_sim::SimDisk;

/// How long the other thread gets to come first. Where the order is right it cannot.
const GRACE: Duration = Duration::from_millis(50);

fn put(region: &Region, value: u64) {
    let _section = region.reserve(1).unwrap();
    region.store(&region.words(HEADER_SIZE, 1).unwrap()[0], value);
    region.flush("test.flush", HEADER_SIZE, 8);
    region.fence("test.fence");
}

/// Between the copy of a line and the end of its append, lets another thread store to the line,
/// fence and sync.
#[derive(Default)]
struct Meddler {
    region: OnceLock<Weak<Region>>,
    armed: AtomicBool,
    other: Mutex<Option<JoinHandle<()>>>,
}

impl Observer for Meddler {
    fn load(&self, _: u64, _: u64) {}
    fn store(&self, _: Stored<'_>, perform: &mut dyn FnMut()) {
        perform();
    }
    fn flush(&self, _: &'static str, _: u64, _: u64) {}
    fn fence(&self, _: &'static str) {}
    fn sync(&self) {}
    fn resize(&self, _: u64) {}

    fn copied(&self, offset: u64) {
        if offset == HEADER_SIZE && self.armed.swap(false, Ordering::SeqCst) {
            let region = self.region.get().unwrap().upgrade().unwrap();
            let other = std::thread::spawn(move || {
                region.store(&region.words(HEADER_SIZE, 1).unwrap()[0], 2);
                region.flush("test.flush", HEADER_SIZE, 8);
                region.fence("test.fence");
                region.sync().unwrap();
            });
            std::thread::sleep(GRACE);
            *self.other.lock().unwrap() = Some(other);
        }
    }
}

#[test]
fn a_line_copied_first_is_appended_first() {
    let disk = SimDisk::default();
    let meddler = Arc::new(Meddler::default());
    let options = RegionOptions {
        domain: DomainRequest::Logged,
        size_max: 1 << 20,
        log_size: 64 << 10,
        disk: Arc::new(disk.clone()),
        background: false,
        ..RegionOptions::default()
    };
    let path = PathBuf::from("/disk/pool");
    let observed = RegionOptions { observer: Some(meddler.clone()), ..options.clone() };
    let region = Region::create(&path, 128 << 10, &observed, |_| Ok::<(), Error>(())).unwrap();
    let region = Arc::new(region);
    meddler.region.set(Arc::downgrade(&region)).unwrap();
    meddler.armed.store(true, Ordering::SeqCst);
    put(&region, 1);
    region.sync().unwrap();

    let other = meddler.other.lock().unwrap().take().expect("the line was copied");
    other.join().unwrap();
    let memory = region.words(HEADER_SIZE, 1).unwrap()[0].load();
    assert_eq!(memory, 2, "the other thread came later");
    drop(region);
    let region = Region::open(&path, &options).unwrap();
    let found = region.words(HEADER_SIZE, 1).unwrap()[0].load();
    assert_eq!(found, memory, "what was synced last");
}
