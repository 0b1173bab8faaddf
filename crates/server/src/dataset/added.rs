//! The keys that a command has added, for keyspace notifications.

/// The keys that a command has added.
#[derive(Default)]
pub(crate) struct Added {
    is_wanted: bool,
    keys: Vec<(usize, Vec<u8>)>,
}

impl Added {
    /// A command begins; whether the keys are to be published that it adds.
    #[inline]
    pub(crate) fn begin(&mut self, is_wanted: bool) {
        self.is_wanted = is_wanted;
    }

    /// A value was put under a key where none was, or the one before was removed first.
    #[inline]
    pub(crate) fn record(&mut self, key: (usize, &[u8])) {
        if self.is_wanted {
            self.keep(key);
        }
    }

    #[cold]
    fn keep(&mut self, (db, key): (usize, &[u8])) {
        if !self.keys.iter().any(|(other_db, other)| *other_db == db && other == key) {
            self.keys.push((db, key.to_vec()));
        }
    }

    /// Whether there are some that were not taken.
    #[inline]
    pub(crate) fn is_any(&self) -> bool {
        !self.keys.is_empty()
    }

    /// The databases and keys, in order.
    pub(crate) fn take(&mut self) -> Vec<(usize, Vec<u8>)> {
        std::mem::take(&mut self.keys)
    }

    /// Keeps keys that were taken, to publish them later.
    pub(crate) fn put_back(&mut self, keys: Vec<(usize, Vec<u8>)>) {
        self.keys = keys;
    }
}
