//! The payload of a stream, and what its elements hold. A stream is always spread.
//!
//! | part | rest of the key | value |
//! |---|---|---|
//! | 0 | id of a block | a [block](super::StreamBlock) of entries |
//! | 0, of a stream without blocks | id of the entry | its fields, each followed by its value, [packed](super::Packed) |
//! | 1 | name of the group | [`GroupRecord`] |
//! | 2 | number of the group, name of the consumer | number of the consumer |
//! | 3 | number of the group, number of the consumer | [`ConsumerRecord`] and its name |
//! | 4 | number of the group, id | [`PendingRecord`] of an entry that was delivered and is not acknowledged |
//! | 5 | number of the group, number of the consumer, id | nothing: the entry is pending for that consumer |
//!
//! All numbers are big-endian.

use crate::format::spread::Spread;
use crate::format::unknown_layout::UnknownLayout;

/// The id of an entry. Bytes of its encoding sort as ids do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamId {
    /// Milliseconds since 1970 of the time when it was added, or a number that the client chose.
    pub ms: u64,
    /// Distinguishes entries of a millisecond.
    pub seq: u64,
}

/// Bytes of an id.
pub const STREAM_ID_SIZE: usize = 16;

impl StreamId {
    /// The least one, which no entry has.
    pub const MIN: StreamId = StreamId { ms: 0, seq: 0 };
    /// The greatest one.
    pub const MAX: StreamId = StreamId { ms: u64::MAX, seq: u64::MAX };

    /// The bytes of it in a key.
    pub fn encode(self) -> [u8; STREAM_ID_SIZE] {
        (u128::from(self.ms) << 64 | u128::from(self.seq)).to_be_bytes()
    }

    /// The id of those bytes.
    pub fn decode(bytes: [u8; STREAM_ID_SIZE]) -> StreamId {
        let number = u128::from_be_bytes(bytes);
        StreamId { ms: (number >> 64) as u64, seq: number as u64 }
    }

    /// The id behind it, if there is one.
    pub fn next(self) -> Option<StreamId> {
        match (self.ms.checked_add(1), self.seq.checked_add(1)) {
            (_, Some(seq)) => Some(StreamId { seq, ..self }),
            (Some(ms), None) => Some(StreamId { ms, seq: 0 }),
            (None, None) => None,
        }
    }

    /// The id before it, if there is one.
    pub fn previous(self) -> Option<StreamId> {
        match (self.ms.checked_sub(1), self.seq.checked_sub(1)) {
            (_, Some(seq)) => Some(StreamId { seq, ..self }),
            (Some(ms), None) => Some(StreamId { ms, seq: u64::MAX }),
            (None, None) => None,
        }
    }
}

/// Takes numbers from bytes, one after another.
struct Words<'a> {
    value: tembo_kv::Value<'a>,
    at: usize,
}

impl<'a> Words<'a> {
    /// Of a value of that size.
    fn new(value: tembo_kv::Value<'a>, size: usize) -> Result<Words<'a>, UnknownLayout> {
        if value.len() == size { Ok(Words { value, at: 0 }) } else { Err(UnknownLayout) }
    }

    fn next(&mut self) -> Result<u64, UnknownLayout> {
        let word = self.value.array(self.at).ok_or(UnknownLayout)?;
        self.at += 8;
        Ok(u64::from_be_bytes(word))
    }

    fn id(&mut self) -> Result<StreamId, UnknownLayout> {
        Ok(StreamId { ms: self.next()?, seq: self.next()? })
    }
}

fn encode_words<const N: usize>(words: [u64; N]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_be_bytes()).collect()
}

/// The payload of a stream.
///
/// ```text
/// bytes 0-7     the stream's id in its database
/// bytes 8-15    entries
/// bytes 16-31   id of the entry added last
/// bytes 32-47   id of the first entry; 0 if there is none
/// bytes 48-63   the greatest id that XDEL has removed; 0 if there is none
/// bytes 64-71   entries that were ever added
/// bytes 72-79   consumer groups
/// bytes 80-87   number of the group created last
/// bytes 88-103  only of one in blocks: id of the last block; 0 if none was begun
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StreamHead {
    /// Names the stream: the keys of its elements begin with it. Given once only.
    pub id: u64,
    /// Entries.
    pub count: u64,
    /// The id of the entry added last, whether it is still there or not.
    pub last: StreamId,
    /// The id of the first entry; [`StreamId::MIN`] if there is none.
    pub first: StreamId,
    /// The greatest id of an entry that was removed singly.
    pub removed_max: StreamId,
    /// Entries that were ever added.
    pub added: u64,
    /// Consumer groups.
    pub groups: u64,
    /// The number of the group that was created last. A number is given once only.
    pub group_numbers: u64,
    /// Of a stream whose entries lie in [blocks](super::StreamBlock) the id of the last one, or [`StreamId::MIN`].
    pub block: Option<StreamId>,
}

/// Bytes of a stream's payload, and of one in blocks.
const STREAM_HEAD_SIZES: (usize, usize) = (88, 104);

/// Elements that a stream with groups counts for at least: more than are removed one by one.
const WITH_GROUPS_MIN: u64 = 1000;

impl StreamHead {
    /// The payload's bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = encode_words([
            self.id,
            self.count,
            self.last.ms,
            self.last.seq,
            self.first.ms,
            self.first.seq,
            self.removed_max.ms,
            self.removed_max.seq,
            self.added,
            self.groups,
            self.group_numbers,
        ]);
        bytes.extend(self.block.into_iter().flat_map(StreamId::encode));
        bytes
    }

    /// Takes a payload apart.
    ///
    /// # Errors
    /// The payload has another size.
    pub fn decode(payload: tembo_kv::Value<'_>) -> Result<StreamHead, UnknownLayout> {
        let in_blocks = payload.len() == STREAM_HEAD_SIZES.1;
        let size = if in_blocks { STREAM_HEAD_SIZES.1 } else { STREAM_HEAD_SIZES.0 };
        let mut words = Words::new(payload, size)?;
        Ok(StreamHead {
            id: words.next()?,
            count: words.next()?,
            last: words.id()?,
            first: words.id()?,
            removed_max: words.id()?,
            added: words.next()?,
            groups: words.next()?,
            group_numbers: words.next()?,
            block: if in_blocks { Some(words.id()?) } else { None },
        })
    }

    /// Where the elements are. What groups have beside the entries is not counted: with a group there are many.
    pub(super) fn elements(&self) -> Spread {
        let count = if self.groups == 0 { self.count } else { self.count.max(WITH_GROUPS_MIN) };
        Spread { id: self.id, count, first: 0 }
    }
}

/// A consumer group.
///
/// ```text
/// bytes 0-7     number of the group in its stream
/// bytes 8-23    id of the entry delivered last
/// bytes 24-31   entries read, of all that were ever added; all bits set: not known
/// bytes 32-39   pending entries
/// bytes 40-47   consumers
/// bytes 48-55   number of the consumer created last
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GroupRecord {
    /// Names the group: the keys of what it has begin with it.
    pub number: u64,
    /// The id of the entry that was delivered last.
    pub last: StreamId,
    /// How many of all entries that were ever added it has read; `None`: not known.
    pub read: Option<u64>,
    /// Entries that were delivered and are not acknowledged.
    pub pending: u64,
    /// Consumers.
    pub consumers: u64,
    /// The number of the consumer that was created last. A number is given once only.
    pub consumer_numbers: u64,
}

impl GroupRecord {
    /// The element's bytes.
    pub fn encode(&self) -> Vec<u8> {
        encode_words([
            self.number,
            self.last.ms,
            self.last.seq,
            self.read.unwrap_or(u64::MAX),
            self.pending,
            self.consumers,
            self.consumer_numbers,
        ])
    }

    /// Takes an element apart.
    ///
    /// # Errors
    /// It has another size.
    pub fn decode(value: tembo_kv::Value<'_>) -> Result<GroupRecord, UnknownLayout> {
        let mut words = Words::new(value, 56)?;
        Ok(GroupRecord {
            number: words.next()?,
            last: words.id()?,
            read: Some(words.next()?).filter(|&read| read != u64::MAX),
            pending: words.next()?,
            consumers: words.next()?,
            consumer_numbers: words.next()?,
        })
    }
}

/// A consumer: what stands before its name.
///
/// ```text
/// bytes 0-7     milliseconds since 1970 when it last asked for entries
/// bytes 8-15    its pending entries
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ConsumerRecord {
    /// When it last asked for entries, in milliseconds since 1970.
    pub seen_ms: u64,
    /// Its pending entries.
    pub pending: u64,
}

/// Bytes before a consumer's name.
const CONSUMER_SIZE: usize = 16;

impl ConsumerRecord {
    /// The element's bytes, but for the name.
    pub fn encode(&self) -> Vec<u8> {
        encode_words([self.seen_ms, self.pending])
    }

    /// Takes an element apart: what it says and the name.
    ///
    /// # Errors
    /// It is too short.
    pub fn decode(value: tembo_kv::Value<'_>) -> Result<(ConsumerRecord, Vec<u8>), UnknownLayout> {
        let word = |at| value.array(at).map(u64::from_be_bytes).ok_or(UnknownLayout);
        let name = value.slice(CONSUMER_SIZE..value.len()).ok_or(UnknownLayout)?;
        Ok((ConsumerRecord { seen_ms: word(0)?, pending: word(8)? }, name.to_vec()))
    }
}

/// An entry that was delivered to a consumer of a group and is not acknowledged.
///
/// ```text
/// bytes 0-7     number of the consumer
/// bytes 8-15    milliseconds since 1970 of the last delivery
/// bytes 16-23   deliveries
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PendingRecord {
    /// The number of the consumer that has it.
    pub consumer: u64,
    /// When it was last delivered, in milliseconds since 1970.
    pub delivered_ms: u64,
    /// How often it was delivered.
    pub deliveries: u64,
}

impl PendingRecord {
    /// The element's bytes.
    pub fn encode(&self) -> Vec<u8> {
        encode_words([self.consumer, self.delivered_ms, self.deliveries])
    }

    /// Takes an element apart.
    ///
    /// # Errors
    /// It has another size.
    pub fn decode(value: tembo_kv::Value<'_>) -> Result<PendingRecord, UnknownLayout> {
        let mut words = Words::new(value, 24)?;
        Ok(PendingRecord {
            consumer: words.next()?,
            delivered_ms: words.next()?,
            deliveries: words.next()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_sort_and_have_neighbours() {
        let id = |ms, seq| StreamId { ms, seq };
        let ids = [id(0, 0), id(0, u64::MAX), id(1, 0), id(1, 1), id(256, 0), StreamId::MAX];
        assert!(ids.map(StreamId::encode).is_sorted_by(|a, b| a < b));
        assert_eq!(ids.map(|id| StreamId::decode(id.encode())), ids);
        assert_eq!(id(1, u64::MAX).next(), Some(id(2, 0)));
        assert_eq!(id(2, 0).previous(), Some(id(1, u64::MAX)));
        assert_eq!((StreamId::MAX.next(), StreamId::MIN.previous()), (None, None));
    }

    #[test]
    fn records_come_back() {
        let (first, last) = (StreamId { ms: 1, seq: 2 }, StreamId { ms: 3, seq: 4 });
        let head = StreamHead {
            id: 9,
            count: 2,
            last,
            first,
            removed_max: first,
            added: 7,
            groups: 1,
            group_numbers: 5,
            block: None,
        };
        for (block, size) in [(None, 88), (Some(first), 104)] {
            let head = StreamHead { block, ..head };
            let bytes = head.encode();
            assert_eq!(bytes.len(), size);
            assert_eq!(StreamHead::decode(bytes[..].into()), Ok(head));
            assert_eq!(StreamHead::decode(bytes[1..].into()), Err(UnknownLayout));
        }
        assert_eq!(head.elements().count, WITH_GROUPS_MIN);
        for read in [None, Some(3)] {
            let group = GroupRecord { number: 1, last, read, ..GroupRecord::default() };
            assert_eq!(GroupRecord::decode(group.encode()[..].into()), Ok(group));
        }
        let consumer = ConsumerRecord { seen_ms: 8, pending: 1 };
        let bytes = [&consumer.encode()[..], b"name"].concat();
        assert_eq!(ConsumerRecord::decode(bytes[..].into()), Ok((consumer, b"name".to_vec())));
        let pending = PendingRecord { consumer: 1, delivered_ms: 2, deliveries: 3 };
        assert_eq!(PendingRecord::decode(pending.encode()[..].into()), Ok(pending));
        assert_eq!(PendingRecord::decode(b"short".as_slice().into()), Err(UnknownLayout));
    }
}
