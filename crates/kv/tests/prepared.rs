//! Prepared transactions: what they hold, what decides them, and what an open and a rollback make of them.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::path::{Path, PathBuf};

use tembo_kv::{
    Access, DomainRequest, Durability, Error, IndexKind, Isolation, Keyspace, Options, Progress,
    Store, Transaction,
};

const STRICT: Durability = Durability::Strict;
struct Folder(PathBuf);

impl Folder {
    fn new(test: &str) -> Folder {
        let folder = std::env::temp_dir().join(format!("tembo-{test}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).unwrap();
        Folder(folder)
    }

    fn pool(&self) -> PathBuf {
        self.0.join("pool")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn options(index: IndexKind) -> Options {
    let options = Options::new().index(index).background(false).size(8 << 20);
    options.domain(DomainRequest::Logged).log_size(8 << 20)
}

fn volatile(index: IndexKind) -> (Store, Keyspace) {
    let store = Store::volatile(&options(index)).unwrap();
    let space = store.keyspace("x").unwrap();
    for key in [b"a", b"b", b"c", b"d"] {
        store.put(space, key, b"before", STRICT).unwrap();
    }
    (store, space)
}

fn open(path: &Path, index: IndexKind) -> Store {
    Store::open(path, &options(index)).unwrap()
}

fn begin(store: &Store) -> Transaction {
    store.transaction(Isolation::Snapshot).unwrap()
}

/// One that writes b, removes c and makes n.
fn change(store: &Store, space: Keyspace) -> Transaction {
    let mut tx = begin(store);
    tx.put(space, b"b", b"after").unwrap();
    tx.remove(space, b"c").unwrap();
    tx.put(space, b"n", b"made").unwrap();
    tx
}

fn get(store: &Store, space: Keyspace, key: &[u8]) -> Option<Vec<u8>> {
    store.get(space, key).unwrap()
}

#[track_caller]
fn held<T>(result: Result<T, Error>, on: &[u8], by: &[u8]) -> u64 {
    match result {
        Err(Error::Conflict { keyspace, key, held_by: Some(id), version, .. }) => {
            assert_eq!((keyspace.as_str(), &key[..], &id[..]), ("x", on, by));
            version
        }
        Err(error) => panic!("{error:?}"),
        Ok(_) => panic!("it was done"),
    }
}

fn settle(store: &Store) {
    while store.maintain(64).unwrap() == Progress::More {}
}

#[test]
fn readers_see_the_state_before_until_it_is_committed() {
    for kind in IndexKind::ALL {
        let (store, space) = volatile(kind);
        let version = change(&store, space).prepare(b"id").unwrap();
        assert_eq!(version, store.visible());
        let [prepared] = &store.prepared()[..] else { panic!() };
        assert_eq!((&prepared.id[..], prepared.version, prepared.writes), (&b"id"[..], version, 3));
        assert!(!prepared.is_serialisable);
        let before = store.snapshot().unwrap();
        assert_eq!(get(&store, space, b"b").unwrap(), b"before");
        assert_eq!(get(&store, space, b"n"), None);

        let committed = store.commit_prepared(b"id", STRICT).unwrap();
        assert_eq!((committed, store.prepared().len()), (store.visible(), 0));
        assert_eq!(get(&store, space, b"b").unwrap(), b"after");
        assert_eq!(get(&store, space, b"c"), None);
        assert_eq!(get(&store, space, b"n").unwrap(), b"made");
        assert_eq!(before.get(space, b"b").unwrap().unwrap().to_vec(), b"before");
        assert_eq!(store.exclusive().unwrap().count(space), Some(4));
        assert!(matches!(
            store.commit_prepared(b"id", STRICT),
            Err(Error::NoSuchPrepared { id }) if id == b"id"
        ));
        store.put(space, b"b", b"later", STRICT).unwrap();
        settle(&store);
        assert_eq!(store.check().unwrap().leaked, 0);
    }
}

#[test]
fn one_that_is_dropped_leaves_nothing_and_holds_nothing() {
    for kind in IndexKind::ALL {
        let (store, space) = volatile(kind);
        change(&store, space).prepare(b"id").unwrap();
        store.drop_prepared(b"id").unwrap();
        assert_eq!(store.prepared(), []);
        assert_eq!(get(&store, space, b"b").unwrap(), b"before");
        assert!(matches!(store.drop_prepared(b"id"), Err(Error::NoSuchPrepared { .. })));
        change(&store, space).prepare(b"id").unwrap();
        store.commit_prepared(b"id", STRICT).unwrap();
        assert_eq!(get(&store, space, b"n").unwrap(), b"made");
    }
}

#[test]
fn no_other_change_of_a_held_key_is_made() {
    for kind in IndexKind::ALL {
        let (store, space) = volatile(kind);
        let version = change(&store, space).prepare(b"id").unwrap();
        for key in [b"b", b"c", b"n"] {
            let at = held(store.put(space, key, b"x", STRICT), key, b"id");
            assert_eq!(at, version);
            held(store.remove(space, key, STRICT), key, b"id");
            let mut alone = begin(&store);
            alone.put(space, key, b"x").unwrap();
            held(alone.commit(STRICT), key, b"id");
            let mut several = begin(&store);
            several.put(space, b"a", b"x").unwrap();
            several.put(space, key, b"x").unwrap();
            held(several.commit(STRICT), key, b"id");
            let mut second = begin(&store);
            second.put(space, key, b"x").unwrap();
            held(second.prepare(b"second"), key, b"id");
            let mut writer = store.exclusive().unwrap();
            writer.put(space, b"a", b"writer").unwrap();
            held(writer.put(space, key, b"x"), key, b"id");
            held(writer.remove(space, key), key, b"id");
            writer.commit(STRICT).unwrap();
        }
        held(store.exclusive().unwrap().clear(space), b"b", b"id");
        let other = store.keyspace("other").unwrap();
        store.put(other, b"b", b"free", STRICT).unwrap();
        store.exclusive().unwrap().clear(other).unwrap();
        assert_eq!(get(&store, space, b"a").unwrap(), b"writer");
        store.put(space, b"d", b"free", STRICT).unwrap();
        store.commit_prepared(b"id", STRICT).unwrap();
        store.exclusive().unwrap().clear(space).unwrap();
    }
}

#[test]
fn a_transaction_that_outgrows_memory_neither_passes_nor_fails_to_be_prepared() {
    for kind in IndexKind::ALL {
        let options = options(kind).transaction_memory(0);
        let store = Store::volatile(&options).unwrap();
        let space = store.keyspace("x").unwrap();
        let mut tx = begin(&store);
        for n in 0..100_u32 {
            tx.put(space, &n.to_be_bytes(), &[7; 1000]).unwrap();
        }
        tx.remove(space, &50_u32.to_be_bytes()).unwrap();
        tx.remove(space, b"absent").unwrap();
        tx.prepare(b"large").unwrap();
        assert_eq!(store.prepared()[0].writes, 101);
        held(store.put(space, b"absent", b"x", STRICT), b"absent", b"large");
        let mut other = begin(&store);
        let written = (0..3_u32).try_for_each(|n| other.put(space, &n.to_be_bytes(), b"x"));
        held(written.and_then(|()| other.commit(STRICT)), &0_u32.to_be_bytes(), b"large");
        store.commit_prepared(b"large", STRICT).unwrap();
        assert_eq!(store.range::<[u8]>(space, ..).unwrap().count(), 99);
        settle(&store);
        assert_eq!(store.check().unwrap().leaked, 0);
    }
}

#[test]
fn a_serialisable_one_holds_what_it_has_read_against_writers() {
    for kind in IndexKind::ALL {
        let (store, space) = volatile(kind);
        let mut tx = store.transaction(Isolation::Serialisable).unwrap();
        tx.get(space, b"a").unwrap();
        tx.get(space, b"absent").unwrap();
        if kind.is_ordered() {
            let mut until_b = |key: &[u8], _: tembo_kv::Value<'_>| key < b"b";
            tx.range_with::<[u8]>(space, .., tembo_kv::Direction::Forward, &mut until_b).unwrap();
        } else {
            [&b"aa"[..], b"b"].iter().for_each(|key| drop(tx.get(space, key).unwrap()));
        }
        tx.put(space, b"m", b"1").unwrap();
        tx.prepare(b"id").unwrap();
        assert!(store.prepared()[0].is_serialisable);
        for key in [&b"a"[..], b"b", b"absent", b"aa", b"m"] {
            held(store.put(space, key, b"x", STRICT), key, b"id");
        }
        store.put(space, b"c", b"free", STRICT).unwrap();
        // Two that hold what they have read go together; one that writes it does not.
        let mut reader = store.transaction(Isolation::Serialisable).unwrap();
        reader.get(space, b"a").unwrap();
        reader.put(space, b"o", b"1").unwrap();
        reader.prepare(b"reader").unwrap();
        let mut of_writes = store.transaction(Isolation::Serialisable).unwrap();
        of_writes.get(space, b"m").unwrap();
        of_writes.put(space, b"p", b"1").unwrap();
        let refused = of_writes.prepare(b"third");
        assert!(matches!(refused, Err(Error::Conflict { access: Access::Read, .. })));
        held(refused, b"m", b"id");
        store.commit_prepared(b"id", STRICT).unwrap();
        held(store.put(space, b"a", b"x", STRICT), b"a", b"reader");
        store.commit_prepared(b"reader", STRICT).unwrap();
        store.put(space, b"a", b"x", STRICT).unwrap();
    }
}

#[test]
fn it_is_validated_when_it_is_prepared() {
    for kind in IndexKind::ALL {
        let (store, space) = volatile(kind);
        let late = change(&store, space);
        store.put(space, b"b", b"first", STRICT).unwrap();
        assert!(matches!(late.prepare(b"id"), Err(Error::Conflict { held_by: None, .. })));
        let mut read = store.transaction(Isolation::Serialisable).unwrap();
        read.get(space, b"a").unwrap();
        read.put(space, b"z", b"1").unwrap();
        store.put(space, b"a", b"first", STRICT).unwrap();
        assert!(matches!(read.prepare(b"id"), Err(Error::Conflict { held_by: None, .. })));
        assert_eq!(store.prepared(), []);
        // One that began before the decision and writes the same comes too late.
        change(&store, space).prepare(b"id").unwrap();
        let late = change(&store, space);
        store.commit_prepared(b"id", STRICT).unwrap();
        assert!(matches!(late.commit(STRICT), Err(Error::Conflict { held_by: None, .. })));
    }
}

#[test]
fn ids_have_bounds_and_are_unique() {
    let (store, space) = volatile(IndexKind::Nvtree);
    for size in [0, 65] {
        let refused = change(&store, space).prepare(&vec![1; size]);
        assert!(matches!(refused, Err(Error::PreparedId { size: found }) if found == size));
    }
    let ids: [&[u8]; 5] = [&[0], &[0, 0], &[255; 64], &[255; 63], b"id"];
    for (n, id) in ids.iter().enumerate() {
        let mut tx = begin(&store);
        tx.put(space, &[n as u8], b"1").unwrap();
        tx.prepare(id).unwrap();
        let refused = begin(&store).prepare(id);
        assert!(matches!(refused, Err(Error::PreparedExists { id: found }) if found == *id));
    }
    let mut found: Vec<_> = store.prepared().into_iter().map(|prepared| prepared.id).collect();
    found.sort();
    let mut all: Vec<_> = ids.iter().map(|id| id.to_vec()).collect();
    all.sort();
    assert_eq!(found, all);
    for id in ids {
        store.commit_prepared(id, STRICT).unwrap();
    }
    assert_eq!(store.range::<[u8]>(space, ..).unwrap().count(), 9);
}

#[test]
fn their_number_has_a_bound() {
    let (store, space) = volatile(IndexKind::Nvtree);
    let prepare = |n: usize| {
        let mut tx = begin(&store);
        tx.put(space, &n.to_be_bytes(), b"1").unwrap();
        tx.prepare(&n.to_be_bytes())
    };
    for n in 0..tembo_kv::PREPARED_COUNT_MAX {
        prepare(n).unwrap();
    }
    let count = tembo_kv::PREPARED_COUNT_MAX;
    assert!(
        matches!(prepare(count), Err(Error::TooManyPrepared { count: found }) if found == count)
    );
    store.drop_prepared(&7_usize.to_be_bytes()).unwrap();
    prepare(count).unwrap();
    for n in (0..=count).filter(|&n| n != 7) {
        store.commit_prepared(&n.to_be_bytes(), Durability::Buffered).unwrap();
    }
    assert_eq!(store.range::<[u8]>(space, ..).unwrap().count(), 4 + count);
    settle(&store);
    assert_eq!(store.check().unwrap().leaked, 0);
}

#[test]
fn they_outlive_the_process_with_what_they_hold() {
    for kind in IndexKind::ALL {
        let folder = Folder::new("prepared-open");
        let large = vec![3_u8; 100_000];
        let store = Store::create(&folder.pool(), &options(kind)).unwrap();
        let space = store.keyspace("x").unwrap();
        let mut tx = store.transaction(Isolation::Serialisable).unwrap();
        tx.get(space, b"read").unwrap();
        let (from, to) = (b"r1", b"r5");
        if kind.is_ordered() {
            tx.range(space, &from[..]..&to[..]).unwrap().for_each(drop);
        } else {
            [b"r1", b"r3"].iter().for_each(|key| drop(tx.get(space, *key).unwrap()));
        }
        tx.put(space, b"large", &large).unwrap();
        tx.put(space, b"", b"").unwrap();
        let version = tx.prepare(b"kept").unwrap();
        let mut tx = begin(&store);
        tx.put(space, b"other", b"1").unwrap();
        tx.prepare(b"other").unwrap();
        let before = store.prepared();
        drop(store);
        for _ in 0..2 {
            let store = open(&folder.pool(), kind);
            let space = store.keyspace("x").unwrap();
            assert_eq!(store.prepared(), before);
            for key in [&b"large"[..], b"", b"read", b"r1", b"r3"] {
                assert_eq!(held(store.put(space, key, b"x", STRICT), key, b"kept"), version);
            }
            store.put(space, b"r5", b"free", STRICT).unwrap();
            settle(&store);
            assert_eq!(store.check().unwrap().leaked, 0);
        }
        let store = open(&folder.pool(), kind);
        let space = store.keyspace("x").unwrap();
        store.commit_prepared(b"kept", STRICT).unwrap();
        drop(store);
        let store = open(&folder.pool(), kind);
        let space = (store.keyspace("x").unwrap(), space).0;
        assert_eq!(get(&store, space, b"large").unwrap(), large);
        assert_eq!(get(&store, space, b"").unwrap(), b"");
        assert_eq!(store.prepared().len(), 1);
        store.drop_prepared(b"other").unwrap();
        drop(store);
        assert_eq!(open(&folder.pool(), kind).prepared(), []);
    }
}

#[test]
fn a_rollback_drops_what_was_prepared_later_and_brings_back_what_was_decided_later() {
    for kind in IndexKind::ALL {
        let (store, space) = volatile(kind);
        let first = store.save_snapshot("first").unwrap();
        change(&store, space).prepare(b"id").unwrap();
        store.save_snapshot("prepared").unwrap();
        store.commit_prepared(b"id", STRICT).unwrap();
        store.put(space, b"b", b"later", STRICT).unwrap();
        assert_eq!(store.rollback_to("prepared").unwrap(), Vec::<Vec<u8>>::new());
        assert_eq!(store.prepared()[0].id, b"id");
        assert_eq!(get(&store, space, b"b").unwrap(), b"before");
        held(store.put(space, b"b", b"x", STRICT), b"b", b"id");
        let mut tx = begin(&store);
        tx.put(space, b"y", b"1").unwrap();
        tx.prepare(b"second").unwrap();
        assert_eq!(store.rollback(first).unwrap(), [b"id".to_vec(), b"second".to_vec()]);
        assert_eq!(store.prepared(), []);
        assert!(matches!(store.commit_prepared(b"id", STRICT), Err(Error::NoSuchPrepared { .. })));
        store.put(space, b"b", b"free", STRICT).unwrap();
        settle(&store);
        assert_eq!(store.check().unwrap().leaked, 0);
    }
}

#[test]
fn followers_and_windows_see_nothing_of_it_but_its_commit() {
    let (store, space) = volatile(IndexKind::Nvtree);
    let from = store.visible();
    store.retain(tembo_kv::Retention::Since(from)).unwrap();
    let mut changes = store.changes(from).unwrap();
    change(&store, space).prepare(b"id").unwrap();
    change_other(&store, space).prepare(b"dropped").unwrap();
    store.drop_prepared(b"dropped").unwrap();
    assert_eq!(changes.next().unwrap(), None);
    let version = store.commit_prepared(b"id", STRICT).unwrap();
    let mut seen = Vec::new();
    while let Some(change) = changes.next().unwrap() {
        assert_eq!((change.version, &*change.keyspace), (version, "x"));
        seen.push(change.event);
    }
    assert_eq!(seen.len(), 3);
}

fn change_other(store: &Store, space: Keyspace) -> Transaction {
    let mut tx = begin(store);
    tx.put(space, b"q", b"1").unwrap();
    tx
}

#[test]
fn a_program_that_does_not_know_of_them_is_refused() {
    let folder = Folder::new("prepared-feature");
    let store = Store::create(&folder.pool(), &options(IndexKind::Nvtree)).unwrap();
    let space = store.keyspace("x").unwrap();
    let features = |store: Store| {
        drop(store);
        let mut pool = options(IndexKind::Nvtree).pool_options();
        pool.kinds = tembo_kv::kinds();
        let pool = tembo_pool::Pool::open(&folder.pool(), &pool).unwrap();
        pool.tenants().unwrap()[0].features.read_only
    };
    assert_eq!(features(store), 0);
    let store = open(&folder.pool(), IndexKind::Nvtree);
    let space = (store.keyspace("x").unwrap(), space).0;
    change(&store, space).prepare(b"id").unwrap();
    assert_eq!(features(store), 1);
}

#[test]
fn one_that_has_removed_a_range_is_not_prepared() {
    let (store, space) = volatile(IndexKind::Nvtree);
    let mut tx = begin(&store);
    tx.remove_range(space, &b"a"[..]..&b"c"[..]).unwrap();
    assert!(matches!(tx.prepare(b"id"), Err(Error::PreparedRange)));
    assert_eq!(store.prepared(), []);
    assert_eq!(get(&store, space, b"a").unwrap(), b"before");
}
