//! Tembo, embedded: each operation a strict commit.

use std::ops::Bound;

use tembo_index::IndexKind;
use tembo_kv::{Direction, DomainRequest, Durability, Exclusive, Keyspace, Options, Store, Value};
use tembo_pmem::memory_max;

use super::opened::{Change, Client, Medium, Place, Rival, touch};
use crate::Error;

/// Keys of a commit that are asked for together.
const KEYS_ABREAST: usize = 64;

/// A store with one keyspace.
pub(super) struct Embedded {
    store: Store,
    keyspace: Keyspace,
    settings: Vec<String>,
}

impl Embedded {
    pub(super) fn new(place: Place<'_>, index: IndexKind) -> Result<Embedded, Error> {
        let domain = match place.medium {
            Medium::Memory => DomainRequest::Flush,
            Medium::Disk => DomainRequest::Logged,
        };
        let mut settings = Vec::new();
        let mut options = Options::new().domain(domain).index(index);
        // In a memory group it finds the limit itself; elsewhere it is given what it would take in one.
        if let Some(share) = place.share
            && memory_max().is_none_or(|max| max > share.memory)
        {
            options = options.memory(share.memory / 2);
            settings.push(format!("memory={}", share.memory / 2));
        }
        let store = Store::open_or_create(&place.folder.join("tembo.pool"), &options)?;
        let keyspace = store.keyspace("bench")?;
        Ok(Embedded { store, keyspace, settings })
    }

    pub(super) fn volatile() -> Result<Embedded, Error> {
        let options =
            Options::new().index(IndexKind::Cdds).size(VOLATILE_SIZE).size_max(VOLATILE_SIZE);
        let store = Store::volatile(&options)?;
        let keyspace = store.keyspace("bench")?;
        Ok(Embedded { store, keyspace, settings: Vec::new() })
    }
}

/// Bytes of a volatile pool, of which only what is touched takes memory.
const VOLATILE_SIZE: u64 = 8 << 30;

impl Rival for Embedded {
    fn settings(&self) -> Vec<String> {
        self.settings.clone()
    }

    fn client(&self) -> Result<Box<dyn Client + '_>, Error> {
        Ok(Box::new(self))
    }
}

impl Embedded {
    /// Makes changes of which some are puts.
    fn write_mixed(&self, exclusive: &mut Exclusive, changes: &[Change<'_>]) -> Result<(), Error> {
        for changes in changes.chunks(KEYS_ABREAST) {
            let keys: Vec<&[u8]> = changes
                .iter()
                .map(|change| match *change {
                    Change::Put { key, .. } | Change::Remove { key } => key,
                })
                .collect();
            exclusive.prefetch(self.keyspace, &keys);
            for change in changes {
                match *change {
                    Change::Put { key, value } => exclusive.put(self.keyspace, key, value)?,
                    Change::Remove { key } => exclusive.remove(self.keyspace, key)?,
                };
            }
        }
        Ok(())
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

    fn write(&mut self, changes: &[Change<'_>]) -> Result<(), Error> {
        let mut exclusive = self.store.exclusive()?;
        let puts: Option<Vec<(&[u8], &[u8])>> = changes
            .iter()
            .map(|change| match *change {
                Change::Put { key, value } => Some((key, value)),
                Change::Remove { .. } => None,
            })
            .collect();
        match puts {
            Some(puts) => exclusive.put_all(self.keyspace, &puts)?,
            None => self.write_mixed(&mut exclusive, changes)?,
        }
        exclusive.commit(Durability::Strict)?;
        Ok(())
    }

    fn scan(&mut self, key: &[u8], len: usize) -> Result<Option<usize>, Error> {
        let mut count = 0;
        let mut visit = |key: &[u8], value: tembo_kv::Value<'_>| {
            std::hint::black_box(key);
            value.with(touch);
            count += 1;
            count < len
        };
        let (from, to) = (Bound::Included(key), Bound::Unbounded);
        let snapshot = self.store.snapshot()?;
        snapshot.range_with::<[u8]>(self.keyspace, (from, to), Direction::Forward, &mut visit)?;
        Ok(Some(count))
    }
}
