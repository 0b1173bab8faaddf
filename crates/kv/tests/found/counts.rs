//! Counts after an open are exact, whatever the writer does meanwhile.

use std::sync::atomic::{AtomicBool, Ordering};

use tembo_kv::{Durability, KeyCount, Store};

use super::bench::{Map, Random, directory, expect, fill, key, kill, options, recover};

const KEYS: u64 = 8000;

/// One transaction of updates, removals and new keys, sometimes for nothing.
fn transact(store: &Store, map: &mut Map, random: &mut Random) {
    let space = store.keyspace("a").unwrap();
    let mut next = map.clone();
    let mut tx = store.exclusive().unwrap();
    for _ in 0..6 {
        let key = key(random.below(KEYS + KEYS / 4));
        if random.below(3) > 0 {
            let existed = tx.put(space, &key, b"new").unwrap();
            assert_eq!(existed, next.insert(key, b"new".to_vec()).is_some());
        } else {
            assert_eq!(tx.remove(space, &key).unwrap(), next.remove(&key).is_some());
        }
    }
    if random.below(8) > 0 {
        tx.commit(Durability::Buffered).unwrap();
        *map = next;
    }
}

fn expect_count(store: &Store, map: &Map) {
    let space = store.keyspace("a").unwrap();
    assert_eq!(store.exclusive().unwrap().count(space), Some(map.len() as u64));
    assert_eq!(store.check().unwrap().keyspaces[0].1.entry_count, map.len() as u64);
}

#[test]
fn counts_after_open_are_exact_beside_a_writer() {
    let directory = directory("counts");
    let options = options(8 << 20, 64 << 20);
    let store = Store::create(&directory.pool(), &options).unwrap();
    fill(&store, store.keyspace("a").unwrap(), 0..KEYS, b"good");
    kill(store);
    let mut map: Map = (0..KEYS).map(|i| (key(i), b"good".to_vec())).collect();
    let mut random = Random(42);
    for round in 0..8 {
        let store = Store::open(&directory.pool(), &options).unwrap();
        (0..round).for_each(|_| transact(&store, &mut map, &mut random));
        let recovered = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                recover(&store);
                recovered.store(true, Ordering::Release);
            });
            for _ in 0..60 {
                if recovered.load(Ordering::Acquire) {
                    break;
                }
                transact(&store, &mut map, &mut random);
            }
        });
        recover(&store);
        expect_count(&store, &map);
        expect(&store, store.keyspace("a").unwrap(), &map, "after recovery");
        kill(store);
    }
}

/// Updates that begin where the marking ends, so that it meets nodes made since it began.
#[test]
fn counts_after_open_are_exact_when_the_writer_comes_towards_the_marking() {
    const MANY: u64 = 60_000;
    let directory = directory("towards");
    let options = options(32 << 20, 256 << 20).background(true);
    let store = Store::create(&directory.pool(), &options).unwrap();
    fill(&store, store.keyspace("a").unwrap(), 0..MANY, b"good");
    kill(store);
    for round in 0..3u64 {
        let store = Store::open(&directory.pool(), &options).unwrap();
        let space = store.keyspace("a").unwrap();
        let mut last = MANY;
        while last >= 3 && store.report().recovering {
            for _ in 0..3 {
                fill(&store, space, last - 3..last, &round.to_le_bytes());
            }
            last -= 3;
        }
        let check = store.check().unwrap();
        assert_eq!(check.keyspaces[0].1.entry_count, MANY, "round {round}");
        assert_eq!(store.exclusive().unwrap().count(space), Some(MANY), "round {round}");
        kill(store);
    }
}

/// What changes before the marking has begun is counted by it, and not a second time.
#[test]
fn counts_after_open_are_exact_when_recovery_comes_late() {
    let directory = directory("late-counts");
    let options = options(4 << 20, 64 << 20);
    let store = Store::create(&directory.pool(), &options).unwrap();
    let space = store.keyspace("a").unwrap();
    fill(&store, space, 0..100, b"good");
    kill(store);
    let store = Store::open(&directory.pool(), &options).unwrap();
    let space = store.keyspace("a").unwrap();
    fill(&store, space, 50..150, b"new");
    assert!(store.remove(space, &key(3), Durability::Buffered).unwrap());
    drop(store.exclusive().unwrap().put(space, b"void", b"v"));
    recover(&store);
    assert_eq!(store.exclusive().unwrap().count(space), Some(149));
    let mut tx = store.exclusive().unwrap();
    tx.clear(space).unwrap();
    tx.put(space, b"only", b"v").unwrap();
    tx.commit(Durability::Buffered).unwrap();
    assert_eq!(store.exclusive().unwrap().count(space), Some(1));
    store.maintain(1).unwrap();
    store.put(space, b"and another", b"v", Durability::Buffered).unwrap();
    recover(&store);
    assert_eq!(store.exclusive().unwrap().count(space), Some(2));
}

fn key_count(store: &Store) -> KeyCount {
    store.exclusive().unwrap().key_count(store.keyspace("a").unwrap()).unwrap()
}

/// INFO after a start held all clients until everything was counted.
#[test]
fn counts_are_known_at_once_after_a_clean_stop() {
    let directory = directory("certified");
    let options = options(4 << 20, 64 << 20);
    let store = Store::create(&directory.pool(), &options).unwrap();
    let space = store.keyspace("a").unwrap();
    fill(&store, space, 0..500, b"good");
    store.keyspace("empty").unwrap();
    store.close().unwrap();
    for keys in 500..505 {
        let store = Store::open(&directory.pool(), &options).unwrap();
        let space = store.keyspace("a").unwrap();
        // Nothing was marked, nothing read but the catalogue.
        assert!(store.report().recovering);
        assert_eq!(key_count(&store), KeyCount { keys, is_exact: true });
        let empty = store.keyspace("empty").unwrap();
        assert_eq!(store.exclusive().unwrap().count(empty), Some(0));
        // One that changed nothing leaves it as it is.
        store.close().unwrap();
        let store = Store::open(&directory.pool(), &options).unwrap();
        assert_eq!(key_count(&store), KeyCount { keys, is_exact: true });
        if keys % 2 == 0 {
            recover(&store);
        }
        store.put(space, &key(keys), b"more", Durability::Buffered).unwrap();
        assert_eq!(key_count(&store), KeyCount { keys: keys + 1, is_exact: true });
        store.check().unwrap();
        store.close().unwrap();
    }
}

/// What was changed after the counts were written makes them an estimate, however little that was.
#[test]
fn counts_are_an_estimate_until_they_are_counted_after_a_kill() {
    let directory = directory("estimated");
    let options = options(16 << 20, 128 << 20);
    let store = Store::create(&directory.pool(), &options).unwrap();
    fill(&store, store.keyspace("a").unwrap(), 0..500, b"good");
    store.close().unwrap();
    let store = Store::open(&directory.pool(), &options).unwrap();
    let space = store.keyspace("a").unwrap();
    store.put(space, b"one more", b"v", Durability::Buffered).unwrap();
    kill(store);
    let store = Store::open(&directory.pool(), &options).unwrap();
    assert_eq!(key_count(&store), KeyCount { keys: 500, is_exact: false });
    // A stop before they are counted certifies nothing.
    store.remove(space, &key(7), Durability::Buffered).unwrap();
    assert_eq!(key_count(&store), KeyCount { keys: 499, is_exact: false });
    store.close().unwrap();
    let store = Store::open(&directory.pool(), &options).unwrap();
    assert_eq!(key_count(&store), KeyCount { keys: 500, is_exact: false });
    recover(&store);
    assert_eq!(key_count(&store), KeyCount { keys: 500, is_exact: true });
    // They are written down when they have changed by much, and after a kill that is the estimate.
    fill(&store, space, 1000..21_000, b"good");
    recover(&store);
    fill(&store, space, 21_000..21_100, b"good");
    kill(store);
    let store = Store::open(&directory.pool(), &options).unwrap();
    assert_eq!(key_count(&store), KeyCount { keys: 20_500, is_exact: false });
    recover(&store);
    assert_eq!(key_count(&store), KeyCount { keys: 20_600, is_exact: true });
    let version = store.save_snapshot("before").unwrap();
    fill(&store, space, 50_000..50_010, b"void");
    store.rollback(version).unwrap();
    assert!(!key_count(&store).is_exact);
    store.close().unwrap();
    let store = Store::open(&directory.pool(), &options).unwrap();
    recover(&store);
    assert_eq!(key_count(&store), KeyCount { keys: 20_600, is_exact: true });
    store.check().unwrap();
}
