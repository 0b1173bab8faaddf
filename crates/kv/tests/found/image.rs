//! The bytes of a closed pool, and what a store makes of them when they are damaged.

use std::ops::Bound;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::OnceLock;

use tembo_kv::{Direction, Durability, Error, Snapshot, Store};
use tembo_pmem::{Region, RegionOptions};
use tembo_pool::{Pool, PoolOptions};

use super::bench::{directory, key, recover, tiny};

/// docs/formats/superblock.md: the root of the pool's first tenant.
pub(crate) const ROOT_WORD: usize = 4096 + 256 + 56;
pub(crate) const SIZE: u64 = 160 << 10;

/// A closed pool with something of everything: two keyspaces of several levels, one of them
/// cleared, long values, a named snapshot, a dead interval.
pub(crate) fn closed() -> Vec<u8> {
    static CLOSED: OnceLock<Vec<u8>> = OnceLock::new();
    CLOSED.get_or_init(make).clone()
}

fn make() -> Vec<u8> {
    let directory = directory("image");
    let store = Store::create(&directory.pool(), &tiny(SIZE)).unwrap();
    recover(&store);
    let (a, b) = (store.keyspace("a").unwrap(), store.keyspace("b").unwrap());
    let put = |space, i: u64, len: usize| {
        let value = vec![i as u8; len];
        store.put(space, &key(i * 17 % 40), &value, Durability::Buffered).unwrap();
    };
    (0..24).for_each(|i| put(a, i, 10));
    (0..8).for_each(|i| put(b, i, 70));
    store.save_snapshot("then").unwrap();
    (16..30).for_each(|i| put(a, i, 20));
    put(a, 31, 3000);
    store.remove(a, &key(17), Durability::Buffered).unwrap();
    let mut tx = store.exclusive().unwrap();
    tx.clear(b).unwrap();
    tx.put(b, b"one", b"two").unwrap();
    tx.commit(Durability::Buffered).unwrap();
    let mut tx = store.exclusive().unwrap();
    (0..12).for_each(|i| assert!(tx.put(a, &key(i), b"void").is_ok()));
    drop(tx);
    store.put(a, b"last", b"one", Durability::Buffered).unwrap();
    store.close().unwrap();
    std::fs::read(directory.pool()).unwrap()
}

pub(crate) fn word(image: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(image[at..at + 8].try_into().unwrap())
}

pub(crate) fn patch(image: &mut [u8], at: usize, value: u64) {
    image[at..at + 8].copy_from_slice(&value.to_le_bytes());
}

/// Where the object lies that a word names.
pub(crate) fn object(word: u64) -> usize {
    (word & ((1 << 40) - 1)) as usize * 16
}

pub(crate) fn open(image: &[u8]) -> Result<Store, Error> {
    let options = tiny(SIZE);
    let region = RegionOptions { size_max: image.len() as u64, ..RegionOptions::default() };
    let pool = PoolOptions { region: region.clone(), ..options.pool_options() };
    let options = options.pool(pool);
    let region = Region::from_image(image, &region)?;
    Store::start(Pool::from_region_of(region, tembo_kv::kinds())?, &options)
}

/// Every key of every keyspace, forwards, backwards and one by one.
fn read(store: &Store, snapshot: &Snapshot) -> Result<(), Error> {
    for (_, space) in store.keyspaces() {
        let mut keys = Vec::new();
        for direction in [Direction::Forward, Direction::Backward] {
            let mut visit = |key: &[u8], _: tembo_kv::Value<'_>| {
                keys.push(key.to_vec());
                true
            };
            snapshot.range_with::<[u8]>(
                space,
                (Bound::Unbounded, Bound::Unbounded),
                direction,
                &mut visit,
            )?;
        }
        keys.iter().try_for_each(|key| snapshot.get(space, key).map(drop))?;
    }
    Ok(())
}

/// Each thing that can be asked is asked, though others have failed. The first error.
fn ask(image: &[u8]) -> Result<(), Error> {
    let store = open(image)?;
    let read_at = |version| read(&store, &store.snapshot_at(version)?);
    let keys = (0..42).map(key).chain([b"last".to_vec(), b"one".to_vec()]);
    let get = |key: Vec<u8>| {
        let spaces = store.keyspaces();
        spaces.into_iter().try_for_each(|(_, space)| store.get(space, &key).map(drop))
    };
    let mut results = vec![read_at(store.visible())];
    results.extend(store.snapshots().into_iter().map(|(_, version)| read_at(version)));
    results.extend(keys.map(get));
    results.push(store.check().map(drop));
    results.push(store.maintain(100).map(drop));
    for (_, space) in store.keyspaces() {
        results.push(store.put(space, b"new", b"one", Durability::Buffered).map(drop));
        results.push(store.remove(space, &key(8), Durability::Buffered).map(drop));
    }
    results.push(read_at(store.visible()));
    results.into_iter().collect()
}

/// As [`ask`], but a panic is the outer error.
pub(crate) fn judge(image: &[u8]) -> Result<Result<(), Error>, String> {
    catch_unwind(AssertUnwindSafe(|| ask(image))).map_err(|cause| {
        let text = cause.downcast_ref::<String>().map(String::as_str);
        text.or(cause.downcast_ref::<&str>().copied()).unwrap_or("?").to_owned()
    })
}
