//! An element of one leaf as it stands in another, whose prefix is another.

use tembo_pool::Object;

use crate::nvtree::leaf::{Element, LONG, Leaf, Shape, hash};
use crate::record::{head, record_size, with_record};
use crate::{Error, Forest};

/// The element of `leaf` under a prefix. If its key is too long there to stand in its word, and it has no
/// record, one is made, flushed and added to `made`: on an error, too.
pub(crate) fn carry(
    forest: &Forest,
    leaf: &Leaf<'_>,
    element: &Element,
    prefix: &[u8],
    made: &mut Vec<Object>,
) -> Result<Element, Error> {
    let key = leaf.key_of(element)?;
    let odd = !key.starts_with(prefix);
    let skipped = if odd { 0 } else { prefix.len() as u16 };
    let (word, key_len) = (head(&key, skipped), key.len() - usize::from(skipped));
    match element.shape.value_len() {
        None => {
            let shape = Shape::new(key_len, LONG, odd);
            Ok(Element { key: word, payload: element.payload, shape })
        }
        Some(len) if key_len <= 8 => {
            let shape = Shape::new(key_len, len, odd);
            Ok(Element { key: word, payload: element.payload, shape })
        }
        Some(len) => {
            let value = element.payload.to_le_bytes();
            let record = record_for(forest, &key, &value[..len], made)?;
            let payload = record.to_bits() | hash(&key) << 48;
            Ok(Element { key: word, payload, shape: Shape::new(key_len, LONG, odd) })
        }
    }
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

/// Writes and flushes an unpublished record.
pub(crate) fn write_record(
    forest: &Forest,
    record: Object,
    key: &[u8],
    value: &[&[u8]],
) -> Result<(), Error> {
    with_record(forest.records(), key, value, |parts| {
        // ORDER: the record is durable before an element that refers to it counts.
        forest.region().write("nvtree.record.write", record.offset(), parts)
    })
}
