//! A heap beside a store, in one pool.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use tembo::heap::{HeapFile, kinds};
use tembo::pool::Pool as Space;
use tembo::{Durability, Options, Pool, PoolOptions};

const ROUNDS: u64 = 300;
const KEYS: u64 = 4000;

/// Sweeps of the heap beside a thread that has the store's writer while it changes the heap.
fn change_both_while_one_sweeps() {
    let options = Options::new().size(16 << 20).background(false);
    let both = PoolOptions { kinds: kinds(options.pool_options().kinds), ..options.pool_options() };
    let space = Arc::new(Space::volatile(&both).unwrap());
    let store = Pool::of(space.clone(), &options).create_store("notes", &options).unwrap();
    let notes = store.keyspace("notes").unwrap();
    for key in 0..KEYS {
        store.put(notes, &key.to_be_bytes(), b"note", Durability::Buffered).unwrap();
    }
    let file = HeapFile::add_to(&space, "heap").unwrap();
    let is_over = AtomicBool::new(false);
    let swept = std::thread::scope(|scope| {
        let sweeper = scope.spawn(|| {
            let sweep = || file.enter(|heap| heap.sweep().unwrap());
            let mut swept = 0;
            while !is_over.load(Ordering::Relaxed) {
                swept += u64::from(sweep());
                std::thread::yield_now();
            }
            swept + u64::from(sweep())
        });
        for round in 0..ROUNDS {
            let mut tx = store.exclusive().unwrap();
            tx.put(notes, &round.to_be_bytes(), &round.to_le_bytes()).unwrap();
            file.enter(|heap| {
                let set = heap.atomic(|tx| {
                    let root = tx.alloc(round)?;
                    tx.set_root(&root)
                });
                set.unwrap();
            });
            tx.commit(Durability::Buffered).unwrap();
            std::thread::sleep(Duration::from_micros(200));
        }
        is_over.store(true, Ordering::Relaxed);
        sweeper.join().unwrap()
    });
    assert!(swept > 0, "no sweep has begun");
    let check = file.check().unwrap();
    assert_eq!((check.account.leaked, check.account.dangling), (0, 0));
    file.enter(|heap| {
        let root = heap.root::<u64>().unwrap().unwrap();
        assert_eq!(heap.atomic(|tx| tx.read(&root)).unwrap(), ROUNDS - 1);
    });
}

#[test]
fn a_sweep_of_the_heap_and_the_writer_of_the_store_do_not_wait_for_each_other() {
    // Many times what it takes on a machine that is busy with something else.
    const PATIENCE: Duration = Duration::from_secs(120);
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        change_both_while_one_sweeps();
        sender.send(()).unwrap();
    });
    receiver.recv_timeout(PATIENCE).expect("both end");
}
