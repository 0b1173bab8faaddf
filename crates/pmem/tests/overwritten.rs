//! A thread overwrites space beside the log in which another one wrote lines, gave them up, and has not fenced them; or of which groups
//! have lines, and fails.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::io;
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};

use tembo_pmem::{BYPASS_MIN, Disk, DiskFile, DomainRequest, Error, OsDisk, Region, RegionOptions};

const OBJECTS: u64 = 1 << 20;

/// What the next write beside the log meets.
enum Meddling {
    /// It says when a large record was written, and waits for the answer.
    Stop(Sender<()>, Receiver<()>),
    /// What a fence writes there fails, and leaves other bytes.
    Spoil,
}

type Plan = Arc<Mutex<Option<Meddling>>>;

/// The system's files, in whose writes beside the log something happens.
struct Meddled(Plan);

struct MeddledFile(Arc<dyn DiskFile>, Plan);

impl Meddled {
    fn file(&self, file: Arc<dyn DiskFile>) -> Arc<dyn DiskFile> {
        Arc::new(MeddledFile(file, self.0.clone()))
    }
}

impl Disk for Meddled {
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

impl DiskFile for MeddledFile {
    fn write_at(&self, step: &'static str, bytes: &[u8], offset: u64) -> io::Result<()> {
        let is_now = |planned: &mut Meddling| match planned {
            Meddling::Stop(..) => step == "pool.bypass_write",
            Meddling::Spoil => step == "pool.run_write",
        };
        let planned = self.1.lock().unwrap().take_if(is_now);
        if let Some(Meddling::Spoil) = planned {
            self.0.write_at(step, &vec![0xdd; bytes.len()], offset)?;
            return Err(io::Error::other("a disk that leaves other bytes"));
        }
        self.0.write_at(step, bytes, offset)?;
        if let Some(Meddling::Stop(written, go_on)) = planned {
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

fn meddled(plan: &Plan) -> RegionOptions {
    RegionOptions {
        domain: DomainRequest::Logged,
        size_max: 4 << 20,
        log_size: 1 << 20,
        disk: Arc::new(Meddled(plan.clone())),
        background: false,
        ..RegionOptions::default()
    }
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
    let plan = Plan::default();
    let options = meddled(&plan);
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
    *plan.lock().unwrap() = Some(Meddling::Stop(written, goes_on));
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

/// Groups have made a page twice, and a checkpoint has brought it to the pool file: the log knows it and has no lines of it.
#[test]
fn what_a_write_beside_the_log_has_spoiled_is_logged_whole() {
    let path = std::env::temp_dir().join(format!("tembo-spoiled-{}", std::process::id()));
    let plan = Plan::default();
    let options = meddled(&plan);
    let all = [path.clone(), log(&path)];
    all.iter().for_each(|path| drop(std::fs::remove_file(path)));
    let region = Region::create(&path, 4 << 20, &options, |_| Ok::<(), Error>(())).unwrap();
    let pages = vec![4; 4 * 4096];
    let write_and_give_up = |bytes: &[u8]| {
        write(&region, bytes);
        region.fence("test.fence");
        region.sync().unwrap();
        region.frees().note(OBJECTS, bytes.len() as u64);
        // A group behind it, so that what freed it is durable.
        let _section = region.reserve(1).unwrap();
        region.store(&region.words(OBJECTS / 2, 1).unwrap()[0], 1);
        region.flush("test.other", OBJECTS / 2, 8);
        region.fence("test.fence");
        region.sync().unwrap();
        region.checkpoint().unwrap();
    };
    (0..3).for_each(|_| write_and_give_up(&pages[..4096]));
    *plan.lock().unwrap() = Some(Meddling::Spoil);
    write(&region, &pages);
    region.fence("test.fence");
    region.sync().unwrap();
    assert!(plan.lock().unwrap().is_none(), "pages were written beside the log");
    drop(region);
    let region = Region::open(&path, &options).unwrap();
    let found = region.media_bytes(OBJECTS, pages.len() as u64).unwrap().to_vec();
    assert!(found == pages, "what was synced is there");
    drop(region);
    all.iter().for_each(|path| drop(std::fs::remove_file(path)));
}
