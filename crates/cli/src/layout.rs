//! Interim copy of the server's `format.rs`, until that is public.
//!
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
pub(crate) const EXPIRY_SIZE: usize = 8;

/// The name of the keyspace that holds a database.
pub(crate) fn data_keyspace(db: usize) -> String {
    format!("db{db}")
}

/// The name of the keyspace that holds the expiry index of a database.
pub(crate) fn expiry_keyspace(db: usize) -> String {
    format!("db{db}.expiry")
}

/// A value's bytes before the payload.
pub(crate) struct Header {
    bytes: [u8; 1 + EXPIRY_SIZE],
    size: usize,
}

impl Header {
    /// The header of a string.
    #[inline]
    pub(crate) fn string(expiry_ms: Option<u64>) -> Header {
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
    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.size]
    }
}

/// A string as it lies in the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Value<'a> {
    /// Milliseconds since 1970 from which on it is not there any more.
    pub(crate) expiry_ms: Option<u64>,
    /// The string.
    pub(crate) payload: &'a [u8],
}

/// A value that this version of the server did not write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct UnknownLayout;

impl<'a> Value<'a> {
    /// Takes apart what lies in the store.
    #[inline]
    pub(crate) fn decode(bytes: &'a [u8]) -> Result<Value<'a>, UnknownLayout> {
        let (&header, rest) = bytes.split_first().ok_or(UnknownLayout)?;
        if header & !HAS_EXPIRY & !KIND_MASK != 0 || header & KIND_MASK != KIND_STRING {
            return Err(UnknownLayout);
        }
        if header & HAS_EXPIRY == 0 {
            return Ok(Value { expiry_ms: None, payload: rest });
        }
        let (expiry, payload) = rest.split_first_chunk().ok_or(UnknownLayout)?;
        Ok(Value { expiry_ms: Some(u64::from_be_bytes(*expiry)), payload })
    }
}

/// Writes a key of the expiry index into `entry`.
pub(crate) fn encode_expiry_entry(entry: &mut Vec<u8>, expiry_ms: u64, key: &[u8]) {
    entry.clear();
    entry.extend_from_slice(&expiry_ms.to_be_bytes());
    entry.extend_from_slice(key);
}

/// Takes a key of the expiry index apart.
pub(crate) fn decode_expiry_entry(entry: &[u8]) -> Option<(u64, &[u8])> {
    let (expiry, key) = entry.split_first_chunk()?;
    Some((u64::from_be_bytes(*expiry), key))
}
