//! What a command reads in later turns before it stores what it has found: it stores that only if these have not changed.

use std::collections::HashMap;

/// Distinguishes the watches of a client's command from those of its WATCH.
pub(crate) const OF_COMMAND: u64 = 1 << 63;

/// Keys of a database, as a command has found them.
pub(crate) struct Sources {
    /// Which client's command it is.
    pub(crate) watcher: u64,
    pub(crate) db: usize,
    /// The keys, and whether each was there.
    pub(crate) keys: HashMap<Vec<u8>, bool>,
    /// When the first of them expires; `u64::MAX` if none does.
    pub(crate) expiry_ms: u64,
}

impl Sources {
    /// No keys of a database, of the command of a client with that number.
    pub(crate) fn new(client: u64, db: usize) -> Sources {
        let watcher = client | OF_COMMAND;
        Sources { watcher, db, keys: HashMap::new(), expiry_ms: u64::MAX }
    }

    /// Adds a key, and when it expires; `None`: it is not there.
    pub(crate) fn add(&mut self, key: &[u8], found: Option<Option<u64>>) {
        self.keys.insert(key.to_vec(), found.is_some());
        self.expiry_ms = self.expiry_ms.min(found.flatten().unwrap_or(u64::MAX));
    }

    /// Bytes of memory, here and among those of all clients.
    pub(crate) fn memory(&self) -> usize {
        self.keys.keys().map(|key| 2 * (key.len() + size_of::<Sources>())).sum()
    }
}
