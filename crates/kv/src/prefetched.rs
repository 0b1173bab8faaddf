//! The places of keys that an exclusive writer has prefetched.

use std::sync::atomic::{AtomicUsize, Ordering};

use tembo_index::Place;

use crate::Keyspace;

/// Keys that will soon be used, in the order of their use, and their places.
#[derive(Default)]
pub(crate) struct Prefetched {
    keyspace: Option<Keyspace>,
    /// All keys, one after another.
    bytes: Vec<u8>,
    /// Where each key ends in `bytes`.
    ends: Vec<usize>,
    places: Vec<Place>,
    /// The key used last. Those before it were used too.
    used: AtomicUsize,
}

impl Prefetched {
    /// Begins anew with these keys. Returns their places, for the caller to fill in.
    pub(crate) fn begin(&mut self, keyspace: Keyspace, keys: &[&[u8]]) -> &mut Vec<Place> {
        self.forget();
        self.keyspace = Some(keyspace);
        for key in keys {
            self.bytes.extend_from_slice(key);
            self.ends.push(self.bytes.len());
        }
        &mut self.places
    }

    /// Forgets all keys.
    pub(crate) fn forget(&mut self) {
        self.keyspace = None;
        self.bytes.clear();
        self.ends.clear();
        self.places.clear();
        self.used = AtomicUsize::new(0);
    }

    /// The place of the key, if it is known.
    #[inline]
    pub(crate) fn place(&self, keyspace: Keyspace, key: &[u8]) -> Place {
        if self.keyspace != Some(keyspace) {
            return Place::default();
        }
        let used = self.used.load(Ordering::Relaxed);
        let mut start = used.checked_sub(1).map_or(0, |before| self.ends[before]);
        for (index, (&end, &place)) in self.ends.iter().zip(&self.places).enumerate().skip(used) {
            let kept = &self.bytes[start..end];
            // Keys differ in their last byte more often than in others.
            if kept.last() == key.last() && kept == key {
                self.used.store(index, Ordering::Relaxed);
                return place;
            }
            start = end;
        }
        Place::default()
    }
}
