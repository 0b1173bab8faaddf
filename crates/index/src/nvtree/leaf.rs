//! A leaf: its header, its lines, its neighbours.

mod element;
mod order;
mod prints;
mod side;
mod slot;

use tembo_pmem::{Region, prefetch};
use tembo_pool::Object;

pub(crate) use self::element::{Element, LANES, LONG, Meta, Shape, Shapes};
pub(crate) use self::order::Order;
pub(crate) use self::prints::{
    FREE, PrintBytes, Prints, STALE, Slots, TOMB, all_slots, hash, line, line_of, print,
};
pub(crate) use self::side::{Guard, Moment, Side, Traits};
pub(crate) use self::slot::{
    erase, has_record, owned, place_of, publish, read, read_element, read_of, read_slot, write,
    write_all,
};
use super::format::{
    HEADER_SIZE, LEAF_MAGIC, LINE_SIZE, LOW_INLINE, LeafHeader, Line, PAIRS_PER_LINE, Pair,
    SLOTS_PER_LINE,
};
use super::inner::{LeafId, Lows};
use crate::error::damaged;
use crate::key::KeyBytes;
use crate::record::{
    common, has_key, head, read_key, read_parts, read_record, read_unverified, verify_once,
};
use crate::{Error, Forest, Value};

/// A leaf of a forest. There may be no leaf at its place, so every read is checked.
#[derive(Clone, Copy)]
pub(crate) struct Leaf<'f> {
    pub(crate) forest: &'f Forest,
    pub(crate) id: LeafId,
    pub(crate) side: &'f Side,
}

/// A key as an element of a leaf has it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Placed<'k> {
    pub(crate) key: &'k [u8],
    pub(crate) word: u64,
    /// The key's part of the shape.
    pub(crate) shape: Shape,
}

/// The range of a leaf's keys: from its low key on, below the low key of the next leaf, if there is one.
#[derive(Clone, Copy)]
pub(crate) struct Range<'f> {
    pub(crate) low: KeyBytes<'f>,
    pub(crate) high: Option<KeyBytes<'f>>,
}

impl Range<'_> {
    /// Whether the key lies in the range.
    pub(crate) fn covers(&self, key: &[u8]) -> bool {
        self.low.compare(key).is_le() && self.high.is_none_or(|high| high.compare(key).is_gt())
    }

    /// The number of bytes with which every key in the range begins.
    pub(crate) fn common_len(&self) -> u16 {
        self.high.map_or(0, |high| high.with(|high| common(self.low, high)))
    }
}

impl<'k> Placed<'k> {
    /// The key.
    pub(crate) fn key(&self) -> &'k [u8] {
        self.key
    }
}

impl<'f> Leaf<'f> {
    #[inline]
    pub(crate) fn at(forest: &'f Forest, id: LeafId) -> Result<Leaf<'f>, Error> {
        match forest.leaves.get(id as usize) {
            Some(side) => Ok(Leaf { forest, id, side }),
            None => damaged(u64::from(id) << forest.leaf_bits, "a leaf in the pool"),
        }
    }

    /// The leaf at an object that media name as one.
    #[inline(always)]
    pub(crate) fn of(forest: &'f Forest, object: Object) -> Result<Leaf<'f>, Error> {
        let leaf = Leaf::at(forest, Leaf::id_of(forest, object)?)?;
        leaf.check()?;
        Ok(leaf)
    }

    /// The number of the leaf at an object that media name as one.
    pub(crate) fn id_of(forest: &Forest, object: Object) -> Result<LeafId, Error> {
        forest.pool().valid(object)?;
        if object.size() != u64::from(forest.pool().geometry().node_size) {
            return damaged(object.offset(), "an object as large as a leaf");
        }
        forest.leaf_id(object)
    }

    #[inline]
    pub(crate) fn region(&self) -> &'f Region {
        self.forest.region()
    }

    #[inline]
    pub(crate) fn lines(&self) -> usize {
        self.forest.lines.into()
    }

    /// A bit for each slot of the leaf.
    #[inline]
    pub(crate) fn all_slots(&self) -> u64 {
        self.forest.all_slots
    }

    #[inline]
    pub(crate) fn slots(&self) -> usize {
        self.lines() * SLOTS_PER_LINE
    }

    #[inline]
    pub(crate) fn offset(&self) -> u64 {
        u64::from(self.id) << self.forest.leaf_bits
    }

    #[inline]
    pub(crate) fn header(&self) -> Result<&'f LeafHeader, Error> {
        Ok(self.region().get(self.offset())?)
    }

    #[inline]
    pub(crate) fn line_offset(&self, line: usize) -> u64 {
        self.offset() + HEADER_SIZE + line as u64 * LINE_SIZE
    }

    #[inline]
    pub(crate) fn line(&self, line: usize) -> Result<&'f Line, Error> {
        Ok(self.region().get(self.line_offset(line))?)
    }

    /// All lines of the leaf.
    #[inline(always)]
    pub(crate) fn all_lines(&self) -> Result<&'f [Line], Error> {
        Ok(self.region().slice(self.line_offset(0), self.lines())?)
    }

    /// All lines of the leaf as pairs of words. The last pair of each line is its meta bits.
    #[inline(always)]
    pub(crate) fn all_pairs(&self) -> Result<&'f [Pair], Error> {
        Ok(self.region().slice(self.line_offset(0), self.lines() * PAIRS_PER_LINE)?)
    }

    /// Asks the processor for a line of the leaf.
    #[inline]
    pub(crate) fn prefetch_line(&self, line: usize) {
        self.region().prefetch(self.line_offset(line));
    }

    /// Asks the processor for the whole leaf.
    pub(crate) fn prefetch_all(&self) {
        // The header is one line.
        let lines = self.region().slice(self.offset(), 1 + self.lines());
        lines.unwrap_or_default().iter().for_each(|line: &Line| prefetch(line));
    }

    /// Asks the disk for the leaf, where pages come one by one.
    #[inline]
    pub(crate) fn will_read(&self) {
        self.region().will_read(self.offset(), (1 + self.lines() as u64) * LINE_SIZE);
    }

    /// Checks the magic and the lengths.
    pub(crate) fn check(&self) -> Result<(), Error> {
        check(self.header()?, self.offset())
    }

    pub(crate) fn prefix_len(&self) -> Result<u16, Error> {
        Ok((self.header()?.shape.load() >> 16) as u16)
    }

    pub(crate) fn bases(&self) -> Result<[u64; 2], Error> {
        Ok(self.header()?.bases.each_ref().map(|base| base.load()))
    }

    /// The record of a low key that does not fit into the header.
    pub(crate) fn low_record(&self) -> Result<Option<Object>, Error> {
        let header = self.header()?;
        let low_len = usize::from(header.shape.load() as u16);
        Ok((low_len > LOW_INLINE).then(|| Object::from_bits(header.low[0].load())))
    }

    /// The low key: the least key that belongs to the leaf.
    #[inline(always)]
    pub(crate) fn low(&self) -> Result<KeyBytes<'f>, Error> {
        let header = self.header()?;
        let low_len = usize::from(header.shape.load() as u16);
        if low_len <= LOW_INLINE {
            let at = self.region().offset_of(&header.low[0]);
            return Ok(self.region().media_bytes(at, low_len as u64)?.into());
        }
        self.long_low(header, low_len)
    }

    /// A low key that does not fit into the header.
    #[inline(never)]
    fn long_low(&self, header: &LeafHeader, low_len: usize) -> Result<KeyBytes<'f>, Error> {
        let low = read_key(self.forest, Object::from_bits(header.low[0].load()))?;
        if low.len() != low_len {
            return damaged(self.offset(), "a low key of the length that the leaf names");
        }
        Ok(low.into())
    }

    /// The prefix of the leaf's keys.
    pub(crate) fn prefix(&self) -> Result<KeyBytes<'f>, Error> {
        let prefix_len = usize::from(self.prefix_len()?);
        if prefix_len == 0 {
            return Ok(KeyBytes::EMPTY);
        }
        match self.low()?.slice(0..prefix_len) {
            Some(prefix) => Ok(prefix),
            None => damaged(self.offset(), "a prefix of the low key"),
        }
    }

    #[inline(always)]
    pub(crate) fn next_object(&self) -> Result<Option<Object>, Error> {
        let next = Object::from_bits(self.header()?.next.load());
        Ok((!next.is_none()).then_some(next))
    }

    #[inline(always)]
    pub(crate) fn next(&self) -> Result<Option<Leaf<'f>>, Error> {
        self.next_object()?.map(|next| Leaf::of(self.forest, next)).transpose()
    }

    /// The next leaf, whose low key is above this one's. A damaged list may go round; since the low key has to rise at
    /// every step, a walk ends nevertheless.
    pub(crate) fn following(&self) -> Result<Option<Leaf<'f>>, Error> {
        let Some(next) = self.next()? else { return Ok(None) };
        if next.low()? <= self.low()? {
            return damaged(next.offset(), "leaves in the order of their low keys");
        }
        Ok(Some(next))
    }

    /// The range of the leaf's keys.
    pub(crate) fn range(&self) -> Result<Range<'f>, Error> {
        Ok(Range { low: self.low()?, high: self.high()? })
    }

    /// The least key above those that belong to the leaf. `None`: there is no bound.
    pub(crate) fn high(&self) -> Result<Option<KeyBytes<'f>>, Error> {
        self.next()?.map(|next| next.low()).transpose()
    }

    /// The element in a slot, and its meta bits.
    #[inline]
    pub(crate) fn element(&self, slot: usize) -> Result<(Element, Meta), Error> {
        let line = self.line(slot / SLOTS_PER_LINE)?;
        Ok(read(line, slot % SLOTS_PER_LINE))
    }

    /// The key as an element of this leaf has it.
    #[inline]
    pub(crate) fn place<'k>(&self, key: &'k [u8], traits: Traits) -> Result<Placed<'k>, Error> {
        let prefix_len = usize::from(traits.prefix_len);
        let odd = traits.guarded && self.lacks_prefix(key)?;
        let skipped = if odd { 0 } else { prefix_len };
        let word = head(key, skipped as u16);
        Ok(Placed { key, word, shape: Shape::new(key.len().saturating_sub(skipped), 0, odd) })
    }

    #[inline(never)]
    fn lacks_prefix(&self, key: &[u8]) -> Result<bool, Error> {
        Ok(!self.prefix()?.is_prefix_of(key))
    }

    /// Whether the element is of that key. Its record, if it has one, must be safe to read.
    #[inline]
    pub(crate) fn is_of(&self, element: &Element, placed: &Placed<'_>) -> Result<bool, Error> {
        if element.key != placed.word || !element.shape.same_key(placed.shape) {
            return Ok(false);
        }
        match (placed.shape.key_len(), element.record()) {
            (Some(_), _) => Ok(true),
            (None, Some(record)) => has_key(self.forest, record, placed.key),
            (None, None) => damaged(self.offset(), "a record of a long key"),
        }
    }

    /// The value of an element, if the element has that key. For a reader: a writer may move the element while it is
    /// read. This looks at a record once, for key and value.
    #[inline(always)]
    pub(crate) fn value_of_key(
        &self,
        element: &Element,
        placed: &Placed<'_>,
    ) -> Result<Option<Value<'f>>, Error> {
        if let (None, Some(record)) = (placed.shape.key_len(), element.record())
            && element.key == placed.word
            && element.shape.same_key(placed.shape)
            && !self.forest.verified.is_owed(record)
        {
            let (key, value) = read_unverified(self.forest, record)?;
            return Ok(key.eq_bytes(placed.key).then_some(Value::in_pool(value)));
        }
        if self.is_of(element, placed)? { self.value(element).map(Some) } else { Ok(None) }
    }

    /// The value of an element. For a reader: a writer may move the element while it is read.
    #[inline]
    pub(crate) fn value(&self, element: &Element) -> Result<Value<'f>, Error> {
        match element.shape.value_len() {
            Some(len) => Ok(Value::copy(element.payload, len)),
            None if element.shape.is_block() => self.block(element),
            None => {
                let record = Object::from_bits(element.payload);
                Ok(Value::in_pool(read_record(self.forest, record)?.1))
            }
        }
    }

    /// The value of an element that stands in a block. It is verified, unless that was done before.
    ///
    /// # Errors
    /// [`Error::Corrupt`]; damage.
    fn block(&self, element: &Element) -> Result<Value<'f>, Error> {
        let block = Object::from_bits(element.payload);
        if self.forest.verified.is_owed(block) {
            self.verify_block(element)?;
        }
        Ok(Value::in_pool(self.region().media_bytes(block.offset(), block.size())?))
    }

    /// Compares a block with the checksum in its element.
    ///
    /// # Errors
    /// [`Error::Corrupt`]; damage.
    #[cold]
    pub(crate) fn verify_block(&self, element: &Element) -> Result<(), Error> {
        let block = Object::from_bits(element.payload);
        let bytes = self.region().media_bytes(block.offset(), block.size())?;
        if u64::from(bytes.crc32c(0)) & 0xffff != element.payload >> 48 {
            return Err(Error::Corrupt { offset: block.offset(), key: self.key_of(element)? });
        }
        self.forest.verified.note(block);
        Ok(())
    }

    /// The value of an element, for a reader. Replaces the content of `key` by the element's whole key. This looks at a
    /// record once, for both.
    #[inline(always)]
    pub(crate) fn read_entry(
        &self,
        element: &Element,
        key: &mut Vec<u8>,
    ) -> Result<Value<'f>, Error> {
        key.clear();
        if let (None, Some(record)) = (element.shape.key_len(), element.record()) {
            verify_once(self.forest, record)?;
            let (own, value) = read_parts(self.forest, record)?;
            own.append_to(key);
            return Ok(Value::in_pool(value));
        }
        self.append_key(element, key)?;
        self.value(element)
    }

    /// The whole key of an element.
    pub(crate) fn key_of(&self, element: &Element) -> Result<Vec<u8>, Error> {
        let mut key = Vec::with_capacity(32);
        self.append_key(element, &mut key)?;
        Ok(key)
    }

    fn append_key(&self, element: &Element, key: &mut Vec<u8>) -> Result<(), Error> {
        let Some(len) = element.shape.key_len() else {
            let Some(record) = element.record() else {
                return damaged(self.offset(), "a record of a long key");
            };
            read_key(self.forest, record)?.append_to(key);
            return Ok(());
        };
        if !element.shape.is_odd() {
            self.prefix()?.append_to(key);
        }
        key.extend_from_slice(&element.key.to_be_bytes()[..len]);
        Ok(())
    }
}

/// Checks magic and lengths of the leaf at an offset.
#[inline]
pub(crate) fn check(header: &LeafHeader, offset: u64) -> Result<(), Error> {
    let shape = header.shape.load();
    let (prefix_len, low_len) = (shape >> 16 & 0xffff, shape & 0xffff);
    if shape >> 32 != u64::from(LEAF_MAGIC) || prefix_len > low_len {
        return damaged(offset, "a leaf's header");
    }
    Ok(())
}

impl Lows for Forest {
    fn low(&self, leaf: LeafId) -> Result<KeyBytes<'_>, Error> {
        Leaf::at(self, leaf)?.low()
    }
}
