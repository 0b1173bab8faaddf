//! The entries of a stream.

use std::ops::Bound;

use tembo_kv::{Direction, Value};

use crate::collection::opened::Place;
use crate::collection::stream::blocks::Blocks;
use crate::collection::stream::id_of::id_of;
use crate::dataset::{Before, Dataset, Ends, Replaced, StreamHints, VisitElement, check_key};
use crate::failure::{Failure, WRONG_TYPE};
use crate::format::{ELEMENT_SIZE_MAX, Kind, Part, StreamHead, StreamId, Type, UnknownLayout};

/// So many entries that have elements of their own are removed one by one: see the elements of a database.
const SINGLY_MAX: u64 = 512;

/// Which entries a trim removes: the first ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trim {
    /// So many stay at most.
    Length(u64),
    /// Those with a lesser id go.
    Id(StreamId),
}

/// How exactly a trim is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trimmed {
    /// To the entry.
    Exactly,
    /// In blocks of so many entries, in the order in which they were added; at most so many entries, 0: any number.
    InBlocks(u64, u64),
}

/// A stream that a command works on.
pub(crate) struct Stream<'d, 's> {
    data: &'d mut Dataset<'s>,
    place: Place<'d>,
    expiry_ms: Option<u64>,
    /// What was under the key when it was opened.
    before: Option<Before>,
    head: StreamHead,
    is_changed: bool,
}

impl<'d, 's> Stream<'d, 's> {
    /// The stream under a key, if there is one.
    ///
    /// # Errors
    /// Another type is there.
    pub(crate) fn open(
        data: &'d mut Dataset<'s>,
        place: Place<'d>,
    ) -> Result<Option<Stream<'d, 's>>, Failure> {
        let (head, elements, expiry_ms) = match data.find(place.0, place.1)? {
            None => return Ok(None),
            Some(value) if value.of.kind != Kind::Stream => return Err(WRONG_TYPE.into()),
            Some(value) => (StreamHead::decode(value.payload)?, value.elements()?, value.expiry_ms),
        };
        let before = Some((expiry_ms, elements));
        Ok(Some(Stream { data, place, expiry_ms, before, head, is_changed: false }))
    }

    /// An empty stream, to be saved under a key where nothing is.
    pub(crate) fn create(
        data: &'d mut Dataset<'s>,
        place: Place<'d>,
    ) -> Result<Stream<'d, 's>, Failure> {
        check_key(place.1)?;
        let (id, block) = (data.new_id(place.0)?, Some(StreamId::MIN));
        let head = StreamHead { id, block, ..StreamHead::default() };
        Ok(Stream { data, place, expiry_ms: None, before: None, head, is_changed: true })
    }

    /// The stream under a key, or an empty one.
    ///
    /// # Errors
    /// Another type is there.
    pub(crate) fn open_or_create(
        data: &'d mut Dataset<'s>,
        place: Place<'d>,
    ) -> Result<Stream<'d, 's>, Failure> {
        if data.find(place.0, place.1)?.is_none() {
            return Stream::create(data, place);
        }
        Stream::open(data, place)?.ok_or(Failure::UnknownLayout)
    }

    /// The same, with the expiry given or none.
    pub(crate) fn expiring(mut self, expiry_ms: Option<u64>) -> Stream<'d, 's> {
        self.expiry_ms = expiry_ms;
        self
    }

    /// Saves what was changed.
    pub(crate) fn save(self) -> Result<(), Failure> {
        if !self.is_changed {
            return Ok(());
        }
        let (of, payload) = (Type::STREAM, self.head.encode());
        match self.before {
            Some(before) => {
                let replaced = Replaced { before, is_there: true };
                self.data.put_over(self.place, of, &payload, (self.expiry_ms, replaced))
            }
            None => self.data.put_value(self.place, of, &payload, self.expiry_ms),
        }
    }

    /// What the stream says of itself.
    pub(crate) fn head(&self) -> &StreamHead {
        &self.head
    }

    /// The same, to be changed.
    pub(crate) fn change_head(&mut self) -> &mut StreamHead {
        self.is_changed = true;
        &mut self.head
    }

    /// Adds an entry; its id is greater than that of the last one. `packed`: its fields, each followed by its value.
    pub(crate) fn append(&mut self, id: StreamId, packed: &[u8]) -> Result<(), Failure> {
        let block = match self.blocks() {
            Some(mut blocks) => Some(blocks.append(id, packed)?),
            None => {
                self.put(Part::Main, &[&id.encode()], &[packed])?;
                None
            }
        };
        let head = self.change_head();
        head.block = block;
        head.count += 1;
        head.added += 1;
        head.last = id;
        if head.count == 1 {
            head.first = id;
        }
        Ok(())
    }

    /// The fields and values of an entry, packed, if it is there.
    pub(crate) fn entry(&mut self, id: StreamId) -> Result<Option<Vec<u8>>, Failure> {
        if let Some(mut blocks) = self.blocks() {
            return blocks.entry(id);
        }
        Ok(self.element(Part::Main, &[&id.encode()])?.map(|value| value.to_vec()))
    }

    /// The blocks in which the entries lie, unless an earlier release has made the stream.
    fn blocks(&mut self) -> Option<Blocks<'_, 's>> {
        let last = self.head.block?;
        Some(Blocks { data: self.data, of: (self.place.0, self.head.id), last })
    }

    /// Calls `visit` with the entries from one id to another, both included, until it returns false.
    pub(crate) fn visit(
        &mut self,
        (from, to): (StreamId, StreamId),
        direction: Direction,
        visit: &mut dyn FnMut(StreamId, Value<'_>) -> bool,
    ) -> Result<(), Failure> {
        if self.head.count == 0 || from > to || from > self.head.last {
            return Ok(());
        }
        // What was removed before the first entry is passed over.
        let from = from.max(self.head.first);
        if let Some(mut blocks) = self.blocks() {
            return blocks.visit((from, to), direction, visit);
        }
        let (from, to) = (from.encode(), to.encode());
        let ends = (Bound::Included(&from[..]), Bound::Included(&to[..]));
        let mut is_sound = true;
        self.visit_part(Part::Main, ends, direction, &mut |key, value| match id_of(key) {
            Some(id) => visit(id, value),
            None => {
                is_sound = false;
                false
            }
        })?;
        if is_sound { Ok(()) } else { Err(UnknownLayout.into()) }
    }

    /// The id of the last entry that is there.
    pub(crate) fn last_there(&mut self) -> Result<Option<StreamId>, Failure> {
        let mut last = None;
        self.visit((StreamId::MIN, StreamId::MAX), Direction::Backward, &mut |id, _| {
            last = Some(id);
            false
        })?;
        Ok(last)
    }

    /// The id of the first entry from one on, or the least id.
    fn first_from(&mut self, from: StreamId) -> Result<StreamId, Failure> {
        let mut first = StreamId::MIN;
        self.visit((from, StreamId::MAX), Direction::Forward, &mut |id, _| {
            first = id;
            false
        })?;
        Ok(first)
    }

    /// Removes entries singly; how many were there.
    pub(crate) fn remove(&mut self, ids: &[StreamId]) -> Result<u64, Failure> {
        let mut removed = 0;
        let mut first_is_gone = false;
        for &id in ids {
            let was_there = match self.blocks() {
                Some(mut blocks) => blocks.remove(id)?,
                None => self.remove_element(Part::Main, &[&id.encode()])?,
            };
            if !was_there {
                continue;
            }
            removed += 1;
            first_is_gone |= id == self.head.first;
            let head = self.change_head();
            head.count = head.count.saturating_sub(1);
            head.removed_max = head.removed_max.max(id);
        }
        if first_is_gone {
            self.head.first = self.first_from(self.head.first)?;
        }
        Ok(removed)
    }

    /// Removes the first entries; how many.
    pub(crate) fn trim(&mut self, trim: Trim, how: Trimmed) -> Result<u64, Failure> {
        let removable = match trim {
            Trim::Length(length) => self.head.count.saturating_sub(length),
            Trim::Id(id) if id > self.head.last => self.head.count,
            Trim::Id(id) => {
                let most = match how {
                    Trimmed::Exactly | Trimmed::InBlocks(_, 0) => u64::MAX,
                    Trimmed::InBlocks(_, limit) => limit,
                };
                let mut lesser = 0;
                self.visit((StreamId::MIN, id), Direction::Forward, &mut |other, _| {
                    lesser += u64::from(other < id);
                    lesser < most && other < id
                })?;
                lesser
            }
        };
        let count = match how {
            Trimmed::Exactly => removable,
            Trimmed::InBlocks(block, limit) => self.in_blocks(removable, block, limit),
        };
        self.remove_first(count)?;
        Ok(count)
    }

    /// How many of the first entries are removed if only whole blocks are.
    fn in_blocks(&self, removable: u64, block: u64, limit: u64) -> u64 {
        let StreamHead { count, added, .. } = self.head;
        let block = if block == 0 { u64::MAX } else { block };
        let mut sum: u64 = 0;
        let mut next = block - added.saturating_sub(count) % block;
        while sum < count {
            let with = sum.saturating_add(next).min(count);
            if with > removable || (limit > 0 && with > limit) {
                break;
            }
            sum = with;
            next = block;
        }
        sum
    }

    fn remove_first(&mut self, count: u64) -> Result<(), Failure> {
        if count == 0 {
            return Ok(());
        }
        let from = self.head.first.encode();
        let (mut seen, mut rest, mut removed) = (0, None, Vec::new());
        if count < self.head.count || count <= SINGLY_MAX {
            let all = (StreamId::MIN, StreamId::MAX);
            self.visit(all, Direction::Forward, &mut |id, _| {
                if seen == count {
                    rest = Some(id);
                    return false;
                }
                seen += 1;
                if count <= SINGLY_MAX {
                    removed.push(id);
                }
                true
            })?;
        }
        let first = self.head.first;
        if let Some(mut blocks) = self.blocks() {
            blocks.remove_first(first, rest, count)?;
        } else if count <= SINGLY_MAX {
            for id in removed {
                self.remove_element(Part::Main, &[&id.encode()])?;
            }
        } else {
            // No entry has the greatest id and yet others behind it.
            let to = rest.map_or_else(
                || [&StreamId::MAX.encode()[..], &[0]].concat(),
                |id: StreamId| id.encode().to_vec(),
            );
            self.remove_between(Part::Main, (&from, &to), count)?;
        }
        let head = self.change_head();
        head.count = head.count.saturating_sub(count);
        head.first = rest.unwrap_or(StreamId::MIN);
        Ok(())
    }

    /// Whether an entry was removed singly among those from an id on: then they cannot be counted by what was ever added.
    pub(crate) fn has_gaps_from(&self, id: StreamId) -> bool {
        let StreamHead { count, first, removed_max, .. } = self.head;
        count > 0 && removed_max != StreamId::MIN && first <= removed_max && id <= removed_max
    }

    /// How many of all entries that were ever added come up to an id; `None`: it is not known.
    pub(crate) fn added_up_to(&self, id: StreamId) -> Option<u64> {
        let StreamHead { count, last, first, removed_max, added, .. } = self.head;
        if added == 0 {
            return Some(0);
        }
        if id == last || count == 0 && id < last {
            return Some(added);
        }
        let is_whole = removed_max == StreamId::MIN || removed_max < first;
        if id > last || !is_whole || id > first {
            return None;
        }
        Some(added.wrapping_sub(count).wrapping_add(u64::from(id == first)))
    }

    /// What is known of the stream from before, and the stream's place there.
    pub(super) fn hints(&mut self) -> (&mut StreamHints, (usize, u64)) {
        (&mut self.data.known_ends.streams, (self.place.0, self.head.id))
    }

    /// The value of an element of the stream.
    pub(super) fn element(
        &mut self,
        part: Part,
        rest: &[&[u8]],
    ) -> Result<Option<Value<'_>>, Failure> {
        if is_too_long(rest) {
            return Ok(None);
        }
        self.data.element((self.place.0, self.head.id, part), rest)
    }

    /// Puts an element; true if it was there before.
    pub(super) fn put(
        &mut self,
        part: Part,
        rest: &[&[u8]],
        value: &[&[u8]],
    ) -> Result<bool, Failure> {
        if is_too_long(rest) {
            return Err(name_too_long());
        }
        self.data.put_element((self.place.0, self.head.id, part), rest, value)
    }

    /// As `put`, of an element that is only looked for by its whole key. It may be written later in the turn.
    pub(super) fn put_later(
        &mut self,
        part: Part,
        rest: &[&[u8]],
        value: &[&[u8]],
    ) -> Result<(), Failure> {
        self.data.put_element_later((self.place.0, self.head.id, part), rest, value)
    }

    /// Removes an element; true if it was there.
    pub(super) fn remove_element(&mut self, part: Part, rest: &[&[u8]]) -> Result<bool, Failure> {
        if is_too_long(rest) {
            return Ok(false);
        }
        self.data.remove_element((self.place.0, self.head.id, part), rest)
    }

    /// Removes so many elements, which lie from one on, up to another one.
    pub(super) fn remove_between(
        &mut self,
        part: Part,
        ends: (&[u8], &[u8]),
        count: u64,
    ) -> Result<(), Failure> {
        self.data.remove_elements_between((self.place.0, self.head.id, part), ends, count)
    }

    /// Calls `visit` with elements between two ends, until it returns false.
    pub(super) fn visit_part(
        &mut self,
        part: Part,
        ends: Ends<'_>,
        direction: Direction,
        visit: &mut VisitElement<'_>,
    ) -> Result<(), Failure> {
        self.data.visit_elements((self.place.0, self.head.id, part), ends, direction, visit)
    }
}

/// Refuses the name of a group or consumer that none can have, before anything is changed.
///
/// # Errors
/// It is too long.
pub(crate) fn check_name(name: &[u8]) -> Result<(), Failure> {
    if name.len() > ELEMENT_SIZE_MAX { Err(name_too_long()) } else { Ok(()) }
}

fn name_too_long() -> Failure {
    format!("ERR the name of a group or consumer is longer than {ELEMENT_SIZE_MAX} bytes").into()
}

fn is_too_long(rest: &[&[u8]]) -> bool {
    rest.iter().map(|bytes| bytes.len()).sum::<usize>() > ELEMENT_SIZE_MAX + 8
}
