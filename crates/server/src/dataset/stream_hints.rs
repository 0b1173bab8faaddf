//! What reading a stream entry after entry, a command for each, need not look for again: the block that was read last, and up to
//! where a group has pending entries.
//!
//! A block that is held is what the store has: it is forgotten when it changes. All of it may be forgotten at any time.

use std::collections::HashMap;

use crate::format::{STREAM_BLOCK_SIZE, StreamBlock, StreamId, UnknownLayout};

/// A block of more bytes is not held: one large entry.
const BLOCK_MAX: usize = 4 * STREAM_BLOCK_SIZE;

/// Groups of which is known where their pending entries end: some 100 KiB. When there are more, all are forgotten.
const GROUPS_MAX: usize = 1024;

/// A stream: its database and its id.
type StreamOf = (usize, u64);

/// Sees an entry, its fields and values packed; false ends the visit.
type VisitEntry<'v> = dyn FnMut(StreamId, tembo_kv::Value<'_>) -> bool + 'v;

struct ReadBlock {
    of: StreamOf,
    block: StreamId,
    bytes: Vec<u8>,
    /// Its last entry.
    last: StreamId,
    /// The entry that was read last, and where the next one begins.
    read: (StreamId, usize),
}

/// How far a visit has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Visited {
    /// The entries are not held.
    Nothing,
    /// Up to this one, and there may be more behind it.
    UpTo(StreamId),
    /// It has ended.
    All,
}

/// What is held.
#[derive(Default)]
pub(crate) struct StreamHints {
    block: Option<ReadBlock>,
    /// Groups of streams by their numbers. None of a group's pending entries is behind the id.
    pending: HashMap<(StreamOf, u64), StreamId>,
}

impl StreamHints {
    /// Holds a block of a stream, unless it is large or without entries.
    pub(crate) fn hold(&mut self, of: StreamOf, block: StreamId, bytes: &[u8]) {
        self.block = None;
        if bytes.len() > BLOCK_MAX {
            return;
        }
        if let Some(Ok(last)) = StreamBlock::new(block, bytes).last() {
            let read = (StreamId::MIN, 0);
            self.block = Some(ReadBlock { of, block, bytes: bytes.to_vec(), last: last.id, read });
        }
    }

    /// A block of the stream is changed.
    pub(crate) fn changed(&mut self, of: StreamOf) {
        self.block.take_if(|held| held.of == of);
    }

    /// Calls `visit` with the entries from one id to another, both included, that are held, until it returns false.
    ///
    /// # Errors
    /// The block has another layout.
    pub(crate) fn visit(
        &mut self,
        of: StreamOf,
        (from, to): (StreamId, StreamId),
        visit: &mut VisitEntry<'_>,
    ) -> Result<Visited, UnknownLayout> {
        let Some(held) = self.block.as_mut().filter(|held| held.of == of) else {
            return Ok(Visited::Nothing);
        };
        if from < held.block || from > held.last {
            return Ok(Visited::Nothing);
        }
        let begin = if from > held.read.0 { held.read.1 } else { 0 };
        for entry in StreamBlock::from_place(held.block, &held.bytes, begin) {
            let entry = entry?;
            if entry.id < from {
                continue;
            }
            if entry.id > to {
                return Ok(Visited::All);
            }
            held.read = (entry.id, entry.packed.end);
            if !visit(entry.id, held.bytes[entry.packed].into()) {
                return Ok(Visited::All);
            }
        }
        Ok(Visited::UpTo(held.last))
    }

    /// Whether it is known of an entry that it is not pending for a group; `None`: it is not known up to where the group has
    /// pending entries.
    pub(crate) fn is_behind_pending(&self, of: StreamOf, group: u64, id: StreamId) -> Option<bool> {
        self.pending.get(&(of, group)).map(|last| id > *last)
    }

    /// The group has no pending entry behind that one.
    pub(crate) fn found_pending(&mut self, of: StreamOf, group: u64, last: StreamId) {
        let is_new = !self.pending.contains_key(&(of, group));
        if is_new && self.pending.len() == GROUPS_MAX {
            self.pending.clear();
        }
        self.pending.insert((of, group), last);
    }

    /// An entry becomes pending for a group.
    pub(crate) fn added_pending(&mut self, of: StreamOf, group: u64, id: StreamId) {
        if let Some(last) = self.pending.get_mut(&(of, group)) {
            *last = id.max(*last);
        }
    }

    /// Nothing is held any more.
    pub(crate) fn forget(&mut self) {
        self.block = None;
        self.pending.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::push_to_block;

    const OF: StreamOf = (0, 7);

    fn id(ms: u64) -> StreamId {
        StreamId { ms, seq: 1 }
    }

    /// Visits at most so many entries; their milliseconds, and how far it has come.
    fn visit(hints: &mut StreamHints, (from, to): (u64, u64), most: usize) -> (Vec<u64>, Visited) {
        let mut found = Vec::new();
        let visited = hints.visit(OF, (id(from), id(to)), &mut |id, value| {
            assert_eq!(value.to_vec(), id.ms.to_string().as_bytes());
            found.push(id.ms);
            found.len() < most
        });
        (found, visited.unwrap())
    }

    #[test]
    fn a_block_is_visited_as_the_store_has_it_until_it_changes() {
        let (mut hints, mut block) = (StreamHints::default(), Vec::new());
        for ms in [10, 20, 30, 40] {
            assert!(push_to_block(&mut block, id(10), id(ms), ms.to_string().as_bytes()));
        }
        assert_eq!(visit(&mut hints, (0, 99), 9), (vec![], Visited::Nothing));
        hints.hold(OF, id(10), &block);
        assert_eq!(visit(&mut hints, (9, 99), 9), (vec![], Visited::Nothing));
        assert_eq!(visit(&mut hints, (41, 99), 9), (vec![], Visited::Nothing));
        assert_eq!(visit(&mut hints, (10, 99), 1), (vec![10], Visited::All));
        assert_eq!(visit(&mut hints, (11, 99), 1), (vec![20], Visited::All));
        assert_eq!(visit(&mut hints, (21, 39), 9), (vec![30], Visited::All));
        assert_eq!(visit(&mut hints, (21, 99), 9), (vec![30, 40], Visited::UpTo(id(40))));
        assert_eq!(visit(&mut hints, (10, 99), 2), (vec![10, 20], Visited::All));
        hints.changed((0, 8));
        assert_eq!(visit(&mut hints, (40, 99), 9), (vec![40], Visited::UpTo(id(40))));
        hints.changed(OF);
        assert_eq!(visit(&mut hints, (10, 99), 9), (vec![], Visited::Nothing));
    }

    #[test]
    fn large_blocks_and_such_without_entries_are_not_held() {
        let mut hints = StreamHints::default();
        hints.hold(OF, id(10), &[]);
        assert_eq!(visit(&mut hints, (10, 99), 9), (vec![], Visited::Nothing));
        let mut block = Vec::new();
        assert!(push_to_block(&mut block, id(10), id(10), &[0; BLOCK_MAX]));
        hints.hold(OF, id(10), &block);
        assert_eq!(visit(&mut hints, (10, 99), 9), (vec![], Visited::Nothing));
    }

    #[test]
    fn pending_entries_lie_before_what_was_found_and_what_was_added() {
        let mut hints = StreamHints::default();
        assert_eq!(hints.is_behind_pending(OF, 1, id(9)), None);
        hints.found_pending(OF, 1, id(5));
        hints.found_pending(OF, 2, id(8));
        assert_eq!(hints.is_behind_pending(OF, 1, id(5)), Some(false));
        assert_eq!(hints.is_behind_pending(OF, 1, id(6)), Some(true));
        hints.added_pending(OF, 1, id(7));
        hints.added_pending(OF, 1, id(6));
        assert_eq!(hints.is_behind_pending(OF, 1, id(7)), Some(false));
        assert_eq!(hints.is_behind_pending(OF, 2, id(9)), Some(true));
        // One of a full table is renewed in its place; one more takes the place of all.
        (3..=GROUPS_MAX as u64).for_each(|group| hints.found_pending(OF, group, id(1)));
        hints.found_pending(OF, 1, id(8));
        assert_eq!(hints.is_behind_pending(OF, 2, id(9)), Some(true));
        hints.found_pending((1, 7), 1, id(2));
        assert_eq!(hints.is_behind_pending(OF, 2, id(9)), None);
        assert_eq!(hints.is_behind_pending((1, 7), 1, id(3)), Some(true));
        hints.forget();
        assert_eq!(hints.is_behind_pending(OF, 2, id(9)), None);
    }
}
