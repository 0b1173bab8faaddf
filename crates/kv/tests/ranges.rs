//! Ranges beside a writer that splits and merges leaves.
#![allow(clippy::unwrap_used)]

use std::ops::Bound;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use tembo_kv::{Direction, Durability, IndexKind, Options, PoolOptions, Store};

const KEYS: u32 = 600;
const ROUNDS: u32 = 150;

#[test]
fn a_range_shows_each_key_once_and_in_order() {
    for index in IndexKind::ORDERED {
        let pool = PoolOptions { size: 4 << 20, ..Options::new().pool_options() };
        let options = Options::new().pool(pool).index(index);
        let store = Store::volatile(&options).unwrap();
        let space = store.keyspace("space").unwrap();
        // A snapshot sees these all the time.
        for key in (0..KEYS).step_by(7) {
            store.put(space, &key.to_be_bytes(), b"stays", Durability::Buffered).unwrap();
        }
        let done = AtomicBool::new(false);
        thread::scope(|scope| {
            for direction in [Direction::Forward, Direction::Backward] {
                let (store, done) = (&store, &done);
                scope.spawn(move || {
                    while !done.load(Ordering::Relaxed) {
                        let (mut keys, mut stays) = (Vec::new(), 0);
                        let snapshot = store.snapshot().unwrap();
                        let all = (Bound::Unbounded, Bound::Unbounded);
                        let mut visit = |key: &[u8], value: tembo_kv::Value<'_>| {
                            keys.push(key.to_vec());
                            stays += u32::from(value == b"stays");
                            true
                        };
                        snapshot
                            .range_with::<[u8]>(space, (all.0, all.1), direction, &mut visit)
                            .unwrap();
                        if direction == Direction::Backward {
                            keys.reverse();
                        }
                        assert!(keys.is_sorted_by(|a, b| a < b), "{index:?}, {direction:?}");
                        assert_eq!(stays, KEYS.div_ceil(7), "{index:?}, {direction:?}");
                    }
                });
            }
            let passing = || (0..KEYS).filter(|key| key % 7 != 0);
            for _ in 0..ROUNDS {
                for key in passing() {
                    store.put(space, &key.to_be_bytes(), b"passes", Durability::Buffered).unwrap();
                }
                for key in passing() {
                    assert!(store.remove(space, &key.to_be_bytes(), Durability::Buffered).unwrap());
                }
            }
            done.store(true, Ordering::Relaxed);
        });
    }
}
