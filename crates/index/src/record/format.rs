//! A record as it stands on media: key and value of one entry, immutable once published.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Head of a record; the key's bytes and then the value's follow.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(crate) struct RecordHeader {
    pub(crate) key_len: u32,
    pub(crate) value_len: u32,
}

pub(crate) const RECORD_HEADER: u64 = size_of::<RecordHeader>() as u64;
const _: () = assert!(RECORD_HEADER == 8);
