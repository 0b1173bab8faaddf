//! A record as it stands on media: key and value of one entry, immutable once published.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Whether the records of the trees of a store have checksums. Chosen when the first tree is formatted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Records {
    /// They have none.
    Unchecked,
    /// Each has the CRC-32C of its key and its value.
    #[default]
    Checked,
}

/// Head of a record; the key's bytes and then the value's follow. In a tree whose records have checksums a
/// [`RecordChecksum`] lies between.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(crate) struct RecordHeader {
    pub(crate) key_len: u32,
    pub(crate) value_len: u32,
}

/// The CRC-32C of a record's header, key and value.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(crate) struct RecordChecksum {
    pub(crate) crc: u32,
}

/// Head and checksum, as they stand at the beginning of a record with a checksum.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(crate) struct RecordFront {
    pub(crate) header: RecordHeader,
    pub(crate) checksum: RecordChecksum,
}

pub(crate) const RECORD_HEADER: u64 = size_of::<RecordHeader>() as u64;
pub(crate) const RECORD_CHECKSUM: u64 = size_of::<RecordChecksum>() as u64;
const _: () = assert!(RECORD_HEADER == 8 && RECORD_CHECKSUM == 4 && size_of::<RecordFront>() == 12);
