//! Several stores in one pool: each has all that a store has, and a sweep of one frees nothing of another.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

#[path = "driver/directory.rs"]
mod directory;

use std::path::Path;

use directory::Directory;
use tembo_kv::{
    DomainRequest, Durability, Error, IndexKind, Keyspace, Kind, Options, Pool, Progress, Store,
};

const COUNT: u32 = 300;

fn options() -> Options {
    let options = Options::new().background(false).domain(DomainRequest::Logged);
    options.size(1 << 20).log_size(2 << 20).size_max(64 << 20)
}

fn key(i: u32) -> [u8; 4] {
    i.to_be_bytes()
}

/// Values that distinguish the stores.
fn value(mark: u8, i: u32) -> Vec<u8> {
    vec![mark; 20 + i as usize % 300]
}

fn fill(store: &Store, mark: u8) -> Keyspace {
    let space = store.keyspace("x").unwrap();
    for i in 0..COUNT {
        store.put(space, &key(i), &value(mark, i), Durability::Buffered).unwrap();
    }
    store.sync().unwrap();
    space
}

fn holds(store: &Store, mark: u8) {
    let space = store.keyspace("x").unwrap();
    for i in 0..COUNT {
        assert_eq!(store.get(space, &key(i)).unwrap(), Some(value(mark, i)), "{mark}, {i}");
    }
}

fn clear(store: &Store) {
    let space = store.keyspace("x").unwrap();
    let mut writer = store.exclusive().unwrap();
    writer.clear(space).unwrap();
    writer.commit(Durability::Strict).unwrap();
}

fn recover(store: &Store) {
    while store.maintain(64).unwrap() == Progress::More {}
}

/// A pool with the stores `a` and `b`.
fn two(path: &Path, index: IndexKind) -> (Pool, [Store; 2]) {
    let pool = Pool::create(path, &options()).unwrap();
    let make = |name| pool.create_store(name, &options().index(index)).unwrap();
    let stores = ["a", "b"].map(make);
    fill(&stores[0], 1);
    fill(&stores[1], 2);
    (pool, stores)
}

#[test]
fn stores_are_found_by_name_and_are_apart() {
    for index in IndexKind::ALL {
        let folder = Directory::new(&format!("names-{}", index.name()));
        let (pool, [a, b]) = two(&folder.pool(), index);
        assert_eq!((a.name(), b.name()), ("a", "b"));
        assert_eq!(b.report().index, index);
        holds(&a, 1);
        holds(&b, 2);
        // The same store, not another one over it.
        let again = pool.store("a").unwrap();
        again.put(a.keyspace("x").unwrap(), b"new", b"v", Durability::Strict).unwrap();
        assert_eq!(a.get(a.keyspace("x").unwrap(), b"new").unwrap().unwrap(), b"v");
        assert!(b.get(b.keyspace("x").unwrap(), b"new").unwrap().is_none());
        assert!(matches!(pool.store("c"), Err(Error::NoSuchStore { .. })));
        let taken = pool.create_store("a", &options());
        assert!(matches!(taken.map(drop), Err(Error::Pool(_))));
        let tenants = pool.tenants().unwrap();
        let names: Vec<_> = tenants.iter().map(|stat| (&*stat.name, stat.kind)).collect();
        assert_eq!(names, [("a", Kind::STORE), ("b", Kind::STORE)]);
        assert_eq!(a.tenants().unwrap().len(), 2);
        // The handles own the pool together.
        assert!(matches!(pool.clone().close(), Err(Error::InUse { .. })));
        drop((pool, again));
        holds(&a, 1);
        a.close().unwrap();
        holds(&b, 2);
        b.close().unwrap();
        let main = Store::open(&folder.pool(), &options());
        assert!(matches!(main.map(drop), Err(Error::NoSuchStore { .. })));
        let pool = Pool::open(&folder.pool(), &options()).unwrap();
        holds(&pool.store("b").unwrap(), 2);
        pool.close().unwrap();
    }
}

#[test]
fn a_sweep_of_one_frees_nothing_of_another_open_or_not() {
    for index in IndexKind::ALL {
        let folder = Directory::new(&format!("sweep-{}", index.name()));
        drop(two(&folder.pool(), index));
        for round in 0..3_u8 {
            let pool = Pool::open(&folder.pool(), &options()).unwrap();
            // Only one is open while its recovery sweeps, and what was free is written over.
            let (name, mark, other) = if round % 2 == 0 { ("a", 1, "b") } else { ("b", 2, "a") };
            let store = pool.store(name).unwrap();
            recover(&store);
            clear(&store);
            recover(&store);
            fill(&store, mark);
            let check = store.check().unwrap();
            assert_eq!((check.leaked, &*check.tenants[0].0), (0, other));
            let (a, b) = (pool.store("a").unwrap(), pool.store("b").unwrap());
            holds(&a, 1);
            holds(&b, 2);
            for store in [&a, &b] {
                recover(store);
                assert_eq!(store.check().unwrap().leaked, 0);
            }
            let found = pool.check().unwrap();
            assert_eq!((found.account.leaked, found.account.dangling), (0, 0));
            assert_eq!(found.tenants.len(), 2);
        }
    }
}

#[test]
fn a_sweep_that_stands_still_holds_up_no_other_store() {
    for steps in 1..6 {
        let folder = Directory::new(&format!("still-{steps}"));
        drop(two(&folder.pool(), IndexKind::default()));
        let pool = Pool::open(&folder.pool(), &options()).unwrap();
        let (a, b) = (pool.store("a").unwrap(), pool.store("b").unwrap());
        a.maintain(steps).unwrap();
        // The thread that drives the sweep is this one, and does other things first.
        let named = b.save_snapshot("s").unwrap();
        clear(&b);
        fill(&b, 2);
        recover(&b);
        let c = pool.create_store("c", &options()).unwrap();
        fill(&c, 3);
        recover(&c);
        if steps % 2 == 0 {
            assert_eq!(b.check().unwrap().leaked, 0);
        } else {
            b.rollback(named).unwrap();
        }
        recover(&a);
        for (store, mark) in [(&a, 1), (&b, 2), (&c, 3)] {
            holds(store, mark);
            assert_eq!(store.check().unwrap().leaked, 0);
            holds(store, mark);
        }
    }
}

#[test]
fn a_store_that_closes_in_the_middle_of_a_sweep_leaves_the_others_whole() {
    for steps in 1..6 {
        let folder = Directory::new(&format!("closes-{steps}"));
        drop(two(&folder.pool(), IndexKind::default()));
        let pool = Pool::open(&folder.pool(), &options().background(true)).unwrap();
        for _ in 0..steps {
            let (a, b) = (pool.store("a").unwrap(), pool.store("b").unwrap());
            holds(&b, 2);
            drop(b);
            holds(&a, 1);
        }
        let b = pool.store("b").unwrap();
        assert_eq!(b.check().unwrap().leaked, 0);
        holds(&b, 2);
        holds(&pool.store("a").unwrap(), 1);
    }
}

#[test]
fn stores_of_one_pool_are_changed_and_swept_beside_each_other() {
    let folder = Directory::new("threads");
    drop(two(&folder.pool(), IndexKind::default()));
    for _ in 0..3 {
        let pool = Pool::open(&folder.pool(), &options().background(true)).unwrap();
        let (a, b) = (pool.store("a").unwrap(), pool.store("b").unwrap());
        std::thread::scope(|scope| {
            for (store, mark) in [(&a, 1), (&b, 2)] {
                scope.spawn(move || {
                    for _ in 0..3 {
                        clear(store);
                        fill(store, mark);
                    }
                    assert_eq!(store.check().unwrap().leaked, 0);
                });
            }
        });
        holds(&a, 1);
        holds(&b, 2);
    }
}

#[test]
fn a_store_is_added_to_the_pool_of_another_and_the_first_still_opens_by_its_path() {
    let folder = Directory::new("main");
    fill(&Store::create(&folder.pool(), &options()).unwrap(), 1);
    let pool = Pool::open(&folder.pool(), &options()).unwrap();
    fill(&pool.create_store("second", &options()).unwrap(), 2);
    pool.close().unwrap();
    let store = Store::open(&folder.pool(), &options()).unwrap();
    assert_eq!(store.name(), "main");
    holds(&store, 1);
    recover(&store);
    assert_eq!(store.check().unwrap().leaked, 0);
    drop(store);
    let pool = Pool::open(&folder.pool(), &options().read_only(true)).unwrap();
    holds(&pool.store("second").unwrap(), 2);
    assert!(matches!(pool.create_store("third", &options()), Err(Error::ReadOnly)));
}

/// Until the sweep that is owed since the open has ended, a full pool has room for nothing: a write waits for the sweep, whichever
/// store drives it.
#[test]
fn a_write_to_a_full_pool_waits_for_the_sweep_of_another_store() {
    for index in IndexKind::ALL {
        let folder = Directory::new(&format!("full-{}", index.name()));
        let options = options().size_max(1 << 20).index(index);
        let put = |store: &Store, i: u32| {
            let space = store.keyspace("x").unwrap();
            store.put(space, &key(i), &[1; 900], Durability::Buffered)
        };
        let full = Store::create(&folder.file("probe"), &options).unwrap();
        let last = (0..).find(|&i| matches!(put(&full, i), Err(Error::Full(_)))).unwrap();
        drop(full);
        let pool = Pool::create(&folder.pool(), &options).unwrap();
        let [a, b] = ["a", "b"].map(|name| pool.create_store(name, &options).unwrap());
        assert!((0..last - 100).all(|i| put(&a, i).is_ok()));
        let space = a.keyspace("x").unwrap();
        for i in 0..200 {
            a.remove(space, &key(i), Durability::Buffered).unwrap();
        }
        recover(&a);
        drop((a, b, pool));
        let pool = Pool::open(&folder.pool(), &options).unwrap();
        let [a, b] = ["a", "b"].map(|name| pool.store(name).unwrap());
        assert_eq!(b.maintain(1).unwrap(), Progress::More);
        // It stands still: space runs out.
        let refused = (0..200).cycle().take(10_000).find_map(|i| put(&a, i).err()).unwrap();
        assert!(refused.to_string().contains("a sweep is still to finish"), "{refused}");
        std::thread::scope(|scope| {
            scope.spawn(|| {
                std::thread::sleep(std::time::Duration::from_millis(5));
                recover(&b);
            });
            // A write waits some 10 ms before it gives up. One that does not wait at all would be refused thousands of times
            // until the sweep has ended; on a busy machine that can last longer than one write waits.
            let refusals = (0..).take_while(|_| put(&a, 0).is_err()).count();
            assert!(refusals < 200, "{refusals}");
        });
        recover(&a);
        a.check().unwrap();
    }
}

/// A transaction that is given up: what it took is garbage.
fn give_up(store: &Store) {
    give_up_of(store, COUNT, &[9; 900]);
}

fn give_up_of(store: &Store, count: u32, value: &[u8]) {
    let space = store.keyspace("x").unwrap();
    let mut writer = store.exclusive().unwrap();
    for i in 0..count {
        writer.put(space, &key(i), value).unwrap();
    }
}

/// A pool with the stores `a`, `b` and `c`, whose recovery has ended, and a sweep by `a` that has marked all of them.
fn being_swept(folder: &Directory, index: IndexKind) -> (Pool, [Store; 3]) {
    let (pool, [a, b]) = two(&folder.pool(), index);
    let c = pool.create_store("c", &options().index(index)).unwrap();
    fill(&c, 3);
    [&a, &b, &c].into_iter().for_each(recover);
    give_up(&a);
    assert_eq!(a.maintain(1).unwrap(), Progress::More);
    (pool, [a, b, c])
}

/// Recovery has left nothing for another sweep to find. The indexes write hints of some KiB meanwhile.
fn has_found_all(pool: &Pool, stores: &[&Store]) {
    stores.iter().for_each(|store| recover(store));
    let used = || stores[0].report().used_bytes;
    let before = used();
    assert_eq!(pool.check().unwrap().account.leaked, 0);
    assert!(used() + (64 << 10) > before, "{before} bytes, {} after another sweep", used());
}

/// The next sweep has the limit of the one that was not finished, above which the garbage lies.
#[test]
fn what_is_given_up_beside_a_sweep_that_is_not_finished_is_given_back() {
    for (index, is_cleared) in IndexKind::ALL.map(|kind| [(kind, false), (kind, true)]).concat() {
        let folder = Directory::new(&format!("unfinished-{}-{is_cleared}", index.name()));
        let (pool, [a, b, c]) = being_swept(&folder, index);
        give_up(&b);
        if is_cleared {
            fill(&b, 2);
            clear(&b);
        }
        drop(a);
        has_found_all(&pool, &[&b, &c]);
        holds(&c, 3);
    }
}

/// The same, though the store had done its part of that sweep.
#[test]
fn what_is_given_up_behind_the_own_part_of_an_unfinished_sweep_is_given_back() {
    for (index, is_own) in IndexKind::ALL.map(|kind| [(kind, false), (kind, true)]).concat() {
        let folder = Directory::new(&format!("unfinished-behind-{}-{is_own}", index.name()));
        let (pool, [a, b, c]) = being_swept(&folder, index);
        // It cannot settle, so that the sweep has to wait.
        let held = c.exclusive().unwrap();
        a.maintain(50).unwrap();
        assert!(!b.report().recovering && a.report().recovering);
        drop(a);
        give_up(&b);
        drop(held);
        // It is made by the one or by the other.
        recover(if is_own { &b } else { &c });
        has_found_all(&pool, &[&b, &c]);
        holds(&c, 3);
    }
}

/// What is free is known again, though the store that began the sweep is closed for good.
#[test]
fn a_sweep_that_its_driver_has_not_finished_is_made_by_another() {
    let mut was_left = 0;
    for (index, steps) in
        IndexKind::ALL.map(|kind| (1..8).map(|steps| (kind, steps)).collect::<Vec<_>>()).concat()
    {
        let folder = Directory::new(&format!("left-{}-{steps}", index.name()));
        let (_pool, [a, b]) = two(&folder.pool(), index);
        [&a, &b].into_iter().for_each(recover);
        // It takes longer to settle than the driver.
        give_up_of(&b, 5000, b"9");
        give_up(&a);
        a.maintain(steps).unwrap();
        was_left += u32::from(a.report().recovering);
        drop(a);
        recover(&b);
        assert!(b.fragmentation().is_some(), "{index:?} {steps}: nothing is known");
        holds(&b, 2);
    }
    assert!(was_left > 6, "{was_left}");
}

#[test]
fn each_store_of_a_pool_has_an_identity_of_its_own_that_it_keeps() {
    let directory = Directory::new("tenants-identity");
    let path = directory.pool();
    let names = ["main", "a", "b"];
    let identities = |pool: &Pool| names.map(|name| pool.store(name).unwrap().identity());
    let pool = Pool::create(&path, &options()).unwrap();
    for name in names {
        drop(pool.create_store(name, &options()).unwrap());
    }
    let made = identities(&pool);
    assert!(made[0] != made[1] && made[0] != made[2] && made[1] != made[2] && !made.contains(&0));
    pool.close().unwrap();
    assert_eq!(identities(&Pool::open(&path, &options()).unwrap()), made);
    assert_eq!(tembo_kv::Store::open(&path, &options()).unwrap().identity(), made[0]);
}
