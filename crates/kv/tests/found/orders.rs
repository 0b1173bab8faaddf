//! The order of a node that a reader makes while a transaction is aborted.

use std::sync::atomic::{AtomicBool, Ordering};

use tembo_kv::{Durability, Options, Store};
use tembo_pmem::RegionOptions;
use tembo_pool::PoolOptions;

use super::INDEX;

const ROUNDS: u64 = 20_000;
const KEYS: u64 = 12;

/// Sets the flag when it goes, be it by a panic: else the readers would go on.
struct Ends<'f>(&'f AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn a_reader_does_not_take_what_an_abort_ended_for_removed() {
    let region = RegionOptions { size_max: 64 << 20, ..RegionOptions::default() };
    let pool = PoolOptions { size: 8 << 20, region, ..PoolOptions::default() };
    let store = Store::volatile(&Options::new().pool(pool).index(INDEX).background(false)).unwrap();
    let [kept, other] = ["kept", "other"].map(|name| store.keyspace(name).unwrap());
    for key in 0..KEYS {
        store.put(kept, &key.to_be_bytes(), b"value", Durability::Buffered).unwrap();
    }
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let _ends = Ends(&over);
        for _ in 0..2 {
            scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    assert!(store.get(kept, &0_u64.to_be_bytes()).unwrap().is_some());
                }
            });
        }
        for round in 0..ROUNDS {
            let mut transaction = store.exclusive().unwrap();
            transaction.remove(kept, &(round % KEYS).to_be_bytes()).unwrap();
            for key in 0..20_u64 {
                transaction.put(other, &key.to_be_bytes(), b"void").unwrap();
            }
            drop(transaction);
            // A later version, in which the end that never came would count.
            store.put(other, b"key", &round.to_be_bytes(), Durability::Buffered).unwrap();
            for key in 0..KEYS {
                let found = store.get(kept, &key.to_be_bytes()).unwrap();
                assert!(found.is_some(), "key {key}, round {round}");
            }
            store.maintain(4).unwrap();
        }
    });
}
