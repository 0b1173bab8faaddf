//! An entry of a level of a sorted set, as it is held in memory.

/// An entry of a level, or its head, whose key is empty.
#[derive(Clone, Debug)]
pub(crate) struct LevelEntry {
    pub(crate) key: Vec<u8>,
    /// From it on to the next.
    pub(crate) members: u64,
    /// The store has another count.
    pub(super) is_changed: bool,
}

impl LevelEntry {
    /// As it is in the store.
    pub(crate) fn new(key: Vec<u8>, members: u64) -> LevelEntry {
        LevelEntry { key, members, is_changed: false }
    }
}
