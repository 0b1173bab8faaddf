//! Records and bounds: variable-length bytes behind an object, read after one check.

use tembo_pmem::Region;
use tembo_pool::Object;
use zerocopy::{FromBytes, IntoBytes};

use super::format::{BOUNDS_HEADER, BoundsHeader, RECORD_HEADER, RecordHeader, UNBOUNDED};
use crate::Error;
use crate::error::damaged;
use crate::head;

/// Bytes of a record with a key and a value of these lengths.
pub(crate) fn record_size(key_len: usize, value_len: usize) -> u64 {
    RECORD_HEADER + key_len as u64 + value_len as u64
}

/// Writes and flushes an unpublished record.
pub(crate) fn write_record(
    region: &Region,
    record: Object,
    key: &[u8],
    value: &[&[u8]],
) -> Result<(), Error> {
    let value_len: usize = value.iter().map(|part| part.len()).sum();
    let header = RecordHeader { key_len: key.len() as u32, value_len: value_len as u32 };
    let joined;
    let mut parts: [&[u8]; 8] = [&[]; 8];
    (parts[0], parts[1]) = (header.as_bytes(), key);
    if value.len() <= 6 {
        parts[2..2 + value.len()].copy_from_slice(value);
    } else {
        joined = value.concat();
        parts[2] = &joined;
    }
    region
        // ORDER: the record is durable before the commit that makes its entry visible.
        .write("cdds.record.write", record.offset(), &parts)
        .map_err(|error| Error::Pool(error.into()))
}

fn header<T: FromBytes>(region: &Region, object: Object) -> Result<T, Error> {
    let bytes = region.bytes(object.offset(), size_of::<T>() as u64)?;
    match T::read_from_bytes(bytes) {
        Ok(header) => Ok(header),
        Err(_) => damaged(object.offset(), "a record's header"),
    }
}

/// Key and value of a published record.
pub(crate) fn read_record(region: &Region, record: Object) -> Result<(&[u8], &[u8]), Error> {
    let RecordHeader { key_len, value_len } = header(region, record)?;
    let bytes = body(region, record, RECORD_HEADER, u64::from(key_len) + u64::from(value_len))?;
    Ok(bytes.split_at(key_len as usize))
}

/// The key of a published record.
pub(crate) fn read_key(region: &Region, record: Object) -> Result<&[u8], Error> {
    let RecordHeader { key_len, .. } = header(region, record)?;
    body(region, record, RECORD_HEADER, u64::from(key_len))
}

fn body(region: &Region, object: Object, header: u64, len: u64) -> Result<&[u8], Error> {
    if header + len > object.size() {
        return damaged(object.offset(), "a record that fits its object");
    }
    Ok(region.bytes(object.offset() + header, len)?)
}

/// The range of keys of a node: above `low`, up to and including `high`; `None` is no bound.
///
/// A node that lacks a bound would have no prefix, and heads that tell nothing apart. So it may be
/// *guarded* by the prefix of the keys that it was made of: a search first compares with it, and a
/// key without it makes a new node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Bounds<'r> {
    pub(crate) low: Option<&'r [u8]>,
    pub(crate) high: Option<&'r [u8]>,
    /// Of a guarded node, else empty.
    pub(crate) prefix: &'r [u8],
}

impl<'r> Bounds<'r> {
    pub(crate) fn new(low: Option<&'r [u8]>, high: Option<&'r [u8]>) -> Bounds<'r> {
        Bounds { low, high, prefix: &[] }
    }

    pub(crate) fn size(&self) -> u64 {
        let len = |key: Option<&[u8]>| key.map_or(0, <[u8]>::len) as u64;
        BOUNDS_HEADER + len(self.low) + len(self.high) + self.prefix.len() as u64
    }

    /// Writes and flushes an unpublished bounds record.
    pub(crate) fn write(&self, region: &Region, object: Object) -> Result<(), Error> {
        let len = |key: Option<&[u8]>| key.map_or(UNBOUNDED, |key| key.len() as u32);
        let header = BoundsHeader {
            low_len: len(self.low),
            high_len: len(self.high),
            prefix_len: self.prefix.len() as u32,
            reserved: 0,
        };
        let (low, high) = (self.low.unwrap_or_default(), self.high.unwrap_or_default());
        region
            // ORDER: a node's bounds are durable before the commit that makes the node reachable.
            .write(
                "cdds.bounds.write",
                object.offset(),
                &[header.as_bytes(), low, high, self.prefix],
            )
            .map_err(|error| Error::Pool(error.into()))
    }

    pub(crate) fn read(region: &'r Region, object: Object) -> Result<Bounds<'r>, Error> {
        let BoundsHeader { low_len, high_len, prefix_len, .. } = header(region, object)?;
        let len = |len: u32| if len == UNBOUNDED { 0 } else { u64::from(len) };
        let all = len(low_len) + len(high_len) + u64::from(prefix_len);
        let bytes = body(region, object, BOUNDS_HEADER, all)?;
        let (low, rest) = bytes.split_at(len(low_len) as usize);
        let (high, prefix) = rest.split_at(len(high_len) as usize);
        Ok(Bounds {
            low: (low_len != UNBOUNDED).then_some(low),
            high: (high_len != UNBOUNDED).then_some(high),
            prefix,
        })
    }

    /// Bytes that every key of the range begins with.
    pub(crate) fn prefix_len(&self) -> u16 {
        let (Some(low), Some(high)) = (self.low, self.high) else { return 0 };
        common(low, high)
    }
}

/// How many bytes the keys have in common at their beginning, as far as a prefix can be long.
pub(crate) fn common(a: &[u8], b: &[u8]) -> u16 {
    let common = a.iter().zip(b).take_while(|(a, b)| a == b).count();
    common.min(usize::from(u16::MAX)) as u16
}

/// The shortest key that separates: not below `left`, below `right`. Needs `left < right`.
pub(crate) fn separator<'k>(left: &'k [u8], right: &'k [u8]) -> &'k [u8] {
    let common = left.iter().zip(right).take_while(|(a, b)| a == b).count();
    if right.len() > common + 1 && left.len() > common { &right[..=common] } else { left }
}

/// The eight bytes of `key` after `prefix_len` of them, big-endian, padded with zeros.
#[inline]
pub(crate) fn head(key: &[u8], prefix_len: u16) -> u64 {
    head::head(key, prefix_len.into())
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
                let middle = separator(left, right);
                assert!(left.as_slice() <= middle && middle < right.as_slice());
                assert!(head(left, 0) <= head(right, 0));
            }
        }
    }

    #[test]
    fn every_key_of_a_range_has_its_prefix() {
        let keys = keys();
        for (i, low) in keys.iter().enumerate() {
            for (j, high) in keys.iter().enumerate().skip(i + 1) {
                let bounds = Bounds::new(Some(low), Some(high));
                let prefix = &high[..usize::from(bounds.prefix_len())];
                assert!(keys[i + 1..=j].iter().all(|key| key.starts_with(prefix)));
            }
        }
    }
}
