//! Tembo, embedded: each operation a strict commit.

use std::ops::Bound;

use tembo_index::IndexKind;
use tembo_kv::{
    Direction, DomainRequest, Durability, Keyspace, Options, PoolOptions, RegionOptions, Store,
    Value,
};

use super::opened::{Client, Medium, Place, Rival};
use crate::Error;

/// A store with one keyspace.
pub(super) struct Embedded {
    store: Store,
    keyspace: Keyspace,
}

impl Embedded {
    pub(super) fn new(place: Place<'_>, index: IndexKind) -> Result<Embedded, Error> {
        let domain = match place.medium {
            Medium::Memory => DomainRequest::Flush,
            Medium::Disk => DomainRequest::Logged,
        };
        let region = RegionOptions { domain, ..RegionOptions::default() };
        let pool = PoolOptions { region, ..PoolOptions::default() };
        let options = Options::new().pool(pool).index(index);
        let store = Store::create(&place.folder.join("tembo.pool"), &options)?;
        let keyspace = store.keyspace("bench")?;
        Ok(Embedded { store, keyspace })
    }

    pub(super) fn volatile() -> Result<Embedded, Error> {
        let options =
            Options::new().index(IndexKind::Cdds).size(VOLATILE_SIZE).size_max(VOLATILE_SIZE);
        let store = Store::volatile(&options)?;
        let keyspace = store.keyspace("bench")?;
        Ok(Embedded { store, keyspace })
    }
}

/// Bytes of a volatile pool, of which only what is touched takes memory.
const VOLATILE_SIZE: u64 = 8 << 30;

impl Rival for Embedded {
    fn client(&self) -> Result<Box<dyn Client + '_>, Error> {
        Ok(Box::new(self))
    }
}

impl Client for &Embedded {
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), Error> {
        self.store.put(self.keyspace, key, value, Durability::Strict)?;
        Ok(())
    }

    fn get(&mut self, key: &[u8], out: &mut Vec<u8>) -> Result<bool, Error> {
        let copy = |value: Option<Value<'_>>| {
            out.clear();
            value.map(|value| value.append_to(out)).is_some()
        };
        Ok(self.store.get_with(self.keyspace, key, copy)?)
    }

    fn remove(&mut self, key: &[u8]) -> Result<bool, Error> {
        Ok(self.store.remove(self.keyspace, key, Durability::Strict)?)
    }

    fn scan(&mut self, key: &[u8], len: usize) -> Result<Option<usize>, Error> {
        let mut count = 0;
        let mut visit = |key: &[u8], value: tembo_kv::Value<'_>| {
            std::hint::black_box((key, value));
            count += 1;
            count < len
        };
        let (from, to) = (Bound::Included(key), Bound::Unbounded);
        let snapshot = self.store.snapshot()?;
        snapshot.range_with::<[u8]>(self.keyspace, (from, to), Direction::Forward, &mut visit)?;
        Ok(Some(count))
    }
}
