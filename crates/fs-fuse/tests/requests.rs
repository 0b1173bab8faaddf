//! Which requests of the kernel the calls of programs cost.
//!
//! Where FUSE is not permitted, the tests say so and do nothing.

#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stderr)]

#[path = "mounted/served.rs"]
mod mounted;

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::sync::{Mutex, MutexGuard, PoisonError};

use log::{LevelFilter, Log, Metadata, Record};
use nix::fcntl::{FcntlArg, fcntl};
use nix::libc::{F_WRLCK, SEEK_SET, flock};
use rustix::fs::{FlockOperation, OFlags, fcntl_lock};

use tembo_fs::{FileKind, Format, Fs, New, ROOT};
use tembo_fs_fuse::Durable;
use tembo_kv::{DomainRequest, Durability};

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
    Some((alone(), Served::new()?))
}

fn alone() -> MutexGuard<'static, ()> {
    let alone = locked(&ALONE);
    // It is set by the first test.
    let _ = log::set_logger(&REQUESTS);
    log::set_max_level(LevelFilter::Debug);
    alone
}

/// How many requests of a name `work` has cost.
fn cost<T>(name: &str, work: impl FnOnce() -> T) -> (u64, T) {
    let count = || locked(&REQUESTS.0).get(name).copied().unwrap_or_default();
    let before = count();
    let done = work();
    (count() - before, done)
}

/// The requests that `work` has cost, but those that nothing waits for.
fn costs<T>(work: impl FnOnce() -> T) -> BTreeMap<String, u64> {
    let before = locked(&REQUESTS.0).clone();
    work();
    let mut since = locked(&REQUESTS.0).clone();
    since.retain(|name, count| {
        *count -= before.get(name).copied().unwrap_or_default();
        *count > 0 && !["RELEASE", "RELEASEDIR", "FORGET"].contains(&name.as_str())
    });
    since
}

/// Makes a file as programs do that want it whole and durable.
fn make(served: &Served, name: &str) {
    let before = served.at(&format!("{name}.new"));
    let mut file = File::create(&before).unwrap();
    file.write_all(&[7; 4096]).unwrap();
    file.sync_all().unwrap();
    drop(file);
    fs::rename(before, served.at(name)).unwrap();
}

fn counts<const N: usize>(counts: [(&str, u64); N]) -> BTreeMap<String, u64> {
    counts.map(|(name, count)| (name.to_owned(), count)).into()
}

#[test]
fn a_small_file_costs_ten_requests_that_it_waits_for() {
    let Some((_alone, served)) = counted() else { return };
    make(&served, "first");
    let expected = counts([
        ("GETATTR", 2),
        ("LOOKUP", 2),
        ("CREATE", 1),
        ("GETXATTR", 1),
        ("WRITE", 1),
        ("FSYNC", 1),
        ("FLUSH", 1),
        ("RENAME", 1),
    ]);
    assert_eq!(costs(|| make(&served, "second")), expected);
}

#[test]
fn without_a_log_there_is_nothing_to_ask_at_a_sync_or_a_close() {
    let _alone = alone();
    let Some(served) = Served::with(Durable::Close, DomainRequest::Flush) else { return };
    let folder = || File::open(served.at("")).unwrap().sync_all().unwrap();
    folder();
    assert_eq!(cost("FSYNCDIR", folder).0, 0);
    make(&served, "first");
    let expected = counts([
        ("GETATTR", 2),
        ("LOOKUP", 2),
        ("CREATE", 1),
        ("GETXATTR", 1),
        ("WRITE", 1),
        ("RENAME", 1),
    ]);
    assert_eq!(costs(|| make(&served, "second")), expected);
    assert_eq!(served.store.durable(), served.store.visible());
}

#[test]
fn a_close_that_makes_nothing_durable_asks_nothing() {
    let _alone = alone();
    let Some(served) = Served::with(Durable::Fsync, DomainRequest::Logged) else { return };
    let (flushes, syncs) = cost("FLUSH", || cost("FSYNC", || make(&served, "file")).0);
    assert_eq!((flushes, syncs), (0, 1));
}

#[test]
fn a_close_in_a_transaction_waits_for_what_was_stored_to_a_mapping() {
    let _alone = alone();
    let Some(served) = Served::with(Durable::Fsync, DomainRequest::Logged) else { return };
    let begin = served.at(".tembo/begin");
    let mut begun = OpenOptions::new().read(true).write(true).open(begin).unwrap();
    let mut number = String::new();
    begun.read_to_string(&mut number).unwrap();
    let path = served.at(".tembo/transactions").join(number.trim()).join("a");
    // At a flush the kernel waits for writes that are under way.
    let file = File::create(&path).unwrap();
    assert_eq!(cost("FLUSH", || drop(file)).0, 1);
    let file = OpenOptions::new().write(true).open(&path).unwrap();
    assert_eq!(cost("FLUSH", || drop(file)).0, 1);
    let file = File::open(&path).unwrap();
    assert_eq!(cost("FLUSH", || drop(file)).0, 0);
    begun.write_all(b"commit").unwrap();
}

#[test]
fn a_file_that_is_written_again_costs_a_request_a_write() {
    let Some((_alone, served)) = counted() else { return };
    let mut file = File::create(served.at("file")).unwrap();
    file.write_all(b"first").unwrap();
    let again = costs(|| (0..10).for_each(|_| file.write_all(b"again").unwrap()));
    assert_eq!(again, counts([("WRITE", 10)]));
}

#[test]
fn a_name_that_is_not_there_is_looked_for_once() {
    let Some((_alone, served)) = counted() else { return };
    let path = served.at("name");
    let looked = || (0..3).for_each(|_| assert!(!path.exists()));
    assert_eq!(cost("LOOKUP", looked).0, 1);
    assert_eq!(cost("LOOKUP", || fs::write(&path, "bytes").unwrap()).0, 0);
    assert_eq!(fs::read(&path).unwrap(), b"bytes");
    fs::remove_file(&path).unwrap();
    assert!(!path.exists());
    fs::create_dir(&path).unwrap();
    assert!(path.is_dir());
    fs::rename(&path, served.at("other")).unwrap();
    assert!(!path.exists() && served.at("other").is_dir());
    fs::write(served.at("file"), "bytes").unwrap();
    fs::hard_link(served.at("file"), &path).unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"bytes");
    // What is below `.tembo` comes and goes without a change of a directory.
    let control = served.at(".tembo/versions/99");
    let looked = || (0..3).for_each(|_| assert!(!control.exists()));
    assert!(served.at(".tembo/versions").is_dir());
    assert_eq!(cost("LOOKUP", looked).0, 3);
}

#[test]
fn a_file_that_came_while_the_kernel_believes_that_there_is_none_is_opened() {
    let Some((_alone, served)) = counted() else { return };
    for (name, is_new) in [("a", false), ("b", true)] {
        let path = served.at(name);
        assert!(!path.exists());
        // As a commit does before the kernel is notified of it.
        let fs = Fs::open(&served.store).unwrap();
        let new = New { kind: FileKind::Regular, ..Format::default().root };
        fs.write(mounted::NOW, Durability::Strict, |tree| {
            let inode = tree.create(ROOT, name.as_bytes(), &new)?;
            tree.write(inode.number, 0, b"bytes")
        })
        .unwrap();
        let opened = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .create_new(is_new)
            .open(&path);
        match opened {
            Ok(mut file) => {
                let mut bytes = String::new();
                file.read_to_string(&mut bytes).unwrap();
                assert_eq!((bytes.as_str(), is_new), ("bytes", false));
            }
            Err(error) => {
                assert_eq!((error.kind(), is_new), (std::io::ErrorKind::AlreadyExists, true))
            }
        }
    }
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
