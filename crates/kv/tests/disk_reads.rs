//! What is read from the disk, in a pool of which nothing is in memory.
#![allow(clippy::unwrap_used)]

use std::fs::{self, File};
use std::ops::Bound;

use rustix::fs::{Advice, fadvise};
use tembo_kv::{Direction, Durability, Keyspace, Options, Store};
use tembo_pmem::{DomainRequest, RegionOptions};
use tembo_pool::PoolOptions;

#[path = "driver/directory.rs"]
mod directory;
#[path = "driver/random.rs"]
mod random;

use directory::Directory;
use random::Random;

/// Bytes of a page.
const PAGE: u64 = 4096;

fn options() -> Options {
    let (memory, log_size) = (Some(1 << 20), 2 << 20);
    let domain = DomainRequest::Logged;
    let region = RegionOptions { domain, memory, log_size, ..RegionOptions::default() };
    let pool = PoolOptions { size: 1 << 20, region, ..PoolOptions::default() };
    Options::new().pool(pool).background(false)
}

/// Each has a record beside its leaf.
fn key(number: u64) -> Vec<u8> {
    format!("{number:08}-and-a-tail").into_bytes()
}

/// A store of so many values, put in random order, of which the system has nothing in its cache.
fn cold_store(directory: &Directory, count: u64, value: &[u8]) -> (Store, Keyspace) {
    let mut numbers: Vec<u64> = (0..count).collect();
    let mut random = Random(0x1234_5678_9ABC_DEF1);
    (1..count).rev().for_each(|at| numbers.swap(at as usize, random.below(at + 1) as usize));
    let store = Store::create(&directory.pool(), &options()).unwrap();
    let space = store.keyspace("a").unwrap();
    for number in numbers {
        store.put(space, &key(number), value, Durability::Buffered).unwrap();
    }
    store.close().unwrap();
    let file = File::open(directory.pool()).unwrap();
    file.sync_all().unwrap();
    fadvise(&file, 0, None, Advice::DontNeed).unwrap();
    let store = Store::open(&directory.pool(), &options()).unwrap();
    let space = store.keyspace("a").unwrap();
    (store, space)
}

/// Pages that the thread has had read, from disks alone: none of a file in memory.
fn pages_read() -> u64 {
    let io = fs::read_to_string("/proc/thread-self/io").unwrap();
    let bytes = io.lines().find_map(|line| line.strip_prefix("read_bytes: ")).unwrap();
    bytes.parse::<u64>().unwrap() / PAGE
}

/// How often the thread has waited for a page that was not asked for.
fn waits() -> u64 {
    let stat = fs::read_to_string("/proc/thread-self/stat").unwrap();
    let fields = stat.rsplit(')').next().unwrap();
    fields.split_whitespace().nth(9).unwrap().parse().unwrap()
}

#[test]
fn the_pages_of_a_value_come_together() {
    let directory = Directory::new("reads-get");
    let (count, value) = (400, vec![7; 15_000]);
    let (store, space) = cold_store(&directory, count, &value);
    let before = waits();
    for number in (0..count).step_by(7) {
        let found = store.get(space, &key(number)).unwrap();
        assert!(found.as_deref() == Some(&value[..]), "{number}");
    }
    let waits = waits() - before;
    // For some leaves. Each value has four pages.
    assert!(waits <= count / 7, "waited {waits} times for {} values", count / 7);
}

#[test]
fn a_put_reads_of_the_value_that_was_there_the_page_with_the_key() {
    let directory = Directory::new("reads-put");
    let (count, value) = (400, vec![7; 15_000]);
    let (store, space) = cold_store(&directory, count, &value);
    let before = pages_read();
    let keys: Vec<Vec<u8>> = (0..count / 4).map(|number| key(number * 4)).collect();
    let puts: Vec<(&[u8], &[u8])> = keys.iter().map(|key| (&key[..], &b"short"[..])).collect();
    let mut exclusive = store.exclusive().unwrap();
    exclusive.put_all(space, &puts).unwrap();
    exclusive.commit(Durability::Strict).unwrap();
    let read = pages_read() - before;
    assert!(read < 3 * puts.len() as u64, "{read} pages for {} puts", puts.len());
}

#[test]
fn a_long_scan_has_more_records_on_their_way_than_a_leaf_has() {
    let directory = Directory::new("reads-scan");
    // A record has a page to itself.
    let (count, value) = (2000, vec![7; 4050]);
    let (store, space) = cold_store(&directory, count, &value);
    let (before, mut shown, mut least) = (pages_read(), 0, u64::MAX);
    let snapshot = store.snapshot().unwrap();
    let all = (Bound::Unbounded, Bound::Unbounded);
    snapshot
        .range_with::<[u8]>(space, all, Direction::Forward, &mut |_, _| {
            shown += 1;
            if (500..count - 200).contains(&shown) {
                least = least.min((pages_read() - before).saturating_sub(shown));
            }
            true
        })
        .unwrap();
    assert_eq!(shown, count);
    let all = pages_read() - before;
    // In memory no page is read.
    assert!(all < count / 2 || least >= 30, "{least} records were asked for");
}

#[test]
fn an_iterator_waits_for_a_large_value_once_or_twice() {
    let directory = Directory::new("reads-iterator");
    let (count, value) = (20, vec![7; 500_000]);
    let (store, space) = cold_store(&directory, count, &value);
    let before = waits();
    let found: Result<Vec<_>, _> = store.range::<[u8]>(space, ..).unwrap().collect();
    assert_eq!(found.unwrap().len() as u64, count);
    let waits = waits() - before;
    // Each has 123 pages.
    assert!(waits <= 3 * count, "waited {waits} times for {count} values");
}
