//! A volatile ordered map with an append-only log: what the thesis had made of Redis for its figure 5.5,
//! here without a server around it.
//!
//! The thesis's was a server, with sockets between it and its client; here the program calls the map, as it calls
//! the CDDS beside it. Each change is one record of 9 bytes, the key and the value, written at the log's end by one
//! call and synced by another before it returns. The log is neither compacted nor read again: nothing is recovered
//! here.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::opened::{Client, Rival, failed};
use crate::Error;

/// The map and its log.
pub(super) struct LoggedTree<L = File>(Mutex<State<L>>);

/// What records are appended to.
pub(super) trait Log: Send {
    /// Writes a whole record at the end.
    fn append(&mut self, record: &[u8]) -> io::Result<()>;

    /// What was appended is durable when it returns.
    fn sync(&mut self) -> io::Result<()>;
}

impl Log for File {
    fn append(&mut self, record: &[u8]) -> io::Result<()> {
        self.write_all(record)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.sync_data()
    }
}

struct State<L> {
    map: BTreeMap<Vec<u8>, Vec<u8>>,
    log: L,
    record: Vec<u8>,
}

fn error(source: io::Error) -> Error {
    failed("a map with a log")(Box::new(source))
}

impl LoggedTree {
    pub(super) fn new(folder: &Path) -> Result<LoggedTree, Error> {
        let log = File::create(folder.join("log")).map_err(error)?;
        Ok(LoggedTree::over(log))
    }
}

impl<L: Log> LoggedTree<L> {
    fn over(log: L) -> LoggedTree<L> {
        let (map, record) = Default::default();
        LoggedTree(Mutex::new(State { map, log, record }))
    }

    fn state(&self) -> MutexGuard<'_, State<L>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<L: Log> State<L> {
    /// As Redis with `appendfsync always`: written and synced before the reply.
    fn append(&mut self, verb: u8, key: &[u8], value: &[u8]) -> Result<(), Error> {
        self.record.clear();
        self.record.push(verb);
        self.record.extend_from_slice(&(key.len() as u32).to_le_bytes());
        self.record.extend_from_slice(&(value.len() as u32).to_le_bytes());
        self.record.extend_from_slice(key);
        self.record.extend_from_slice(value);
        self.log.append(&self.record).map_err(error)?;
        self.log.sync().map_err(error)
    }
}

impl<L: Log> Rival for LoggedTree<L> {
    fn client(&self) -> Result<Box<dyn Client + '_>, Error> {
        Ok(Box::new(self))
    }
}

impl<L: Log> Client for &LoggedTree<L> {
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::sync::Arc;

    use super::*;

    /// What a log was asked for.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    enum Call {
        /// So many bytes at the end.
        Append(usize),
        Sync,
    }

    #[derive(Clone, Default)]
    struct Recorded(Arc<Mutex<Vec<Call>>>);

    impl Log for Recorded {
        fn append(&mut self, record: &[u8]) -> io::Result<()> {
            self.0.lock().unwrap().push(Call::Append(record.len()));
            Ok(())
        }

        fn sync(&mut self) -> io::Result<()> {
            self.0.lock().unwrap().push(Call::Sync);
            Ok(())
        }
    }

    impl Recorded {
        fn take(&self) -> Vec<Call> {
            std::mem::take(&mut *self.0.lock().unwrap())
        }
    }

    /// As Redis with `appendfsync always`: a record, and then a sync, before any change returns; reads ask for nothing.
    #[test]
    fn each_change_is_one_record_and_one_sync() {
        let log = Recorded::default();
        let tree = LoggedTree::over(log.clone());
        let mut client = &tree;
        let puts: [(&[u8], &[u8]); 3] = [(b"k", b"v"), (&[1; 16], &[2; 100]), (&[1; 16], &[])];
        for (key, value) in puts {
            client.put(key, value).unwrap();
            assert_eq!(log.take(), [Call::Append(9 + key.len() + value.len()), Call::Sync]);
        }
        let mut out = Vec::new();
        assert!(client.get(b"k", &mut out).unwrap() && out == b"v");
        assert_eq!(client.scan(&[], 10).unwrap(), Some(2));
        assert!(log.take().is_empty());
        for was_there in [true, false] {
            assert_eq!(client.remove(b"k").unwrap(), was_there);
            assert_eq!(log.take(), [Call::Append(9 + 1), Call::Sync]);
        }
    }

    /// The file has what the records say, and no byte besides.
    #[test]
    fn a_log_is_its_records() {
        let folder = tempfile::tempdir().unwrap();
        let tree = LoggedTree::new(folder.path()).unwrap();
        let mut client = &tree;
        client.put(b"key", b"value").unwrap();
        assert!(client.remove(b"key").unwrap());
        let log = std::fs::read(folder.path().join("log")).unwrap();
        assert_eq!(log, b"+\x03\0\0\0\x05\0\0\0keyvalue-\x03\0\0\0\0\0\0\0key");
    }
}
