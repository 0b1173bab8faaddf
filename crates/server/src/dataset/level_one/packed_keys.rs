//! The keys of a few members that follow one another in a sorted set, one behind the other in one piece of memory.

use std::ops::Range;

use crate::dataset::level_entry::prefix_of;

/// Longer keys are not held.
const KEY_SIZE_MAX: usize = u8::MAX as usize;

/// Keys in order, each behind its length.
#[derive(Default)]
pub(super) struct PackedKeys {
    bytes: Vec<u8>,
    count: u64,
}

impl PackedKeys {
    /// Each key, and where it stands with its length.
    fn iter(&self) -> impl Iterator<Item = (&[u8], Range<usize>)> {
        let mut at = 0;
        std::iter::from_fn(move || {
            let (size, rest) = self.bytes[at..].split_first()?;
            let (from, key) = (at, rest.get(..usize::from(*size))?);
            at += 1 + key.len();
            Some((key, from..at))
        })
    }

    /// How many there are.
    pub(super) fn count(&self) -> u64 {
        self.count
    }

    /// Bytes that they take.
    pub(super) fn size(&self) -> usize {
        size_of::<PackedKeys>() + self.bytes.capacity()
    }

    /// The first one.
    pub(super) fn first(&self) -> Option<&[u8]> {
        self.iter().next().map(|(key, _)| key)
    }

    /// How many are less than a key.
    #[inline]
    pub(super) fn count_before(&self, key: &[u8]) -> u64 {
        let prefix = prefix_of(key);
        self.iter().take_while(|(other, _)| is_less(other, key, prefix)).count() as u64
    }

    /// The first key that is not less than a key, and where it stands with its length.
    #[inline]
    fn first_from(&self, key: &[u8]) -> Option<(&[u8], Range<usize>)> {
        let prefix = prefix_of(key);
        self.iter().find(|(other, _)| !is_less(other, key, prefix))
    }

    /// Adds a key behind all others; false: it is too long.
    pub(super) fn push(&mut self, key: &[u8]) -> bool {
        let at = self.bytes.len();
        self.insert_at(at, key)
    }

    /// Adds a key; false: it is too long, or there already.
    pub(super) fn insert(&mut self, key: &[u8]) -> bool {
        let mut at = self.bytes.len();
        if let Some((other, place)) = self.first_from(key) {
            if other == key {
                return false;
            }
            at = place.start;
        }
        self.insert_at(at, key)
    }

    fn insert_at(&mut self, at: usize, key: &[u8]) -> bool {
        if key.len() > KEY_SIZE_MAX {
            return false;
        }
        let (end, more) = (self.bytes.len(), 1 + key.len());
        self.bytes.resize(end + more, 0);
        self.bytes.copy_within(at..end, at + more);
        self.bytes[at] = key.len() as u8;
        self.bytes[at + 1..at + more].copy_from_slice(key);
        self.count += 1;
        true
    }

    /// Removes a key; false: it is not there.
    pub(super) fn remove(&mut self, key: &[u8]) -> bool {
        let Some((_, place)) = self.first_from(key).filter(|(other, _)| *other == key) else {
            return false;
        };
        self.bytes.drain(place);
        self.count -= 1;
        true
    }

    /// Takes off those behind so many.
    pub(super) fn split_off(&mut self, kept: u64) -> PackedKeys {
        let at = self.iter().nth(kept as usize).map_or(self.bytes.len(), |(_, place)| place.start);
        let bytes = self.bytes.split_off(at);
        let count = self.count.saturating_sub(kept);
        self.count -= count;
        PackedKeys { bytes, count }
    }
}

/// Whether a key is less than another one, which has that prefix. Scores come first, and mostly differ.
#[inline]
fn is_less(one: &[u8], other: &[u8], prefix: u64) -> bool {
    let own = one.first_chunk().map(|first| u64::from_be_bytes(*first));
    match own {
        Some(own) if own != prefix => own < prefix,
        _ => one < other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listed(keys: &PackedKeys) -> Vec<&[u8]> {
        assert_eq!(keys.iter().count() as u64, keys.count());
        keys.iter().map(|(key, _)| key).collect()
    }

    #[test]
    fn keys_stay_in_order() {
        let mut keys = PackedKeys::default();
        assert!(keys.push(b"b") && keys.push(b"d") && keys.insert(b"a") && keys.insert(b"c"));
        assert!(keys.insert(b"dd") && !keys.insert(b"c") && !keys.insert(&[b'x'; 256]));
        assert_eq!(listed(&keys), [&b"a"[..], b"b", b"c", b"d", b"dd"]);
        let before: Vec<u64> =
            [&b""[..], b"a", b"bb", b"d", b"e"].map(|key| keys.count_before(key)).into();
        assert_eq!(before, [0, 0, 2, 3, 5]);
        assert!(keys.remove(b"b") && !keys.remove(b"b") && !keys.remove(b"x"));
        let second = keys.split_off(2);
        assert_eq!(
            (listed(&keys), listed(&second)),
            (vec![&b"a"[..], b"c"], vec![&b"d"[..], b"dd"])
        );
        assert_eq!((second.first(), keys.split_off(7).count()), (Some(&b"d"[..]), 0));
        assert_eq!(keys.split_off(0).count(), 2);
        assert_eq!((keys.count(), keys.first()), (0, None));
    }
}
