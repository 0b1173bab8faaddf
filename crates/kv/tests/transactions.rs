//! Transactions, many at a time: what they see, which wins, what is left of the others.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use tembo_kv::{
    Access, Direction, Durability, Error, IndexKind, Isolation, Keyspace, Options, Progress, Store,
    Transaction,
};
use tembo_pool::Geometry;

/// The indexes under test.
#[path = "driver/random.rs"]
mod random;
mod transactions {
    mod alone;
    mod model;
    mod threads;
}

const ISOLATIONS: [Isolation; 2] = [Isolation::Snapshot, Isolation::Serialisable];

fn store(index: IndexKind, transaction_memory: usize) -> (Store, Keyspace) {
    let mut options =
        Options::new().index(index).background(false).transaction_memory(transaction_memory);
    options = options.geometry(Geometry::TINY);
    options = options.size(8 << 20);
    let store = Store::volatile(&options).unwrap();
    settle(&store);
    let space = store.keyspace("x").unwrap();
    (store, space)
}

fn settle(store: &Store) {
    while store.maintain(64).unwrap() == Progress::More {}
}

fn put(store: &Store, space: Keyspace, key: &[u8], value: &[u8]) {
    store.put(space, key, value, Durability::Buffered).unwrap();
}

fn remove(store: &Store, space: Keyspace, key: &[u8]) {
    store.remove(space, key, Durability::Buffered).unwrap();
}

fn all(tx: &mut Transaction, space: Keyspace) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let mut found = BTreeMap::new();
    let (from, to) = (Bound::Unbounded, Bound::Unbounded);
    let mut visit = |key: &[u8], value: tembo_kv::Value<'_>| {
        found.insert(key.to_vec(), value.to_vec());
        true
    };
    tx.range_with::<[u8]>(space, (from, to), Direction::Forward, &mut visit).unwrap();
    found
}

/// What a reader without a transaction sees, in any order.
fn committed(store: &Store, space: Keyspace) -> BTreeMap<Vec<u8>, Vec<u8>> {
    store.range::<[u8]>(space, ..).unwrap().map(Result::unwrap).collect()
}

/// What is done by another thread while a transaction is open.
type Other = fn(&Store, Keyspace);

const OTHERS: [(&str, Other); 8] = [
    ("a single put", |store, space| put(store, space, b"k", b"theirs")),
    ("a single put of a record", |store, space| put(store, space, b"k", &[7; 100])),
    ("a single removal", |store, space| remove(store, space, b"k")),
    ("the exclusive writer", |store, space| {
        let mut tx = store.exclusive().unwrap();
        tx.put(space, b"k", b"theirs").unwrap();
        tx.commit(Durability::Buffered).unwrap();
    }),
    ("a transaction", |store, space| {
        let mut tx = store.transaction(Isolation::Snapshot).unwrap();
        tx.put(space, b"k", b"theirs").unwrap();
        tx.commit(Durability::Buffered).unwrap();
    }),
    ("a transaction that removes", |store, space| {
        let mut tx = store.transaction(Isolation::Snapshot).unwrap();
        tx.remove(space, b"k").unwrap();
        tx.commit(Durability::Buffered).unwrap();
    }),
    ("a clearing", |store, space| {
        let mut tx = store.exclusive().unwrap();
        tx.clear(space).unwrap();
        tx.commit(Durability::Buffered).unwrap();
    }),
    ("a put and a removal, collected", |store, space| {
        for i in 0..200u32 {
            put(store, space, b"k", &i.to_le_bytes());
            remove(store, space, b"k");
            if i % 50 == 0 {
                settle(store);
            }
        }
    }),
];

#[test]
fn the_first_to_commit_a_key_wins() {
    for (kind, isolation) in IndexKind::ALL.into_iter().flat_map(|k| ISOLATIONS.map(|i| (k, i))) {
        for (what, other) in OTHERS {
            for is_there in [true, false] {
                for memory in [0, 1 << 20] {
                    let (store, space) = store(kind, memory);
                    put(&store, space, b"other", b"1");
                    if is_there {
                        put(&store, space, b"k", b"before");
                    } else if what.contains("removal") && !what.contains("put") {
                        continue;
                    }
                    let mut tx = store.transaction(isolation).unwrap();
                    let since = tx.version();
                    other(&store, space);
                    let by = store.visible();
                    if by == since {
                        continue;
                    }
                    let conflict = tx.put(space, b"k", b"mine").and_then(|()| {
                        tx.put(space, b"other", b"mine")?;
                        tx.commit(Durability::Strict)
                    });
                    let Err(Error::Conflict { keyspace, key, access, version, held_by: None }) =
                        conflict
                    else {
                        // To remove what is not there changes nothing.
                        assert!(
                            !is_there && what.contains("removes"),
                            "{kind:?} {what}: {conflict:?}"
                        );
                        continue;
                    };
                    assert!(since < version && version <= by, "{what}: {since} {version} {by}");
                    assert_eq!((&keyspace[..], access), ("x", Access::Write));
                    assert!(key == b"k" || what == "a clearing", "{what}");
                    let left = store.get(space, b"other").unwrap();
                    assert_eq!(left.is_none(), what == "a clearing", "{what}");
                    assert_ne!(left.as_deref(), Some(&b"mine"[..]), "{what}");
                    settle(&store);
                    store.check().unwrap();
                }
            }
        }
    }
}

/// Found by a history of eight threads: the key is absent at the snapshot and at the commit.
#[test]
fn the_first_to_commit_a_key_wins_also_if_it_is_removed_in_the_same_batch() {
    for kind in IndexKind::ALL {
        let (store, space) = store(kind, 1 << 20);
        put(&store, space, b"other", b"1");
        let mut late = store.transaction(Isolation::Snapshot).unwrap();
        late.put(space, b"k", b"mine").unwrap();
        put(&store, space, b"k", b"theirs");
        let mut removing = store.transaction(Isolation::Snapshot).unwrap();
        removing.remove(space, b"k").unwrap();
        let done = Transaction::commit_all(vec![removing, late], Durability::Strict);
        let [Ok(_), Err(Error::Conflict { key, .. })] = &done[..] else {
            panic!("{kind:?}: {done:?}")
        };
        assert_eq!(key, b"k");
    }
}

#[test]
fn a_writer_of_other_keys_is_in_the_way_of_none() {
    for kind in IndexKind::ALL {
        let (store, space) = store(kind, 1 << 20);
        for i in 0..100u8 {
            put(&store, space, &[i], &[i; 9]);
        }
        // All in the same leaves, so that splits and merges come between.
        let mut open: Vec<Transaction> =
            (0..10).map(|_| store.transaction(Isolation::Serialisable).unwrap()).collect();
        for (n, tx) in open.iter_mut().enumerate() {
            for i in (n as u8..100).step_by(10) {
                assert_eq!(tx.get(space, &[i]).unwrap().unwrap(), [i; 9]);
                match i % 3 {
                    0 => tx.remove(space, &[i]).unwrap(),
                    1 => tx.put(space, &[i], &[1; 40]).unwrap(),
                    _ => tx.put(space, &[i, 1], b"inserted").unwrap(),
                }
            }
        }
        let versions: BTreeSet<u64> =
            open.into_iter().map(|tx| tx.commit(Durability::Strict).unwrap()).collect();
        assert_eq!(versions.len(), 10, "one version a transaction");
        assert_eq!(versions.last(), Some(&store.visible()));
        let expected: BTreeMap<Vec<u8>, Vec<u8>> = (0..100u8)
            .flat_map(|i| match i % 3 {
                0 => vec![],
                1 => vec![(vec![i], vec![1; 40])],
                _ => vec![(vec![i], vec![i; 9]), (vec![i, 1], b"inserted".to_vec())],
            })
            .collect();
        assert_eq!(committed(&store, space), expected);
        settle(&store);
        store.check().unwrap();
    }
}

#[test]
fn write_skew_is_allowed_by_snapshots_and_refused_when_serialisable() {
    for (kind, isolation) in IndexKind::ALL.into_iter().flat_map(|k| ISOLATIONS.map(|i| (k, i))) {
        let (store, space) = store(kind, 1 << 20);
        put(&store, space, b"a", b"1");
        put(&store, space, b"b", b"1");
        let mut one = store.transaction(isolation).unwrap();
        let mut two = store.transaction(isolation).unwrap();
        assert!(one.get(space, b"a").unwrap() == one.get(space, b"b").unwrap());
        assert!(two.get(space, b"a").unwrap() == two.get(space, b"b").unwrap());
        one.put(space, b"a", b"0").unwrap();
        two.put(space, b"b", b"0").unwrap();
        one.commit(Durability::Strict).unwrap();
        let second = two.commit(Durability::Strict);
        match isolation {
            Isolation::Snapshot => drop(second.unwrap()),
            Isolation::Serialisable => {
                assert!(matches!(second, Err(Error::Conflict { key, .. }) if key == b"a"));
            }
        }
    }
}

/// How a range is read, and whether a change of key 50 is one of what was read.
type Read = (Bound<u8>, Bound<u8>, Direction, usize, bool);
const READS: [Read; 8] = [
    (Bound::Unbounded, Bound::Unbounded, Direction::Forward, 1000, true),
    (Bound::Unbounded, Bound::Unbounded, Direction::Backward, 1000, true),
    (Bound::Included(40), Bound::Excluded(50), Direction::Forward, 1000, false),
    (Bound::Excluded(50), Bound::Unbounded, Direction::Backward, 1000, false),
    (Bound::Included(50), Bound::Included(50), Direction::Forward, 1000, true),
    // Enough after some.
    (Bound::Included(40), Bound::Unbounded, Direction::Forward, 3, false),
    (Bound::Included(48), Bound::Unbounded, Direction::Forward, 3, true),
    (Bound::Unbounded, Bound::Included(52), Direction::Backward, 3, true),
];

#[test]
fn a_serialisable_range_has_no_phantoms() {
    let others: [Other; 3] = [
        |store, space| put(store, space, &[50], b"inserted"),
        |store, space| {
            put(store, space, &[50], b"inserted");
            put(store, space, &[50], b"updated");
        },
        |store, space| {
            put(store, space, &[50], b"inserted");
            for i in 0..100u8 {
                put(store, space, &[50, i], &[i; 20]);
            }
        },
    ];
    for kind in IndexKind::ORDERED {
        for (from, to, direction, most, is_read) in READS {
            for (number, other) in others.iter().enumerate() {
                let (store, space) = store(kind, 1 << 20);
                for i in (0..100).filter(|&i| i != 50) {
                    put(&store, space, &[i], &[i; 12]);
                }
                let mut tx = store.transaction(Isolation::Serialisable).unwrap();
                let (from, to) = (from.map(|key| [key]), to.map(|key| [key]));
                let mut seen = 0;
                let mut visit = |_: &[u8], _: tembo_kv::Value<'_>| {
                    seen += 1;
                    seen < most
                };
                let (from, to) = (from.as_ref().map(|k| &k[..]), to.as_ref().map(|k| &k[..]));
                tx.range_with::<[u8]>(space, (from, to), direction, &mut visit).unwrap();
                other(&store, space);
                tx.put(space, b"count", &[1]).unwrap();
                let committed = tx.commit(Durability::Strict);
                // Keys behind 50 come into what is above it.
                let is_read = is_read || number == 2 && matches!(from, Bound::Excluded(_));
                let what = format!("{kind:?} {from:?} {to:?} {direction:?} {most} {number}");
                match committed {
                    Ok(_) => assert!(!is_read, "{what}"),
                    Err(Error::Conflict { key, .. }) => {
                        assert!(is_read && key[0] == 50, "{what}: {key:?}");
                    }
                    Err(error) => panic!("{what}: {error}"),
                }
            }
        }
    }
}

#[test]
fn what_was_read_and_removed_is_a_conflict_and_what_came_and_went_is_none() {
    for kind in IndexKind::ALL {
        let (store, space) = store(kind, 1 << 20);
        put(&store, space, b"there", b"1");
        let begin = || {
            let mut tx = store.transaction(Isolation::Serialisable).unwrap();
            assert!(tx.get(space, b"absent").unwrap().is_none());
            tx.put(space, b"mine", b"1").unwrap();
            tx
        };
        let tx = begin();
        put(&store, space, b"absent", b"1");
        remove(&store, space, b"absent");
        tx.commit(Durability::Strict).ok();
        let tx = begin();
        put(&store, space, b"absent", b"1");
        assert!(matches!(
            tx.commit(Durability::Strict),
            Err(Error::Conflict { key, .. }) if key == b"absent"
        ));
        let mut tx = store.transaction(Isolation::Serialisable).unwrap();
        if kind.is_ordered() {
            all(&mut tx, space);
        }
        assert!(tx.get(space, b"there").unwrap().is_some());
        tx.put(space, b"mine", b"2").unwrap();
        remove(&store, space, b"there");
        settle(&store);
        assert!(matches!(
            tx.commit(Durability::Strict),
            Err(Error::Conflict { key, .. }) if key == b"there"
        ));
    }
}

#[test]
fn a_transaction_that_only_reads_commits_at_its_snapshot_whatever_happens() {
    for (kind, isolation) in IndexKind::ALL.into_iter().flat_map(|k| ISOLATIONS.map(|i| (k, i))) {
        let (store, space) = store(kind, 1 << 20);
        put(&store, space, b"a", b"1");
        let mut tx = store.transaction(isolation).unwrap();
        assert!(tx.get(space, b"a").unwrap().is_some());
        put(&store, space, b"a", b"2");
        assert_eq!(tx.get(space, b"a").unwrap().as_deref(), Some(&b"1"[..]));
        let (version, before) = (tx.version(), store.visible());
        assert_eq!(tx.commit(Durability::Strict).unwrap(), version);
        assert_eq!(store.visible(), before);
    }
}

#[test]
fn a_keyspace_that_the_snapshot_does_not_know_is_none() {
    let (store, _) = store(IndexKind::Nvtree, 1 << 20);
    let mut tx = store.transaction(Isolation::Snapshot).unwrap();
    let younger = store.keyspace("y").unwrap();
    assert!(matches!(tx.put(younger, b"a", b"1"), Err(Error::NoSuchKeyspace { .. })));
    assert!(matches!(tx.get(younger, b"a"), Err(Error::NoSuchKeyspace { .. })));
    drop(tx);
    let saved = store.save_snapshot("s").unwrap();
    let younger = store.keyspace("z").unwrap();
    store.rollback(saved).unwrap();
    let mut tx = store.transaction(Isolation::Snapshot).unwrap();
    assert!(matches!(tx.put(younger, b"a", b"1"), Err(Error::NoSuchKeyspace { .. })));
}
