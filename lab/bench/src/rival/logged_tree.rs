//! A volatile ordered map with an append-only log: what the thesis had made of Redis for its figure 5.5,
//! here without a server around it.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::opened::{Client, Rival, failed};
use crate::Error;

/// The map and its log.
pub(super) struct LoggedTree(Mutex<State>);

struct State {
    map: BTreeMap<Vec<u8>, Vec<u8>>,
    log: File,
    record: Vec<u8>,
}

fn error(source: io::Error) -> Error {
    failed("a map with a log")(Box::new(source))
}

impl LoggedTree {
    pub(super) fn new(folder: &Path) -> Result<LoggedTree, Error> {
        let log = File::create(folder.join("log")).map_err(error)?;
        let (map, record) = Default::default();
        Ok(LoggedTree(Mutex::new(State { map, log, record })))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// As Redis with `appendfsync always`: written and synced before the reply.
    fn append(&mut self, verb: u8, key: &[u8], value: &[u8]) -> Result<(), Error> {
        self.record.clear();
        self.record.push(verb);
        self.record.extend_from_slice(&(key.len() as u32).to_le_bytes());
        self.record.extend_from_slice(&(value.len() as u32).to_le_bytes());
        self.record.extend_from_slice(key);
        self.record.extend_from_slice(value);
        self.log.write_all(&self.record).map_err(error)?;
        self.log.sync_data().map_err(error)
    }
}

impl Rival for LoggedTree {
    fn client(&self) -> Result<Box<dyn Client + '_>, Error> {
        Ok(Box::new(self))
    }
}

impl Client for &LoggedTree {
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), Error> {
        let mut state = self.state();
        state.map.insert(key.to_vec(), value.to_vec());
        state.append(b'+', key, value)
    }

    fn get(&mut self, key: &[u8], out: &mut Vec<u8>) -> Result<bool, Error> {
        out.clear();
        Ok(self.state().map.get(key).map(|value| out.extend_from_slice(value)).is_some())
    }

    fn remove(&mut self, key: &[u8]) -> Result<bool, Error> {
        let mut state = self.state();
        let existed = state.map.remove(key).is_some();
        state.append(b'-', key, &[])?;
        Ok(existed)
    }

    fn scan(&mut self, key: &[u8], len: usize) -> Result<Option<usize>, Error> {
        let state = self.state();
        let from = (std::ops::Bound::Included(key), std::ops::Bound::Unbounded);
        let entries = state.map.range::<[u8], _>(from).take(len);
        Ok(Some(entries.map(std::hint::black_box).count()))
    }
}
