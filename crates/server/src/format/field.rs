//! The value of a field of a large hash.
//!
//! ```text
//! byte 0        0, or 1: an expiry follows
//! bytes 1-8     the expiry, in milliseconds since 1970, big-endian
//! the rest      the value
//! ```

use crate::format::unknown_layout::UnknownLayout;

/// Bytes of an expiry.
pub const FIELD_EXPIRY_SIZE: usize = 8;

/// What stands before the value of a field.
pub struct FieldHeader {
    bytes: [u8; 1 + FIELD_EXPIRY_SIZE],
    size: usize,
}

impl FieldHeader {
    /// Of a field with that expiry, or without one.
    #[inline]
    pub fn new(expiry_ms: Option<u64>) -> FieldHeader {
        let mut bytes = [0; 1 + FIELD_EXPIRY_SIZE];
        let Some(expiry_ms) = expiry_ms else { return FieldHeader { bytes, size: 1 } };
        bytes[0] = 1;
        bytes[1..].copy_from_slice(&expiry_ms.to_be_bytes());
        FieldHeader { bytes, size: bytes.len() }
    }

    /// The bytes.
    #[inline]
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.size]
    }
}

/// The expiry of a field, and its value.
///
/// # Errors
/// It has another layout.
#[inline]
pub fn decode_field(
    element: tembo_kv::Value<'_>,
) -> Result<(Option<u64>, tembo_kv::Value<'_>), UnknownLayout> {
    let behind = |size: usize| element.slice(size..element.len()).ok_or(UnknownLayout);
    match element.array(0) {
        Some([0]) => Ok((None, behind(1)?)),
        Some([1]) => {
            let expiry_ms = element.array(1).map(u64::from_be_bytes).ok_or(UnknownLayout)?;
            Ok((Some(expiry_ms), behind(1 + FIELD_EXPIRY_SIZE)?))
        }
        _ => Err(UnknownLayout),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_come_back() {
        for expiry_ms in [None, Some(0x0102)] {
            let element = [FieldHeader::new(expiry_ms).as_bytes(), b"value"].concat();
            let (found_ms, value) = decode_field(element[..].into()).unwrap();
            assert_eq!((found_ms, value.to_vec()), (expiry_ms, b"value".to_vec()));
        }
        for foreign in [b"".as_slice(), b"\x02", b"\x01short"] {
            assert!(decode_field(foreign.into()).is_err());
        }
    }
}
