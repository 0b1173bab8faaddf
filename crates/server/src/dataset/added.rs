//! The keys that a command has added, for keyspace notifications.

use std::collections::HashMap;

/// The keys that a command has added.
#[derive(Default)]
pub(crate) struct Added {
    is_wanted: bool,
    /// Each with its place in their order.
    keys: HashMap<(usize, Vec<u8>), usize>,
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
        let place = self.keys.len();
        self.keys.entry((db, key.to_vec())).or_insert(place);
    }

    /// Whether there are some that were not taken.
    #[inline]
    pub(crate) fn is_any(&self) -> bool {
        !self.keys.is_empty()
    }

    /// The databases and keys, in order.
    pub(crate) fn take(&mut self) -> Vec<(usize, Vec<u8>)> {
        let mut keys: Vec<_> = std::mem::take(&mut self.keys).into_iter().collect();
        keys.sort_unstable_by_key(|(_, place)| *place);
        keys.into_iter().map(|(key, _)| key).collect()
    }

    /// Keeps keys that were taken, to publish them later.
    pub(crate) fn put_back(&mut self, keys: Vec<(usize, Vec<u8>)>) {
        self.keys = keys.into_iter().zip(0..).collect();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_come_once_and_in_the_order_in_which_they_were_added() {
        let mut added = Added::default();
        added.begin(true);
        let names: Vec<String> = (0..100).map(|number| format!("key:{number}")).collect();
        names.iter().chain(&names).for_each(|name| added.record((0, name.as_bytes())));
        added.record((1, b"key:0"));
        let keys = added.take();
        let expected = names.iter().map(|name| (0, name.clone().into_bytes()));
        let expected: Vec<_> = expected.chain([(1, b"key:0".to_vec())]).collect();
        assert_eq!(keys, expected);
        assert!(!added.is_any());
        added.put_back(keys);
        added.record((0, b"key:7"));
        assert_eq!(added.take(), expected);
    }
}
