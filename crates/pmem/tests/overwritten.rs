//! A thread overwrites space beside the log in which another one wrote lines, gave them up, and has not fenced them; or of which groups
//! have lines, and fails.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};

use tembo_pmem::{BYPASS_MIN, DiskFile, DomainRequest, Error, OsDisk, Region, RegionOptions};

#[path = "driver/meddled.rs"]
mod meddled;

use meddled::{Done, Meddled, Meddler};

const OBJECTS: u64 = 1 << 20;

/// What the next write beside the log meets.
enum Meddling {
    /// It says when it was written by this step, and waits for the answer.
    Stop(&'static str, Sender<()>, Receiver<()>),
    /// What a fence writes there fails, and leaves other bytes.
    Spoil,
}

type Plan = Mutex<Option<Meddling>>;

impl Meddler for Plan {
    fn write(&self, file: &dyn DiskFile, step: &'static str, bytes: &[u8], offset: u64) -> Done {
        let is_now = |planned: &mut Meddling| match planned {
            Meddling::Stop(stopped, ..) => step == *stopped,
            Meddling::Spoil => step == "pool.run_write",
        };
        let planned = self.lock().unwrap().take_if(is_now);
        if let Some(Meddling::Spoil) = planned {
            file.write_at(step, &vec![0xdd; bytes.len()], offset)?;
            return Err(io::Error::other("a disk that leaves other bytes"));
        }
        file.write_at(step, bytes, offset)?;
        if let Some(Meddling::Stop(_, written, go_on)) = planned {
            written.send(()).unwrap();
            go_on.recv().unwrap();
        }
        Ok(())
    }
}

fn write(region: &Region, bytes: &[u8]) {
    let _section = region.reserve(region.write_lines(OBJECTS, bytes.len() as u64)).unwrap();
    let room = (bytes.len() as u64).next_multiple_of(4096);
    region.write_object("test.object", OBJECTS, &[bytes], room).unwrap();
}

fn options(plan: &Arc<Plan>) -> RegionOptions {
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
    let plan = Arc::<Plan>::default();
    let options = options(&plan);
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
    *plan.lock().unwrap() = Some(Meddling::Stop("pool.bypass_write", written, goes_on));
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

/// A thread fences a line that it has given up while the pages of another one's fence are being written beside the log: what is
/// written there later may not be overwritten by it.
#[test]
fn a_line_that_is_fenced_while_a_fence_writes_there_is_not_forgotten() {
    let path = std::env::temp_dir().join(format!("tembo-fenced-{}", std::process::id()));
    let plan = Arc::<Plan>::default();
    // Less memory than the pool has, so that few pages of a fence are enough to be written beside the log.
    let options = RegionOptions { memory: Some(1 << 20), ..options(&plan) };
    let all = [path.clone(), log(&path)];
    all.iter().for_each(|path| drop(std::fs::remove_file(path)));
    let region = Region::create(&path, 4 << 20, &options, |_| Ok::<(), Error>(())).unwrap();
    write(&region, &[1; 100]);
    region.frees().note_unused(OBJECTS, 4096);
    let (written, is_written) = channel();
    let (go_on, goes_on) = channel();
    *plan.lock().unwrap() = Some(Meddling::Stop("pool.run_write", written, goes_on));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            write(&region, &[2; 4 * 4096]);
            region.fence("test.fence");
            region.sync().unwrap();
        });
        is_written.recv().unwrap();
        region.fence("test.fence");
        region.sync().unwrap();
        go_on.send(()).unwrap();
    });
    // It is free by a durable group, and what its extent says is vouched for.
    for value in 1..3 {
        let _section = region.reserve(1).unwrap();
        region.store(&region.words(OBJECTS / 2, 1).unwrap()[0], value);
        region.flush("test.other", OBJECTS / 2, 8);
        region.fence("test.fence");
        region.sync().unwrap();
        region.frees().note(OBJECTS, 4 * 4096);
    }
    let large = vec![3; BYPASS_MIN as usize];
    write(&region, &large);
    region.fence("test.fence");
    region.sync().unwrap();
    region.checkpoint().unwrap();
    let found = region.media_bytes(OBJECTS, BYPASS_MIN).unwrap().to_vec();
    assert!(found == large, "what was synced is there");
    drop(region);
    all.iter().for_each(|path| drop(std::fs::remove_file(path)));
}

/// Groups have made a page twice, and a checkpoint has brought it to the pool file: the log knows it and has no lines of it.
#[test]
fn what_a_write_beside_the_log_has_spoiled_is_logged_whole() {
    let path = std::env::temp_dir().join(format!("tembo-spoiled-{}", std::process::id()));
    let plan = Arc::<Plan>::default();
    // Less memory than the pool has, so that few pages of a fence are enough to be written beside the log.
    let options = RegionOptions { memory: Some(1 << 20), ..options(&plan) };
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
