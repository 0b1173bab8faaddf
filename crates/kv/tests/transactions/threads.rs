//! Transactions of several threads.

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::super::*;
use crate::random::Random;

const THREADS: usize = 4;

fn number(value: Option<Vec<u8>>) -> i64 {
    value.map_or(0, |value| i64::from_le_bytes(value[..8].try_into().unwrap()))
}

fn key(account: u64) -> [u8; 8] {
    account.to_be_bytes()
}

/// Two hundred accounts, with a hundred each.
fn bank(kind: IndexKind) -> (Store, Keyspace) {
    let options = Options::new().index(kind).size(32 << 20);
    let store = Store::volatile(&options).unwrap();
    let space = store.keyspace("accounts").unwrap();
    for account in 0..200u64 {
        put(&store, space, &key(account), &100i64.to_le_bytes());
    }
    (store, space)
}

#[test]
fn transfers_of_many_threads_lose_nothing_and_every_snapshot_is_whole() {
    for (kind, isolation) in IndexKind::ALL.into_iter().flat_map(|k| ISOLATIONS.map(|i| (k, i))) {
        let (store, space) = bank(kind);
        let (done, refused) = (AtomicBool::new(false), AtomicU64::new(0));
        let sum = || {
            let (mut sum, snapshot) = (0, store.snapshot().unwrap());
            let (from, to) = (Bound::Unbounded, Bound::Unbounded);
            let mut add = |_: &[u8], value: tembo_kv::Value<'_>| {
                sum += number(Some(value.to_vec()));
                true
            };
            snapshot.range_with::<[u8]>(space, (from, to), Direction::Forward, &mut add).unwrap();
            sum
        };
        let transfer = |thread: usize| {
            let mut random = Random(0x2545_f491_4f6c_dd1d ^ (thread as u64 + 1) << 20);
            for _ in 0..1500 {
                // A few accounts are everybody's.
                let mut account = || match random.below(4) {
                    0 => random.below(4),
                    _ => random.below(200),
                };
                let (from, to) = (account(), account());
                let mut tries = 0;
                let done = store.with_retry(isolation, Durability::Strict, |tx| {
                    tries += 1;
                    let have = number(tx.get(space, &key(from))?);
                    if have <= 0 || from == to {
                        return Ok(());
                    }
                    let theirs = number(tx.get(space, &key(to))?);
                    tx.put(space, &key(from), &(have - 1).to_le_bytes())?;
                    tx.put(space, &key(to), &(theirs + 1).to_le_bytes())
                });
                done.unwrap();
                refused.fetch_add(tries - 1, Ordering::Relaxed);
            }
        };
        std::thread::scope(|scope| {
            let threads: Vec<_> =
                (0..THREADS).map(|thread| scope.spawn(move || transfer(thread))).collect();
            let reader = scope.spawn(|| {
                while !done.load(Ordering::Acquire) {
                    assert_eq!(sum(), 20_000);
                }
            });
            threads.into_iter().for_each(|thread| thread.join().unwrap());
            done.store(true, Ordering::Release);
            reader.join().unwrap();
        });
        assert_eq!(sum(), 20_000);
        store.check().unwrap();
    }
}

#[test]
fn the_sum_of_a_pair_never_falls_below_nothing_when_serialisable() {
    for kind in IndexKind::ALL {
        let (store, space) = bank(kind);
        let withdraw = |thread: u64| {
            let mut random = Random(0x9e37_79b9_7f4a_7c15 ^ (thread + 1) << 30);
            for _ in 0..1000 {
                let pair = random.below(4) * 2;
                let mine = pair + thread % 2;
                let done = store.with_retry(Isolation::Serialisable, Durability::Buffered, |tx| {
                    let one = number(tx.get(space, &key(pair))?);
                    let two = number(tx.get(space, &key(pair + 1))?);
                    assert!(one + two >= 0, "{one} {two}");
                    let change = if one + two >= 70 { -70 } else { 1 };
                    let before = if mine == pair { one } else { two };
                    tx.put(space, &key(mine), &(before + change).to_le_bytes())
                });
                done.unwrap();
            }
        };
        std::thread::scope(|scope| {
            (0..THREADS as u64).for_each(|thread| drop(scope.spawn(move || withdraw(thread))));
        });
    }
}

#[test]
fn a_snapshot_has_everything_that_was_acknowledged_before_it() {
    let (store, space) = bank(IndexKind::Nvtree);
    let acknowledged: Vec<AtomicU64> = (0..THREADS).map(|_| AtomicU64::new(0)).collect();
    let begin = Barrier::new(THREADS);
    let write = |thread: usize| {
        begin.wait();
        for round in 1..=2000u64 {
            let value = round.to_le_bytes();
            let name = key(1000 + thread as u64);
            match round % 3 {
                0 => put(&store, space, &name, &value),
                // Two threads may write the same other key.
                1 => store
                    .with_retry(Isolation::Snapshot, Durability::Buffered, |tx| {
                        tx.put(space, &name, &value)?;
                        tx.put(space, &key(2000 + round), &value)
                    })
                    .unwrap(),
                _ => {
                    let mut tx = store.exclusive().unwrap();
                    tx.put(space, &name, &value).unwrap();
                    tx.commit(Durability::Buffered).unwrap();
                }
            }
            acknowledged[thread].store(round, Ordering::Release);
            let least: Vec<u64> =
                acknowledged.iter().map(|round| round.load(Ordering::Acquire)).collect();
            let snapshot = store.snapshot().unwrap();
            for (thread, least) in least.into_iter().enumerate() {
                let found = snapshot.get(space, &key(1000 + thread as u64)).unwrap();
                let found = found.map_or(0, |value| number(Some(value.to_vec())));
                assert!(found >= least as i64, "{found} after {least}");
            }
        }
    };
    std::thread::scope(|scope| {
        (0..THREADS).for_each(|thread| {
            drop(scope.spawn({
                let write = &write;
                move || write(thread)
            }))
        });
    });
}

#[test]
fn a_transaction_goes_from_thread_to_thread_whatever_its_size() {
    fn is_send<T: Send>(_: &T) {}
    for kind in IndexKind::ALL {
        let (store, space) = super::super::store(kind, 1000);
        let mut tx = store.transaction(Isolation::Serialisable).unwrap();
        is_send(&tx);
        for part in 0..5u8 {
            tx = std::thread::scope(|scope| {
                let write = move || {
                    for i in 0..50u8 {
                        tx.put(space, &[i, part], &[part; 30]).unwrap();
                    }
                    if kind.is_ordered() {
                        assert_eq!(all(&mut tx, space).len(), 50 * (1 + usize::from(part)));
                    }
                    for written in 0..=part {
                        assert_eq!(tx.get(space, &[7, written]).unwrap().unwrap(), [written; 30]);
                    }
                    tx
                };
                scope.spawn(write).join().unwrap()
            });
        }
        // Others read and write meanwhile.
        assert!(store.get(space, &[0, 0]).unwrap().is_none());
        let other = store.keyspace("other").unwrap();
        put(&store, other, b"beside", b"1");
        let beside = store.visible();
        assert!(tx.commit(Durability::Strict).unwrap() > beside);
        assert_eq!(committed(&store, space).len(), 250);
        settle(&store);
        store.check().unwrap();
    }
}
