//! A thread overwrites space beside the log in which another one wrote lines, gave them up, and has not fenced them.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::io;
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};

use tembo_pmem::{BYPASS_MIN, Disk, DiskFile, DomainRequest, Error, OsDisk, Region, RegionOptions};

const OBJECTS: u64 = 1 << 20;

/// Says when a range of the pool file was written beside the log, and waits for the answer.
type Stop = Arc<Mutex<Option<(Sender<()>, Receiver<()>)>>>;

/// The system's files, which stop in the middle of a write beside the log.
struct Stopping(Stop);

struct StoppingFile(Arc<dyn DiskFile>, Stop);

impl Stopping {
    fn file(&self, file: Arc<dyn DiskFile>) -> Arc<dyn DiskFile> {
        Arc::new(StoppingFile(file, self.0.clone()))
    }
}

impl Disk for Stopping {
    fn open(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        Ok(self.file(OsDisk.open(path)?))
    }
    fn create(&self, step: &'static str, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        Ok(self.file(OsDisk.create(step, path)?))
    }
    fn link(&self, step: &'static str, from: &Path, to: &Path) -> io::Result<()> {
        OsDisk.link(step, from, to)
    }
    fn rename(&self, step: &'static str, from: &Path, to: &Path) -> io::Result<()> {
        OsDisk.rename(step, from, to)
    }
    fn remove(&self, step: &'static str, path: &Path) -> io::Result<()> {
        OsDisk.remove(step, path)
    }
    fn sync_dir(&self, step: &'static str, path: &Path) -> io::Result<()> {
        OsDisk.sync_dir(step, path)
    }
    fn entropy(&self) -> u64 {
        OsDisk.entropy()
    }
    fn boot(&self) -> u64 {
        OsDisk.boot()
    }
}

impl DiskFile for StoppingFile {
    fn write_at(&self, step: &'static str, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.0.write_at(step, bytes, offset)?;
        if step == "pool.bypass_write"
            && let Some((written, go_on)) = self.1.lock().unwrap().take()
        {
            written.send(()).unwrap();
            go_on.recv().unwrap();
        }
        Ok(())
    }
    fn len(&self) -> io::Result<u64> {
        self.0.len()
    }
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        self.0.read_at(buffer, offset)
    }
    fn sync(&self, step: &'static str) -> io::Result<()> {
        self.0.sync(step)
    }
    fn allocate(&self, step: &'static str, offset: u64, len: u64) -> io::Result<()> {
        self.0.allocate(step, offset, len)
    }
    fn truncate(&self, step: &'static str, len: u64) -> io::Result<()> {
        self.0.truncate(step, len)
    }
    fn lock(&self) -> io::Result<bool> {
        self.0.lock()
    }
    fn holder(&self) -> Option<u32> {
        self.0.holder()
    }
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.0.descriptor()
    }
}

fn write(region: &Region, bytes: &[u8]) {
    let _section = region.reserve(region.write_lines(OBJECTS, bytes.len() as u64)).unwrap();
    let room = (bytes.len() as u64).next_multiple_of(4096);
    region.write_object("test.object", OBJECTS, &[bytes], room).unwrap();
}

fn log(path: &Path) -> PathBuf {
    PathBuf::from(format!("{}.log", path.display()))
}

/// Whether the log may still need what the range held before.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Before {
    Nothing,
    Needed,
}

#[test]
fn lines_that_were_given_up_do_not_come_over_what_is_written_beside_the_log() {
    [Before::Nothing, Before::Needed].into_iter().for_each(nothing_comes_over_it);
}

fn nothing_comes_over_it(before: Before) {
    let name = format!("tembo-overwritten-{before:?}-{}", std::process::id());
    let path = std::env::temp_dir().join(name);
    let left = path.with_extension("left");
    let stop = Stop::default();
    let options = RegionOptions {
        domain: DomainRequest::Logged,
        size_max: 4 << 20,
        log_size: 1 << 20,
        disk: Arc::new(Stopping(stop.clone())),
        background: false,
        ..RegionOptions::default()
    };
    let all = [path.clone(), log(&path), left.clone(), log(&left)];
    all.iter().for_each(|path| drop(std::fs::remove_file(path)));
    let region = Region::create(&path, 4 << 20, &options, |_| Ok::<(), Error>(())).unwrap();
    if before == Before::Needed {
        write(&region, &[3; 1000]);
        region.fence("test.fence");
        region.frees().note(OBJECTS, 4096);
    }
    let large = vec![2; BYPASS_MIN as usize];
    // This thread writes two lines, and gives them up: nothing came to refer to them.
    write(&region, &[1; 100]);
    region.frees().note_unused(OBJECTS, 4096);
    let (written, is_written) = channel();
    let (go_on, goes_on) = channel();
    *stop.lock().unwrap() = Some((written, goes_on));
    std::thread::scope(|scope| {
        // The other one has the space now.
        scope.spawn(|| {
            write(&region, &large);
            region.fence("test.fence");
            region.sync().unwrap();
            region.checkpoint().unwrap();
        });
        is_written.recv().unwrap();
        region.fence("test.fence");
        region.sync().unwrap();
        if before == Before::Nothing {
            region.checkpoint().unwrap();
        }
        go_on.send(()).unwrap();
    });
    std::fs::copy(&path, &left).unwrap();
    std::fs::copy(log(&path), log(&left)).unwrap();
    drop(region);

    let options = RegionOptions { disk: Arc::new(OsDisk), ..options };
    let region = Region::open(&left, &options).unwrap();
    let found = region.media_bytes(OBJECTS, BYPASS_MIN).unwrap().to_vec();
    assert!(found == large, "what was synced is there");
    drop(region);
    all.iter().for_each(|path| drop(std::fs::remove_file(path)));
}
