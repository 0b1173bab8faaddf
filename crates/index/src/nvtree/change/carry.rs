//! An element of one leaf as it stands in another leaf, which has another prefix.

use tembo_pmem::crc32c;
use tembo_pool::Object;

use crate::nvtree::format::BLOCK_MIN;
use crate::nvtree::leaf::{Element, LONG, Leaf, Shape, hash};
use crate::record::{head, record_size, with_record};
use crate::{Error, Forest, Records};

/// The element of `leaf` as it stands under another prefix. If its key is then too long for its word, and it has no
/// record, this makes and flushes one and adds it to `made`, even if an error follows. If the value was in a block, the
/// block is added to `left`: nothing refers to it when the carried element has taken the place of this one.
pub(crate) fn carry(
    forest: &Forest,
    leaf: &Leaf<'_>,
    element: &Element,
    prefix: &[u8],
    made: &mut Vec<Object>,
    left: &mut Vec<Object>,
) -> Result<Element, Error> {
    let key = leaf.key_of(element)?;
    let odd = !key.starts_with(prefix);
    let skipped = if odd { 0 } else { prefix.len() as u16 };
    let (word, key_len) = (head(&key, skipped), key.len() - usize::from(skipped));
    let has_key = element.shape.value_len().is_none() && !element.shape.is_block();
    if has_key || key_len <= 8 {
        let shape = element.shape.with_key(key_len, odd);
        return Ok(Element { key: word, payload: element.payload, shape });
    }
    let record = leaf.value(element)?.with(|value| record_for(forest, &key, value, made))?;
    if let Some(block) = element.record().filter(|block| !left.contains(block)) {
        left.push(block);
    }
    let payload = record.to_bits() | hash(&key) << 48;
    Ok(Element { key: word, payload, shape: Shape::new(key_len, LONG, odd) })
}

/// A record of a key and a value, flushed and added to `made`.
pub(crate) fn record_for(
    forest: &Forest,
    key: &[u8],
    value: &[u8],
    made: &mut Vec<Object>,
) -> Result<Object, Error> {
    let record = forest.pool().alloc(record_size(forest.records(), key.len(), value.len()))?;
    made.push(record);
    write_record(forest, record, key, &[value])?;
    Ok(record)
}

/// Whether a value of so many bytes fills an object of its own and is large enough for a block.
#[inline]
pub(crate) fn fills_object(len: u64) -> bool {
    len >= BLOCK_MIN && Object::size_for(len) == Some(len)
}

/// Whether a value is stored as a block: it fills an object, and the key stands in its word.
#[inline]
pub(crate) fn is_block(forest: &Forest, shape: Shape, value_len: usize) -> bool {
    fills_object(value_len as u64)
        && shape.key_len().is_some()
        && forest.records() == Records::Checked
}

/// The payload of the element of a block.
pub(crate) fn block_payload(block: Object, value: &[&[u8]]) -> u64 {
    let crc = value.iter().fold(0, |crc, part| crc32c(crc, part));
    block.to_bits() | u64::from(crc) << 48
}

/// Writes and flushes an unpublished block. Returns the payload of its element.
pub(crate) fn write_block(forest: &Forest, block: Object, value: &[&[u8]]) -> Result<u64, Error> {
    // ORDER: the block is durable before an element that refers to it counts.
    let room = forest.pool().room(block);
    let written = forest.region().write_object("nvtree.block.write", block.offset(), value, room);
    written.map_err(|error| Error::Pool(error.into()))?;
    Ok(block_payload(block, value))
}

/// Writes and flushes an unpublished record.
pub(crate) fn write_record(
    forest: &Forest,
    record: Object,
    key: &[u8],
    value: &[&[u8]],
) -> Result<(), Error> {
    with_record(forest.records(), key, value, |parts| {
        // ORDER: the record is durable before an element that refers to it counts.
        let (offset, room) = (record.offset(), forest.pool().room(record));
        forest.region().write_object("nvtree.record.write", offset, parts, room)
    })
}

/// The first eight bytes of a value as a word, zeros behind it.
pub(super) fn inline(value: &[&[u8]]) -> u64 {
    let mut bytes = [0; 8];
    let all = value.iter().flat_map(|part| part.iter());
    bytes.iter_mut().zip(all).for_each(|(byte, value)| *byte = *value);
    u64::from_le_bytes(bytes)
}
