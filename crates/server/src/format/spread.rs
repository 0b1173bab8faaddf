//! The payload of a large collection: where its elements are and how many.

use crate::format::kind::Kind;
use crate::format::unknown_layout::UnknownLayout;

/// The payload of a large collection.
///
/// ```text
/// bytes 0-7     the collection's id in its database, big-endian
/// bytes 8-15    how many entries it has, or of a string how many bytes, big-endian
/// bytes 16-23   only of a list: the position of its first element, big-endian, two's complement
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spread {
    /// Names the collection: the keys of its elements begin with it. Given once only.
    pub id: u64,
    /// Entries: a field and its value are one. Of a string, bytes.
    pub count: u64,
    /// The position of a list's first element; those that follow have the positions that follow.
    pub first: i64,
}

/// Sizes without and with a position.
const SIZES: (usize, usize) = (16, 24);

impl Spread {
    /// The payload's bytes.
    pub fn encode(&self, kind: Kind) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(SIZES.1);
        bytes.extend_from_slice(&self.id.to_be_bytes());
        bytes.extend_from_slice(&self.count.to_be_bytes());
        if kind == Kind::List {
            bytes.extend_from_slice(&self.first.to_be_bytes());
        }
        bytes
    }

    /// The id in the payload of any value that has elements.
    ///
    /// # Errors
    /// The payload is too short.
    pub fn id_of(payload: &[u8]) -> Result<u64, UnknownLayout> {
        payload.first_chunk().map(|id| u64::from_be_bytes(*id)).ok_or(UnknownLayout)
    }

    /// Gives the payload of any value that has elements another id.
    pub fn set_id(payload: &mut [u8], id: u64) {
        if let Some(place) = payload.first_chunk_mut() {
            *place = id.to_be_bytes();
        }
    }

    /// Takes a payload apart.
    ///
    /// # Errors
    /// The payload has another size.
    pub fn decode(payload: tembo_kv::Value<'_>) -> Result<Spread, UnknownLayout> {
        let word = |at| payload.array(at).map(u64::from_be_bytes).ok_or(UnknownLayout);
        let first = match payload.len() {
            size if size == SIZES.0 => 0,
            size if size == SIZES.1 => word(16)? as i64,
            _ => return Err(UnknownLayout),
        };
        Ok(Spread { id: word(0)?, count: word(8)?, first })
    }
}
