//! Values that an exclusive writer has written before they are put.

use tembo_index::{VersionedIndex, Written};

use crate::Keyspace;
use crate::ledger::Ledger;
use crate::shared::Shared;

/// A put is looked for among so many that may come next: where most are not expected, they are put as if there were none.
const LOOKED_AT: usize = 64;

/// Puts that will likely follow, in this order, with their values, of which some are written.
#[derive(Default)]
pub(crate) struct Expected {
    keyspace: Option<Keyspace>,
    /// All keys and values, one after another.
    bytes: Vec<u8>,
    puts: Vec<Put>,
    /// The first that may still come: those before it have come, or were left out.
    next: usize,
}

/// One of them. Its key ends where its value begins.
struct Put {
    start: usize,
    value: usize,
    end: usize,
    written: Option<Written>,
}

impl Expected {
    /// Whether nothing is written.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.puts.is_empty()
    }

    /// Begins anew with these puts of a keyspace, whose values are concatenations of parts, and writes those of the values that the
    /// index writes together.
    pub(crate) fn begin(
        &mut self,
        (shared, ledger): (&Shared, &Ledger),
        (keyspace, version): (Keyspace, u64),
        puts: &[(&[u8], &[&[u8]])],
    ) {
        self.give_up(shared);
        let part_sizes = puts.iter().flat_map(|(_, parts)| *parts).map(|part| part.len() as u64);
        let Ok(tree) = ledger.trees.tree(keyspace, version) else { return };
        if !shared.region().writes_together(part_sizes.sum()) {
            return;
        }
        let mut ends = Vec::with_capacity(puts.len());
        for (key, parts) in puts {
            let start = self.bytes.len();
            self.bytes.extend_from_slice(key);
            let value = self.bytes.len();
            parts.iter().for_each(|part| self.bytes.extend_from_slice(part));
            ends.push((start, value, self.bytes.len()));
        }
        let slices = |&(start, value, end): &(usize, usize, usize)| {
            (&self.bytes[start..value], &self.bytes[value..end])
        };
        let together: Vec<(&[u8], &[u8])> = ends.iter().map(slices).collect();
        let mut written = Vec::new();
        tree.index().write_together(&together, &mut written);
        if written.iter().all(Option::is_none) {
            self.bytes.clear();
            return;
        }
        let put = |((start, value, end), written)| Put { start, value, end, written };
        self.puts.extend(ends.into_iter().zip(written).map(put));
        self.keyspace = Some(keyspace);
    }

    /// What is written of this put, with its value in one piece. Puts that were expected before it are not waited for any more.
    pub(crate) fn take(
        &mut self,
        keyspace: Keyspace,
        key: &[u8],
        parts: &[&[u8]],
    ) -> Option<(Written, &[u8])> {
        if self.keyspace != Some(keyspace) {
            return None;
        }
        let bytes = &self.bytes;
        let is_it = |put: &Put| bytes[put.start..put.value] == *key;
        let found = self.next + self.puts[self.next..].iter().take(LOOKED_AT).position(is_it)?;
        self.next = found + 1;
        let put = &mut self.puts[found];
        let value = &bytes[put.value..put.end];
        // A key that is put with another value than was expected.
        if !is_concatenation(value, parts) {
            return None;
        }
        Some((put.written.take()?, value))
    }

    /// Gives up what is written and was not taken.
    pub(crate) fn give_up(&mut self, shared: &Shared) {
        if self.is_empty() {
            return;
        }
        let left: Vec<_> = self.puts.drain(..).filter_map(|put| put.written).collect();
        if !left.is_empty() {
            shared.pool().give_up(left.into_iter().map(Written::object));
        }
        (self.keyspace, self.next) = (None, 0);
        self.bytes.clear();
    }
}

/// Whether these parts, one after another, are the value.
fn is_concatenation(mut value: &[u8], parts: &[&[u8]]) -> bool {
    let is_next = |part: &&[u8]| value.split_off(..part.len()).is_some_and(|next| next == *part);
    parts.iter().all(is_next) && value.is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_compared_as_one_value() {
        let value = b"abcdef";
        let same: [&[&[u8]]; 3] = [&[b"abcdef"], &[b"ab", b"cdef"], &[b"", b"abc", b"", b"def"]];
        assert!(same.iter().all(|parts| is_concatenation(value, parts)));
        let others: [&[&[u8]]; 5] =
            [&[], &[b"abcde"], &[b"abcdef", b"g"], &[b"ab", b"cdeg"], &[b"abcdefg"]];
        assert!(!others.iter().any(|parts| is_concatenation(value, parts)));
    }
}
