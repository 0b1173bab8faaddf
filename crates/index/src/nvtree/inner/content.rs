//! The content of an inner node, as a value. It is made beside the tree, then copied into a node.

use super::low::{LeafId, Lows};
use crate::Error;
use crate::head::head;
use crate::key::KeyBytes;

/// A separator and the child at and above it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    /// The separator's eight bytes behind the node's prefix; 0 for the first, which is never looked at.
    pub(super) head: u64,
    /// A node, or on level 0 a leaf.
    pub(super) child: u32,
    /// The leaf whose low key the separator is.
    pub(super) low: LeafId,
}

impl Entry {
    /// The entry behind the last one. Its head is not below that of any key.
    pub(super) const NONE: Entry = Entry { head: u64::MAX, child: 0, low: 0 };
}

/// The content of a node.
#[derive(Debug)]
pub(super) struct Content {
    /// 0 if the children are leaves.
    pub(super) level: u8,
    /// The prefix with which all separators but the first begin.
    pub(super) prefix: Vec<u8>,
    pub(super) entries: Vec<Entry>,
}

impl Content {
    /// The content of a node with one child.
    pub(super) fn new(level: u8, child: u32, low: LeafId) -> Content {
        Content { level, prefix: Vec::new(), entries: vec![Entry { head: 0, child, low }] }
    }

    /// Inserts a child at `place`, which is not the first. Its separator is `key`, the low key of `low`.
    pub(super) fn insert(&mut self, place: usize, child: u32, low: LeafId, key: KeyBytes<'_>) {
        // The first separator does not need to have the prefix.
        let kept = if self.entries.len() == 1 { 0 } else { key.common_len(&self.prefix) };
        self.shrink_prefix(kept);
        self.entries.insert(place, Entry { head: key.head(kept), child, low });
    }

    /// Removes the child at `place`. The next separator may become the first.
    pub(super) fn remove(&mut self, place: usize) {
        self.entries.remove(place);
        if let Some(first) = self.entries.first_mut() {
            first.head = 0;
        }
    }

    /// Moves the children from `place` on to a node of their own.
    pub(super) fn split_off(&mut self, place: usize) -> Content {
        let mut right = Content {
            level: self.level,
            prefix: self.prefix.clone(),
            entries: self.entries.split_off(place),
        };
        right.entries[0].head = 0;
        right
    }

    /// The leaf whose low key is the first separator.
    pub(super) fn first_low(&self) -> Option<LeafId> {
        self.entries.first().map(|entry| entry.low)
    }

    /// Whether the separator at `place` is that key. The separator is read only where heads cannot decide.
    ///
    /// # Errors
    /// Those of `lows`.
    pub(super) fn is_separator(
        &self,
        place: usize,
        key: KeyBytes<'_>,
        lows: &impl Lows,
    ) -> Result<bool, Error> {
        let entry = self.entries[place];
        let may_be = place == 0 || entry.head == key.head(self.prefix.len());
        Ok(may_be && lows.low(entry.low)? == key)
    }

    /// Makes the prefix as long as possible if two heads are equal: with a longer prefix they may differ.
    ///
    /// # Errors
    /// Those of `lows`.
    pub(super) fn fit(&mut self, lows: &impl Lows) -> Result<(), Error> {
        let separators = self.entries.get(1..).unwrap_or_default();
        let [first, .., last] = separators else { return Ok(()) };
        if separators.is_sorted_by(|one, next| one.head < next.head) {
            return Ok(());
        }
        let first = lows.low(first.low)?.to_vec();
        let len = lows.low(last.low)?.common_len(&first).min(usize::from(u16::MAX));
        if len > self.prefix.len() {
            let heads = separators.iter().map(|entry| Ok(lows.low(entry.low)?.head(len)));
            let heads = heads.collect::<Result<Vec<_>, Error>>()?;
            self.prefix = first[..len].to_vec();
            for (entry, head) in self.entries[1..].iter_mut().zip(heads) {
                entry.head = head;
            }
        }
        Ok(())
    }

    /// Makes the prefix shorter. Its last bytes go to the front of the heads, which lose as many at the end.
    fn shrink_prefix(&mut self, len: usize) {
        let moved = self.prefix.len() - len;
        if moved > 0 {
            let front = head(&self.prefix, len);
            for entry in self.entries.iter_mut().skip(1) {
                entry.head = front | entry.head.checked_shr(8 * moved as u32).unwrap_or(0);
            }
            self.prefix.truncate(len);
        }
    }
}
