//! Memory is short: pages are given back in the middle of a checkpoint, which then fails.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::io;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tembo_pmem::{BYPASS_MIN, DiskFile, DomainRequest, Error, Region, RegionOptions};

#[path = "driver/meddled.rs"]
mod meddled;

use meddled::{Done, Meddled, Meddler};

const PAGE: u64 = 4096;
const SIZE: u64 = 8 << 20;
/// Of an object whose lines come first in a checkpoint.
const OBJECT: u64 = 1 << 20;
/// Of many pages behind it.
const BEHIND: u64 = 2 << 20;
/// A checkpoint gives pages back when it has written 2 MiB, in pieces of 1 MiB.
const PAGES: u64 = 1000;
/// How long a thread is waited for that may wait itself.
const WHILE: Duration = Duration::from_millis(500);

/// A checkpoint has written so much; when it has written the most, it says so, waits, and finds the disk full.
#[derive(Default)]
struct Course {
    written: Mutex<u64>,
    stop: Mutex<Option<(Sender<()>, Receiver<()>)>>,
}

impl Meddler for Course {
    fn write(&self, file: &dyn DiskFile, step: &'static str, bytes: &[u8], offset: u64) -> Done {
        if step == "pool.checkpoint_write" {
            let mut written = self.written.lock().unwrap();
            if *written >= 2 << 20
                && let Some((has_written, go_on)) = self.stop.lock().unwrap().take()
            {
                has_written.send(()).unwrap();
                go_on.recv().unwrap();
                return Err(io::ErrorKind::StorageFull.into());
            }
            *written += bytes.len() as u64;
        }
        file.write_at(step, bytes, offset)
    }
}

/// Stores a word in a page by an operation of its own.
fn put(region: &Region, at: u64, value: u64) {
    let _section = region.reserve(1).unwrap();
    region.store(&region.words(at, 1).unwrap()[0], value);
    region.flush("test.put", at, 8);
    region.fence("test.fence");
}

#[test]
fn a_checkpoint_that_is_tried_again_does_not_write_over_what_came_meanwhile() {
    let path = std::env::temp_dir().join(format!("tembo-given-back-{}", std::process::id()));
    let files = [path.clone(), PathBuf::from(format!("{}.log", path.display()))];
    files.iter().for_each(|path| drop(std::fs::remove_file(path)));
    let course = Arc::<Course>::default();
    let options = RegionOptions {
        domain: DomainRequest::Logged,
        size_max: SIZE,
        log_size: 32 << 20,
        log_initial: 32 << 20,
        private_max: 16 * PAGE,
        disk: Arc::new(Meddled(course.clone())),
        background: false,
        ..RegionOptions::default()
    };
    let region = Region::create(&path, SIZE, &options, |_| Ok::<(), Error>(())).unwrap();
    // Only later checkpoints know all pages as the file has them.
    region.checkpoint().unwrap();
    (0..BYPASS_MIN / PAGE).for_each(|page| put(&region, OBJECT + page * PAGE, 1));
    for page in 0..PAGES {
        let at = BEHIND + page * PAGE;
        let _section = region.reserve(region.write_lines(at, PAGE)).unwrap();
        region.write("test.page", at, &[&[2; PAGE as usize]]).unwrap();
        region.fence("test.fence");
    }
    put(&region, OBJECT / 2, 1);
    region.frees().note(OBJECT, BYPASS_MIN);
    put(&region, OBJECT / 2, 2);
    region.sync().unwrap();

    let (has_written, is_written) = channel();
    let (go_on, goes_on) = channel();
    *course.stop.lock().unwrap() = Some((has_written, goes_on));
    let record = vec![3; BYPASS_MIN as usize];
    std::thread::scope(|scope| {
        let failed = scope.spawn(|| region.checkpoint());
        is_written.recv().unwrap();
        let (has_synced, is_synced) = channel();
        let (region, record) = (&region, &record);
        scope.spawn(move || {
            let _section = region.reserve(region.write_lines(OBJECT, BYPASS_MIN)).unwrap();
            region.write_object("test.object", OBJECT, &[record], BYPASS_MIN).unwrap();
            region.fence("test.fence");
            region.sync().unwrap();
            let _ = has_synced.send(());
        });
        // It is done, or waits for the end of the checkpoint.
        let _ = is_synced.recv_timeout(WHILE);
        go_on.send(()).unwrap();
        assert!(matches!(failed.join().unwrap(), Err(Error::DiskFull { .. })));
    });
    region.checkpoint().unwrap();
    let found = region.media_bytes(OBJECT, BYPASS_MIN).unwrap().to_vec();
    assert!(found == record, "what was synced is there");
    drop(region);
    let region = Region::open(&path, &options).unwrap();
    let found = region.media_bytes(OBJECT, BYPASS_MIN).unwrap().to_vec();
    assert!(found == record, "what was synced is there");
    drop(region);
    files.iter().for_each(|path| drop(std::fs::remove_file(path)));
}
