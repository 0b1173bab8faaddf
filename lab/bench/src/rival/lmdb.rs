//! LMDB: a copy-on-write B+-tree in a mapping. A write transaction for each change, synced when it
//! commits, as it comes.
#![allow(unsafe_code)]

use std::ops::Bound;
use std::path::Path;

use heed::types::Bytes;
use heed::{Database, Env, EnvOpenOptions};

use super::opened::{Client, Rival, failed};
use crate::Error;

/// The mapping's ceiling: LMDB wants it named.
const MAP_SIZE: usize = 64 << 30;

/// An environment with its unnamed database.
pub(super) struct Lmdb {
    env: Env,
    database: Database<Bytes, Bytes>,
}

fn error(source: heed::Error) -> Error {
    failed("LMDB")(source.to_string().into())
}

impl Lmdb {
    pub(super) fn new(folder: &Path) -> Result<Lmdb, Error> {
        // SAFETY: the folder is this experiment's own, so no other program changes the file under the
        // mapping, and it is opened once.
        let env =
            unsafe { EnvOpenOptions::new().map_size(MAP_SIZE).open(folder) }.map_err(error)?;
        let mut write = env.write_txn().map_err(error)?;
        let database = env.create_database(&mut write, None).map_err(error)?;
        write.commit().map_err(error)?;
        Ok(Lmdb { env, database })
    }
}

impl Rival for Lmdb {
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

    fn scan(&mut self, key: &[u8], len: usize) -> Result<Option<usize>, Error> {
        let read = self.env.read_txn().map_err(error)?;
        let mut count = 0;
        let from = (Bound::Included(key), Bound::Unbounded);
        for entry in self.database.range(&read, &from).map_err(error)?.take(len) {
            std::hint::black_box(entry.map_err(error)?);
            count += 1;
        }
        Ok(Some(count))
    }
}
