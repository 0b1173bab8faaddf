//! Records: a key and a value of any lengths behind an object, read after one check; and what both
//! indexes keep of keys.

pub(crate) mod format;

use tembo_pmem::{MediaBytes, Region};
use tembo_pool::Object;
use zerocopy::{FromBytes, IntoBytes};

use self::format::{RECORD_HEADER, RecordHeader};
use crate::Error;
use crate::error::damaged;
use crate::head;
use crate::key::KeyBytes;

/// Bytes of a record with a key and a value of these lengths.
pub(crate) fn record_size(key_len: usize, value_len: usize) -> u64 {
    RECORD_HEADER + key_len as u64 + value_len as u64
}

/// What `write` makes of the bytes of a record, part after part.
pub(crate) fn with_record<T>(
    key: &[u8],
    value: &[&[u8]],
    write: impl FnOnce(&[&[u8]]) -> Result<T, tembo_pmem::Error>,
) -> Result<T, Error> {
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
    write(&parts).map_err(|error| Error::Pool(error.into()))
}

/// The header of an object.
#[inline]
pub(crate) fn header<T: FromBytes>(region: &Region, object: Object) -> Result<T, Error> {
    let bytes = region.media_bytes(object.offset(), size_of::<T>() as u64)?;
    match bytes.read(0) {
        Some(header) => Ok(header),
        None => damaged(object.offset(), "a record's header"),
    }
}

/// Key and value of a published record.
#[inline]
pub(crate) fn read_record(
    region: &Region,
    record: Object,
) -> Result<(MediaBytes<'_>, MediaBytes<'_>), Error> {
    let RecordHeader { key_len, value_len } = header(region, record)?;
    let bytes = body(region, record, RECORD_HEADER, u64::from(key_len) + u64::from(value_len))?;
    match bytes.split_at(key_len as usize) {
        Some(split) => Ok(split),
        None => damaged(record.offset(), "a record that fits its object"),
    }
}

/// The key of a published record.
#[inline]
pub(crate) fn read_key(region: &Region, record: Object) -> Result<MediaBytes<'_>, Error> {
    let RecordHeader { key_len, .. } = header(region, record)?;
    body(region, record, RECORD_HEADER, u64::from(key_len))
}

/// So many bytes behind the header of an object.
#[inline]
pub(crate) fn body(
    region: &Region,
    object: Object,
    header: u64,
    len: u64,
) -> Result<MediaBytes<'_>, Error> {
    if header + len > object.size() {
        return damaged(object.offset(), "a record that fits its object");
    }
    Ok(region.media_bytes(object.offset() + header, len)?)
}

/// How many bytes the keys have in common at their beginning, as far as a prefix can be long.
pub(crate) fn common(a: KeyBytes<'_>, b: &[u8]) -> u16 {
    a.common_len(b).min(usize::from(u16::MAX)) as u16
}

/// The eight bytes of `key` after `prefix_len` of them, big-endian, padded with zeros.
#[inline]
pub(crate) fn head(key: &[u8], prefix_len: u16) -> u64 {
    head::head(key, prefix_len.into())
}
