//! redb: a copy-on-write B-tree. A write transaction for each change, with its durability as it comes
//! (`Immediate`: synced when `commit` returns).

use std::path::Path;

use redb::{Database, ReadableDatabase, TableDefinition};

use super::opened::{Change, Client, Rival, Share, failed, touch};
use crate::Error;

const TABLE: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("bench");

/// Its documentation's advice is a cache as large as the data; 1 GiB is its default.
pub(super) struct Redb {
    database: Database,
    settings: Vec<String>,
}

fn error(source: impl Into<::redb::Error>) -> Error {
    failed("redb")(Box::new(source.into()))
}

impl Redb {
    pub(super) fn new(folder: &Path, share: Option<Share>) -> Result<Redb, Error> {
        let (mut builder, mut settings) = (Database::builder(), Vec::new());
        if let Some(share) = share {
            let cache = share.memory / 2;
            builder.set_cache_size(cache as usize);
            settings.push(format!("cache_size={cache}"));
        }
        let database = builder.create(folder.join("redb")).map_err(error)?;
        let write = database.begin_write().map_err(error)?;
        write.open_table(TABLE).map_err(error)?;
        write.commit().map_err(error)?;
        Ok(Redb { database, settings })
    }
}

impl Rival for Redb {
    fn settings(&self) -> Vec<String> {
        self.settings.clone()
    }

    fn client(&self) -> Result<Box<dyn Client + '_>, Error> {
        Ok(Box::new(self))
    }
}

impl Client for &Redb {
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), Error> {
        let write = self.database.begin_write().map_err(error)?;
        write.open_table(TABLE).map_err(error)?.insert(key, value).map_err(error)?;
        write.commit().map_err(error)
    }

    fn get(&mut self, key: &[u8], out: &mut Vec<u8>) -> Result<bool, Error> {
        let read = self.database.begin_read().map_err(error)?;
        let table = read.open_table(TABLE).map_err(error)?;
        let value = table.get(key).map_err(error)?;
        out.clear();
        Ok(value.map(|value| out.extend_from_slice(value.value())).is_some())
    }

    fn remove(&mut self, key: &[u8]) -> Result<bool, Error> {
        let write = self.database.begin_write().map_err(error)?;
        let existed = write.open_table(TABLE).map_err(error)?.remove(key).map_err(error)?.is_some();
        write.commit().map_err(error)?;
        Ok(existed)
    }

    fn write(&mut self, changes: &[Change<'_>]) -> Result<(), Error> {
        let write = self.database.begin_write().map_err(error)?;
        let mut table = write.open_table(TABLE).map_err(error)?;
        for change in changes {
            match *change {
                Change::Put { key, value } => drop(table.insert(key, value).map_err(error)?),
                Change::Remove { key } => drop(table.remove(key).map_err(error)?),
            }
        }
        drop(table);
        write.commit().map_err(error)
    }

    fn scan(&mut self, key: &[u8], len: usize) -> Result<Option<usize>, Error> {
        let read = self.database.begin_read().map_err(error)?;
        let table = read.open_table(TABLE).map_err(error)?;
        let mut count = 0;
        for entry in table.range(key..).map_err(error)?.take(len) {
            let (key, value) = entry.map_err(error)?;
            std::hint::black_box(key.value());
            touch(value.value());
            count += 1;
        }
        Ok(Some(count))
    }
}
