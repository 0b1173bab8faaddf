//! Values of all kinds.

use std::collections::HashSet;
use std::io::Read;

use crate::format::{Kind, StreamId};
use crate::number::{DIGITS_MAX, parse_integer};
use crate::rdb::library::LIBRARY;
use crate::rdb::old::{ziplist, zipmap};
use crate::rdb::pack::{intset, listpack};
use crate::rdb::reader::{Broken, Reader};
use crate::rdb::stream::{EntriesRead, GroupValue, StreamValue, Version};

/// The numbers of the kinds, which stand before a value.
mod kind {
    pub(super) const STRING: u8 = 0;
    pub(super) const LIST: u8 = 1;
    pub(super) const SET: u8 = 2;
    pub(super) const SORTED_SET_TEXT: u8 = 3;
    pub(super) const HASH: u8 = 4;
    pub(super) const SORTED_SET: u8 = 5;
    pub(super) const HASH_ZIPMAP: u8 = 9;
    pub(super) const LIST_ZIPLIST: u8 = 10;
    pub(super) const SET_INTSET: u8 = 11;
    pub(super) const SORTED_SET_ZIPLIST: u8 = 12;
    pub(super) const HASH_ZIPLIST: u8 = 13;
    pub(super) const LIST_ZIPLISTS: u8 = 14;
    pub(super) const STREAM_1: u8 = 15;
    pub(super) const HASH_LISTPACK: u8 = 16;
    pub(super) const SORTED_SET_LISTPACK: u8 = 17;
    pub(super) const LIST_LISTPACKS: u8 = 18;
    pub(super) const STREAM_2: u8 = 19;
    pub(super) const SET_LISTPACK: u8 = 20;
    pub(super) const STREAM_3: u8 = 21;
}

/// Before the time, in milliseconds since 1970, at which the key that follows expires.
const EXPIRY_MS: u8 = 0xfc;

/// A value with all its elements. None is there twice where its type excludes that, and a collection is not empty.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Value {
    /// Bytes.
    String(Vec<u8>),
    /// Elements in order.
    List(Vec<Vec<u8>>),
    /// Members.
    Set(Vec<Vec<u8>>),
    /// Members, each with its score, which is a number.
    SortedSet(Vec<(Vec<u8>, f64)>),
    /// Fields, each with its value.
    Hash(Vec<(Vec<u8>, Vec<u8>)>),
    /// Entries and consumer groups; it may have none.
    Stream(Box<StreamValue>),
}

impl Value {
    /// Reads the number of a kind and the value behind it.
    ///
    /// # Errors
    /// It is not in the format, is of a kind that is not read, or the source fails.
    pub(crate) fn read(source: &mut Reader<impl Read>) -> Result<Value, Broken> {
        let kind = source.byte()?;
        Value::read_kind(source, kind)
    }

    /// Reads the value of a kind whose number was read.
    ///
    /// # Errors
    /// As for [`read`](Value::read).
    pub(crate) fn read_kind(source: &mut Reader<impl Read>, kind: u8) -> Result<Value, Broken> {
        let value = match kind {
            kind::STRING => Value::String(source.string()?),
            kind::LIST => Value::List(several(source, |source| source.string())?),
            kind::SET => Value::Set(several(source, |source| source.string())?),
            kind::SORTED_SET_TEXT => Value::SortedSet(several(source, |source| {
                Ok((source.string()?, source.double_text()?))
            })?),
            kind::SORTED_SET => Value::SortedSet(several(source, |source| {
                Ok((source.string()?, source.double()?))
            })?),
            kind::HASH => {
                Value::Hash(several(source, |source| Ok((source.string()?, source.string()?)))?)
            }
            kind::HASH_ZIPMAP => Value::Hash(pairs(zipmap(&source.string()?)?)?),
            kind::LIST_ZIPLIST => Value::List(ziplist(&source.string()?)?),
            kind::SET_INTSET => Value::Set(intset(&source.string()?)?),
            kind::SORTED_SET_ZIPLIST => Value::SortedSet(scored(ziplist(&source.string()?)?)?),
            kind::HASH_ZIPLIST => Value::Hash(pairs(ziplist(&source.string()?)?)?),
            kind::LIST_ZIPLISTS => {
                let parts = several(source, |source| ziplist(&source.string()?))?;
                Value::List(parts.into_iter().flatten().collect())
            }
            kind::HASH_LISTPACK => Value::Hash(pairs(listpack(&source.string()?)?)?),
            kind::SORTED_SET_LISTPACK => Value::SortedSet(scored(listpack(&source.string()?)?)?),
            kind::LIST_LISTPACKS => {
                let parts = several(source, |source| match source.length()? {
                    1 => Ok(vec![source.string()?]),
                    2 => listpack(&source.string()?),
                    _ => Err(Broken::Malformed),
                })?;
                Value::List(parts.into_iter().flatten().collect())
            }
            kind::SET_LISTPACK => Value::Set(listpack(&source.string()?)?),
            kind::STREAM_1 => stream(source, Version::One)?,
            kind::STREAM_2 => stream(source, Version::Two)?,
            kind::STREAM_3 => stream(source, Version::Three)?,
            kind => return Err(Broken::Unsupported { kind }),
        };
        if value.is_sound() { Ok(value) } else { Err(Broken::Malformed) }
    }

    /// Whether Redis 7.0 reads values of the kind of this one, which was read.
    pub(crate) fn is_of_7_0(bytes: &[u8]) -> bool {
        bytes.first().is_some_and(|kind| *kind <= kind::STREAM_2)
    }

    fn is_sound(&self) -> bool {
        fn are_distinct<'a>(count: usize, names: impl Iterator<Item = &'a Vec<u8>>) -> bool {
            let mut seen = HashSet::with_capacity(count);
            count > 0 && names.into_iter().all(|name| seen.insert(name))
        }
        match self {
            // That of a stream is checked while it is read.
            Value::String(_) | Value::Stream(_) => true,
            Value::List(elements) => !elements.is_empty(),
            Value::Set(members) => are_distinct(members.len(), members.iter()),
            Value::SortedSet(members) => {
                are_distinct(members.len(), members.iter().map(|(member, _)| member))
                    && members.iter().all(|(_, score)| !score.is_nan())
            }
            Value::Hash(fields) => {
                are_distinct(fields.len(), fields.iter().map(|(field, _)| field))
            }
        }
    }

    /// Bytes of all its elements.
    pub(crate) fn size(&self) -> usize {
        match self {
            Value::String(bytes) => bytes.len(),
            Value::List(elements) | Value::Set(elements) => elements.iter().map(Vec::len).sum(),
            Value::SortedSet(members) => members.iter().map(|(member, _)| member.len() + 8).sum(),
            Value::Hash(fields) => {
                fields.iter().map(|(field, value)| field.len() + value.len()).sum()
            }
            Value::Stream(stream) => stream.size(),
        }
    }
}

fn stream(source: &mut Reader<impl Read>, version: Version) -> Result<Value, Broken> {
    StreamValue::read(source, version).map(|stream| Value::Stream(Box::new(stream)))
}

/// As many as the length says that stands before them.
fn several<R: Read, T>(
    source: &mut Reader<R>,
    mut read: impl FnMut(&mut Reader<R>) -> Result<T, Broken>,
) -> Result<Vec<T>, Broken> {
    // A length that was never written must not take memory: the elements have to be there.
    (0..source.length()?).map(|_| read(source)).collect()
}

/// Two elements that follow each other.
type Pair = (Vec<u8>, Vec<u8>);

/// Elements in pairs.
fn pairs(elements: Vec<Vec<u8>>) -> Result<Vec<Pair>, Broken> {
    let mut elements = elements.into_iter();
    let mut pairs = Vec::with_capacity(elements.len() / 2);
    while let Some(first) = elements.next() {
        pairs.push((first, elements.next().ok_or(Broken::Malformed)?));
    }
    Ok(pairs)
}

/// Members, each followed by its score.
fn scored(elements: Vec<Vec<u8>>) -> Result<Vec<(Vec<u8>, f64)>, Broken> {
    let score = |text: &[u8]| crate::float::parse_double(text).ok_or(Broken::Malformed);
    pairs(elements)?.into_iter().map(|(member, text)| Ok((member, score(&text)?))).collect()
}

/// Writes a value: its kind and number of elements, then the elements.
#[derive(Default)]
pub(crate) struct Writer {
    bytes: Vec<u8>,
}

impl Writer {
    /// Begins with a value of a string; the string is to follow.
    pub(crate) fn begin_string() -> Writer {
        Writer { bytes: vec![kind::STRING] }
    }

    /// Begins with a list of so many elements, each of which is to follow.
    pub(crate) fn begin_list(count: u64) -> Writer {
        Writer::begin(kind::LIST, count)
    }

    /// Begins with a set of so many members, each of which is to follow.
    pub(crate) fn begin_set(count: u64) -> Writer {
        Writer::begin(kind::SET, count)
    }

    /// Begins with a sorted set of so many members, each of which is to follow, and its score behind it.
    pub(crate) fn begin_sorted_set(count: u64) -> Writer {
        Writer::begin(kind::SORTED_SET, count)
    }

    /// Begins with a hash of so many fields, each of which is to follow, and its value behind it.
    pub(crate) fn begin_hash(count: u64) -> Writer {
        Writer::begin(kind::HASH, count)
    }

    /// A stream.
    pub(crate) fn of_stream(stream: &StreamValue) -> Writer {
        let mut writer = Writer { bytes: vec![kind::STREAM_2] };
        writer.stream(stream);
        writer
    }

    /// What precedes a value in a file: when it expires, its kind, its key. The value is to follow, without its kind.
    pub(crate) fn begin_key(&mut self, kind: Kind, key: &[u8], expiry_ms: Option<u64>) {
        if let Some(expiry_ms) = expiry_ms {
            self.bytes.push(EXPIRY_MS);
            self.bytes.extend(expiry_ms.to_le_bytes());
        }
        self.bytes.push(match kind {
            Kind::String => kind::STRING,
            Kind::List => kind::LIST,
            Kind::Set => kind::SET,
            Kind::SortedSet => kind::SORTED_SET,
            Kind::Hash => kind::HASH,
            Kind::Stream => kind::STREAM_2,
        });
        self.raw_string(key);
    }

    /// Bytes as they are.
    pub(crate) fn raw(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// A stream, without its kind.
    pub(crate) fn stream(&mut self, stream: &StreamValue) {
        let packs = stream.listpacks();
        self.length(packs.len() as u64);
        for (master, pack) in packs {
            self.raw_string(&master.encode());
            self.raw_string(&pack);
        }
        self.length(stream.entries.len() as u64);
        let first = stream.entries.first().map_or(StreamId::MIN, |(id, _)| *id);
        [stream.last, first, stream.removed_max].into_iter().for_each(|id| self.id(id));
        self.length(stream.added);
        self.length(stream.groups.len() as u64);
        for (name, group) in &stream.groups {
            self.raw_string(name);
            self.group(group);
        }
    }

    fn group(&mut self, group: &GroupValue) {
        self.id(group.last);
        self.length(match group.read {
            EntriesRead::Known(read) => read,
            EntriesRead::Unknown | EntriesRead::Unsaid => u64::MAX,
        });
        self.length(group.pending.len() as u64);
        for (id, pending) in &group.pending {
            self.bytes.extend(id.encode());
            self.bytes.extend(pending.delivered_ms.to_le_bytes());
            self.length(pending.deliveries);
        }
        self.length(group.consumers.len() as u64);
        let mut owned = vec![Vec::new(); group.consumers.len()];
        for (id, pending) in &group.pending {
            owned[pending.consumer].push(id);
        }
        for ((name, seen_ms), owned) in group.consumers.iter().zip(owned) {
            self.raw_string(name);
            self.bytes.extend(seen_ms.to_le_bytes());
            self.length(owned.len() as u64);
            owned.iter().for_each(|id| self.bytes.extend(id.encode()));
        }
    }

    fn id(&mut self, id: StreamId) {
        self.length(id.ms);
        self.length(id.seq);
    }

    /// A string, which is not written as a number.
    fn raw_string(&mut self, string: &[u8]) {
        self.length(string.len() as u64);
        self.bytes.extend_from_slice(string);
    }

    fn begin(kind: u8, count: u64) -> Writer {
        let mut writer = Writer { bytes: vec![kind] };
        writer.length(count);
        writer
    }

    /// A library of functions: its code.
    pub(crate) fn function_library(&mut self, code: &[u8]) {
        self.bytes.push(LIBRARY);
        self.string(code);
    }

    /// A length.
    pub(crate) fn length(&mut self, length: u64) {
        match length {
            0..0x40 => self.bytes.push(length as u8),
            0x40..0x4000 => self.bytes.extend((length as u16 | 0x4000).to_be_bytes()),
            0x4000..=0xffff_ffff => {
                self.bytes.push(0x80);
                self.bytes.extend((length as u32).to_be_bytes());
            }
            _ => {
                self.bytes.push(0x81);
                self.bytes.extend(length.to_be_bytes());
            }
        }
    }

    /// A string; a short number is written as one.
    pub(crate) fn string(&mut self, string: &[u8]) {
        let number = if string.len() <= DIGITS_MAX { parse_integer(string) } else { None };
        if let Some(number) = number {
            if let Ok(number) = i8::try_from(number) {
                self.bytes.push(0xc0);
                return self.bytes.extend(number.to_le_bytes());
            } else if let Ok(number) = i16::try_from(number) {
                self.bytes.push(0xc1);
                return self.bytes.extend(number.to_le_bytes());
            } else if let Ok(number) = i32::try_from(number) {
                self.bytes.push(0xc2);
                return self.bytes.extend(number.to_le_bytes());
            }
        }
        self.length(string.len() as u64);
        self.bytes.extend_from_slice(string);
    }

    /// A score.
    pub(crate) fn double(&mut self, number: f64) {
        self.bytes.extend(number.to_le_bytes());
    }

    /// Bytes that were written.
    pub(crate) fn size(&self) -> usize {
        self.bytes.len()
    }

    /// What was written; it begins anew.
    pub(crate) fn take(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.bytes)
    }

    /// What was written.
    pub(crate) fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(bytes: &[u8]) -> Result<Value, Broken> {
        Value::read(&mut Reader::new(bytes))
    }

    #[test]
    fn what_is_written_is_read() {
        for string in
            [b"".as_slice(), b"-5", b"300", b"-70000", b"5000000000", b"007", &[7; 20_000]]
        {
            let mut writer = Writer::begin_string();
            writer.string(string);
            assert_eq!(read(&writer.into_bytes()).unwrap(), Value::String(string.to_vec()));
        }
        let mut writer = Writer::begin_sorted_set(100);
        let members: Vec<_> =
            (0..100).map(|nth: i32| (nth.to_string().into_bytes(), f64::from(nth) / 3.0)).collect();
        for (member, score) in &members {
            writer.string(member);
            writer.double(*score);
        }
        assert_eq!(read(&writer.into_bytes()).unwrap(), Value::SortedSet(members));
    }

    #[test]
    fn what_no_type_allows_is_refused() {
        for bytes in [
            b"\x01\0".as_slice(),
            b"\x02\x02\x01a\x01a",
            b"\x04\x01\x01a",
            b"\x05\x01\x01a\0\0\0\0\0\0\xf8\x7f",
            b"\x01\x81\xff\xff\xff\xff\xff\xff\xff\xff",
            b"\0\x80\xff\xff\xff\xff",
            b"\0\xc4",
            b"",
        ] {
            assert!(matches!(read(bytes), Err(Broken::Malformed)), "{bytes:?}");
        }
        assert!(matches!(read(b"\x07"), Err(Broken::Unsupported { kind: 7 })));
    }

    /// Any bytes are a value or an error.
    #[test]
    fn random_bytes() {
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        for round in 0..200_000 {
            let mut bytes = [0; 24];
            for byte in &mut bytes {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                // Small numbers are lengths and kinds more often.
                *byte = if state.is_multiple_of(3) {
                    (state >> 40) as u8
                } else {
                    (state >> 40) as u8 % 24
                };
            }
            bytes[0] = (round % 22) as u8;
            drop(read(&bytes));
        }
    }
}
