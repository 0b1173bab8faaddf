//! fjall: a log-structured merge tree. Each change is followed by `persist(SyncData)`.

use std::path::Path;

use fjall::{Database, Keyspace, KeyspaceCreateOptions, KvSeparationOptions, PersistMode};

use super::opened::{Change, Client, Rival, Share, failed, touch};
use crate::Error;

/// A database with one keyspace.
pub(super) struct Fjall {
    database: Database,
    keyspace: Keyspace,
    settings: Vec<String>,
}

fn error(source: ::fjall::Error) -> Error {
    failed("fjall")(Box::new(source))
}

impl Fjall {
    /// Its documentation recommends a cache of 20 to 25 % of memory, and separated values from 1 KiB on where they are
    /// large and seldom scanned.
    pub(super) fn new(folder: &Path, share: Option<Share>) -> Result<Fjall, Error> {
        let mut builder = Database::builder(folder.join("fjall"));
        let mut options = KeyspaceCreateOptions::default();
        let mut settings = Vec::new();
        if let Some(share) = share {
            // Several memtables may wait to be written: with an eighth each it was killed for want of memory.
            let (cache, memtable) = (share.memory / 4, (share.memory / 16).min(64 << 20));
            builder = builder.cache_size(cache);
            options = options.max_memtable_size(memtable);
            settings.push(format!("cache_size={cache}"));
            settings.push(format!("max_memtable_size={memtable}"));
            if share.has_large_values() {
                options = options.with_kv_separation(Some(KvSeparationOptions::default()));
                settings.push("with_kv_separation".into());
            }
        }
        let database = builder.open().map_err(error)?;
        let keyspace = database.keyspace("bench", || options);
        Ok(Fjall { keyspace: keyspace.map_err(error)?, database, settings })
    }

    fn persist(&self) -> Result<(), Error> {
        self.database.persist(PersistMode::SyncData).map_err(error)
    }
}

impl Rival for Fjall {
    fn settings(&self) -> Vec<String> {
        [self.settings.clone(), vec!["persist(SyncData) after each commit".into()]].concat()
    }

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

    fn write(&mut self, changes: &[Change<'_>]) -> Result<(), Error> {
        let mut batch = self.database.batch().durability(Some(PersistMode::SyncData));
        for change in changes {
            match *change {
                Change::Put { key, value } => batch.insert(&self.keyspace, key, value),
                Change::Remove { key } => batch.remove(&self.keyspace, key),
            }
        }
        batch.commit().map_err(error)
    }

    fn scan(&mut self, key: &[u8], len: usize) -> Result<Option<usize>, Error> {
        let mut count = 0;
        for entry in self.keyspace.range(key..).take(len) {
            let (_, value) = entry.into_inner().map_err(error)?;
            touch(&value);
            count += 1;
        }
        Ok(Some(count))
    }
}
