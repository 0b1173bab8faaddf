//! A replica makes the changes of another store at the versions that they have there: both are the same at each.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

use std::collections::BTreeMap;
use std::path::Path;

use tembo_kv::{
    Change, Durability, Error, Event, IndexKind, Isolation, Keyspace, Options, Progress, Replica,
    Retention, Store,
};
use tembo_pmem::{DomainRequest, RegionOptions};
use tembo_pool::PoolOptions;

#[path = "driver/directory.rs"]
mod directory;
#[path = "driver/map.rs"]
mod map;
#[path = "driver/random.rs"]
mod random;
#[path = "driver/state.rs"]
mod state;

use directory::Directory;
use random::Random;
use state::{State, state};

/// The indexes under test.
const NAMES: [&str; 3] = ["a", "b", "c"];
const KEPT: Retention = Retention::Versions(1 << 20);

fn options(domain: DomainRequest, index: IndexKind) -> Options {
    let (size_max, log_size) = (1 << 30, 1 << 20);
    let region = RegionOptions { domain, size_max, log_size, ..RegionOptions::default() };
    let pool = PoolOptions { size: 4 << 20, region, ..PoolOptions::default() };
    Options::new().pool(pool).index(index).background(false)
}

fn idle(store: &Store) {
    while store.maintain(16).unwrap() == Progress::More {}
}

/// Changes of every kind, some of which are taken back.
fn step(store: &Store, random: &mut Random) {
    let space = store.keyspace(NAMES[random.below(3) as usize]).unwrap();
    let key = |random: &mut Random| {
        let number = random.below(80);
        let tail = if number.is_multiple_of(3) { "-and-a-tail-beyond-eight-bytes" } else { "" };
        format!("key{number:03}{tail}").into_bytes()
    };
    let value = vec![random.below(256) as u8; [3, 8, 40, 300][random.below(4) as usize]];
    match random.below(16) {
        0..5 => drop(store.put(space, &key(random), &value, Durability::Buffered).unwrap()),
        5..9 => drop(store.remove(space, &key(random), Durability::Buffered).unwrap()),
        9..12 => {
            let mut tx = store.transaction(Isolation::Snapshot).unwrap();
            for _ in 0..1 + random.below(20) {
                match random.below(3) {
                    0 => tx.remove(space, &key(random)).unwrap(),
                    _ => tx.put(space, &key(random), &value).unwrap(),
                }
            }
            tx.commit(Durability::Buffered).unwrap();
        }
        12 => {
            let mut tx = store.exclusive().unwrap();
            tx.put(space, &key(random), b"never").unwrap();
        }
        13 if random.below(4) == 0 => {
            let mut tx = store.exclusive().unwrap();
            tx.put(space, &key(random), &value).unwrap();
            tx.clear(space).unwrap();
            tx.put(space, &key(random), &value).unwrap();
            tx.commit(Durability::Buffered).unwrap();
        }
        13 => drop(store.maintain(4).unwrap()),
        _ => {
            let mut tx = store.exclusive().unwrap();
            for n in 0..random.below(30) {
                tx.remove(space, &key(random)).unwrap();
                if n % 7 == 0 {
                    tx.savepoint();
                }
            }
            tx.put(space, &key(random), &value).unwrap();
            if random.below(2) == 0 {
                tx.savepoint();
                tx.put(space, &key(random), b"taken back").unwrap();
                tx.rollback_to_savepoint().unwrap();
            }
            tx.commit(Durability::Buffered).unwrap();
        }
    }
}

/// What happened in each version after one.
fn happened(store: &Store, after: u64) -> Result<BTreeMap<u64, Vec<Change>>, Error> {
    store.sync()?;
    let mut by_version: BTreeMap<u64, Vec<Change>> = BTreeMap::new();
    let mut changes = store.changes(after)?;
    while let Some(change) = changes.next()? {
        by_version.entry(change.version).or_default().push(change);
    }
    Ok(by_version)
}

/// Brings a replica to where the primary is.
fn follow(primary: &Store, replica: &Replica) {
    let changes = match happened(primary, replica.applied()) {
        Err(Error::RolledBack { to, .. }) => {
            replica.rollback(to).unwrap();
            happened(primary, to)
        }
        changes => changes,
    };
    for (version, changes) in changes.unwrap() {
        replica.apply(version, &changes, Durability::Buffered).unwrap();
        assert_eq!(replica.applied(), version);
    }
}

/// Both at each version of the primary's window that the replica has made.
fn compare(primary: &Store, replica: &Store, from: u64) {
    let from = from.max(primary.oldest()).max(replica.oldest());
    for version in from..=replica.visible().min(primary.visible()) {
        let of = |store: &Store| state(&store.snapshot_at(version).unwrap());
        assert!(of(replica) == of(primary), "at {version}");
    }
    // A removal of a key that is not there leaves nothing.
    let has_effect = |all: BTreeMap<u64, Vec<Change>>| -> Vec<(u64, Vec<Change>)> {
        let is_put = |change: &Change| !matches!(change.event, Event::Removed { .. });
        let puts = |changes: Vec<Change>| changes.into_iter().filter(is_put).collect::<Vec<_>>();
        let all = all.into_iter().map(|(version, changes)| (version, puts(changes)));
        all.filter(|(_, changes)| !changes.is_empty()).collect()
    };
    let (one, two) = (happened(primary, from), happened(replica, from));
    if let (Ok(one), Ok(two)) = (one, two) {
        assert!(has_effect(one) == has_effect(two), "the changes after {from}");
    }
}

#[test]
fn a_replica_is_the_same_at_every_version() {
    for index in IndexKind::ALL {
        for seed in 1..4 {
            println!("{index:?} {seed}");
            let (mut random, domain) = (Random(seed * 0x9E37_79B9), DomainRequest::Volatile);
            let primary = Store::volatile(&options(domain, index)).unwrap();
            let store = Store::volatile(&options(domain, index)).unwrap();
            let begin = primary.visible();
            primary.retain(KEPT).unwrap();
            store.retain(KEPT).unwrap();
            let replica = store.replica().unwrap();
            for _ in 0..12 {
                (0..25).for_each(|_| step(&primary, &mut random));
                follow(&primary, &replica);
                if random.below(3) == 0 {
                    idle(&store);
                }
            }
            compare(&primary, &store, begin);
            store.check().unwrap();
        }
    }
}

#[test]
fn a_replica_follows_a_rollback() {
    for index in IndexKind::ALL {
        let (mut random, domain) = (Random(77), DomainRequest::Volatile);
        let primary = Store::volatile(&options(domain, index)).unwrap();
        let store = Store::volatile(&options(domain, index)).unwrap();
        primary.retain(KEPT).unwrap();
        store.retain(KEPT).unwrap();
        let replica = store.replica().unwrap();
        for _ in 0..6 {
            (0..20).for_each(|_| step(&primary, &mut random));
            follow(&primary, &replica);
            let back = primary.visible() - random.below(15);
            (0..random.below(6)).for_each(|_| step(&primary, &mut random));
            if random.below(2) == 0 {
                follow(&primary, &replica);
            }
            primary.rollback(back).unwrap();
            follow(&primary, &replica);
            let now = |store: &Store| state(&store.snapshot().unwrap());
            assert!(now(&store) == now(&primary), "after a rollback to {back}");
        }
        store.check().unwrap();
    }
}

fn copy(from: &Path, to: &Path) {
    std::fs::copy(from, to).unwrap();
    let log = |path: &Path| path.with_extension("pool.log");
    if log(from).exists() {
        std::fs::copy(log(from), log(to)).unwrap();
    }
}

/// A copy of the pool at any store is what a crash there leaves: half of a version, and then it is made again.
#[test]
fn a_version_that_a_crash_has_interrupted_is_made_again() {
    for index in IndexKind::ALL {
        let directory = Directory::new(&format!("replica-crash-{index:?}"));
        let mut random = Random(4242);
        let options = options(DomainRequest::Flush, index);
        let primary = Store::volatile(&options).unwrap();
        primary.retain(KEPT).unwrap();
        let mut path = directory.file("0.pool");
        let mut store = Store::create(&path, &options).unwrap();
        store.retain(KEPT).unwrap();
        for round in 1..15 {
            (0..20).for_each(|_| step(&primary, &mut random));
            let replica = store.replica().unwrap();
            let after = directory.file(&format!("{round}.pool"));
            let mut expected = None;
            for (version, changes) in happened(&primary, replica.applied()).unwrap() {
                let at = random.below(changes.len() as u64 * 12) as usize;
                let each = changes.iter().enumerate().inspect(|(n, _)| {
                    if *n == at && expected.is_none() {
                        copy(&path, &after);
                        expected = Some(replica.applied());
                    }
                });
                replica.apply(version, each.map(|(_, change)| change), Durability::Strict).unwrap();
            }
            if expected.is_none() {
                // Between two versions.
                copy(&path, &after);
                expected = Some(replica.applied());
            }
            drop((replica, store));
            std::fs::remove_file(&path).unwrap();
            path = after;
            store = Store::open(&path, &options).unwrap();
            assert_eq!(Some(store.visible()), expected, "it goes on where it was");
            assert!(matches!(store.exclusive(), Err(Error::IsReplica)), "it is a replica still");
            if random.below(2) == 0 {
                idle(&store);
            }
            let replica = store.replica().unwrap();
            follow(&primary, &replica);
            compare(&primary, &store, 0);
        }
        idle(&store);
        store.check().unwrap();
    }
}

#[test]
fn a_restart_between_two_versions_leaves_nothing_to_scrub() {
    for index in IndexKind::ALL {
        let directory = Directory::new(&format!("replica-restart-{index:?}"));
        let options = options(DomainRequest::Logged, index);
        let store = Store::create(&directory.pool(), &options).unwrap();
        let replica = store.replica().unwrap();
        let change = |version, event| Change { version, keyspace: "a".into(), event };
        let far = 1 << 20;
        replica.apply(far, [change(far, Event::Created)], Durability::Strict).unwrap();
        drop((replica, store));
        for version in (far + 1..).take(20) {
            let store = Store::open(&directory.pool(), &options).unwrap();
            assert_eq!(store.visible(), version - 1);
            let replica = store.replica().unwrap();
            let put = Event::Put { key: version.to_be_bytes().to_vec(), value: b"v".to_vec() };
            replica.apply(version, [change(version, put)], Durability::Strict).unwrap();
            assert!(store.report().recovering, "nothing has waited for the recovery");
        }
    }
}

#[test]
fn a_crash_of_the_primary_leaves_a_gap_that_the_replica_skips() {
    for index in IndexKind::ALL {
        let directory = Directory::new(&format!("replica-primary-{index:?}"));
        let mut random = Random(99);
        let options = options(DomainRequest::Flush, index);
        let mut path = directory.file("0.pool");
        let mut primary = Store::create(&path, &options).unwrap();
        primary.retain(KEPT).unwrap();
        let store = Store::volatile(&options).unwrap();
        let replica = store.replica().unwrap();
        for round in 1..5 {
            (0..30).for_each(|_| step(&primary, &mut random));
            follow(&primary, &replica);
            let after = directory.file(&format!("{round}.pool"));
            let space = primary.keyspace("a").unwrap();
            let mut tx = primary.exclusive().unwrap();
            tx.put(space, b"in flight", b"when it crashed").unwrap();
            copy(&path, &after);
            drop((tx, primary));
            path = after;
            primary = Store::open(&path, &options).unwrap();
            follow(&primary, &replica);
            (0..30).for_each(|_| step(&primary, &mut random));
            follow(&primary, &replica);
            let now = |store: &Store| -> State { state(&store.snapshot().unwrap()) };
            assert!(now(&store) == now(&primary), "in round {round}");
        }
    }
}

/// A store with the keyspace "a", in version 10.
fn replica_at_ten(index: IndexKind) -> (Store, Replica, Keyspace) {
    let store = Store::volatile(&options(DomainRequest::Volatile, index)).unwrap();
    let replica = store.replica().unwrap();
    let made = Change { version: 10, keyspace: "a".into(), event: Event::Created };
    replica.apply(10, [made], Durability::Strict).unwrap();
    let space = store.keyspace("a").unwrap();
    (store, replica, space)
}

#[test]
fn what_is_refused_changes_nothing_and_the_version_can_be_tried_again() {
    for index in IndexKind::ALL {
        let (store, replica, space) = replica_at_ten(index);
        let change = |name: &str, event| Change { version: 12, keyspace: name.into(), event };
        let put =
            |name: &str| change(name, Event::Put { key: b"k".to_vec(), value: b"v".to_vec() });
        let apply =
            |version, changes: &[Change]| replica.apply(version, changes, Durability::Strict);
        for version in [0, 9, 10] {
            let taken = apply(version, &[put("a")]);
            assert!(matches!(taken, Err(Error::VersionTaken { visible: 10, .. })));
        }
        let before = state(&store.snapshot().unwrap());
        for wrong in
            [put("unknown"), change("unknown", Event::Cleared), change("a", Event::Created)]
        {
            let refused = apply(12, &[put("a"), wrong]);
            assert!(matches!(refused, Err(Error::Diverged { version: 12, .. })));
            assert_eq!(state(&store.snapshot().unwrap()), before);
            assert_eq!(replica.applied(), 10);
        }
        apply(12, &[put("a")]).unwrap();
        assert_eq!(store.get(space, b"k").unwrap().as_deref(), Some(&b"v"[..]));
        assert_eq!(replica.applied(), 12);
        apply(20, &[]).unwrap();
        assert_eq!((replica.applied(), store.count(space)), (20, 1));
        store.check().unwrap();
    }
}

trait Count {
    fn count(&self, space: Keyspace) -> usize;
}

impl Count for Store {
    fn count(&self, space: Keyspace) -> usize {
        self.range::<[u8]>(space, ..).unwrap().count()
    }
}

#[test]
fn a_replica_takes_own_writes_once_it_is_promoted() {
    for index in IndexKind::ALL {
        let (store, replica, space) = replica_at_ten(index);
        let put = || store.put(space, b"own", b"1", Durability::Strict);
        assert!(matches!(put(), Err(Error::IsReplica)));
        assert!(matches!(store.keyspace("another"), Err(Error::IsReplica)));
        let mut tx = store.transaction(Isolation::Snapshot).unwrap();
        tx.put(space, b"own", b"1").unwrap();
        assert!(matches!(tx.commit(Durability::Strict), Err(Error::IsReplica)));
        assert!(store.keyspace("a").is_ok() && store.save_snapshot("kept").is_ok());
        replica.promote().unwrap();
        assert!(!put().unwrap());
        assert!(store.visible() > 10 && store.keyspace("another").is_ok());
        // Changes that are given come after its own.
        let (above, none): (u64, [Change; 0]) = (store.visible() + 5, []);
        store.apply_changes(above, none, Durability::Strict).unwrap();
        assert!(put().unwrap() && store.visible() == above + 1);
    }
}

#[test]
fn a_store_that_was_promoted_stays_so() {
    let directory = Directory::new("replica-promoted");
    let options = options(DomainRequest::Logged, IndexKind::Nvtree);
    let store = Store::create(&directory.pool(), &options).unwrap();
    let replica = store.replica().unwrap();
    let made = Change { version: 10, keyspace: "a".into(), event: Event::Created };
    replica.apply(10, [made], Durability::Strict).unwrap();
    replica.promote().unwrap();
    let space = store.keyspace("a").unwrap();
    store.put(space, b"own", b"1", Durability::Strict).unwrap();
    drop(store);
    let store = Store::open(&directory.pool(), &options).unwrap();
    let space = store.keyspace("a").unwrap();
    assert!(store.get(space, b"own").unwrap().is_some());
    assert!(store.put(space, b"own", b"2", Durability::Strict).unwrap());
}

#[test]
fn a_promotion_right_behind_an_open_lasts_and_so_do_own_writes() {
    for index in IndexKind::ALL {
        let directory = Directory::new(&format!("replica-promoted-behind-an-open-{index:?}"));
        let (path, options) = (directory.file("pool"), options(DomainRequest::Flush, index));
        let change = |event| Change { version: 2, keyspace: "a".into(), event };
        let store = Store::create(&path, &options).unwrap();
        let replica = store.replica().unwrap();
        replica.apply(2, [change(Event::Created)], Durability::Strict).unwrap();
        drop((store, replica));
        let store = Store::open(&path, &options).unwrap();
        store.replica().unwrap().promote().unwrap();
        let space = store.keyspace("a").unwrap();
        store.put(space, b"key", b"own", Durability::Strict).unwrap();
        drop(store);
        let store = Store::open(&path, &options).unwrap();
        assert_eq!(store.get(space, b"key").unwrap().as_deref(), Some(&b"own"[..]));
        store.put(space, b"key", b"again", Durability::Strict).unwrap();
        idle(&store);
        store.check().unwrap();
    }
}

#[test]
fn a_rollback_to_a_version_before_the_promotion_takes_the_promotion_back() {
    let directory = Directory::new("replica-rolled-back");
    let path = directory.file("pool");
    let options = options(DomainRequest::Flush, IndexKind::Nvtree);
    let change = |event| Change { version: 2, keyspace: "a".into(), event };
    let store = Store::create(&path, &options).unwrap();
    let replica = store.replica().unwrap();
    replica.apply(2, [change(Event::Created)], Durability::Strict).unwrap();
    let version = store.save_snapshot("replica").unwrap();
    replica.promote().unwrap();
    let space = store.keyspace("a").unwrap();
    store.put(space, b"key", b"own", Durability::Strict).unwrap();
    store.rollback(version).unwrap();
    let put = |store: &Store| store.put(space, b"key", b"own", Durability::Strict);
    assert!(matches!(put(&store), Err(Error::IsReplica)));
    drop(store);
    assert!(matches!(put(&Store::open(&path, &options).unwrap()), Err(Error::IsReplica)));
}

fn put(version: u64, number: u64, space: &str) -> Change {
    let (key, value) = (number.to_be_bytes().to_vec(), vec![version as u8; 40]);
    Change { version, keyspace: space.into(), event: Event::Put { key, value } }
}

/// Versions from here on leaves cannot count from what they have counted from below.
const FAR: u64 = 1 << 27;

/// A replica in which version 10 has made the keyspaces "a" and "b", and 300 keys in the first.
fn replica_with_keys(path: &Path, options: &Options) -> (Store, Replica) {
    let store = Store::create(path, options).unwrap();
    let replica = store.replica().unwrap();
    let made = |name: &str| Change { version: 10, keyspace: name.into(), event: Event::Created };
    let each = ["a", "b"].map(made).into_iter().chain((0..300).map(|number| put(10, number, "a")));
    replica.apply(10, each, Durability::Strict).unwrap();
    (store, replica)
}

/// What is seen while a version is made that is far above the visible one, when it is refused, and after a crash.
#[test]
fn a_version_far_above_is_made_whole_or_leaves_the_state_before_it() {
    for index in IndexKind::ALL {
        let directory = Directory::new(&format!("replica-far-{}", index.name()));
        let options = options(DomainRequest::Flush, index);
        let (path, crashed) = (directory.file("0.pool"), directory.file("1.pool"));
        let (store, replica) = replica_with_keys(&path, &options);
        let now = |store: &Store| state(&store.snapshot().unwrap());
        let before = now(&store);
        let changes: Vec<Change> = (0..300).step_by(7).map(|at| put(FAR, at + 1, "a")).collect();
        let wrong = Change { version: FAR, keyspace: "c".into(), event: Event::Cleared };
        let each = changes.iter().chain([&wrong]).enumerate().inspect(|(at, _)| {
            assert_eq!(store.visible(), FAR - 1);
            assert!(now(&store) == before, "{index:?}: half of a version is seen");
            if *at == 30 {
                copy(&path, &crashed);
            }
        });
        let refused = replica.apply(FAR, each.map(|(_, change)| change), Durability::Strict);
        assert!(matches!(refused, Err(Error::Diverged { version: FAR, .. })), "{refused:?}");
        assert!(now(&store) == before);
        assert_eq!(replica.applied(), FAR - 1, "the other store's changes after it are the same");
        store.check().unwrap();
        replica.apply(FAR, &changes, Durability::Strict).unwrap();
        let after = now(&store);
        assert!(after != before);
        idle(&store);
        store.check().unwrap();
        drop((replica, store));
        let store = Store::open(&crashed, &options).unwrap();
        assert!(now(&store) == before);
        store.check().unwrap();
        let replica = store.replica().unwrap();
        assert_eq!(replica.applied(), FAR - 1);
        replica.apply(FAR, &changes, Durability::Strict).unwrap();
        assert!(now(&store) == after);
        idle(&store);
        store.check().unwrap();
    }
}

/// What readers have seen is there after a crash, also where it is a version in which leaves were collected.
#[test]
fn an_open_goes_on_above_a_collection_between_two_versions() {
    // The leaves of the other one count from nothing.
    for index in [IndexKind::Nvtree, IndexKind::Hash] {
        let directory = Directory::new(&format!("replica-collected-{}", index.name()));
        let options = options(DomainRequest::Flush, index);
        let (path, crashed) = (directory.file("0.pool"), directory.file("1.pool"));
        let (store, replica) = replica_with_keys(&path, &options);
        let fill = (0..3000).map(|number| put(FAR, number, "b"));
        replica.apply(FAR, fill, Durability::Strict).unwrap();
        idle(&store);
        let removed = |number: u64| {
            let event = Event::Removed { key: number.to_be_bytes().to_vec() };
            Change { version: FAR + 1, keyspace: "b".into(), event }
        };
        replica.apply(FAR + 1, (0..2990).map(removed), Durability::Strict).unwrap();
        idle(&store);
        let (next, mut seen) = (FAR + 40, 0);
        let each = (0..60).map(|number| put(next, number * 5, "a")).enumerate();
        let each = each.inspect(|(at, _)| {
            if *at == 40 {
                seen = store.visible();
                copy(&path, &crashed);
            }
        });
        replica.apply(next, each.map(|(_, change)| change), Durability::Strict).unwrap();
        assert!(seen > FAR + 1, "{index:?}: nothing was collected between two versions");
        let store = Store::open(&crashed, &options).unwrap();
        assert_eq!(store.visible(), seen, "{index:?}");
        store.check().unwrap();
    }
}

#[test]
fn a_version_that_no_open_could_go_on_behind_is_refused() {
    for index in IndexKind::ALL {
        let directory = Directory::new(&format!("too-high-{}", index.name()));
        let options = options(DomainRequest::Flush, index);
        let store = Store::create(&directory.pool(), &options).unwrap();
        let replica = store.replica().unwrap();
        let made = |version| Change { version, keyspace: "a".into(), event: Event::Created };
        for version in [1 << 55, (1 << 56) - 2, (1 << 56) - 1, 1 << 56, u64::MAX] {
            let refused = replica.apply(version, [made(version)], Durability::Strict);
            assert!(matches!(refused, Err(Error::VersionTooHigh { .. })), "{version} {refused:?}");
        }
        let version = (1 << 55) - 1;
        replica.apply(version, [made(version)], Durability::Strict).unwrap();
        drop((replica, store));
        for _ in 0..3 {
            let store = Store::open(&directory.pool(), &options).unwrap();
            let space = store.keyspace("a").unwrap();
            if store.visible() == version {
                store.replica().unwrap().promote().unwrap();
            }
            store.put(space, b"k", b"v", Durability::Strict).unwrap();
            store.close().unwrap();
        }
    }
}
