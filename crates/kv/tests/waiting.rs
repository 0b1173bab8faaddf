//! Followers of changes that wait: threads, and event loops with a descriptor.
#![allow(clippy::unwrap_used)]

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::scope;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tembo_kv::{
    Changes, Durability, Error, Event, Exclusive, IndexKind, Keyspace, Options, Readiness,
    Retention, Store,
};
use tembo_pmem::DomainRequest;

#[path = "driver/directory.rs"]
mod directory;
#[path = "driver/wait.rs"]
mod wait;

use directory::Directory;
use wait::wait_until;

/// The indexes under test.
const LONG: Duration = Duration::from_secs(60);
const AT_ONCE: Duration = Duration::ZERO;

fn options(index: IndexKind) -> Options {
    let mut options = Options::new().index(index).background(false);
    options = options.size(16 << 20);
    options
}

/// Stores of both indexes: one whose versions are durable when they are visible, and one with a log.
fn each_store(name: &str, test: impl Fn(Store, Keyspace)) {
    for index in IndexKind::ALL {
        let directory = Directory::new(&format!("waiting-{name}-{index:?}"));
        let mut logged = options(index);
        logged = logged.domain(DomainRequest::Logged);
        let with_log = Store::create(&directory.pool(), &logged).unwrap();
        for store in [Store::volatile(&options(index)).unwrap(), with_log] {
            let space = store.keyspace("x").unwrap();
            test(store, space);
        }
    }
}

fn put(store: &Store, space: Keyspace, key: u64, durability: Durability) {
    store.put(space, &key.to_be_bytes(), b"value", durability).unwrap();
}

/// Waits for so many puts and takes them.
fn take(changes: &mut Changes, count: u64, mut sleep: impl FnMut(&mut Changes)) {
    let mut seen = 0;
    while seen < count {
        sleep(changes);
        while let Some(change) = changes.next().unwrap() {
            assert!(matches!(change.event, Event::Put { .. }));
            seen += 1;
        }
    }
    assert_eq!((seen, changes.next().unwrap()), (count, None));
}

fn is_readable(readiness: &Readiness, seconds: i64) -> bool {
    let timeout = Timespec { tv_sec: seconds, tv_nsec: 0 };
    poll(&mut [PollFd::new(readiness, PollFlags::IN)], Some(&timeout)).unwrap() == 1
}

#[test]
fn no_follower_misses_a_change_whatever_the_writers_do() {
    const WRITERS: u64 = 2;
    const PUTS: u64 = 300;
    each_store("stress", |store, space| {
        store.sync().unwrap();
        let from = store.visible();
        let follow = || store.changes(from).unwrap();
        let followers = [follow(), follow(), follow()];
        scope(|scope| {
            for (at, mut changes) in followers.into_iter().enumerate() {
                scope.spawn(move || {
                    let readiness = changes.readiness().unwrap();
                    take(&mut changes, WRITERS * PUTS, |changes| match at {
                        0 | 1 => assert!(changes.wait(LONG), "slept through a change"),
                        _ => assert!(is_readable(&readiness, 60), "slept through a change"),
                    });
                    assert!(!changes.wait(AT_ONCE) && !is_readable(&readiness, 0));
                });
            }
            for writer in 0..WRITERS {
                let store = &store;
                scope.spawn(move || {
                    for n in 0..PUTS {
                        put(store, space, n * WRITERS + writer, Durability::Strict);
                        if n % 7 == 0 {
                            std::thread::yield_now();
                        }
                    }
                });
            }
        });
    });
}

#[test]
fn each_change_is_followed_before_the_next_is_made() {
    each_store("ping", |store, space| {
        store.sync().unwrap();
        let mut changes = store.changes(store.visible()).unwrap();
        let followed = AtomicUsize::new(0);
        scope(|scope| {
            scope.spawn(|| {
                while followed.load(Ordering::Relaxed) < 200 {
                    assert!(changes.wait(LONG), "slept through a change");
                    while changes.next().unwrap().is_some() {
                        followed.fetch_add(1, Ordering::Relaxed);
                    }
                }
            });
            for n in 0..200 {
                match n % 3 {
                    0 => put(&store, space, 7, Durability::Strict),
                    1 => {
                        let mut tx = store.exclusive().unwrap();
                        tx.put(space, b"exclusive", b"1").unwrap();
                        tx.commit(Durability::Strict).unwrap();
                    }
                    _ => {
                        put(&store, space, 8, Durability::Buffered);
                        store.sync().unwrap();
                    }
                }
                let seen = || followed.load(Ordering::Relaxed);
                wait_until("the follower", seen, |&seen| seen == n + 1);
            }
        });
    });
}

#[test]
fn a_descriptor_is_readable_while_there_is_something() {
    each_store("descriptor", |store, space| {
        store.sync().unwrap();
        let mut changes = store.changes(store.visible()).unwrap();
        let readiness = changes.readiness().unwrap();
        assert_eq!(changes.next().unwrap(), None);
        assert!(!is_readable(&readiness, 0));
        put(&store, space, 1, Durability::Strict);
        put(&store, space, 2, Durability::Strict);
        assert!(is_readable(&readiness, 0));
        assert!(changes.next().unwrap().is_some() && is_readable(&readiness, 0), "one is left");
        assert!(changes.next().unwrap().is_some());
        assert_eq!(changes.next().unwrap(), None);
        assert!(!is_readable(&readiness, 0));
        let tx: Exclusive = store.exclusive().unwrap();
        drop(tx);
        assert!(!is_readable(&readiness, 0), "nothing was changed");
    });
}

#[test]
fn what_is_not_durable_wakes_no_follower() {
    let directory = Directory::new("waiting-buffered");
    let mut options = options(IndexKind::Nvtree);
    options = options.domain(DomainRequest::Logged);
    let store = Store::create(&directory.pool(), &options).unwrap();
    let space = store.keyspace("x").unwrap();
    let mut changes = store.changes(store.durable()).unwrap();
    put(&store, space, 1, Durability::Buffered);
    assert!(!changes.wait(Duration::from_millis(5)));
    store.sync().unwrap();
    assert!(changes.wait(AT_ONCE) && changes.next().unwrap().is_some());
}

#[test]
fn a_rollback_wakes_followers() {
    each_store("rollback", |store, space| {
        store.retain(Retention::Versions(1000)).unwrap();
        let before = store.visible();
        put(&store, space, 1, Durability::Strict);
        let mut changes = store.changes(store.visible()).unwrap();
        let readiness = changes.readiness().unwrap();
        assert_eq!(changes.next().unwrap(), None);
        scope(|scope| {
            let waits = scope.spawn(|| {
                assert!(changes.wait(LONG), "slept through a rollback");
                changes.next()
            });
            store.rollback(before).unwrap();
            let found = waits.join().unwrap();
            assert!(matches!(found, Err(Error::RolledBack { to, .. }) if to == before));
        });
        assert!(is_readable(&readiness, 0));
    });
}

#[test]
fn a_store_that_is_asked_to_close_wakes_followers() {
    each_store("close", |store, space| {
        put(&store, space, 1, Durability::Strict);
        store.sync().unwrap();
        let mut changes = store.changes(store.visible()).unwrap();
        let begun = AtomicUsize::new(0);
        scope(|scope| {
            let waits = scope.spawn(|| {
                begun.store(1, Ordering::Relaxed);
                changes.wait(Duration::MAX)
            });
            let mut store = store;
            while !waits.is_finished() {
                if begun.load(Ordering::Relaxed) == 1 {
                    let refused = store.close().unwrap_err();
                    assert!(matches!(refused.error(), Error::InUse { followers: 1, .. }));
                    store = refused.into_store().unwrap();
                }
                std::thread::yield_now();
            }
            assert!(!waits.join().unwrap());
        });
    });
}
