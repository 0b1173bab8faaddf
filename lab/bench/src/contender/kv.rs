//! The store, as a program uses it: each operation a strict commit.

use std::ops::Bound;
use std::path::Path;

use tembo_index::IndexKind;
use tembo_kv::{Direction, Durability, Keyspace, Options, Progress, Store, Value};

use super::bare::number;
use super::pool::{Size, create_prepared, forget_name, pool_options};
use crate::{Contender, Error, Operation, Shared};

/// A store with one keyspace.
pub(super) struct StrictStore {
    store: Store,
    keyspace: Keyspace,
}

impl StrictStore {
    pub(super) fn new(folder: &Path, size: Size, index: IndexKind) -> Result<StrictStore, Error> {
        let path = folder.join("pool");
        let pool = pool_options(size);
        let options = Options::new().pool(pool.clone()).index(index);
        let store = match size.prepared {
            0 => Store::create(&path, &options)?,
            _ => create_prepared(&path, &options, &pool.region)?,
        };
        forget_name(&path);
        let keyspace = store.keyspace("bench")?;
        Ok(StrictStore { store, keyspace })
    }
}

impl StrictStore {
    /// A contender without flushes and without background work.
    pub(super) fn in_memory(size: u64, index: IndexKind) -> Result<StrictStore, Error> {
        let options = Options::new().index(index).background(false).size(size).size_max(size);
        let store = Store::volatile(&options)?;
        while store.maintain(64)? == Progress::More {}
        let keyspace = store.keyspace("bench")?;
        Ok(StrictStore { store, keyspace })
    }
}

impl Shared for StrictStore {
    fn takes_writers(&self) -> bool {
        true
    }

    fn put(&self, key: u64, value: u64) -> Result<bool, Error> {
        let (key, value) = (key.to_be_bytes(), value.to_le_bytes());
        Ok(self.store.put(self.keyspace, &key, &value, Durability::Strict)?)
    }

    fn get(&self, key: u64) -> Result<Option<u64>, Error> {
        let read = |value: Option<Value<'_>>| value.and_then(number);
        Ok(self.store.get_with(self.keyspace, &key.to_be_bytes(), read)?)
    }
}

impl Contender for StrictStore {
    fn insert(&mut self, key: u64, value: u64) -> Result<(), Error> {
        self.put(key, value).map(drop)
    }

    fn update(&mut self, key: u64, value: u64) -> Result<bool, Error> {
        self.put(key, value)
    }

    fn remove(&mut self, key: u64) -> Result<bool, Error> {
        Ok(self.store.remove(self.keyspace, &key.to_be_bytes(), Durability::Strict)?)
    }

    fn get(&mut self, key: u64) -> Result<Option<u64>, Error> {
        Shared::get(self, key)
    }

    fn shared(&self) -> Option<&dyn Shared> {
        Some(self)
    }

    fn scan(&mut self, key: u64, len: usize) -> Result<usize, Error> {
        let mut count = 0;
        let mut visit = |key: &[u8], value: tembo_kv::Value<'_>| {
            std::hint::black_box((key, value));
            count += 1;
            count < len
        };
        let from = key.to_be_bytes();
        let (from, to) = (Bound::Included(&from[..]), Bound::Unbounded);
        let snapshot = self.store.snapshot()?;
        snapshot.range_with::<[u8]>(self.keyspace, (from, to), Direction::Forward, &mut visit)?;
        Ok(count)
    }

    fn offers(&self, operation: Operation) -> bool {
        operation != Operation::Scan || self.store.report().index.is_ordered()
    }

    fn used_bytes(&self) -> u64 {
        self.store.report().used_bytes
    }
}
