//! Stores with all that a store can hold beside its newest keys, as an earlier release has left them: a window of versions,
//! named snapshots, what was rolled back, a removed range that is not erased, a prepared transaction, counts; a replica; a
//! hash index. See images/README.md. `TEMBO_WRITE_IMAGES=1` writes those of this release anew.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use tembo_kv::{
    Change, DomainRequest, Durability, Error, Event, IndexKind, Isolation, Keyspace, Options,
    Progress, Retention, Store,
};
use tembo_pool::Pool;

#[path = "driver/directory.rs"]
mod directory;
#[path = "driver/map.rs"]
mod map;
#[path = "../../pool/tests/pool/sparse.rs"]
mod sparse;
#[path = "driver/state.rs"]
mod state;
#[path = "driver/steps.rs"]
mod steps;

use directory::Directory;
use state::{State, state};
use steps::{
    Act, LAST, RANGE, SECOND, SECOND_NAME, VOID, WINDOW, after, change, fill, key, make_spaces,
    perform, step_of,
};

const SIZE: u64 = 2 << 20;
const STRICT: Durability = Durability::Strict;

fn options(index: IndexKind) -> Options {
    let options = Options::new().index(index).background(false).size(SIZE).size_max(SIZE);
    options.domain(DomainRequest::Logged).log_size(4 << 20)
}

/// Reads a key and a range, puts two keys and removes one.
fn prepare(store: &Store) {
    let (a, b) = (store.keyspace("a").unwrap(), store.keyspace("b").unwrap());
    let mut tx = store.transaction(Isolation::Serialisable).unwrap();
    assert!(tx.get(a, &key(35)).unwrap().is_some());
    tx.range(b, &b"k04"[..]..&b"k06"[..]).unwrap().for_each(drop);
    tx.put(a, b"decided", b"by an image").unwrap();
    tx.put(b, &key(7), &[9; 700]).unwrap();
    tx.remove(a, &key(100)).unwrap();
    tx.prepare(b"id of an image").unwrap();
}

fn decided() -> State {
    let mut state = after(LAST);
    change(&mut state, Act::Put("a", b"decided".to_vec(), b"by an image".to_vec()));
    change(&mut state, Act::Put("b", key(7), vec![9; 700]));
    change(&mut state, Act::Remove("a", key(100)));
    state
}

fn make_kept(path: &Path) {
    let store = Store::create(path, &options(IndexKind::Nvtree)).unwrap();
    fill(&store);
    (RANGE..=LAST).for_each(|step| perform(&store, step));
    prepare(&store);
    store.close().unwrap();
}

/// A replica of a store with these steps, at the versions of that.
fn make_replica(path: &Path) {
    let primary = Store::volatile(&options(IndexKind::Nvtree)).unwrap();
    primary.retain(Retention::Since(primary.visible())).unwrap();
    let from = primary.visible();
    make_spaces(&primary);
    (0..=LAST).filter(|&step| step != VOID).for_each(|step| {
        perform(&primary, step);
    });
    let store = Store::create(path, &options(IndexKind::Cdds)).unwrap();
    let replica = store.replica().unwrap();
    let mut by_version: BTreeMap<u64, Vec<Change>> = BTreeMap::new();
    let mut changes = primary.changes(from).unwrap();
    while let Some(change) = changes.next().unwrap() {
        by_version.entry(change.version).or_default().push(change);
    }
    for (version, changes) in by_version {
        replica.apply(1000 + 10 * version, changes, STRICT).unwrap();
    }
    drop(replica);
    store.close().unwrap();
}

fn make_hash(path: &Path) {
    let store = Store::create(path, &options(IndexKind::Hash)).unwrap();
    fill(&store);
    // Counts are written by a close that knows them.
    settle(&store);
    store.close().unwrap();
}

const KEPT: &str = "store_1_kept";
const REPLICA: &str = "store_1_replica";
const HASH: &str = "store_1_hash";
/// Makes an image at a path.
type Make = fn(&Path);

const IMAGES: [(&str, Make); 3] = [(KEPT, make_kept), (REPLICA, make_replica), (HASH, make_hash)];

fn image(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/images/{name}.txt"))
}

/// A directory with a copy of an image.
fn copy(name: &str, test: &str) -> Directory {
    let directory = Directory::new(&format!("golden-{name}-{test}"));
    let text = std::fs::read_to_string(image(name)).unwrap();
    std::fs::write(directory.pool(), sparse::from_text(&text)).unwrap();
    directory
}

/// What is made today: holds the same as the images, and is one of them when it is asked for.
fn made(name: &str, make: fn(&Path)) -> Directory {
    let directory = Directory::new(&format!("golden-{name}-made"));
    make(&directory.pool());
    if std::env::var_os("TEMBO_WRITE_IMAGES").is_some() {
        let made = std::fs::read(directory.pool()).unwrap();
        std::fs::write(image(name), sparse::to_text(&made)).unwrap();
    }
    directory
}

fn now(store: &Store) -> State {
    state(&store.snapshot().unwrap())
}

fn settle(store: &Store) {
    while store.maintain(64).unwrap() == Progress::More {}
}

/// The window and the snapshots, version by version.
fn holds_past(store: &Store, last: u32) {
    let (void_from, void_to) = store.rolled_back().unwrap();
    let mut seen = Vec::new();
    for version in store.oldest()..=store.visible() {
        if version > void_from && version <= void_to {
            continue;
        }
        let found = state(&store.snapshot_at(version).unwrap());
        let step = step_of(&found);
        assert_eq!(found, after(step), "version {version}, of step {step}");
        seen.push(step);
        // An opening goes on at a version far above, and those between have nothing of their own.
        if step == last {
            break;
        }
    }
    seen.dedup();
    assert!(now(store) == after(last));
    let expected: Vec<_> = (WINDOW..=last).filter(|&step| step != VOID).collect();
    assert_eq!(seen, expected);
    assert_eq!(store.retention(), Retention::Since(store.oldest()));
    let snapshots = store.snapshots();
    let names: Vec<_> = snapshots.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["first", SECOND_NAME]);
    assert!(snapshots[0].1 < store.oldest() && snapshots[1].1 == void_from);
    for (name, step) in [("first", 1), (SECOND_NAME, SECOND)] {
        assert!(state(&store.snapshot_named(name).unwrap()) == after(step), "{name}");
    }
    let forgotten = store.snapshot_at(snapshots[0].1 - 1);
    assert!(matches!(forgotten, Err(Error::NotRetained { .. })));
}

/// What has happened since the window began leads from what was to what is.
fn follows_changes(store: &Store) {
    let (_, void_to) = store.rolled_back().unwrap();
    let mut state = state(&store.snapshot_at(void_to + 1).unwrap());
    let mut changes = store.changes(void_to + 1).unwrap();
    while let Some(Change { keyspace, event, .. }) = changes.next().unwrap() {
        let space = state.entry(keyspace.to_string()).or_default();
        match event {
            Event::Created => {}
            Event::Cleared => space.clear(),
            Event::Put { key, value } => drop(space.insert(key, value)),
            Event::Removed { key } => drop(space.remove(&key)),
        }
    }
    assert_eq!(state, now(store));
}

#[track_caller]
fn is_held(store: &Store, space: Keyspace, key: &[u8]) {
    match store.put(space, key, b"x", STRICT) {
        Err(Error::Conflict { held_by: Some(id), .. }) => assert_eq!(id, b"id of an image"),
        other => panic!("{key:?}: {other:?}"),
    }
}

fn holds_kept(store: &Store) {
    holds_past(store, LAST);
    let [prepared] = &store.prepared()[..] else { panic!("{:?}", store.prepared()) };
    assert_eq!((&*prepared.id, prepared.writes), (&b"id of an image"[..], 3));
    assert!(prepared.is_serialisable && prepared.version <= store.visible());
    assert_eq!(now(store), after(LAST));
}

/// The features of the store's line: must, read-only.
fn features(path: &Path) -> (u16, u16) {
    let pool = Pool::open(path, &options(IndexKind::Nvtree).pool_options()).unwrap();
    let entry = pool.tenant("main").unwrap();
    assert_eq!(entry.version, 1);
    pool.close().unwrap();
    (entry.features.must, entry.features.read_only)
}

#[test]
fn stores_made_today_hold_what_the_images_hold() {
    for (name, make) in IMAGES {
        let directory = made(name, make);
        let store = Store::open(&directory.pool(), &options(IndexKind::Nvtree)).unwrap();
        match name {
            KEPT => holds_kept(&store),
            HASH => holds_past(&store, RANGE - 1),
            _ => assert_eq!(now(&store), after(LAST)),
        }
    }
}

#[test]
fn a_store_of_an_image_is_read_with_all_its_past_and_not_changed_by_it() {
    let directory = copy(KEPT, "read");
    let before = std::fs::read(directory.pool()).unwrap();
    let options = options(IndexKind::Nvtree).read_only(true);
    let store = Store::open(&directory.pool(), &options).unwrap();
    holds_kept(&store);
    drop(store);
    assert!(std::fs::read(directory.pool()).unwrap() == before);
}

#[test]
fn a_prepared_transaction_of_an_image_holds_its_keys_until_it_is_decided_either_way() {
    for commits in [true, false] {
        let directory = copy(KEPT, &format!("decided-{commits}"));
        let open = || Store::open(&directory.pool(), &options(IndexKind::Nvtree)).unwrap();
        let store = open();
        holds_kept(&store);
        follows_changes(&store);
        let (a, b) = (store.keyspace("a").unwrap(), store.keyspace("b").unwrap());
        for key in [&b"decided"[..], &key(100), &key(35)] {
            is_held(&store, a, key);
        }
        for key in [&b"k04"[..], b"k05x", &key(7), &key(50)] {
            is_held(&store, b, key);
        }
        store.put(b, b"k06", b"free", STRICT).unwrap();
        store.remove(b, b"k06", STRICT).unwrap();
        if commits {
            store.commit_prepared(b"id of an image", STRICT).unwrap();
        } else {
            store.drop_prepared(b"id of an image").unwrap();
        }
        let expected = if commits { decided() } else { after(LAST) };
        assert_eq!(now(&store), expected);
        store.put(a, &key(35), b"free", STRICT).unwrap();
        store.close().unwrap();
        let store = open();
        assert_eq!((store.prepared(), now(&store)["b"].clone()), (vec![], expected["b"].clone()));
        settle(&store);
        assert_eq!(store.check().unwrap().leaked, 0);
    }
}

#[test]
fn a_removed_range_of_an_image_is_erased_when_no_version_shows_it() {
    let directory = copy(KEPT, "erased");
    let removed = b"0: value of 11";
    let is_there = || {
        let bytes = std::fs::read(directory.pool()).unwrap();
        bytes.windows(removed.len()).any(|window| window == removed)
    };
    assert!(is_there());
    assert_eq!(features(&directory.pool()), (1, 1));
    let store = Store::open(&directory.pool(), &options(IndexKind::Nvtree)).unwrap();
    let a = store.keyspace("a").unwrap();
    assert_eq!(store.get(a, &key(11)).unwrap(), None);
    assert_eq!(store.exclusive().unwrap().count(a), None, "entries wait to be erased");
    settle(&store);
    holds_past(&store, LAST);
    for (name, _) in store.snapshots() {
        assert!(store.drop_snapshot(&name).unwrap());
    }
    store.retain(Retention::Nothing).unwrap();
    store.drop_prepared(b"id of an image").unwrap();
    store.put(a, b"later", b"1", STRICT).unwrap();
    settle(&store);
    let count = now(&store)["a"].len() as u64;
    assert_eq!(store.exclusive().unwrap().count(a), Some(count));
    assert_eq!(store.check().unwrap().leaked, 0);
    store.close().unwrap();
    let store = Store::open(&directory.pool(), &options(IndexKind::Nvtree)).unwrap();
    settle(&store);
    let mut expected = after(LAST);
    change(&mut expected, Act::Put("a", b"later".to_vec(), b"1".to_vec()));
    assert_eq!(now(&store), expected);
    store.close().unwrap();
    assert_eq!(features(&directory.pool()), (0, 1), "an older release can open it again");
}

#[test]
fn a_replica_of_an_image_goes_on_where_it_was_or_is_promoted() {
    for promotes in [false, true] {
        let directory = copy(REPLICA, &format!("{promotes}"));
        let store = Store::open(&directory.pool(), &options(IndexKind::Nvtree)).unwrap();
        assert_eq!(store.report().index, IndexKind::Cdds);
        assert_eq!(now(&store), after(LAST));
        let a = store.keyspace("a").unwrap();
        assert!(matches!(store.put(a, b"own", b"1", STRICT), Err(Error::IsReplica)));
        let replica = store.replica().unwrap();
        let applied = replica.applied();
        assert!(applied > 1000 && applied.is_multiple_of(10), "{applied}");
        let (key, value) = (b"next".to_vec(), b"version".to_vec());
        let next = |version| Change {
            version,
            keyspace: "a".into(),
            event: Event::Put { key: key.clone(), value: value.clone() },
        };
        let taken = replica.apply(applied, [next(applied)], STRICT);
        assert!(matches!(taken, Err(Error::VersionTaken { .. })));
        replica.apply(applied + 1, [next(applied + 1)], STRICT).unwrap();
        if promotes {
            replica.promote().unwrap();
            store.put(a, b"own", b"1", STRICT).unwrap();
        } else {
            drop(replica);
        }
        store.close().unwrap();
        let store = Store::open(&directory.pool(), &options(IndexKind::Nvtree)).unwrap();
        let mut expected = after(LAST);
        change(&mut expected, Act::Put("a", key, value));
        if promotes {
            change(&mut expected, Act::Put("a", b"own".to_vec(), b"1".to_vec()));
        }
        assert_eq!(now(&store), expected);
        settle(&store);
        assert_eq!(store.check().unwrap().leaked, 0);
    }
}

#[test]
fn a_hash_store_of_an_image_is_read_with_all_its_past_and_its_counts() {
    let directory = copy(HASH, "all");
    let store = Store::open(&directory.pool(), &options(IndexKind::Nvtree)).unwrap();
    assert_eq!((store.report().index, store.is_ordered()), (IndexKind::Hash, false));
    let expected = after(RANGE - 1);
    // The counts that a clean stop has written, before anything was counted.
    for (name, space) in store.keyspaces() {
        let count = store.exclusive().unwrap().count(space);
        assert_eq!(count, Some(expected[&name].len() as u64), "{name}");
        for (key, value) in &expected[&name] {
            assert_eq!(store.get(space, key).unwrap().as_ref(), Some(value));
        }
        assert_eq!(store.get(space, b"absent").unwrap(), None);
    }
    holds_past(&store, RANGE - 1);
    settle(&store);
    holds_past(&store, RANGE - 1);
    assert_eq!(store.check().unwrap().leaked, 0);
    store.close().unwrap();
    assert_eq!(features(&directory.pool()), (2, 0));
}
