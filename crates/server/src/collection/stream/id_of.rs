//! Ids in keys.

use crate::format::{STREAM_ID_SIZE, StreamId};

/// The id that ends a key.
pub(super) fn id_of(key: &[u8]) -> Option<StreamId> {
    let bytes: [u8; STREAM_ID_SIZE] = key.try_into().ok()?;
    Some(StreamId::decode(bytes))
}
