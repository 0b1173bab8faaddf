//! An entry of a level of a sorted set, as it is held in memory.

/// An entry of a level, or its head, whose key is empty.
#[derive(Clone, Debug)]
pub(crate) struct LevelEntry {
    key: Vec<u8>,
    /// The first bytes of the key, which mostly distinguish it from others: a search reads no more of most entries.
    prefix: u64,
    /// From it on to the next.
    pub(crate) members: u64,
    /// The store has another count.
    pub(super) is_changed: bool,
}

impl LevelEntry {
    /// As it is in the store.
    pub(crate) fn new(key: Vec<u8>, members: u64) -> LevelEntry {
        LevelEntry { prefix: prefix_of(&key), key, members, is_changed: false }
    }

    /// The key of the order.
    pub(crate) fn key(&self) -> &[u8] {
        &self.key
    }

    /// Whether it stands before a key, which begins with the prefix.
    #[inline]
    pub(super) fn is_before(&self, key: &[u8], prefix: u64) -> bool {
        self.prefix < prefix || self.prefix == prefix && self.key[..] < *key
    }
}

/// The first eight bytes of a key, and zeros behind it: of two that differ the less is of the lesser key.
#[inline]
pub(super) fn prefix_of(key: &[u8]) -> u64 {
    if let Some(first) = key.first_chunk() {
        return u64::from_be_bytes(*first);
    }
    let mut prefix = [0; 8];
    prefix[..key.len()].copy_from_slice(key);
    u64::from_be_bytes(prefix)
}

/// How many entries, which are in order, stand before a key.
#[inline]
pub(crate) fn count_before(entries: &[LevelEntry], key: &[u8]) -> usize {
    let prefix = prefix_of(key);
    entries.partition_point(|entry| entry.is_before(key, prefix))
}

/// Where the entry of a key is, or would be.
#[inline]
pub(crate) fn place_of(entries: &[LevelEntry], key: &[u8]) -> Result<usize, usize> {
    let at = count_before(entries, key);
    if entries.get(at).is_some_and(|entry| entry.key == key) { Ok(at) } else { Err(at) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_found_by_keys_of_any_length() {
        let keys: [&[u8]; 10] = [
            b"",
            b"\0",
            b"a",
            b"a\0",
            b"a\0b",
            b"abcdefgh",
            b"abcdefgh\0",
            b"abcdefghi",
            b"abcdefgi",
            b"b",
        ];
        assert!(keys.is_sorted());
        let entries: Vec<LevelEntry> =
            keys.iter().map(|key| LevelEntry::new(key.to_vec(), 1)).collect();
        for (at, key) in keys.iter().enumerate() {
            assert_eq!((count_before(&entries, key), place_of(&entries, key)), (at, Ok(at)));
        }
        assert_eq!(place_of(&entries, b"abcdefghh"), Err(7));
        assert_eq!(count_before(&entries, b"c"), 10);
    }
}
