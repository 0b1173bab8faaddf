//! A store that is larger than the memory that it may have stays within it. Alone in its process, whose memory is looked at.
#![allow(clippy::unwrap_used)]

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use tembo_kv::{DomainRequest, Durability, Keyspace, Options, Store, SyncPolicy};
use tembo_pmem::memory_used;

#[path = "driver/directory.rs"]
mod directory;
#[path = "driver/random.rs"]
mod random;

use directory::Directory;
use random::Random;

const LIMIT: u64 = 64 << 20;

/// The largest memory of the process, and the most private pages, while `work` is done.
fn peak(store: &Store, work: impl FnOnce()) -> (u64, u64) {
    let (is_done, used, private) = (AtomicBool::new(false), AtomicU64::new(0), AtomicU64::new(0));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_done.load(Ordering::Relaxed) {
                used.fetch_max(memory_used().unwrap(), Ordering::Relaxed);
                private.fetch_max(store.report().private_bytes, Ordering::Relaxed);
                std::thread::sleep(Duration::from_millis(1));
            }
        });
        work();
        is_done.store(true, Ordering::Relaxed);
    });
    (used.into_inner(), private.into_inner())
}

fn key(number: u64) -> [u8; 8] {
    number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes()
}

/// Writes `count` of `keys` keys in groups, in a random order if `is_random`.
fn write(store: &Store, space: Keyspace, (keys, count): (u64, u64), size: usize, is_random: bool) {
    let mut random = Random(0x9e37_79b9);
    for group in 0..count / 100 {
        let mut exclusive = store.exclusive().unwrap();
        for number in group * 100..group * 100 + 100 {
            let number = if is_random { random.below(keys) } else { number };
            exclusive.put(space, &key(number), &vec![number as u8; size]).unwrap();
        }
        exclusive.commit(Durability::Strict).unwrap();
    }
}

#[test]
fn a_store_keeps_within_its_memory() {
    let directory = Directory::new("memory-limit");
    let options = Options::new().domain(DomainRequest::Logged).sync(SyncPolicy::Os).memory(LIMIT);
    let store = Store::create(&directory.pool(), &options).unwrap();
    let space = store.keyspace("a").unwrap();
    let keys = 200_000;
    let mut peaks = Vec::new();
    // Large and small values; new keys, and one change in a page here and there.
    for (size, count, is_random) in
        [(1000, keys, false), (1000, 100_000, true), (8, 100_000, true), (100, 50_000, true)]
    {
        peaks.push(peak(&store, || write(&store, space, (keys, count), size, is_random)));
    }
    assert!(store.report().pool_bytes > 3 * LIMIT);
    for (used, private) in peaks {
        assert!(used < LIMIT + LIMIT / 10, "{used} bytes of memory, {private} in private pages");
        assert!(private > LIMIT / 4, "only {private} bytes in private pages");
    }
    let snapshot = store.snapshot().unwrap();
    for number in (0..keys).step_by(997) {
        let value = snapshot.get(space, &key(number)).unwrap().unwrap();
        assert!(value.to_vec().iter().all(|byte| *byte == number as u8));
    }
}
