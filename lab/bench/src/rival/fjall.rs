//! fjall: a log-structured merge tree. Each change is followed by `persist(SyncData)`.

use std::path::Path;

use fjall::{Database, Keyspace, KeyspaceCreateOptions, PersistMode};

use super::opened::{Client, Rival, failed};
use crate::Error;

/// A database with one keyspace.
pub(super) struct Fjall {
    database: Database,
    keyspace: Keyspace,
}

fn error(source: ::fjall::Error) -> Error {
    failed("fjall")(Box::new(source))
}

impl Fjall {
    pub(super) fn new(folder: &Path) -> Result<Fjall, Error> {
        let database = Database::builder(folder.join("fjall")).open().map_err(error)?;
        let keyspace = database.keyspace("bench", KeyspaceCreateOptions::default);
        Ok(Fjall { keyspace: keyspace.map_err(error)?, database })
    }

    fn persist(&self) -> Result<(), Error> {
        self.database.persist(PersistMode::SyncData).map_err(error)
    }
}

impl Rival for Fjall {
    fn client(&self) -> Result<Box<dyn Client + '_>, Error> {
        Ok(Box::new(self))
    }
}

impl Client for &Fjall {
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), Error> {
        self.keyspace.insert(key, value).map_err(error)?;
        self.persist()
    }

    fn get(&mut self, key: &[u8], out: &mut Vec<u8>) -> Result<bool, Error> {
        let value = self.keyspace.get(key).map_err(error)?;
        out.clear();
        Ok(value.map(|value| out.extend_from_slice(&value)).is_some())
    }

    /// It does not say whether the key was there, so the caller is believed.
    fn remove(&mut self, key: &[u8]) -> Result<bool, Error> {
        self.keyspace.remove(key).map_err(error)?;
        self.persist()?;
        Ok(true)
    }

    fn scan(&mut self, key: &[u8], len: usize) -> Result<Option<usize>, Error> {
        let mut count = 0;
        for entry in self.keyspace.range(key..).take(len) {
            std::hint::black_box(entry.into_inner().map_err(error)?);
            count += 1;
        }
        Ok(Some(count))
    }
}
