//! Memory is short: how long threads wait for a checkpoint, and how many checkpoints there are.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tembo_pmem::{DiskFile, DomainRequest, Error, Region, RegionOptions, SyncPolicy};

#[path = "driver/meddled.rs"]
mod meddled;

use meddled::{Done, Meddled, Meddler};

const PAGE: u64 = 4096;
/// Pages that may be private.
const PRIVATE: u64 = 4096;
/// And with what they may be exceeded by, before an operation waits.
const MOST: u64 = PRIVATE + PRIVATE / 16;
/// Longer than anything here takes, but for what waits for ever.
const LONG: Duration = Duration::from_secs(20);

/// Pages that were stored to, and checkpoints whose last sync has begun.
#[derive(Default)]
struct Course {
    stored: AtomicU64,
    syncs: AtomicU64,
    /// Before the first write of a checkpoint, and before its last sync, so many pages must have been stored to.
    before_write: AtomicU64,
    before_sync: AtomicU64,
    /// Waits that were given up.
    failed_waits: AtomicU64,
}

impl Course {
    fn wait_for(&self, wanted: &AtomicU64) {
        let (wanted, start) = (wanted.swap(0, Ordering::SeqCst), Instant::now());
        while self.stored.load(Ordering::SeqCst) < wanted {
            if start.elapsed() > LONG {
                self.failed_waits.fetch_add(1, Ordering::SeqCst);
                return;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

impl Meddler for Course {
    fn write(&self, file: &dyn DiskFile, step: &'static str, bytes: &[u8], offset: u64) -> Done {
        if step == "pool.checkpoint_write" {
            self.wait_for(&self.before_write);
        }
        file.write_at(step, bytes, offset)
    }
    fn sync(&self, file: &dyn DiskFile, step: &'static str) -> Done {
        if step == "pool.checkpoint_sync" {
            self.wait_for(&self.before_sync);
            self.syncs.fetch_add(1, Ordering::SeqCst);
        }
        file.sync(step)
    }
}

/// Stores to `count` pages, each by an operation of its own, in a region that may have fewer.
fn store(name: &str, count: u64, course: &Arc<Course>) -> (Region, [PathBuf; 2]) {
    let path = std::env::temp_dir().join(format!("tembo-short-{name}-{}", std::process::id()));
    let files = [path.clone(), PathBuf::from(format!("{}.log", path.display()))];
    files.iter().for_each(|path| drop(std::fs::remove_file(path)));
    let options = RegionOptions {
        domain: DomainRequest::Logged,
        sync: SyncPolicy::Os,
        private_max: PRIVATE * PAGE,
        log_initial: 64 << 20,
        disk: Arc::new(Meddled(course.clone())),
        ..RegionOptions::default()
    };
    let region = Region::create(&path, 64 << 20, &options, |_| Ok::<(), Error>(())).unwrap();
    // A checkpoint of what making it has left: only later ones know all pages as the file has them.
    region.checkpoint().unwrap();
    course.syncs.store(0, Ordering::SeqCst);
    course.before_write.store(MOST, Ordering::SeqCst);
    for page in 1..=count {
        let _section = region.reserve(1).unwrap();
        let at = (16 + page) * PAGE;
        region.store(&region.words(at, 1).unwrap()[0], page);
        region.flush("test.page", at, 8);
        region.fence("test.fence");
        course.stored.fetch_add(1, Ordering::SeqCst);
    }
    for page in 1..=count {
        assert_eq!(region.words((16 + page) * PAGE, 1).unwrap()[0].load(), page);
    }
    (region, files)
}

/// The sync at the end of the checkpoint begins when more was stored than may be private: by threads that go on before.
#[test]
fn a_thread_that_waits_for_memory_does_not_wait_for_the_end_of_a_checkpoint() {
    let course = Arc::<Course>::default();
    let count = MOST + PRIVATE / 3;
    course.before_sync.store(count, Ordering::SeqCst);
    let (region, files) = store("goes-on", count, &course);
    drop(region);
    assert_eq!(
        course.failed_waits.load(Ordering::SeqCst),
        0,
        "the thread waited for the last sync"
    );
    files.iter().for_each(|path| drop(std::fs::remove_file(path)));
}

/// While a checkpoint is under way, memory is short still, and every fence asks for one.
#[test]
fn what_a_checkpoint_has_done_is_not_done_again() {
    let course = Arc::<Course>::default();
    let (region, files) = store("not-again", MOST + 50, &course);
    let start = Instant::now();
    while course.syncs.load(Ordering::SeqCst) == 0 {
        assert!(start.elapsed() < LONG, "no checkpoint");
        std::thread::sleep(Duration::from_millis(1));
    }
    // A second one would follow at once.
    std::thread::sleep(Duration::from_millis(500));
    assert_eq!(course.failed_waits.load(Ordering::SeqCst), 0);
    assert_eq!(course.syncs.load(Ordering::SeqCst), 1, "checkpoints");
    drop(region);
    files.iter().for_each(|path| drop(std::fs::remove_file(path)));
}

/// Copies of pages take memory that pages need which are read: when nothing is stored for a while, none are left.
#[test]
fn a_region_that_rests_keeps_no_copies_of_pages_where_memory_is_short() {
    for (memory, is_short) in [(8 << 20, true), (256 << 20, false)] {
        let name = format!("tembo-rests-{memory}-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let options = RegionOptions {
            domain: DomainRequest::Logged,
            private_max: PRIVATE * PAGE,
            memory: Some(memory),
            ..RegionOptions::default()
        };
        let region = Region::create(&path, 64 << 20, &options, |_| Ok::<(), Error>(())).unwrap();
        for round in 1..3 {
            for page in 0..100 {
                let _section = region.reserve(1).unwrap();
                let at = (16 + page) * PAGE;
                region.store(&region.words(at, 1).unwrap()[0], page + round);
                region.flush("test.page", at, 8);
                region.fence("test.fence");
            }
            region.sync().unwrap();
            let start = Instant::now();
            while is_short && region.report().private_bytes > 0 && start.elapsed() < LONG {
                std::thread::sleep(Duration::from_millis(10));
            }
            assert_eq!(region.report().private_bytes > 0, !is_short, "round {round}");
            for page in 0..100 {
                let found = region.words((16 + page) * PAGE, 1).unwrap()[0].load();
                assert_eq!(found, page + round);
            }
        }
        assert!(!is_short || region.report().checkpoints >= 2);
        drop(region);
        let log = PathBuf::from(format!("{}.log", path.display()));
        [path, log].iter().for_each(|path| drop(std::fs::remove_file(path)));
    }
}
