//! How large a collection may be for OBJECT ENCODING to name the smaller of Redis's two encodings. What is stored does
//! not depend on it, but for the mark that a collection was once larger.

/// Most entries, and most bytes of an entry, by kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EncodingLimits {
    /// Of a hash: fields, and bytes of a field or value.
    pub(crate) hash: (u64, u64),
    /// Of a set of numbers: members.
    pub(crate) numbers: u64,
    /// Of a sorted set: members, and bytes of one.
    pub(crate) sorted_set: (u64, u64),
}

impl Default for EncodingLimits {
    fn default() -> EncodingLimits {
        EncodingLimits { hash: (512, 64), numbers: 512, sorted_set: (128, 64) }
    }
}
