//! An element of one leaf as it stands in another, whose prefix is another.

use tembo_pool::Object;

use super::NvTree;
use super::element::{Element, LONG, Shape};
use super::leaf::Leaf;
use super::prints::hash;
use crate::Error;
use crate::record::{head, record_size, with_record};

impl NvTree {
    /// The element of `leaf` under a prefix. If its key is too long there to stand in its word, and it has no
    /// record, one is made, flushed and added to `made`: on an error, too.
    pub(crate) fn carry(
        &self,
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
                let record = self.record_for(&key, &value[..len], made)?;
                let payload = record.to_bits() | hash(&key) << 48;
                Ok(Element { key: word, payload, shape: Shape::new(key_len, LONG, odd) })
            }
        }
    }

    /// A record of a key and a value, flushed and added to `made`.
    pub(crate) fn record_for(
        &self,
        key: &[u8],
        value: &[u8],
        made: &mut Vec<Object>,
    ) -> Result<Object, Error> {
        let record =
            self.forest.pool().alloc(record_size(self.forest.records(), key.len(), value.len()))?;
        made.push(record);
        self.write_record(record, key, &[value])?;
        Ok(record)
    }

    /// Writes and flushes an unpublished record.
    pub(crate) fn write_record(
        &self,
        record: Object,
        key: &[u8],
        value: &[&[u8]],
    ) -> Result<(), Error> {
        with_record(self.forest.records(), key, value, |parts| {
            // ORDER: the record is durable before an element that refers to it counts.
            self.forest.region().write("nvtree.record.write", record.offset(), parts)
        })
    }
}
