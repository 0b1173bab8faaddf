//! The store itself, as histories are taken of it.

use std::ops::{Bound, Deref};

use tembo_kv::{Direction, Durability, Error, Keyspace, Savepoint, Store, Transaction};

use super::database::{Database, Failure, Isolation, Key, Registers, Transact, Value};
use super::record::ABSENT;

/// Longest value, in bytes: some are inline, some in records of their own.
const SIZE_MAX: u64 = 150;

/// A keyspace of a store, which is borrowed or owned.
pub struct Stored<S> {
    store: S,
    keyspace: Keyspace,
}

impl<S: Deref<Target = Store>> Stored<S> {
    /// The keyspace of that name.
    ///
    /// # Errors
    /// The store's.
    pub fn new(store: S, name: &str) -> Result<Stored<S>, Error> {
        let keyspace = store.keyspace(name)?;
        Ok(Stored { store, keyspace })
    }
}

fn broken(error: impl std::fmt::Display) -> Failure {
    Failure::Broken(error.to_string())
}

fn key_bytes(key: Key) -> [u8; 4] {
    key.to_be_bytes()
}

/// The number eight bytes long, and then as many more as the number says.
fn value_bytes(value: Value) -> Vec<u8> {
    let number = value.to_le_bytes();
    let size = if value.is_multiple_of(3) { 8 + value % SIZE_MAX } else { 8 };
    number.iter().copied().cycle().take(size as usize).collect()
}

/// The number that stands there.
fn value(bytes: Option<&[u8]>) -> Result<Value, Failure> {
    let Some(bytes) = bytes else { return Ok(ABSENT) };
    let number = bytes.first_chunk().map(|&number| Value::from_le_bytes(number));
    match number {
        Some(number) if value_bytes(number) == bytes => Ok(number),
        _ => Err(broken(format!("a value that was never written: {bytes:?}"))),
    }
}

impl<S: Deref<Target = Store> + Sync> Registers for Stored<S> {
    fn get(&self, key: Key) -> Result<Value, Failure> {
        let read = self.store.get_with(self.keyspace, &key_bytes(key), |found| {
            value(found.map(|found| found.to_vec()).as_deref())
        });
        read.map_err(broken)?
    }

    fn put(&self, key: Key, value: Value) -> Result<bool, Failure> {
        let (key, value) = (key_bytes(key), value_bytes(value));
        self.store.put(self.keyspace, &key, &value, Durability::Strict).map_err(broken)
    }

    fn remove(&self, key: Key) -> Result<bool, Failure> {
        let key = key_bytes(key);
        self.store.remove(self.keyspace, &key, Durability::Strict).map_err(broken)
    }
}

/// A transaction of a [`Stored`] keyspace.
pub struct StoredTransaction {
    transaction: Transaction,
    keyspace: Keyspace,
}

fn failure(error: Error) -> Failure {
    let Error::Conflict { key, version, .. } = &error else { return broken(error) };
    match key.first_chunk() {
        Some(&bytes) => Failure::Conflict { key: Key::from_be_bytes(bytes), version: *version },
        None => broken(error),
    }
}

impl<S: Deref<Target = Store> + Sync> Database for Stored<S> {
    type Transaction<'d>
        = StoredTransaction
    where
        Self: 'd;

    fn begin(&self, isolation: Isolation) -> Result<StoredTransaction, Failure> {
        let isolation = match isolation {
            Isolation::Snapshot => tembo_kv::Isolation::Snapshot,
            Isolation::Serialisable => tembo_kv::Isolation::Serialisable,
        };
        let transaction = self.store.transaction(isolation).map_err(broken)?;
        Ok(StoredTransaction { transaction, keyspace: self.keyspace })
    }

    fn has_ranges(&self) -> bool {
        self.store.is_ordered()
    }
}

impl Transact for StoredTransaction {
    type Savepoint = Savepoint;

    fn version(&self) -> u64 {
        self.transaction.version()
    }

    fn get(&mut self, key: Key) -> Result<Value, Failure> {
        let bytes = self.transaction.get(self.keyspace, &key_bytes(key)).map_err(broken)?;
        value(bytes.as_deref())
    }

    fn range(
        &mut self,
        from: Key,
        to: Key,
        backwards: bool,
        limit: usize,
    ) -> Result<Vec<(Key, Value)>, Failure> {
        let (from, to) = (key_bytes(from), key_bytes(to));
        let direction = if backwards { Direction::Backward } else { Direction::Forward };
        let mut entries = Vec::new();
        let mut visit = |key: &[u8], bytes: tembo_kv::Value<'_>| {
            entries.push((
                key.first_chunk().map(|&key| Key::from_be_bytes(key)),
                bytes.with(|bytes| value(Some(bytes))),
            ));
            entries.len() < limit
        };
        let (from, to) = (Bound::Included(&from[..]), Bound::Included(&to[..]));
        self.transaction
            .range_with::<[u8]>(self.keyspace, (from, to), direction, &mut visit)
            .map_err(broken)?;
        let known = |(key, value): (Option<Key>, Result<Value, Failure>)| {
            Ok((key.ok_or_else(|| broken("a key that was never written"))?, value?))
        };
        entries.into_iter().map(known).collect()
    }

    fn put(&mut self, key: Key, value: Value) -> Result<(), Failure> {
        let (key, value) = (key_bytes(key), value_bytes(value));
        self.transaction.put(self.keyspace, &key, &value).map_err(failure)
    }

    fn remove(&mut self, key: Key) -> Result<(), Failure> {
        self.transaction.remove(self.keyspace, &key_bytes(key)).map_err(failure)
    }

    fn savepoint(&mut self) -> Savepoint {
        self.transaction.savepoint()
    }

    fn roll_back(&mut self, savepoint: &Savepoint) -> Result<(), Failure> {
        self.transaction.rollback_to(savepoint).map_err(broken)
    }

    fn commit(self) -> Result<u64, Failure> {
        self.transaction.commit(Durability::Strict).map_err(failure)
    }
}
