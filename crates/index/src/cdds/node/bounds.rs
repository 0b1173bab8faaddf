//! Bounds: the range of a node's keys, and the prefix and the heads by which searches compare.

use tembo_pmem::Region;
use tembo_pool::Object;
use zerocopy::IntoBytes;

use crate::Error;
use crate::cdds::format::{BOUNDS_HEADER, BoundsHeader, UNBOUNDED};
use crate::error::damaged;
use crate::key::KeyBytes;
use crate::record::{body, common, header};

/// The range of keys of a node: above `low`, up to and including `high`; `None` is no bound.
///
/// A node that lacks a bound would have no prefix, and heads that distinguish nothing. So it may be
/// *guarded* by the prefix of the keys that it was made of: a search first compares with it, and a
/// key without it makes a new node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Bounds<'r> {
    pub(crate) low: Option<KeyBytes<'r>>,
    pub(crate) high: Option<KeyBytes<'r>>,
    /// The prefix of a guarded node, else empty.
    pub(crate) prefix: KeyBytes<'r>,
}

impl Default for Bounds<'_> {
    fn default() -> Self {
        Bounds::new(None, None)
    }
}

impl<'r> Bounds<'r> {
    pub(crate) fn new(low: Option<KeyBytes<'r>>, high: Option<KeyBytes<'r>>) -> Bounds<'r> {
        Bounds { low, high, prefix: KeyBytes::EMPTY }
    }

    pub(crate) fn size(&self) -> u64 {
        let len = |key: Option<KeyBytes<'_>>| key.map_or(0, |key| key.len()) as u64;
        BOUNDS_HEADER + len(self.low) + len(self.high) + self.prefix.len() as u64
    }

    /// Writes and flushes an unpublished bounds record.
    pub(crate) fn write(&self, region: &Region, object: Object) -> Result<(), Error> {
        let len = |key: Option<KeyBytes<'_>>| key.map_or(UNBOUNDED, |key| key.len() as u32);
        let header = BoundsHeader {
            low_len: len(self.low),
            high_len: len(self.high),
            prefix_len: self.prefix.len() as u32,
            reserved: 0,
        };
        let mut keys = Vec::new();
        self.low.iter().chain(&self.high).for_each(|key| key.append_to(&mut keys));
        self.prefix.append_to(&mut keys);
        region
            // ORDER: a node's bounds are durable before the commit that makes the node reachable.
            .write("cdds.bounds.write", object.offset(), &[header.as_bytes(), &keys])
            .map_err(|error| Error::Pool(error.into()))
    }

    pub(crate) fn read(region: &'r Region, object: Object) -> Result<Bounds<'r>, Error> {
        let BoundsHeader { low_len, high_len, prefix_len, .. } = header(region, object)?;
        let len = |len: u32| if len == UNBOUNDED { 0 } else { u64::from(len) };
        let all = len(low_len) + len(high_len) + u64::from(prefix_len);
        let bytes = body(region, object, BOUNDS_HEADER, all)?;
        let split = bytes
            .split_at(len(low_len) as usize)
            .and_then(|(low, rest)| Some((low, rest.split_at(len(high_len) as usize)?)));
        let Some((low, (high, prefix))) = split else {
            return damaged(object.offset(), "bounds that fit their object");
        };
        Ok(Bounds {
            low: (low_len != UNBOUNDED).then_some(low.into()),
            high: (high_len != UNBOUNDED).then_some(high.into()),
            prefix: prefix.into(),
        })
    }

    /// Bytes that every key of the range begins with.
    pub(crate) fn prefix_len(&self) -> u16 {
        let (Some(low), Some(high)) = (self.low, self.high) else { return 0 };
        high.with(|high| common(low, high))
    }
}

/// The shortest key that separates: not below `left`, below `right`. Needs `left < right`.
pub(crate) fn separator<'k>(left: KeyBytes<'k>, right: KeyBytes<'k>) -> KeyBytes<'k> {
    let common = right.with(|right| left.common_len(right));
    let shorter = right.slice(0..common + 1).filter(|_| right.len() > common + 1);
    shorter.filter(|_| left.len() > common).unwrap_or(left)
}

/// Sixteen bits of a hash of `key`, in the place above an object's bits.
#[inline]
pub(crate) fn fingerprint(key: &[u8]) -> u64 {
    const SEED: u64 = 0x9e37_79b9_7f4a_7c15;
    let mut hash = key.len() as u64 ^ SEED;
    let mut chunks = key.chunks_exact(8);
    for chunk in &mut chunks {
        let word = chunk.first_chunk::<8>().map_or(0, |bytes| u64::from_le_bytes(*bytes));
        hash = (hash ^ word).wrapping_mul(SEED).rotate_left(29);
    }
    for &byte in chunks.remainder() {
        hash = (hash ^ u64::from(byte)).wrapping_mul(SEED).rotate_left(29);
    }
    (hash.wrapping_mul(SEED) >> 48) << 48
}

/// The bits of a word that hold a fingerprint.
pub(crate) const FINGERPRINT_MASK: u64 = 0xffff << 48;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::head;

    fn keys() -> Vec<Vec<u8>> {
        let mut keys = vec![vec![]];
        for len in 1..=3usize {
            for n in 0..3usize.pow(len as u32) {
                keys.push(
                    (0..len).map(|i| [0, b'a', 0xff][n / 3usize.pow(i as u32) % 3]).collect(),
                );
            }
        }
        keys.sort();
        keys
    }

    #[test]
    fn a_separator_separates_and_heads_keep_the_order() {
        let keys = keys();
        for (i, left) in keys.iter().enumerate() {
            for right in &keys[i + 1..] {
                let middle = separator(left[..].into(), right[..].into());
                assert!(middle.compare(left).is_ge() && middle.compare(right).is_lt());
                assert!(head(left, 0) <= head(right, 0));
            }
        }
    }

    #[test]
    fn every_key_of_a_range_has_its_prefix() {
        let keys = keys();
        for (i, low) in keys.iter().enumerate() {
            for (j, high) in keys.iter().enumerate().skip(i + 1) {
                let bounds = Bounds::new(Some(low[..].into()), Some(high[..].into()));
                let prefix = &high[..usize::from(bounds.prefix_len())];
                assert!(keys[i + 1..=j].iter().all(|key| key.starts_with(prefix)));
            }
        }
    }
}
