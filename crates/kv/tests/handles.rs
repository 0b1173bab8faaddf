//! Handles own what they need: they outlive the variable that they came from, go to other threads, and a thread that
//! would wait for itself gets an error.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use tembo_kv::{
    Change, Changes, CloseError, Durability, Entries, Error, IndexKind, Isolation, Keyspace,
    Options, Pool, Progress, Readiness, Replica, Retention, Snapshot, Store, Transaction,
};

/// The indexes under test.
/// Longer than any step of a test takes.
const LONG: Duration = Duration::from_secs(30);

fn store(index: IndexKind) -> (Store, Keyspace) {
    let options = Options::new().index(index).background(false);
    let store = Store::volatile(&options).unwrap();
    while store.maintain(64).unwrap() == Progress::More {}
    let space = store.keyspace("x").unwrap();
    (store, space)
}

fn put(store: &Store, space: Keyspace, key: &[u8], value: &[u8]) {
    store.put(space, key, value, Durability::Strict).unwrap();
}

#[test]
fn every_handle_can_be_sent_and_the_store_be_shared() {
    fn is_send<T: Send + 'static>() {}
    fn is_sync<T: Sync>() {}
    is_send::<Store>();
    is_sync::<Store>();
    is_send::<Snapshot>();
    is_sync::<Snapshot>();
    is_send::<Transaction>();
    is_send::<Changes>();
    is_send::<Entries<'static>>();
    is_send::<CloseError>();
    is_send::<Keyspace>();
    is_send::<Replica>();
    is_send::<Readiness>();
    is_send::<Pool>();
    is_sync::<Pool>();
}

#[test]
fn handles_outlive_the_store_that_they_came_from() {
    for index in IndexKind::ALL {
        let (store, space) = store(index);
        put(&store, space, b"a", b"1");
        let snapshot = store.snapshot().unwrap();
        let mut changes = store.changes(store.visible()).unwrap();
        let mut tx = store.transaction(Isolation::Serialisable).unwrap();
        let range = store.range::<[u8]>(space, ..).unwrap();
        drop(store);
        tx.put(space, b"b", b"2").unwrap();
        tx.commit(Durability::Strict).unwrap();
        assert_eq!(changes.next().unwrap().unwrap().version, snapshot.version() + 1);
        assert_eq!(snapshot.get(space, b"a").unwrap().unwrap(), b"1");
        assert!(snapshot.get(space, b"b").unwrap().is_none());
        let clone = snapshot.clone();
        drop(snapshot);
        assert_eq!(clone.range::<[u8]>(space, ..).unwrap().count(), 1);
        drop(clone);
        assert_eq!(range.map(Result::unwrap).collect::<Vec<_>>(), [(b"a".to_vec(), b"1".to_vec())]);
    }
}

#[test]
fn a_store_that_is_in_use_is_not_closed_and_says_what_is_open() {
    let (store, space) = store(IndexKind::Nvtree);
    put(&store, space, b"a", b"1");
    let clone = store.clone();
    let snapshot = store.snapshot().unwrap();
    let range = snapshot.range::<[u8]>(space, ..).unwrap();
    let mut tx = store.transaction(Isolation::Snapshot).unwrap();
    let changes = store.changes(store.visible()).unwrap();
    let writer = store.exclusive().unwrap();
    let refused = store.close().unwrap_err();
    assert!(matches!(
        refused.error(),
        Error::InUse { stores: 1, snapshots: 2, transactions: 1, followers: 1, exclusive: true }
    ));
    let text = refused.to_string();
    assert!(text.contains("2 snapshots") && text.contains("an exclusive writer"), "{text}");
    let store = refused.into_store().unwrap();
    drop(writer);
    tx.put(space, b"b", b"2").unwrap();
    tx.commit(Durability::Strict).unwrap();
    drop((snapshot, changes));
    let refused = store.close().unwrap_err();
    assert!(matches!(
        refused.error(),
        Error::InUse { stores: 1, snapshots: 1, transactions: 0, followers: 0, exclusive: false }
    ));
    let store = refused.into_store().unwrap();
    assert_eq!(store.get(space, b"b").unwrap().as_deref(), Some(&b"2"[..]));
    drop((range, clone));
    store.close().unwrap();
}

#[test]
fn the_file_is_free_when_the_last_handle_is_dropped() {
    let folder = std::env::temp_dir().join(format!("tembo-handles-{}", std::process::id()));
    // What an earlier run of the same process number left.
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join("a.pool");
    let options = Options::new().size(16 << 20);
    let store = Store::create(&path, &options).unwrap();
    let space = store.keyspace("x").unwrap();
    put(&store, space, b"a", b"1");
    let snapshot = store.snapshot().unwrap();
    drop(store);
    assert!(Store::open(&path, &options).is_err(), "it is still open");
    drop(snapshot);
    let store = Store::open(&path, &options).unwrap();
    let space = store.keyspace("x").unwrap();
    assert_eq!(store.get(space, b"a").unwrap().as_deref(), Some(&b"1"[..]));
    drop(store);
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn a_thread_that_would_wait_for_itself_gets_an_error_and_what_needs_no_lock_is_answered() {
    for index in IndexKind::ALL {
        would_deadlock(index);
    }
}

fn answered_beside_the_writer(store: &Store, space: Keyspace) {
    assert_eq!(store.keyspace("x").unwrap(), space);
    assert_eq!(store.keyspaces(), [("x".to_owned(), space)]);
    assert_eq!(store.get(space, b"a").unwrap().as_deref(), Some(&b"1"[..]));
    assert_eq!(store.range::<[u8]>(space, ..).unwrap().count(), 1);
    assert_eq!(store.snapshots().len(), 1);
    assert_eq!(store.report().visible, store.visible());
    assert_eq!(store.retention(), Retention::Nothing);
    assert_eq!(store.save_snapshot("beside the writer").unwrap(), store.visible());
    assert!(store.drop_snapshot("beside the writer").unwrap());
    assert!(store.horizon().holders.len() >= 2);
    let mut follower = store.changes(store.visible()).unwrap();
    assert!(follower.next().unwrap().is_none());
    let began = Instant::now();
    assert!(!follower.wait(LONG) && began.elapsed() < LONG, "it waited for itself");
    store.sync().unwrap();
}

fn would_deadlock(index: IndexKind) {
    let options = Options::new().index(index).background(false).transaction_memory(1);
    let store = Store::volatile(&options).unwrap();
    while store.maintain(64).unwrap() == Progress::More {}
    // A store that was a replica; one that is has no exclusive writer.
    let replica = store.replica().unwrap();
    replica.clone().promote().unwrap();
    let space = store.keyspace("x").unwrap();
    put(&store, space, b"a", b"1");
    let named = store.save_snapshot("before").unwrap();
    let mut other = store.transaction(Isolation::Snapshot).unwrap();
    other.put(space, b"o", b"1").unwrap();
    let mut batch = store.transaction(Isolation::Snapshot).unwrap();
    batch.put(space, b"p", b"1").unwrap();
    let mut outgrown = store.transaction(Isolation::Snapshot).unwrap();
    outgrown.put(space, b"s", b"1").unwrap();
    outgrown.put(space, b"t", b"1").unwrap();
    let mut outgrows = store.transaction(Isolation::Snapshot).unwrap();
    outgrows.put(space, b"u", b"1").unwrap();
    let writer = store.exclusive().unwrap();

    let strict = Durability::Strict;
    let refused: Vec<Result<(), Error>> = vec![
        store.put(space, b"a", b"2", strict).map(drop),
        store.remove(space, b"a", strict).map(drop),
        store.remove_range::<[u8]>(space, .., strict),
        store.exclusive().map(drop),
        store.keyspace("another").map(drop),
        store.retain(Retention::Versions(10)).map(drop),
        store.rollback(named).map(drop),
        store.rollback_to("before").map(drop),
        store.commit_prepared(b"id", strict).map(drop),
        store.drop_prepared(b"id"),
        store.apply_changes(store.visible() + 1, Vec::<Change>::new(), strict),
        store.replica().map(drop),
        store.compact(),
        replica.apply(store.visible() + 1, Vec::<Change>::new(), strict),
        replica.rollback(named),
        replica.promote(),
        store.transaction(Isolation::Snapshot).and_then(|tx| tx.prepare(b"id")).map(drop),
        store.check().map(drop),
        store.maintain(1).map(drop),
        other.commit(strict).map(drop),
        Transaction::commit_all(vec![batch], strict).remove(0).map(drop),
        store.with_retry(Isolation::Snapshot, strict, |tx| tx.put(space, b"r", b"1")),
        outgrows.put(space, b"v", b"1"),
        outgrown.commit(strict).map(drop),
    ];
    for (call, refused) in refused.into_iter().enumerate() {
        assert!(matches!(refused, Err(Error::WouldDeadlock)), "{call}: {refused:?}");
    }

    answered_beside_the_writer(&store, space);
    drop(writer);
    outgrows.put(space, b"v", b"1").unwrap();
    outgrows.commit(strict).unwrap();
    put(&store, space, b"a", b"2");
    while store.maintain(64).unwrap() == Progress::More {}
    store.check().unwrap();
}

#[test]
fn clones_of_a_store_work_on_threads_of_their_own() {
    for index in IndexKind::ALL {
        let (store, space) = store(index);
        let threads: Vec<_> = (0..4u64)
            .map(|thread| {
                let store = store.clone();
                std::thread::spawn(move || {
                    for key in 0..200u64 {
                        put(&store, space, &(key * 4 + thread).to_be_bytes(), b"v");
                    }
                })
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!(store.exclusive().unwrap().count(space), Some(800));
        store.close().unwrap();
    }
}

#[test]
fn a_table_of_sessions_keeps_transactions_and_snapshots_across_threads() {
    let (store, space) = store(IndexKind::Nvtree);
    let mut table: BTreeMap<u64, (Transaction, Snapshot)> = BTreeMap::new();
    for session in 0..100 {
        let tx = store.transaction(Isolation::Snapshot).unwrap();
        table.insert(session, (tx, store.snapshot().unwrap()));
        put(&store, space, b"count", &session.to_be_bytes());
    }
    drop(store);
    let table = std::thread::spawn(move || {
        for (session, (tx, _)) in &mut table {
            tx.put(space, &session.to_be_bytes(), b"done").unwrap();
        }
        table
    });
    for (session, (tx, snapshot)) in table.join().unwrap() {
        let before = session.checked_sub(1).map(|before| before.to_be_bytes().to_vec());
        assert_eq!(snapshot.get(space, b"count").unwrap().map(|value| value.to_vec()), before);
        tx.commit(Durability::Buffered).unwrap();
    }
}

#[test]
fn rollback_and_snapshots_go_by_name_too() {
    for index in IndexKind::ALL {
        let (store, space) = store(index);
        put(&store, space, b"a", b"1");
        store.save_snapshot("before").unwrap();
        put(&store, space, b"a", b"2");
        let then = store.snapshot_named("before").unwrap();
        assert_eq!(then.get(space, b"a").unwrap().map(|value| value.to_vec()), Some(b"1".to_vec()));
        drop(then);
        store.rollback_to("before").unwrap();
        assert_eq!(store.get(space, b"a").unwrap().as_deref(), Some(&b"1"[..]));
        for refused in [store.rollback_to("never").err(), store.snapshot_named("never").err()] {
            assert!(matches!(refused, Some(Error::NoSuchName { name }) if name == "never"));
        }
    }
}

#[test]
fn a_conflict_names_keyspace_and_key_and_what_was_done_with_it() {
    let (store, space) = store(IndexKind::Nvtree);
    let text = |isolation, key: &[u8], reads: bool| {
        let mut tx = store.transaction(isolation).unwrap();
        if reads {
            tx.get(space, key).unwrap();
            tx.put(space, b"other", b"1").unwrap();
        } else {
            tx.put(space, key, b"1").unwrap();
        }
        put(&store, space, key, b"2");
        tx.commit(Durability::Strict).unwrap_err().to_string()
    };
    let written = text(Isolation::Snapshot, b"name\xff", false);
    assert!(
        written.starts_with(r#"key "name\xff" of keyspace "x", which was to be written, "#),
        "{written}"
    );
    let read = text(Isolation::Serialisable, &[b'k'; 100], true);
    let shown = format!("key \"{}…\" of keyspace \"x\", which was read, ", "k".repeat(32));
    assert!(read.starts_with(&shown), "{read}");
}

#[test]
fn a_store_is_opened_or_created() {
    let folder = std::env::temp_dir().join(format!("tembo-opened-{}", std::process::id()));
    // What an earlier run of the same process number left.
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).unwrap();
    let (path, options) = (folder.join("a.pool"), Options::new().size(16 << 20));
    for round in 0..3u8 {
        let store = Store::open_or_create(&path, &options).unwrap();
        let space = store.keyspace("x").unwrap();
        assert_eq!(
            store.get(space, b"round").unwrap(),
            round.checked_sub(1).map(|before| vec![before])
        );
        put(&store, space, b"round", &[round]);
        store.close().unwrap();
    }
    // What is there and is no store is not made anew.
    let other = folder.join("other");
    std::fs::write(&other, b"something else").unwrap();
    assert!(Store::open_or_create(&other, &options).is_err());
    assert_eq!(std::fs::read(&other).unwrap(), b"something else");
    assert!(Store::open_or_create(&folder.join("no/such/folder"), &options).is_err());
    std::fs::remove_dir_all(&folder).unwrap();
}
