//! The places of keys that an exclusive writer has prefetched.

use std::sync::atomic::{AtomicUsize, Ordering};

use tembo_index::Place;

use crate::Keyspace;

/// Keyspaces of which keys are known.
const KEYSPACES: usize = 2;

/// Keys that will soon be used, of a few keyspaces, and their places.
#[derive(Default)]
pub(crate) struct Prefetched {
    /// The one of the keyspace that was begun last comes first.
    lists: [List; KEYSPACES],
}

impl Prefetched {
    /// Begins anew with these keys of a keyspace. Returns their places, for the caller to fill in.
    pub(crate) fn begin(&mut self, keyspace: Keyspace, keys: &[&[u8]]) -> &mut Vec<Place> {
        let is_own = |list: &List| list.keyspace == Some(keyspace);
        let at = self.lists.iter().position(is_own).unwrap_or(KEYSPACES - 1);
        self.lists[..=at].rotate_right(1);
        self.lists[0].begin(keyspace, keys)
    }

    /// Forgets all keys.
    pub(crate) fn forget(&mut self) {
        self.lists.iter_mut().for_each(List::forget);
    }

    /// The place of the key, if it is known.
    #[inline]
    pub(crate) fn place(&self, keyspace: Keyspace, key: &[u8]) -> Place {
        let list = self.lists.iter().find(|list| list.keyspace == Some(keyspace));
        list.map(|list| list.place(key)).unwrap_or_default()
    }
}

/// Keys of a keyspace, in the order of their use, and their places.
#[derive(Default)]
struct List {
    keyspace: Option<Keyspace>,
    /// All keys, one after another.
    bytes: Vec<u8>,
    /// Where each key ends in `bytes`.
    ends: Vec<usize>,
    places: Vec<Place>,
    /// The key used last. Those before it were used too.
    used: AtomicUsize,
}

impl List {
    fn begin(&mut self, keyspace: Keyspace, keys: &[&[u8]]) -> &mut Vec<Place> {
        self.forget();
        self.keyspace = Some(keyspace);
        for key in keys {
            self.bytes.extend_from_slice(key);
            self.ends.push(self.bytes.len());
        }
        &mut self.places
    }

    fn forget(&mut self) {
        self.keyspace = None;
        self.bytes.clear();
        self.ends.clear();
        self.places.clear();
        self.used = AtomicUsize::new(0);
    }

    #[inline]
    fn place(&self, key: &[u8]) -> Place {
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
