//! Keys that were removed lately, for transactions that want to write them.
//!
//! A key that was put and removed while a transaction was open leaves no trace in an index once no version
//! needs it, and yet the transaction is not the first to write it. Nothing is lost by that: the key is
//! absent as it was. But *first committer wins* is a promise about versions, and so it is kept for as many
//! removals as fit here.

use std::collections::BTreeMap;

use crate::Keyspace;

/// Removals that are noted between two transactions that ask. If there are more, the last ones are kept.
pub(super) const NOTED_MAX: usize = 1 << 12;

/// Number of known removals above which those for which no transaction can ask are forgotten.
const KNOWN_MAX: usize = 1 << 16;

/// When keys were removed, by their hash.
#[derive(Default)]
pub(crate) struct Removals {
    /// The latest removals, in a ring, so that it costs almost nothing to note one.
    recent: Vec<(u64, u64)>,
    next: usize,
    known: BTreeMap<u64, u64>,
    last: u64,
}

impl Removals {
    /// Notes that a key of that hash was removed in `version`, which is committed, as are those before it.
    #[inline]
    pub(crate) fn note(&mut self, hash: u64, version: u64) {
        let removal = (hash, version);
        match self.recent.get_mut(self.next) {
            Some(oldest) => *oldest = removal,
            None => self.recent.push(removal),
        }
        self.next = (self.next + 1) % NOTED_MAX;
        self.last = self.last.max(version);
    }

    /// The last version above `since` that is known to have removed the key. No transaction asks for removals
    /// that are not above the `horizon`.
    pub(crate) fn after(
        &mut self,
        since: u64,
        keyspace: Keyspace,
        key: &[u8],
        horizon: impl FnOnce() -> u64,
    ) -> Option<u64> {
        if self.last <= since {
            return None;
        }
        for (hash, version) in self.recent.drain(..) {
            let known = self.known.entry(hash).or_default();
            *known = version.max(*known);
        }
        self.next = 0;
        if self.known.len() > KNOWN_MAX {
            let horizon = horizon();
            self.known.retain(|_, &mut version| version > horizon);
            if self.known.len() > KNOWN_MAX {
                self.known.clear();
            }
        }
        self.known.get(&hash(keyspace, key)).copied().filter(|&version| version > since)
    }
}

/// FNV-1a, eight bytes at a time.
#[inline]
pub(crate) fn hash(keyspace: Keyspace, key: &[u8]) -> u64 {
    const PRIME: u64 = 0x0000_0100_0000_01b3;
    let step = |hash: u64, word: u64| (hash ^ word).wrapping_mul(PRIME).rotate_left(29);
    let (words, rest) = key.as_chunks::<8>();
    let seed = 0xcbf2_9ce4_8422_2325 ^ u64::from(keyspace.id) ^ (key.len() as u64) << 32;
    let hash = words.iter().fold(seed, |hash, word| step(hash, u64::from_le_bytes(*word)));
    match key.last_chunk::<8>() {
        _ if rest.is_empty() => hash,
        // This takes some bytes of the last word again.
        Some(end) => step(hash, u64::from_le_bytes(*end)),
        None => step(hash, rest.iter().fold(0, |word, &byte| word << 8 | u64::from(byte))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPACE: Keyspace = Keyspace { id: 3, incarnation: 0 };

    #[test]
    fn the_last_removal_of_a_key_is_known_whatever_came_between() {
        let mut removals = Removals::default();
        let key = |n: u64| n.to_be_bytes();
        for version in 1..=3000u64 {
            removals.note(hash(SPACE, &key(version % 1000)), version);
            if version % 700 == 0 {
                removals.after(0, SPACE, b"asked", || 0);
            }
        }
        for n in 0..1000 {
            let last = if n == 0 { 3000 } else { 2000 + n };
            assert_eq!(removals.after(last - 1, SPACE, &key(n), || 0), Some(last), "{n}");
            assert_eq!(removals.after(last, SPACE, &key(n), || 0), None);
        }
        assert_eq!(removals.after(0, SPACE, &key(1000), || 0), None);
        assert_eq!(removals.after(0, Keyspace { id: 4, ..SPACE }, &key(1), || 0), None);
    }

    #[test]
    fn what_is_noted_is_bounded() {
        let mut removals = Removals::default();
        for version in 1..=4 * KNOWN_MAX as u64 {
            removals.note(hash(SPACE, &version.to_be_bytes()), version);
            assert!(removals.recent.len() <= NOTED_MAX);
            if version % 100 == 0 {
                removals.after(0, SPACE, b"asked", || version - 10);
                assert!(removals.known.len() <= KNOWN_MAX);
            }
        }
    }
}
