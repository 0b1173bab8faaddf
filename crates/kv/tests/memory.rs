//! Memory beside the pool: what asks for large pages, and when.
#![allow(clippy::unwrap_used)]

use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tembo_kv::{Durability, IndexKind, Keyspace, Options, Store};
use tembo_pool::Geometry;

/// Ascending keys: so many that memory is made ready for what comes next, and so few that it is not.
const MANY: u64 = 100_000;
const FEW: u64 = 50_000;

/// Kilobytes.
const LARGE_PAGE: u64 = 2048;

/// What is asked of the system is of all the process.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn options(background: bool) -> Options {
    Options::new()
        .index(IndexKind::Nvtree)
        .background(background)
        .geometry(Geometry { chunk_size: 4096, node_size: 256 })
}

fn store(background: bool) -> (Store, Keyspace) {
    let store = Store::volatile(&options(background)).unwrap();
    let space = store.keyspace("a").unwrap();
    (store, space)
}

fn put(store: &Store, space: Keyspace, numbers: std::ops::Range<u64>) {
    put_values(store, space, numbers, &[1; 8]);
}

fn put_values(store: &Store, space: Keyspace, numbers: std::ops::Range<u64>, value: &[u8]) {
    for number in numbers {
        store.put(space, &number.to_be_bytes(), value, Durability::Buffered).unwrap();
    }
}

/// Kilobytes of a line of a file of the process.
fn kilobytes(text: &str, name: &str) -> u64 {
    let line = text.lines().find_map(|line| line.strip_prefix(name)).unwrap_or("0 kB");
    line.trim_end_matches("kB").trim().parse().unwrap()
}

/// Kilobytes for which large pages were asked, and how many of these are in memory.
fn large() -> (u64, u64) {
    let smaps = std::fs::read_to_string("/proc/self/smaps").unwrap();
    let (mut asked, mut there) = (0, 0);
    let mut rest = smaps.as_str();
    // The flags are the last line about each mapping.
    while let Some((mapping, after)) = rest.split_once("VmFlags:") {
        let (flags, next) = after.split_once('\n').unwrap_or((after, ""));
        if flags.split_whitespace().any(|flag| flag == "hg") {
            asked += kilobytes(mapping, "Size:");
            there += kilobytes(mapping, "Rss:");
        }
        rest = next;
    }
    (asked, there)
}

/// What there is of a pool, be it of an earlier run of the same process number.
fn remove(pool: &Path) {
    for end in ["", ".log"] {
        let _ = std::fs::remove_file(format!("{}{end}", pool.display()));
    }
}

/// Whether the system knows large pages at all.
fn has_large_pages() -> bool {
    std::fs::exists("/sys/kernel/mm/transparent_hugepage").unwrap()
}

#[test]
fn a_small_store_takes_little_memory() {
    let _alone = alone();
    let anonymous = || {
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        kilobytes(&status, "RssAnon:")
    };
    let before = anonymous();
    let (store, space) = store(true);
    put(&store, space, 0..100);
    let taken = anonymous().saturating_sub(before);
    assert!(taken < LARGE_PAGE, "{taken} KiB");
    assert_eq!(large(), (0, 0));
    put(&store, space, 100..FEW);
    assert_eq!(large(), (0, 0));
}

#[test]
fn the_thread_of_a_store_makes_large_pages_ready() {
    let _alone = alone();
    let (store, space) = store(true);
    put(&store, space, 0..MANY);
    let until = Instant::now() + Duration::from_secs(60);
    while has_large_pages() && large().0 == 0 {
        assert!(Instant::now() < until, "nobody has asked for large pages");
        std::thread::sleep(Duration::from_millis(1));
    }
    drop(store);
    assert_eq!(large(), (0, 0));
}

#[test]
fn maintaining_a_store_without_a_thread_makes_them_ready() {
    let _alone = alone();
    let (store, space) = store(false);
    put(&store, space, 0..MANY);
    assert_eq!(large(), (0, 0));
    store.maintain(1).unwrap();
    let (asked, there) = large();
    // Not left to the thread that comes there first.
    assert_eq!(asked, there);
    assert!(asked > 0 || !has_large_pages());
}

#[test]
fn a_store_of_large_values_asks_for_no_large_pages() {
    let _alone = alone();
    let (store, space) = store(false);
    put_values(&store, space, 0..5000, &[1; 2000]);
    store.maintain(1).unwrap();
    assert_eq!(large(), (0, 0));
}

#[test]
fn an_opened_store_has_large_pages_where_its_leaves_are() {
    let _alone = alone();
    for (keys, value, is_worth_it) in [(3 * MANY, &[1; 8][..], true), (5000, &[1; 2000], false)] {
        let file = std::env::temp_dir().join(format!("tembo-memory-{}", std::process::id()));
        remove(&file);
        let store = Store::create(&file, &options(false)).unwrap();
        put_values(&store, store.keyspace("a").unwrap(), 0..keys, value);
        store.close().unwrap();
        let store = Store::open(&file, &options(false)).unwrap();
        let space = store.keyspace("a").unwrap();
        for key in 0..keys {
            assert_eq!(store.get(space, &key.to_be_bytes()).unwrap().as_deref(), Some(value));
        }
        assert_eq!(large().1 > 0, is_worth_it && has_large_pages(), "{keys} keys");
        drop(store);
        remove(&file);
    }
}
