//! What the server lays into the store: values under `dbN`, the elements of large collections under
//! `dbN.elements`, the expiry index under `dbN.expiry`. `docs/formats/server-values.md` has the diagrams.
//!
//! A value is a header byte, the expiry if there is one, and the payload. The payload of a string is its bytes;
//! that of a small collection is all its entries, [packed](Packed); that of a large one is a [`Spread`], and
//! its entries are elements, each under a key of its own.

mod block;
mod element;
mod field;
mod item;
mod kind;
mod level;
mod packed;
mod spread;
mod stream;
mod strip;
mod unknown_layout;

pub use block::{BlockEntry, STREAM_BLOCK_SIZE, StreamBlock, fits_in_block, push_to_block};
pub use element::{
    ELEMENT_PREFIX_SIZE, ELEMENT_SIZE_MAX, ID_KEY, PIECE_SIZE, Part, element_prefix, member_of,
    position_order, score_from_order, score_order,
};
pub use field::{FIELD_EXPIRY_SIZE, FieldHeader, decode_field};
pub use item::{
    ITEM_ELEMENTS_KEYSPACE, ITEM_EXPIRY_KEYSPACE, ITEM_HEAD_SIZE, ITEMS_KEYSPACE, ItemHead,
};
pub use kind::{Kind, Type};
pub use level::{LEVEL_MAX, level_of};
pub use packed::{Packed, entry_size, push_entry};
pub use spread::Spread;
pub use stream::{
    ConsumerRecord, GroupRecord, PendingRecord, STREAM_ID_SIZE, StreamHead, StreamId,
};
pub use strip::{
    STRIP_ELEMENT_MAX, STRIP_LEN, Strip, StripEntry, fits_strip, strip_begin, strip_entry, strip_of,
};
pub use unknown_layout::UnknownLayout;

/// Bit 7 of the header.
const HAS_EXPIRY: u8 = 0x80;
/// Bytes an expiry takes.
pub const EXPIRY_SIZE: usize = 8;
/// Longest key: the expiry index puts an expiry before it.
pub const KEY_SIZE_MAX: usize = tembo_kv::KEY_SIZE_MAX - EXPIRY_SIZE;
/// Longest payload.
pub const PAYLOAD_SIZE_MAX: usize = 512 << 20;
/// By so many bytes BITFIELD of earlier releases made strings longer than that: they are read.
const FIELD_SIZE_MAX: usize = 8;

const _: () = assert!(PAYLOAD_SIZE_MAX + 1 + EXPIRY_SIZE <= tembo_kv::VALUE_SIZE_MAX);

/// The name of the keyspace that says which keyspaces are those of a database: see [`encode_order`].
pub const ORDER_KEYSPACE: &str = "databases";
/// Its only key.
pub const ORDER_KEY: &[u8] = b"order";
/// The layout of its value.
const ORDER_LAYOUT: u8 = 1;

/// For each database that clients select, the number in the names of its keyspaces.
pub fn encode_order(order: &[u8]) -> Vec<u8> {
    [&[ORDER_LAYOUT], order].concat()
}

/// The same, if each of the first `count` numbers is there once, and no other.
///
/// # Errors
/// Another layout; numbers that are missing.
pub fn decode_order(bytes: &[u8], count: usize) -> Result<Vec<u8>, UnknownLayout> {
    let [ORDER_LAYOUT, order @ ..] = bytes else { return Err(UnknownLayout) };
    let has_all = (0..count).all(|number| order.iter().any(|&one| usize::from(one) == number));
    if order.len() == count && has_all { Ok(order.to_vec()) } else { Err(UnknownLayout) }
}

/// The name of the keyspace that holds a database.
pub fn data_keyspace(db: usize) -> String {
    format!("db{db}")
}

/// The name of the keyspace that holds the expiry index of a database.
pub fn expiry_keyspace(db: usize) -> String {
    format!("db{db}.expiry")
}

/// The name of the keyspace that holds the elements of a database's large collections.
pub fn elements_keyspace(db: usize) -> String {
    format!("db{db}.elements")
}

/// The name of the keyspace that holds the libraries of functions: under a library's name its code.
pub const LIBRARIES_KEYSPACE: &str = "functions";

/// A value's bytes before the payload.
pub struct Header {
    bytes: [u8; 1 + EXPIRY_SIZE],
    size: usize,
}

impl Header {
    /// The header of a string.
    #[inline]
    pub fn string(expiry_ms: Option<u64>) -> Header {
        Header::new(Type::STRING, expiry_ms)
    }

    /// The header of a value.
    #[inline]
    pub fn new(of: Type, expiry_ms: Option<u64>) -> Header {
        let mut bytes = [0; 1 + EXPIRY_SIZE];
        bytes[0] = of.encode();
        let Some(expiry_ms) = expiry_ms else {
            return Header { bytes, size: 1 };
        };
        bytes[0] |= HAS_EXPIRY;
        bytes[1..].copy_from_slice(&expiry_ms.to_be_bytes());
        Header { bytes, size: bytes.len() }
    }

    /// The bytes.
    #[inline]
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.size]
    }
}

/// A value as it lies in the store.
#[derive(Clone, Copy, Debug)]
pub struct Value<'a> {
    /// What it is.
    pub of: Type,
    /// Milliseconds since 1970 from which on it is not there any more.
    pub expiry_ms: Option<u64>,
    /// What follows the header.
    pub payload: tembo_kv::Value<'a>,
}

impl<'a> Value<'a> {
    /// Takes apart what lies in the store.
    #[inline]
    pub fn decode(bytes: tembo_kv::Value<'a>) -> Result<Value<'a>, UnknownLayout> {
        let [header] = bytes.array(0).ok_or(UnknownLayout)?;
        let behind = |size: usize| bytes.slice(size..bytes.len()).ok_or(UnknownLayout);
        let of = Type::decode(header).ok_or(UnknownLayout)?;
        if header & HAS_EXPIRY == 0 {
            return Ok(Value { of, expiry_ms: None, payload: behind(1)? });
        }
        let expiry_ms = Some(u64::from_be_bytes(bytes.array(1).ok_or(UnknownLayout)?));
        Ok(Value { of, expiry_ms, payload: behind(1 + EXPIRY_SIZE)? })
    }

    /// Of a large string, its id and its length.
    #[inline]
    pub fn pieces(&self) -> Result<Option<(u64, usize)>, UnknownLayout> {
        if self.of != Type::LARGE_STRING {
            return Ok(None);
        }
        let Spread { id, count, .. } = Spread::decode(self.payload)?;
        if count > (PAYLOAD_SIZE_MAX + FIELD_SIZE_MAX) as u64 {
            Err(UnknownLayout)
        } else {
            Ok(Some((id, count as usize)))
        }
    }

    /// Bytes of a string.
    pub fn string_len(&self) -> Result<usize, UnknownLayout> {
        Ok(self.pieces()?.map_or(self.payload.len(), |(_, len)| len))
    }

    /// As [`spread`](Value::spread), with the number of elements in the place of a string's length.
    pub fn elements(&self) -> Result<Option<Spread>, UnknownLayout> {
        if self.of.kind == Kind::Stream {
            return Ok(Some(StreamHead::decode(self.payload)?.elements()));
        }
        match self.pieces()? {
            Some((id, len)) => {
                Ok(Some(Spread { id, count: len.div_ceil(PIECE_SIZE) as u64, first: 0 }))
            }
            None => self.spread(),
        }
    }

    /// Where its elements are; `None`: it has none.
    #[inline]
    pub fn spread(&self) -> Result<Option<Spread>, UnknownLayout> {
        if self.of.kind == Kind::Stream {
            let StreamHead { id, count, .. } = StreamHead::decode(self.payload)?;
            return Ok(Some(Spread { id, count, first: 0 }));
        }
        if self.of.is_spread { Spread::decode(self.payload).map(Some) } else { Ok(None) }
    }

    /// Whether it is not there any more at `now_ms`.
    #[inline]
    pub fn is_expired(&self, now_ms: u64) -> bool {
        self.expiry_ms.is_some_and(|expiry| expiry < now_ms)
    }
}

/// The value of an entry of the expiry index that is about a field of a hash; that of a key's is empty.
pub const OF_A_FIELD: [u8; 1] = [1];

/// Writes a key of the expiry index into `entry`.
pub fn encode_expiry_entry(entry: &mut Vec<u8>, expiry_ms: u64, key: &[u8]) {
    entry.clear();
    entry.extend_from_slice(&expiry_ms.to_be_bytes());
    entry.extend_from_slice(key);
}

/// Takes a key of the expiry index apart.
pub fn decode_expiry_entry(entry: &[u8]) -> Option<(u64, &[u8])> {
    let (expiry, key) = entry.split_first_chunk()?;
    Some((u64::from_be_bytes(*expiry), key))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values() {
        let plain = [Header::string(None).as_bytes(), b"abc"].concat();
        assert_eq!(plain, b"\0abc");
        let value = Value::decode(plain[..].into()).unwrap();
        assert_eq!((value.of, value.expiry_ms), (Type::STRING, None));
        assert_eq!(value.payload, b"abc");
        let expiring = [Header::string(Some(0x0102)).as_bytes(), b"abc"].concat();
        assert_eq!(expiring, b"\x80\0\0\0\0\0\0\x01\x02abc");
        let value = Value::decode(expiring[..].into()).unwrap();
        assert_eq!(value.expiry_ms, Some(0x0102));
        assert_eq!(value.payload, b"abc");
        assert!(!value.is_expired(0x0102) && value.is_expired(0x0103));
    }

    #[test]
    fn collections() {
        let of = Type { is_wide: true, ..Type::new(Kind::Hash, false) };
        let packed = [Header::new(of, None).as_bytes(), b"\x01a\x01b"].concat();
        assert_eq!(packed, b"\x44\x01a\x01b");
        let value = Value::decode(packed[..].into()).unwrap();
        assert_eq!((value.of, value.spread()), (of, Ok(None)));
        let of = Type::new(Kind::List, true);
        let spread = Spread { id: 7, count: 300, first: -2 };
        let large = [Header::new(of, Some(9)).as_bytes(), &spread.encode(Kind::List)].concat();
        let value = Value::decode(large[..].into()).unwrap();
        assert_eq!((value.of, value.expiry_ms, value.spread()), (of, Some(9), Ok(Some(spread))));
    }

    #[test]
    fn foreign_values_are_refused() {
        for bytes in [
            b"".as_slice(),
            b"\x05",
            b"\x55",
            b"\x16",
            b"\x50",
            b"\x40",
            b"\x24",
            b"\x80\0\0",
            b"\x8f\0\0\0\0\0\0\0\0",
        ] {
            assert!(Value::decode(bytes.into()).is_err());
        }
        for short in [b"\x14short".as_slice(), b"\x15short"] {
            assert!(Value::decode(short.into()).unwrap().spread().is_err());
        }
        let too_long =
            Spread { id: 1, count: (PAYLOAD_SIZE_MAX + FIELD_SIZE_MAX + 1) as u64, first: 0 };
        for payload in [b"short".to_vec(), too_long.encode(Kind::String)] {
            let large = [Header::new(Type::LARGE_STRING, None).as_bytes(), &payload].concat();
            assert!(Value::decode(large[..].into()).unwrap().pieces().is_err());
        }
    }

    #[test]
    fn expiry_entries_sort_by_time() {
        let (mut early, mut late) = (Vec::new(), Vec::new());
        encode_expiry_entry(&mut early, 255, b"z");
        encode_expiry_entry(&mut late, 256, b"a");
        assert!(early < late);
        assert_eq!(decode_expiry_entry(&early), Some((255, b"z".as_slice())));
        assert_eq!(decode_expiry_entry(b"short"), None);
    }
}
