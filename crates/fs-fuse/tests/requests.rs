//! Which requests of the kernel the calls of programs cost.
//!
//! Where FUSE is not permitted, the tests say so and do nothing.

#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stderr)]

#[path = "mounted/served.rs"]
mod mounted;

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::Read;
use std::os::fd::AsFd;
use std::sync::{Mutex, MutexGuard, PoisonError};

use log::{LevelFilter, Log, Metadata, Record};
use nix::fcntl::{FcntlArg, fcntl};
use nix::libc::{F_WRLCK, SEEK_SET, flock};
use rustix::fs::{FlockOperation, OFlags, fcntl_lock};

use mounted::Served;

/// How often the mount that a test serves got requests, by their names: FUSE's library logs each before it is served.
struct Requests(Mutex<BTreeMap<String, u64>>);

static REQUESTS: Requests = Requests(Mutex::new(BTreeMap::new()));

/// The tests of this process have one log.
static ALONE: Mutex<()> = Mutex::new(());

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Log for Requests {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    /// `FUSE(4) ino 0x0000000000000001 LOOKUP name "a" …`
    fn log(&self, record: &Record<'_>) {
        let said = record.args().to_string();
        let name = said.split_once(") ino ").and_then(|(_, rest)| rest.split(' ').nth(1));
        if let Some(name) = name {
            *locked(&self.0).entry(name.to_owned()).or_default() += 1;
        }
    }

    fn flush(&self) {}
}

/// A mount whose requests are counted. Only one at a time is there.
fn counted() -> Option<(MutexGuard<'static, ()>, Served)> {
    let alone = locked(&ALONE);
    // It is set by the first test.
    let _ = log::set_logger(&REQUESTS);
    log::set_max_level(LevelFilter::Debug);
    Some((alone, Served::new()?))
}

/// How many requests of a name `work` has cost.
fn cost<T>(name: &str, work: impl FnOnce() -> T) -> (u64, T) {
    let count = || locked(&REQUESTS.0).get(name).copied().unwrap_or_default();
    let before = count();
    let done = work();
    (count() - before, done)
}

#[test]
fn a_close_of_what_could_not_be_written_asks_nothing() {
    let Some((_alone, served)) = counted() else { return };
    let path = served.at("file");
    fs::write(&path, "bytes").unwrap();
    let read = || {
        let mut read = String::new();
        File::open(&path).unwrap().read_to_string(&mut read).unwrap();
        read
    };
    let (opens, (flushes, bytes)) = cost("OPEN", || cost("FLUSH", read));
    assert_eq!((opens, flushes, bytes.as_str()), (1, 0, "bytes"));
    // It is made by its open.
    let create =
        || drop(rustix::fs::open(served.at("made"), OFlags::CREATE, 0o600.into()).unwrap());
    assert_eq!(cost("FLUSH", create).0, 0);
    // What was or could be changed is durable when its close returns.
    let write = || drop(OpenOptions::new().write(true).open(&path).unwrap());
    assert_eq!(cost("FLUSH", write).0, 1);
    let cut = || drop(rustix::fs::open(&path, OFlags::TRUNC, 0o600.into()).unwrap());
    assert_eq!(cost("FLUSH", cut).0, 1);
    assert_eq!(served.store.durable(), served.store.visible());
}

#[test]
fn a_close_gives_up_locks_without_a_request() {
    let Some((_alone, served)) = counted() else { return };
    let path = served.at("file");
    fs::write(&path, "bytes").unwrap();
    let open = || File::open(&path).unwrap();
    // A lock of an open file conflicts with one of the process that has it open.
    let other = OpenOptions::new().write(true).open(&path).unwrap();
    let whole =
        flock { l_type: F_WRLCK as i16, l_whence: SEEK_SET as i16, l_start: 0, l_len: 0, l_pid: 0 };
    let is_free = || fcntl(other.as_fd(), FcntlArg::F_OFD_SETLK(&whole)).is_ok();
    let (first, second) = (open(), open());
    fcntl_lock(&first, FlockOperation::NonBlockingLockShared).unwrap();
    assert!(!is_free());
    // As POSIX has it: to close any open of the file gives up what the process has locked.
    drop(second);
    assert!(is_free());
    drop((first, other));
    let (first, second) = (open(), open());
    first.try_lock().unwrap();
    assert!(second.try_lock().is_err());
    drop(first);
    second.try_lock().unwrap();
}
