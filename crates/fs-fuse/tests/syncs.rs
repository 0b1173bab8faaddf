//! How many syncs of the disk the calls of programs cost.
//!
//! Where FUSE is not permitted, the tests of a mount say so and do nothing.

#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stderr)]

#[path = "mounted/served.rs"]
mod mounted;

use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::sync::Barrier;
use std::thread;

use rustix::fs::{XattrFlags, setxattr};
use tembo_fs::{AnyTreeMut, FileKind, Format, New, ROOT, Touched};
use tembo_fs_fuse::Durable;
use tembo_kv::{DomainRequest, Durability};

use mounted::{NOW, Served, folder, stored};

fn syncs(served: &Served) -> u64 {
    served.store.report().fdatasyncs
}

#[test]
fn a_close_waits_for_what_its_own_file_has_that_was_not_synced() {
    let Some(served) = Served::new() else { return };
    let open = |name: &str| OpenOptions::new().write(true).open(served.at(name)).unwrap();
    let mut first = File::create(served.at("first")).unwrap();
    first.write_all(b"first").unwrap();
    first.sync_all().unwrap();
    let mut second = File::create(served.at("second")).unwrap();
    second.write_all(b"second").unwrap();
    let before = syncs(&served);
    let since = || syncs(&served) - before;
    // What another has written meanwhile is nothing to it.
    drop(first);
    assert_eq!(since(), 0);
    drop(second);
    assert_eq!(since(), 1);
    assert_eq!(served.store.durable(), served.store.visible());
    // A file that was made, and one that was cut.
    drop(File::create(served.at("third")).unwrap());
    assert_eq!(since(), 2);
    let third = open("third");
    third.set_len(1).unwrap();
    drop(third);
    assert_eq!(since(), 3);
    assert_eq!(served.store.durable(), served.store.visible());
    let third = open("third");
    fs::create_dir(served.at("folder")).unwrap();
    drop(third);
    assert_eq!(since(), 3);
    // A sync is of all files.
    open("third").sync_all().unwrap();
    assert_eq!(since(), 4);
    assert_eq!(served.store.durable(), served.store.visible());
}

#[test]
fn threads_that_sync_at_the_same_time_share_one_sync() {
    const THREADS: usize = 16;
    let folder = folder();
    let (store, fs) = stored(&folder, DomainRequest::Logged);
    let new = New { kind: FileKind::Regular, ..Format::default().root };
    for round in 0..3 {
        let (written, before) = (Barrier::new(THREADS), store.report().fdatasyncs);
        let work = |thread: usize| {
            let name = format!("{round} {thread}");
            let write = |tree: &mut tembo_fs::AnyTreeMut<'_, '_>| {
                let file = tree.create(ROOT, name.as_bytes(), &new)?;
                tree.write(file.number, 0, &[7; 4096])
            };
            fs.write(NOW, Durability::Buffered, write).unwrap();
            written.wait();
            fs.sync().unwrap();
        };
        thread::scope(|scope| {
            for thread in 0..THREADS {
                let work = &work;
                scope.spawn(move || work(thread));
            }
        });
        assert_eq!(store.report().fdatasyncs - before, 1);
        assert_eq!(store.durable(), store.visible());
    }
}

/// Its fsync answers at once, and its close commits: so the commit has to be durable, though no other close is.
#[test]
fn what_a_marked_file_has_synced_is_durable_when_it_is_closed() {
    let Some(served) = Served::with(Durable::Fsync, DomainRequest::Logged) else { return };
    let path = served.at("marked");
    fs::write(&path, "old").unwrap();
    setxattr(&path, "user.tembo.transaction", b"1", XattrFlags::empty()).unwrap();
    let is_durable = || served.store.durable() == served.store.visible();
    let mut file = File::options().write(true).open(&path).unwrap();
    file.write_all(b"new").unwrap();
    drop(file);
    assert!(!is_durable(), "nothing has asked for it");
    let mut file = File::options().write(true).open(&path).unwrap();
    // Nothing is in its transaction yet: what came before is meant.
    file.sync_all().unwrap();
    assert!(is_durable());
    file.write_all(b"newer").unwrap();
    file.sync_all().unwrap();
    drop(file);
    assert_eq!(fs::read(&path).unwrap(), b"newer");
    assert!(is_durable());
}

#[test]
fn a_commit_is_seen_before_it_is_durable_and_durable_when_it_returns() {
    let folder = folder();
    let (store, fs) = stored(&folder, DomainRequest::Logged);
    let new = New { kind: FileKind::Regular, ..Format::default().root };
    let mut transaction = fs.transaction().unwrap();
    transaction.change(NOW, |tree| tree.create(ROOT, b"a", &new)).unwrap();
    let mut calls = 0;
    let seen = |touched: &Touched| {
        calls += 1;
        assert!(store.visible() > store.durable());
        assert!(fs.snapshot().unwrap().lookup(ROOT, b"a").is_ok());
        assert_eq!(touched.names, [(ROOT, b"a".to_vec())].into());
    };
    let version = transaction.commit_seen(NOW, Durability::Strict, seen).unwrap();
    assert_eq!((calls, store.durable()), (1, version));
    // What comes too late is said too: a cache may have looked at it.
    let mut late = fs.transaction().unwrap();
    late.change(NOW, |tree| tree.create(ROOT, b"b", &new)).unwrap();
    let other = |tree: &mut AnyTreeMut<'_, '_>| tree.create(ROOT, b"b", &new);
    fs.write(NOW, Durability::Buffered, other).unwrap();
    let mut names = BTreeSet::new();
    let seen = |touched: &Touched| names = touched.names.clone();
    assert!(late.commit_seen(NOW, Durability::Strict, seen).is_err());
    assert_eq!(names, [(ROOT, b"b".to_vec())].into());
}
