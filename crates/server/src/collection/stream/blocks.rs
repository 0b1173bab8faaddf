//! The entries of a stream that lie in blocks. What is added changes the last block only, which is written once in a turn.

use std::ops::Bound;

use tembo_kv::{Direction, Value};

use crate::collection::stream::id_of::id_of;
use crate::dataset::{Dataset, Ends, Visited};
use crate::failure::Failure;
use crate::format::{
    BlockEntry, Part, StreamBlock, StreamId, UnknownLayout, fits_in_block, push_to_block,
};

/// The blocks of a stream.
pub(super) struct Blocks<'b, 's> {
    pub(super) data: &'b mut Dataset<'s>,
    /// The database and the id of the stream.
    pub(super) of: (usize, u64),
    /// The id of the last block, which may be without entries.
    pub(super) last: StreamId,
}

impl Blocks<'_, '_> {
    fn address(&self) -> (usize, u64, Part) {
        (self.of.0, self.of.1, Part::Main)
    }

    /// Changes the block with an id.
    fn change<T>(
        &mut self,
        block: StreamId,
        change: impl FnOnce(&mut Vec<u8>) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        self.data.known_ends.streams.changed(self.of);
        self.data.change_element(self.address(), &[&block.encode()], change)
    }

    /// Adds an entry behind all others; the id of the last block from here on.
    pub(super) fn append(&mut self, id: StreamId, packed: &[u8]) -> Result<StreamId, Failure> {
        let last = self.last;
        // A block that takes no further entry may be long: it is not written again.
        if last != StreamId::MIN && self.has_room(last, packed)? {
            self.change(last, |block| Ok(push_to_block(block, last, id, packed)))?;
            return Ok(last);
        }
        self.change(id, |block| {
            push_to_block(block, id, id, packed);
            Ok(())
        })?;
        Ok(id)
    }

    /// Whether a block is there, and takes an entry.
    fn has_room(&mut self, block: StreamId, packed: &[u8]) -> Result<bool, Failure> {
        let found = self.data.element(self.address(), &[&block.encode()])?;
        Ok(found.is_some_and(|value| !value.is_empty() && fits_in_block(value.len(), packed)))
    }

    /// Where an entry is in a block.
    fn found(&mut self, block: StreamId, id: StreamId) -> Result<Option<BlockEntry>, Failure> {
        let Some(value) = self.data.element(self.address(), &[&block.encode()])? else {
            return Ok(None);
        };
        Ok(value.with(|bytes| find(block, bytes, id))?)
    }

    /// The id of the block that has the entry with an id, if the entry is there.
    fn block_of(&mut self, id: StreamId) -> Result<Option<StreamId>, Failure> {
        if self.last != StreamId::MIN && id >= self.last {
            return Ok(Some(self.last));
        }
        let (to, mut found) = (id.encode(), None);
        let ends = (Bound::Unbounded, Bound::Included(&to[..]));
        self.data.visit_elements(self.address(), ends, Direction::Backward, &mut |key, _| {
            found = id_of(key);
            false
        })?;
        Ok(found)
    }

    /// The fields and values of an entry, packed, if it is there.
    pub(super) fn entry(&mut self, id: StreamId) -> Result<Option<Vec<u8>>, Failure> {
        let Some(block) = self.block_of(id)? else { return Ok(None) };
        let Some(value) = self.data.element(self.address(), &[&block.encode()])? else {
            return Ok(None);
        };
        Ok(value.with(|bytes| {
            let found = find(block, bytes, id)?;
            Ok::<_, UnknownLayout>(found.map(|entry| bytes[entry.packed].to_vec()))
        })?)
    }

    /// Calls `visit` with the entries from one id to another, both included, until it returns false.
    pub(super) fn visit(
        &mut self,
        (from, to): (StreamId, StreamId),
        direction: Direction,
        visit: &mut dyn FnMut(StreamId, Value<'_>) -> bool,
    ) -> Result<(), Failure> {
        let mut from = from;
        if direction == Direction::Forward {
            match self.data.known_ends.streams.visit(self.of, (from, to), visit)? {
                Visited::Nothing => {}
                Visited::All => return Ok(()),
                Visited::UpTo(last) => match last.next() {
                    Some(next) if next <= to => from = next,
                    _ => return Ok(()),
                },
            }
        }
        if self.last != StreamId::MIN && from >= self.last {
            return self.visit_last((from, to), direction, visit);
        }
        self.visit_several((from, to), direction, visit)
    }

    /// As `visit`, of entries that can be in the last block only: it may wait to be written.
    fn visit_last(
        &mut self,
        ends: (StreamId, StreamId),
        direction: Direction,
        visit: &mut dyn FnMut(StreamId, Value<'_>) -> bool,
    ) -> Result<(), Failure> {
        let last = self.last;
        let Some(value) = self.data.element(self.address(), &[&last.encode()])? else {
            return Ok(());
        };
        value.with(|bytes| visit_block((last, bytes), ends, direction, visit))?;
        Ok(())
    }

    fn visit_several(
        &mut self,
        (from, to): (StreamId, StreamId),
        direction: Direction,
        visit: &mut dyn FnMut(StreamId, Value<'_>) -> bool,
    ) -> Result<(), Failure> {
        let first = self.block_of(from)?.unwrap_or(from).min(from).encode();
        let last = to.encode();
        let ends: Ends<'_> = (Bound::Included(&first), Bound::Included(&last));
        let (mut is_sound, mut stopped) = (true, None);
        self.data.visit_elements(self.address(), ends, direction, &mut |key, value| {
            let Some(block) = id_of(key) else {
                is_sound = false;
                return false;
            };
            value.with(|bytes| {
                let visited = visit_block((block, bytes), (from, to), direction, visit);
                is_sound = visited.is_ok();
                if visited == Ok(false) && direction == Direction::Forward {
                    stopped = Some((block, bytes.to_vec()));
                }
                visited == Ok(true)
            })
        })?;
        if !is_sound {
            return Err(UnknownLayout.into());
        }
        if let Some((block, bytes)) = stopped {
            // What comes next is read from there, as a rule.
            self.data.known_ends.streams.hold(self.of, block, &bytes);
        }
        Ok(())
    }

    /// Removes an entry; false if it was not there.
    pub(super) fn remove(&mut self, id: StreamId) -> Result<bool, Failure> {
        let Some(block) = self.block_of(id)? else { return Ok(false) };
        let Some(entry) = self.found(block, id)? else { return Ok(false) };
        self.change(block, |bytes| {
            drop(bytes.drain(entry.begin..entry.packed.end));
            Ok(true)
        })
    }

    /// Removes the first entries, at most so many: those from one on, up to another one if there is one that stays.
    pub(super) fn remove_first(
        &mut self,
        first: StreamId,
        rest: Option<StreamId>,
        count: u64,
    ) -> Result<(), Failure> {
        self.data.known_ends.streams.changed(self.of);
        let begin = self.block_of(first)?.unwrap_or(first);
        let end = match rest {
            Some(rest) => Some(self.block_of(rest)?.ok_or(UnknownLayout)?),
            None => None,
        };
        if end != Some(begin) {
            // No block has the greatest id and yet others behind it.
            let behind = [&StreamId::MAX.encode()[..], &[0]].concat();
            let to = end.map_or(behind, |end| end.encode().to_vec());
            self.data.remove_elements_between(self.address(), (&begin.encode(), &to), count)?;
        }
        let (Some(end), Some(rest)) = (end, rest) else { return Ok(()) };
        let stays = self.found(end, rest)?.ok_or(UnknownLayout)?;
        if stays.begin == 0 {
            return Ok(());
        }
        self.change(end, |bytes| {
            drop(bytes.drain(..stays.begin));
            Ok(())
        })
    }
}

/// The entry with an id in a block.
fn find(block: StreamId, bytes: &[u8], id: StreamId) -> Result<Option<BlockEntry>, UnknownLayout> {
    StreamBlock::new(block, bytes)
        .find(|entry| entry.as_ref().is_ok_and(|entry| entry.id == id) || entry.is_err())
        .transpose()
}

/// Visits those entries of a block that are between two ids; false: that was the last one.
fn visit_block(
    (block, bytes): (StreamId, &[u8]),
    (from, to): (StreamId, StreamId),
    direction: Direction,
    visit: &mut dyn FnMut(StreamId, Value<'_>) -> bool,
) -> Result<bool, UnknownLayout> {
    let mut show = |entry: BlockEntry| {
        let is_wanted = (from..=to).contains(&entry.id);
        !is_wanted || visit(entry.id, bytes[entry.packed].into())
    };
    let mut entries = StreamBlock::new(block, bytes);
    if direction == Direction::Forward {
        for entry in entries {
            if !show(entry?) {
                return Ok(false);
            }
        }
        return Ok(true);
    }
    let found: Vec<BlockEntry> = entries.by_ref().collect::<Result<_, _>>()?;
    Ok(found.into_iter().rev().all(show))
}
