//! Single keys: what is put, removed and read without a transaction and without a snapshot.
#![allow(clippy::unwrap_used)]

mod driver {
    pub(crate) mod directory;
}

use std::sync::atomic::{AtomicBool, Ordering};

use driver::directory::Directory;
use tembo_kv::{Durability, Error, IndexKind, Keyspace, Options, Progress, Store, Value};
use tembo_pool::Geometry;

/// The indexes under test.
fn store(index: IndexKind) -> (Store, Keyspace) {
    let options =
        Options::new().index(index).background(false).geometry(Geometry::TINY).size(4 << 20);
    let store = Store::volatile(&options).unwrap();
    while store.maintain(64).unwrap() == Progress::More {}
    let space = store.keyspace("x").unwrap();
    (store, space)
}

/// Notifies the readers that the writer has ended, be it by a panic.
struct Ends<'d>(&'d AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

fn number(value: Option<&[u8]>) -> Option<u64> {
    value.map(|value| u64::from_le_bytes(value[..8].try_into().unwrap()))
}

#[test]
fn readers_of_single_keys_see_them_rise_and_whole_beside_the_writer() {
    const ROUNDS: u64 = 3000;
    for kind in IndexKind::ALL {
        let (store, space) = store(kind);
        let keys: Vec<Vec<u8>> = (0..40u32).map(|key| key.to_be_bytes().to_vec()).collect();
        let done = AtomicBool::new(false);
        let value = |round: u64| round.to_le_bytes().repeat(1 + round as usize % 9);
        let read = || {
            let (mut seen, mut reads) = (vec![0; keys.len()], 0);
            while !done.load(Ordering::Acquire) || reads == 0 {
                for (key, seen) in keys.iter().zip(&mut seen) {
                    let whole = |value: Option<Value<'_>>| {
                        let value = value.map(|value| value.to_vec());
                        let value = value.as_deref();
                        let round = number(value)?;
                        assert!(value.unwrap().chunks(8).all(|n| n == round.to_le_bytes()));
                        Some(round)
                    };
                    if let Some(round) = store.get_with(space, key, whole).unwrap() {
                        assert!(*seen <= round, "{round} after {seen}");
                        *seen = round;
                    }
                    reads += 1;
                }
            }
        };
        std::thread::scope(|scope| {
            let readers = [scope.spawn(read), scope.spawn(read)];
            let ends = Ends(&done);
            let mut present = [false; 40];
            for round in 1..ROUNDS {
                let which = (round * 7 % 40) as usize;
                let (key, present) = (&keys[which], &mut present[which]);
                let existed = store.remove(space, key, Durability::Strict).unwrap();
                assert_eq!(existed, *present, "{round}");
                *present = round % 3 > 0;
                if *present {
                    store.put(space, key, &value(round), Durability::Strict).unwrap();
                }
                if round % 500 == 0 {
                    // Other trees; and dead intervals, which go again after some time.
                    store.exclusive().unwrap().put(space, key, &value(u64::MAX)).unwrap();
                    store.keyspace(&round.to_string()).unwrap();
                }
                if round % 500 == 100 {
                    while store.maintain(64).unwrap() == Progress::More {}
                }
            }
            drop(ends);
            readers.into_iter().for_each(|reader| reader.join().unwrap());
        });
        store.check().unwrap();
    }
}

#[test]
fn a_read_holds_its_version_while_it_lasts() {
    for kind in IndexKind::ALL {
        let (store, space) = store(kind);
        // Too long to be copied.
        let second = b"second".repeat(100);
        store.put(space, b"a", b"first", Durability::Strict).unwrap();
        let saved = store.save_snapshot("s").unwrap();
        store.put(space, b"a", &second, Durability::Strict).unwrap();
        store
            .get_with(space, b"a", |value| {
                assert!(matches!(store.rollback(saved), Err(Error::VersionInUse { .. })));
                // More than enough to use every slot of its leaf anew, and the space of its record.
                for i in 0..200u8 {
                    store.put(space, b"a", &[i; 6], Durability::Strict).unwrap();
                }
                assert_eq!(value.unwrap(), second);
                let newest = |value: Option<Value<'_>>| value.unwrap().to_vec();
                assert_eq!(store.get_with(space, b"a", newest).unwrap(), [199; 6]);
            })
            .unwrap();
        store.rollback(saved).unwrap();
        assert_eq!(store.get(space, b"a").unwrap().as_deref(), Some(&b"first"[..]));
        store.check().unwrap();
    }
}

#[test]
fn a_copied_value_stays_what_it_was_and_holds_nothing() {
    for kind in IndexKind::ALL {
        let (store, space) = store(kind);
        for value in [b"first".to_vec(), b"second".repeat(10), b"third".repeat(100)] {
            store.put(space, b"a", b"before", Durability::Strict).unwrap();
            let saved = store.save_snapshot("s").unwrap();
            store.put(space, b"a", &value, Durability::Strict).unwrap();
            // The thread comes to have its slot for its own.
            (0..3).for_each(|_| drop(store.get(space, b"a").unwrap()));
            store
                .get_with(space, b"a", |read| {
                    for i in 0..200u8 {
                        store.put(space, b"a", &[i; 100], Durability::Strict).unwrap();
                    }
                    assert_eq!(read.unwrap(), value);
                    let newest = |value: Option<Value<'_>>| value.unwrap().to_vec();
                    assert_eq!(store.get_with(space, b"a", newest).unwrap(), [199; 100]);
                    // What is held would not let its version be rolled back.
                    let rolled_back = store.rollback(saved);
                    if kind != IndexKind::Cdds {
                        rolled_back.unwrap();
                        assert_eq!(store.get(space, b"a").unwrap().unwrap(), b"before");
                    } else {
                        assert!(matches!(rolled_back, Err(Error::VersionInUse { .. })));
                    }
                    assert_eq!(read.unwrap(), value);
                })
                .unwrap();
            assert!(store.drop_snapshot("s").unwrap());
            // Nothing is dead any more: what is dead takes a pin.
            while store.maintain(64).unwrap() == Progress::More {}
        }
        store.check().unwrap();
    }
}

/// What a reader without a pin copies may have been given to another tree meanwhile.
#[test]
fn readers_beside_a_writer_that_clears_see_values_of_their_own_keyspace() {
    const ROUNDS: u64 = 150;
    for kind in IndexKind::ALL {
        let (store, space) = store(kind);
        let other = store.keyspace("other").unwrap();
        let done = AtomicBool::new(false);
        let read = || {
            let mut reads = 0;
            while !done.load(Ordering::Acquire) || reads == 0 {
                for key in 0..60u64 {
                    for (space, own) in [(space, 1), (other, 2)] {
                        let is_own = |value: Option<Value<'_>>| {
                            value.is_none_or(|value| value.to_vec().iter().all(|&byte| byte == own))
                        };
                        assert!(store.get_with(space, &key.to_be_bytes(), is_own).unwrap());
                    }
                    reads += 1;
                }
            }
        };
        std::thread::scope(|scope| {
            let readers = [scope.spawn(read), scope.spawn(read)];
            let ends = Ends(&done);
            for round in 0..ROUNDS {
                let (cleared, own) = if round % 2 == 0 { (space, 1) } else { (other, 2) };
                let mut tx = store.exclusive().unwrap();
                tx.clear(cleared).unwrap();
                tx.commit(Durability::Strict).unwrap();
                while store.maintain(64).unwrap() == Progress::More {}
                for key in 0..60u64 {
                    let value = [own; 200];
                    let value = &value[..[8, 40, 200][(key + round) as usize % 3]];
                    store.put(cleared, &key.to_be_bytes(), value, Durability::Strict).unwrap();
                }
            }
            drop(ends);
            readers.into_iter().for_each(|reader| reader.join().unwrap());
        });
        store.check().unwrap();
    }
}

#[test]
fn a_read_knows_which_trees_there_are() {
    for kind in IndexKind::ALL {
        let (store, space) = store(kind);
        let saved = store.save_snapshot("s").unwrap();
        store.put(space, b"a", b"1", Durability::Strict).unwrap();
        assert!(store.get(space, b"a").unwrap().is_some());
        let mut tx = store.exclusive().unwrap();
        tx.clear(space).unwrap();
        tx.commit(Durability::Strict).unwrap();
        assert!(store.get(space, b"a").unwrap().is_none());
        store.put(space, b"a", b"2", Durability::Strict).unwrap();
        assert_eq!(store.get(space, b"a").unwrap().as_deref(), Some(&b"2"[..]));
        let other = store.keyspace("y").unwrap();
        assert!(store.get(other, b"a").unwrap().is_none());
        store.rollback(saved).unwrap();
        assert!(store.get(space, b"a").unwrap().is_none());
        assert!(matches!(store.get(other, b"a"), Err(Error::NoSuchKeyspace { .. })));
        let refused = store.put(other, b"a", b"3", Durability::Strict);
        assert!(matches!(refused, Err(Error::NoSuchKeyspace { .. })));
        while store.maintain(64).unwrap() == Progress::More {}
        assert!(matches!(store.get(other, b"a"), Err(Error::NoSuchKeyspace { .. })));
        store.check().unwrap();
    }
}

#[test]
fn single_changes_count_and_move_the_version_only_if_they_change_something() {
    for kind in IndexKind::ALL {
        let (store, space) = store(kind);
        let count = || store.exclusive().unwrap().count(space).unwrap();
        let before = store.visible();
        assert!(!store.remove(space, b"a", Durability::Strict).unwrap());
        assert_eq!((count(), store.visible()), (0, before));
        assert!(!store.put(space, b"a", b"1", Durability::Strict).unwrap());
        assert!(store.put(space, b"a", b"2", Durability::Strict).unwrap());
        assert!(!store.put(space, b"b", b"2", Durability::Strict).unwrap());
        assert_eq!((count(), store.visible()), (2, before + 3));
        assert!(store.remove(space, b"a", Durability::Strict).unwrap());
        assert!(!store.remove(space, b"a", Durability::Strict).unwrap());
        assert_eq!((count(), store.visible(), store.durable()), (1, before + 4, before + 4));
        assert!(matches!(
            store.put(space, &[0; 65_001], b"", Durability::Strict),
            Err(Error::KeyTooLong { size: 65_001 })
        ));
        assert_eq!(store.check().unwrap().keyspaces[0].1.entry_count, 1);
    }
}

#[test]
fn a_writer_that_has_only_read_and_commits_strictly_has_read_what_is_durable() {
    let directory = Directory::new("strictly-read");
    let options = Options::new().background(false);
    let store = Store::create(&directory.pool(), &options).unwrap();
    let space = store.keyspace("x").unwrap();
    for (durability, is_durable) in [(Durability::Buffered, false), (Durability::Strict, true)] {
        store.put(space, b"key", b"value", Durability::Buffered).unwrap();
        let reader = store.exclusive().unwrap();
        assert_eq!(reader.get(space, b"key").unwrap().unwrap(), b"value");
        let version = reader.commit(durability).unwrap();
        assert_eq!((store.visible(), store.durable() >= version), (version, is_durable));
    }
    // Nor does a reader see as absent a key whose removal can be lost.
    assert!(store.remove(space, b"key", Durability::Buffered).unwrap());
    assert!(store.durable() < store.visible());
    assert!(!store.remove(space, b"key", Durability::Strict).unwrap());
    assert_eq!(store.durable(), store.visible());
}
