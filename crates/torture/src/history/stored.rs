//! The store itself, as histories are taken of it.

use tembo_kv::{Durability, Error, Keyspace, Store};

use super::database::{Failure, Key, Registers, Value};
use super::record::ABSENT;

/// Longest value, in bytes: some are inline, some in records of their own.
const SIZE_MAX: u64 = 150;

/// A keyspace of a store.
pub struct Stored<'s> {
    store: &'s Store,
    keyspace: Keyspace,
}

impl<'s> Stored<'s> {
    /// The keyspace of that name.
    ///
    /// # Errors
    /// The store's.
    pub fn new(store: &'s Store, name: &str) -> Result<Stored<'s>, Error> {
        Ok(Stored { store, keyspace: store.keyspace(name)? })
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
        _ => Err(broken(format!("a value that nobody wrote: {bytes:?}"))),
    }
}

impl Registers for Stored<'_> {
    fn get(&self, key: Key) -> Result<Value, Failure> {
        let read = self.store.get_with(self.keyspace, &key_bytes(key), value);
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
