//! Records: a key and a value of any lengths in an object, with or without a checksum; and functions of keys that all
//! indexes use.

mod format;

use tembo_pmem::{MediaBytes, Region, crc32c};
use tembo_pool::Object;
use zerocopy::{FromBytes, IntoBytes};

pub use self::format::Records;
use self::format::{RECORD_CHECKSUM, RECORD_HEADER, RecordChecksum, RecordFront, RecordHeader};
use crate::error::damaged;
use crate::key::KeyBytes;
use crate::{Error, Forest, KeyChange, head};

/// Bytes of a record with a key and a value of these lengths.
pub(crate) fn record_size(records: Records, key_len: usize, value_len: usize) -> u64 {
    front(records) + key_len as u64 + value_len as u64
}

/// Bytes before the key.
#[inline]
fn front(records: Records) -> u64 {
    match records {
        Records::Unchecked => RECORD_HEADER,
        Records::Checked => RECORD_HEADER + RECORD_CHECKSUM,
    }
}

/// Most bytes of a record that are prefetched when it is read.
const ASKED_MAX: u64 = 8 << 20;

/// Prefetches the pages of a record that is about to be read: they come together, not one after the other.
#[inline]
pub(crate) fn ask_for_record(region: &Region, record: Object) {
    region.will_read_now(record.offset(), record.size().min(ASKED_MAX));
}

/// Bytes from the beginning of a record that a change of its key reads: all of them, if the record is to be verified.
pub(crate) fn size_changed(forest: &Forest, record: Object, key_len: usize) -> u64 {
    match forest.verified.is_owed(record) {
        true => record.size(),
        false => record_size(forest.records(), key_len, 0).min(record.size()),
    }
}

/// Prefetches space for records of these keys and values, which will soon be written.
pub(crate) fn expect_records<'c>(
    forest: &Forest,
    changes: impl Iterator<Item = &'c KeyChange<'c>>,
) {
    let records = forest.records();
    let puts = changes.filter_map(|&(key, value)| Some((key, value?)));
    forest.pool().expect(puts.map(|(key, value)| record_size(records, key.len(), value.len())));
}

/// Most parts of a value that are written as they are. More parts are put together before.
const VALUE_PARTS: usize = 6;

/// Greatest size of a record that is put together before it is written, which takes less time than part after part.
const SMALL_MAX: usize = 256;

/// The bytes of a record. `None`: it is not small.
#[inline(always)]
fn put_together<'b>(
    bytes: &'b mut [u8; SMALL_MAX],
    records: Records,
    header: RecordHeader,
    (key, value): (&[u8], &[&[u8]]),
) -> Option<&'b [u8]> {
    const CHECKSUM: usize = RECORD_CHECKSUM as usize;
    const FRONT: usize = RECORD_HEADER as usize + CHECKSUM;
    let size = FRONT + key.len() + header.value_len as usize;
    let (own, mut rest) = bytes.get_mut(FRONT..size)?.split_at_mut_checked(key.len())?;
    own.copy_from_slice(key);
    for part in value {
        let (own, others) = rest.split_at_mut_checked(part.len())?;
        own.copy_from_slice(part);
        rest = others;
    }
    // The bytes that the checksum covers stand together: header, key and value.
    bytes.get_mut(CHECKSUM..FRONT)?.copy_from_slice(header.as_bytes());
    if records == Records::Unchecked {
        return bytes.get(CHECKSUM..size);
    }
    let checksum = RecordChecksum { crc: crc32c(0, bytes.get(CHECKSUM..size)?) };
    bytes.get_mut(..FRONT)?.copy_from_slice(RecordFront { header, checksum }.as_bytes());
    bytes.get(..size)
}

/// Calls `write` with the bytes of a record, part after part, and returns its result.
#[inline]
pub(crate) fn with_record<T>(
    records: Records,
    key: &[u8],
    value: &[&[u8]],
    write: impl FnOnce(&[&[u8]]) -> Result<T, tembo_pmem::Error>,
) -> Result<T, Error> {
    let value_len: usize = value.iter().map(|part| part.len()).sum();
    let header = RecordHeader { key_len: key.len() as u32, value_len: value_len as u32 };
    if key.len() + value_len <= SMALL_MAX {
        let mut bytes = [0; SMALL_MAX];
        if let Some(bytes) = put_together(&mut bytes, records, header, (key, value)) {
            return write(&[bytes]).map_err(|error| Error::Pool(error.into()));
        }
    }
    let mut front = RecordFront { header, checksum: RecordChecksum { crc: 0 } };
    let joined;
    let mut parts: [&[u8]; 2 + VALUE_PARTS] = [&[]; 2 + VALUE_PARTS];
    parts[1] = key;
    let count = if value.len() <= VALUE_PARTS {
        parts[2..2 + value.len()].copy_from_slice(value);
        2 + value.len()
    } else {
        joined = value.concat();
        parts[2] = &joined;
        3
    };
    let parts = &mut parts[..count];
    if records == Records::Checked {
        let crc = crc32c(0, front.header.as_bytes());
        front.checksum.crc = parts[1..].iter().fold(crc, |crc, part| crc32c(crc, part));
    }
    parts[0] = &front.as_bytes()[..self::front(records) as usize];
    write(parts).map_err(|error| Error::Pool(error.into()))
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

/// Key and value of a published record. It is verified, unless that was done before.
///
/// # Errors
/// [`Error::Corrupt`]; damage.
#[inline]
pub(crate) fn read_record(
    forest: &Forest,
    record: Object,
) -> Result<(MediaBytes<'_>, MediaBytes<'_>), Error> {
    verify_once(forest, record)?;
    read_unverified(forest, record)
}

/// Verifies the record, unless that was done before.
///
/// # Errors
/// [`Error::Corrupt`]; damage.
#[inline]
pub(crate) fn verify_once(forest: &Forest, record: Object) -> Result<(), Error> {
    if forest.verified.is_owed(record) { verify(forest, record) } else { Ok(()) }
}

/// As [`read_record`], without the verification; the caller calls [`verify_once`].
#[inline]
pub(crate) fn read_unverified(
    forest: &Forest,
    record: Object,
) -> Result<(MediaBytes<'_>, MediaBytes<'_>), Error> {
    read_parts(forest, record)
}

/// As [`read_unverified`], where many are read one after another.
#[inline(always)]
pub(crate) fn read_parts(
    forest: &Forest,
    record: Object,
) -> Result<(MediaBytes<'_>, MediaBytes<'_>), Error> {
    // The whole object is checked once; parts of it need no further comparison with the region's end.
    let object = forest.region().media_bytes(record.offset(), record.size())?;
    let front = front(forest.records()) as usize;
    let split = object.read(0).and_then(|RecordHeader { key_len, value_len }| {
        let (key_len, value_len) = (key_len as usize, value_len as usize);
        object.slice(front..front + key_len + value_len)?.split_at(key_len)
    });
    match split {
        Some(split) => Ok(split),
        None => damaged(record.offset(), "a record that fits its object"),
    }
}

/// The key of a published record, as it stands there.
#[inline]
pub(crate) fn read_key(forest: &Forest, record: Object) -> Result<MediaBytes<'_>, Error> {
    let RecordHeader { key_len, .. } = header(forest.region(), record)?;
    body(forest.region(), record, front(forest.records()), u64::from(key_len))
}

/// Whether the record has that key. A record that seems to have another key is verified, unless that was done before.
///
/// # Errors
/// [`Error::Corrupt`]; damage.
#[inline]
pub(crate) fn has_key(forest: &Forest, record: Object, key: &[u8]) -> Result<bool, Error> {
    let is_same = read_key(forest, record)?.eq_bytes(key);
    if !is_same && forest.verified.is_owed(record) {
        verify(forest, record)?;
    }
    Ok(is_same)
}

/// As [`has_key`], for a record that may have any key, with one look at the object. `None`: it is damaged, or a writer was
/// changing the element that named it.
#[inline(always)]
pub(crate) fn is_of_key(forest: &Forest, record: Object, key: &[u8]) -> Option<bool> {
    let object = forest.region().media_bytes(record.offset(), record.size()).ok()?;
    let RecordHeader { key_len, .. } = object.read(0)?;
    let front = front(forest.records()) as usize;
    let is_same = key_len as usize == key.len()
        && object.slice(front..front + key.len()).is_some_and(|own| own.eq_bytes(key));
    if !is_same {
        verify_once(forest, record).ok()?;
    }
    Some(is_same)
}

/// Compares the record with its checksum, if it has one.
///
/// # Errors
/// [`Error::Corrupt`]; damage.
#[cold]
pub(crate) fn verify(forest: &Forest, record: Object) -> Result<(), Error> {
    if forest.records() == Records::Checked {
        let RecordChecksum { crc } = body(forest.region(), record, RECORD_HEADER, RECORD_CHECKSUM)?
            .read(0)
            .unwrap_or(RecordChecksum { crc: 0 });
        let (key, value) = read_unverified(forest, record)?;
        let header = forest.region().media_bytes(record.offset(), RECORD_HEADER)?;
        if value.crc32c(key.crc32c(header.crc32c(0))) != crc {
            return Err(Error::Corrupt { offset: record.offset(), key: key.to_vec() });
        }
    }
    forest.verified.note(record);
    Ok(())
}

/// A number of bytes behind the header of an object.
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

/// How many bytes two keys have in common at their beginning, limited to the length of a prefix.
pub(crate) fn common(a: KeyBytes<'_>, b: &[u8]) -> u16 {
    a.common_len(b).min(usize::from(u16::MAX)) as u16
}

/// The eight bytes of `key` after `prefix_len` of them, big-endian, padded with zeros.
#[inline]
pub(crate) fn head(key: &[u8], prefix_len: u16) -> u64 {
    head::head(key, prefix_len.into())
}
