//! What the server lays into the store: values under `dbN`, the expiry index under `dbN.expiry`.
//!
//! A value is a header byte, the expiry if there is one, and the payload:
//!
//! ```text
//! byte 0        bits 0-3 type (0 = string), bits 4-6 reserved, zero, bit 7 = an expiry follows
//! bytes 1-8     the expiry in milliseconds since 1970, big-endian; only with bit 7
//! the rest      the payload; for a string its bytes
//! ```
//!
//! The expiry index has one key per value with an expiry, and empty values:
//!
//! ```text
//! bytes 0-7     the expiry in milliseconds since 1970, big-endian, so that the order is that of time
//! the rest      the key
//! ```

/// Bit 7 of the header.
const HAS_EXPIRY: u8 = 0x80;
/// Bits 0-3 of the header.
const KIND_MASK: u8 = 0x0f;
/// The type tag of a string.
const KIND_STRING: u8 = 0;
/// Bytes an expiry takes.
pub const EXPIRY_SIZE: usize = 8;
/// Longest key: the expiry index puts an expiry before it.
pub const KEY_SIZE_MAX: usize = tembo_kv::KEY_SIZE_MAX - EXPIRY_SIZE;
/// Longest payload.
pub const PAYLOAD_SIZE_MAX: usize = 512 << 20;

const _: () = assert!(PAYLOAD_SIZE_MAX + 1 + EXPIRY_SIZE <= tembo_kv::VALUE_SIZE_MAX);

/// The name of the keyspace that holds a database.
pub fn data_keyspace(db: usize) -> String {
    format!("db{db}")
}

/// The name of the keyspace that holds the expiry index of a database.
pub fn expiry_keyspace(db: usize) -> String {
    format!("db{db}.expiry")
}

/// A value's bytes before the payload.
pub struct Header {
    bytes: [u8; 1 + EXPIRY_SIZE],
    size: usize,
}

impl Header {
    /// The header of a string.
    #[inline]
    pub fn string(expiry_ms: Option<u64>) -> Header {
        let mut bytes = [0; 1 + EXPIRY_SIZE];
        bytes[0] = KIND_STRING;
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

/// A string as it lies in the store.
#[derive(Clone, Copy, Debug)]
pub struct Value<'a> {
    /// Milliseconds since 1970 from which on it is not there any more.
    pub expiry_ms: Option<u64>,
    /// The string.
    pub payload: tembo_kv::Value<'a>,
}

/// A value that this version of the server did not write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnknownLayout;

impl<'a> Value<'a> {
    /// Takes apart what lies in the store.
    #[inline]
    pub fn decode(bytes: tembo_kv::Value<'a>) -> Result<Value<'a>, UnknownLayout> {
        let [header] = bytes.array(0).ok_or(UnknownLayout)?;
        let behind = |size: usize| bytes.slice(size..bytes.len()).ok_or(UnknownLayout);
        if header & !HAS_EXPIRY & !KIND_MASK != 0 || header & KIND_MASK != KIND_STRING {
            return Err(UnknownLayout);
        }
        if header & HAS_EXPIRY == 0 {
            return Ok(Value { expiry_ms: None, payload: behind(1)? });
        }
        let expiry = bytes.array(1).ok_or(UnknownLayout)?;
        Ok(Value { expiry_ms: Some(u64::from_be_bytes(expiry)), payload: behind(1 + EXPIRY_SIZE)? })
    }

    /// Whether it is not there any more at `now_ms`.
    #[inline]
    pub fn is_expired(&self, now_ms: u64) -> bool {
        self.expiry_ms.is_some_and(|expiry| expiry < now_ms)
    }
}

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
        assert_eq!(value.expiry_ms, None);
        assert_eq!(value.payload, b"abc");
        let expiring = [Header::string(Some(0x0102)).as_bytes(), b"abc"].concat();
        assert_eq!(expiring, b"\x80\0\0\0\0\0\0\x01\x02abc");
        let value = Value::decode(expiring[..].into()).unwrap();
        assert_eq!(value.expiry_ms, Some(0x0102));
        assert_eq!(value.payload, b"abc");
        assert!(!value.is_expired(0x0102) && value.is_expired(0x0103));
    }

    #[test]
    fn foreign_values_are_refused() {
        for bytes in [b"".as_slice(), b"\x01", b"\x10", b"\x80\0\0", b"\x8f\0\0\0\0\0\0\0\0"] {
            assert!(Value::decode(bytes.into()).is_err());
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
