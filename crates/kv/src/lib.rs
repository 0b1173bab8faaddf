//! The store: version, commit, keyspaces, snapshots, transactions.
//!
//! SCAFFOLD: this file is an in-memory stand-in with the final signatures, so that the crates above
//! can be written at the same time. It is replaced whole by the real store.
#![allow(missing_docs, clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::ops::Bound;
use std::path::Path;
use std::sync::{Mutex, MutexGuard};

/// Longest key, in bytes.
pub const KEY_SIZE_MAX: usize = 65_000;
/// Longest value, in bytes.
pub const VALUE_SIZE_MAX: usize = 513 << 20;

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    #[error("a key of {size} bytes is longer than {KEY_SIZE_MAX}")]
    KeyTooLong { size: usize },
    #[error("a value of {size} bytes is longer than {VALUE_SIZE_MAX}")]
    ValueTooLong { size: usize },
    /// The pool has no room left: writes are refused, reads go on.
    #[error("the pool is full")]
    Full,
    /// A sync failed: the store takes no more writes, and nothing unsynced may be shown.
    #[error("the store is poisoned")]
    Poisoned,
    #[error("{0}")]
    Other(String),
}

/// How durable a commit is when it returns; capped by the region's policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Durability {
    /// Synced before return.
    #[default]
    Strict,
    /// Waits for a sync shared with others.
    Group,
    /// Visible on return, durable at the next sync.
    Buffered,
}

#[derive(Clone, Debug, Default)]
pub struct Options {}

/// A keyspace of an open store: a small copyable handle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Keyspace(u32);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    Forward,
    Backward,
}

type Maps = BTreeMap<u32, BTreeMap<Vec<u8>, Vec<u8>>>;

#[derive(Default)]
struct State {
    names: BTreeMap<String, u32>,
    maps: Maps,
    version: u64,
    named: BTreeMap<String, u64>,
}

#[derive(Default)]
pub struct Store {
    state: Mutex<State>,
}

/// What a step of background work left to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    Idle,
    More,
}

/// What an operator asks of a store.
#[derive(Clone, Debug, Default)]
pub struct Report {
    pub domain: String,
    pub sync_policy: String,
    pub visible: u64,
    pub durable: u64,
    pub recovery_us: u64,
    pub recovering: bool,
    pub private_bytes: u64,
    pub pool_bytes: u64,
    pub used_bytes: u64,
    pub fdatasyncs: u64,
}

impl Store {
    pub fn create(_path: &Path, _options: &Options) -> Result<Store, Error> {
        Ok(Store::default())
    }
    pub fn open(_path: &Path, _options: &Options) -> Result<Store, Error> {
        Ok(Store::default())
    }
    pub fn volatile(_options: &Options) -> Result<Store, Error> {
        Ok(Store::default())
    }
    /// A clean stop. Correctness never needs it.
    pub fn close(self) -> Result<(), Error> {
        Ok(())
    }
    /// The keyspace of that name, created if there is none.
    pub fn keyspace(&self, name: &str) -> Result<Keyspace, Error> {
        let mut state = self.state.lock().unwrap();
        let next = state.names.len() as u32 + 1;
        let id = *state.names.entry(name.to_owned()).or_insert(next);
        state.maps.entry(id).or_default();
        Ok(Keyspace(id))
    }
    /// The one writer; waits for the one before. Dropping it without a commit leaves nothing.
    pub fn transaction(&self) -> Result<Transaction<'_>, Error> {
        let state = self.state.lock().unwrap();
        Ok(Transaction { saved: BTreeMap::new(), state, done: false })
    }
    /// All that is visible is as durable as the policy promises. After an error the store is poisoned.
    pub fn sync(&self) -> Result<(), Error> {
        Ok(())
    }
    /// Every version up to it is fenced.
    pub fn visible(&self) -> u64 {
        self.state.lock().unwrap().version
    }
    /// Every version up to it is synced.
    pub fn durable(&self) -> u64 {
        self.state.lock().unwrap().version
    }
    /// Names the visible version durably, in O(1): it can be read and rolled back to until dropped. Replaces an older one of that name.
    pub fn save_snapshot(&self, name: &str) -> Result<u64, Error> {
        let mut state = self.state.lock().unwrap();
        let version = state.version;
        state.named.insert(name.to_owned(), version);
        Ok(version)
    }
    /// Drops a named snapshot; false if there was none.
    pub fn drop_snapshot(&self, name: &str) -> Result<bool, Error> {
        Ok(self.state.lock().unwrap().named.remove(name).is_some())
    }
    /// Some background work (collection, scrub), at most `steps` small steps; called by whoever has time.
    pub fn maintain(&self, _steps: usize) -> Result<Progress, Error> {
        Ok(Progress::Idle)
    }
    pub fn report(&self) -> Report {
        Report { domain: "volatile".into(), sync_policy: "always".into(), ..Report::default() }
    }
}

/// The keys, each with the value it had before (None: absent), of what an uncommitted transaction changed.
type Saved = BTreeMap<(u32, Vec<u8>), Option<Vec<u8>>>;

pub struct Transaction<'s> {
    saved: Saved,
    state: MutexGuard<'s, State>,
    done: bool,
}

impl Transaction<'_> {
    /// The value under `key`, this transaction's own writes included.
    pub fn get(&self, keyspace: Keyspace, key: &[u8]) -> Result<Option<&[u8]>, Error> {
        Ok(self.state.maps[&keyspace.0].get(key).map(Vec::as_slice))
    }
    /// Puts the concatenation of `parts` under `key`; true if the key was there before.
    pub fn put(&mut self, keyspace: Keyspace, key: &[u8], parts: &[&[u8]]) -> Result<bool, Error> {
        if key.len() > KEY_SIZE_MAX {
            return Err(Error::KeyTooLong { size: key.len() });
        }
        let old = self.state.maps.get_mut(&keyspace.0).unwrap().insert(key.to_vec(), parts.concat());
        let existed = old.is_some();
        self.saved.entry((keyspace.0, key.to_vec())).or_insert(old);
        Ok(existed)
    }
    /// Removes `key`; false if it was not there.
    pub fn remove(&mut self, keyspace: Keyspace, key: &[u8]) -> Result<bool, Error> {
        let old = self.state.maps.get_mut(&keyspace.0).unwrap().remove(key);
        let existed = old.is_some();
        self.saved.entry((keyspace.0, key.to_vec())).or_insert(old);
        Ok(existed)
    }
    /// Calls `visit` with each key and value in the range, in order, until it returns false.
    pub fn range(
        &self,
        keyspace: Keyspace,
        from: Bound<&[u8]>,
        to: Bound<&[u8]>,
        direction: Direction,
        visit: &mut dyn FnMut(&[u8], &[u8]) -> bool,
    ) -> Result<(), Error> {
        let mut found = self.state.maps[&keyspace.0].range::<[u8], _>((from, to));
        while let Some((key, value)) = match direction {
            Direction::Forward => found.next(),
            Direction::Backward => found.next_back(),
        } {
            if !visit(key, value) {
                break;
            }
        }
        Ok(())
    }
    /// Keys in the keyspace; None while a background recount after open is still under way.
    pub fn count(&self, keyspace: Keyspace) -> Option<u64> {
        Some(self.state.maps[&keyspace.0].len() as u64)
    }
    /// Removes every key of the keyspace, in O(1).
    pub fn clear(&mut self, keyspace: Keyspace) -> Result<(), Error> {
        self.state.maps.get_mut(&keyspace.0).unwrap().clear();
        Ok(())
    }
    /// True while nothing has been written.
    pub fn is_clean(&self) -> bool {
        self.saved.is_empty()
    }
    /// Commits all or nothing and returns the version. A transaction that wrote nothing costs nothing.
    pub fn commit(mut self, _durability: Durability) -> Result<u64, Error> {
        self.done = true;
        self.state.version += 1;
        Ok(self.state.version)
    }
}

impl Drop for Transaction<'_> {
    fn drop(&mut self) {
        if !self.done {
            for ((id, key), old) in std::mem::take(&mut self.saved) {
                let map = self.state.maps.get_mut(&id).unwrap();
                match old {
                    Some(value) => map.insert(key, value),
                    None => map.remove(&key),
                };
            }
        }
    }
}
