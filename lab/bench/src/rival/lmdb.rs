//! LMDB: a copy-on-write B+-tree in a mapping. A write transaction for each change, synced when it
//! commits, as it comes.
#![allow(unsafe_code)]

use std::ops::Bound;
use std::path::Path;

use heed::types::Bytes;
use heed::{Database, Env, EnvFlags, EnvOpenOptions};

use super::opened::{Change, Client, Rival, failed, touch};
use crate::Error;

/// The mapping's ceiling: LMDB wants it named.
const MAP_SIZE: usize = 64 << 30;

/// In `lmdb.h`.
const MDB_NORDAHEAD: u32 = 0x80_0000;

/// An environment with its unnamed database.
pub(super) struct Lmdb {
    env: Env,
    database: Database<Bytes, Bytes>,
    settings: Vec<String>,
}

/// Whether the system reads what lies around a page that is asked for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Readahead {
    Yes,
    /// `MDB_NORDAHEAD`, which its documentation recommends for random reads of more than memory holds.
    No,
}

fn error(source: heed::Error) -> Error {
    failed("LMDB")(source.to_string().into())
}

impl Lmdb {
    pub(super) fn new(folder: &Path, readahead: Readahead) -> Result<Lmdb, Error> {
        let mut options = EnvOpenOptions::new();
        options.map_size(MAP_SIZE);
        let mut settings = vec![format!("mapsize={MAP_SIZE}")];
        if readahead == Readahead::No {
            // SAFETY: this flag changes no promise of the library.
            unsafe { options.flags(EnvFlags::from_bits_truncate(MDB_NORDAHEAD)) };
            settings.push("MDB_NORDAHEAD".into());
        }
        // SAFETY: the folder is this experiment's own, so no other program changes the file under the
        // mapping, and it is opened once.
        let env = unsafe { options.open(folder) }.map_err(error)?;
        let mut write = env.write_txn().map_err(error)?;
        let database = env.create_database(&mut write, None).map_err(error)?;
        write.commit().map_err(error)?;
        Ok(Lmdb { env, database, settings })
    }
}

impl Rival for Lmdb {
    fn settings(&self) -> Vec<String> {
        self.settings.clone()
    }

    fn client(&self) -> Result<Box<dyn Client + '_>, Error> {
        Ok(Box::new(self))
    }
}

impl Client for &Lmdb {
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), Error> {
        let mut write = self.env.write_txn().map_err(error)?;
        self.database.put(&mut write, key, value).map_err(error)?;
        write.commit().map_err(error)
    }

    fn get(&mut self, key: &[u8], out: &mut Vec<u8>) -> Result<bool, Error> {
        let read = self.env.read_txn().map_err(error)?;
        let value = self.database.get(&read, key).map_err(error)?;
        out.clear();
        Ok(value.map(|value| out.extend_from_slice(value)).is_some())
    }

    fn remove(&mut self, key: &[u8]) -> Result<bool, Error> {
        let mut write = self.env.write_txn().map_err(error)?;
        let existed = self.database.delete(&mut write, key).map_err(error)?;
        write.commit().map_err(error)?;
        Ok(existed)
    }

    fn write(&mut self, changes: &[Change<'_>]) -> Result<(), Error> {
        let mut write = self.env.write_txn().map_err(error)?;
        for change in changes {
            match *change {
                Change::Put { key, value } => {
                    self.database.put(&mut write, key, value).map_err(error)?;
                }
                Change::Remove { key } => {
                    self.database.delete(&mut write, key).map_err(error)?;
                }
            }
        }
        write.commit().map_err(error)
    }

    fn scan(&mut self, key: &[u8], len: usize) -> Result<Option<usize>, Error> {
        let read = self.env.read_txn().map_err(error)?;
        let mut count = 0;
        let from = (Bound::Included(key), Bound::Unbounded);
        for entry in self.database.range(&read, &from).map_err(error)?.take(len) {
            let (_, value) = entry.map_err(error)?;
            touch(value);
            count += 1;
        }
        Ok(Some(count))
    }
}
