//! What can go wrong in a pool.

use tembo_pmem::Fault;

/// Errors of opening a pool, of its space, and of what it finds on media.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The region below refused: disk full, poisoned, held by another process, damaged.
    #[error(transparent)]
    Region(#[from] tembo_pmem::Error),
    /// There is no superblock where one should be.
    #[error("not a pool: the superblock begins with {found:#018x}")]
    NotAPool {
        /// The first word found, little-endian.
        found: u64,
    },
    /// A later version of the software wrote this pool.
    #[error("format version {found} is newer than {known}, the newest that is known here")]
    NewerVersion {
        /// The version on media.
        found: u32,
        /// The newest version that can be opened.
        known: u32,
    },
    /// The pool uses features that this version does not know.
    #[error("unknown {kind} feature bits {bits:#x}")]
    UnknownFeature {
        /// Which set: `must` or `read-only`.
        kind: &'static str,
        /// The unknown bits.
        bits: u64,
    },
    /// The fixed part of the superblock is damaged.
    #[error("superblock checksum {computed:#010x} where {stored:#010x} is recorded")]
    Checksum {
        /// What the superblock records.
        stored: u32,
        /// What its bytes give.
        computed: u32,
    },
    /// The region is shorter than the pool in it.
    #[error("truncated: the pool has {recorded} bytes, the region {actual}")]
    Truncated {
        /// The pool's size, in bytes.
        recorded: u64,
        /// The region's size, in bytes.
        actual: u64,
    },
    /// The chunk or node size is not possible, or does not fit the region.
    #[error("bad geometry (chunks of {chunk_size}, nodes of {node_size} bytes): {reason}")]
    BadGeometry {
        /// Bytes in a chunk.
        chunk_size: u32,
        /// Bytes in a node.
        node_size: u32,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// A sealed word of the superblock contradicts its own seal, or the other words.
    #[error("damaged superblock: {field} reads {word:#018x}")]
    Damaged {
        /// Which word.
        field: &'static str,
        /// Its content.
        word: u64,
    },
    /// No space is left and the pool cannot grow.
    #[error("pool full: no room for {size} bytes{}", if *recovering { ", a sweep is still to finish" } else { "" })]
    PoolFull {
        /// The bytes asked for.
        size: u64,
        /// A sweep is owed or running: when it has finished there may be room.
        recovering: bool,
    },
    /// No object can be so large.
    #[error("an object of {size} bytes is larger than {max}")]
    TooLarge {
        /// The bytes asked for.
        size: u64,
        /// The most possible.
        max: u64,
    },
    /// There are only [`ROOT_COUNT`](crate::ROOT_COUNT) root words.
    #[error("no root {slot}")]
    NoSuchRoot {
        /// The root asked for.
        slot: usize,
    },
    /// An object that lies outside the space that was ever handed out.
    #[error("object {bits:#x} lies outside the data area, which ends at {end:#x}")]
    OutOfBounds {
        /// The object, see [`Object::to_bits`](crate::Object::to_bits).
        bits: u64,
        /// Where the data area ends, in bytes.
        end: u64,
    },
    /// An object whose class does not exist or that does not lie where its class is placed.
    #[error("object {bits:#x} cannot lie there: {reason}")]
    Misplaced {
        /// The object, see [`Object::to_bits`](crate::Object::to_bits).
        bits: u64,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// Two objects claim the same space, or two classes the same chunk.
    #[error("object {bits:#x} overlaps another")]
    Overlap {
        /// The object marked later, see [`Object::to_bits`](crate::Object::to_bits).
        bits: u64,
    },
    /// Only one sweep runs at a time.
    #[error("a sweep is running")]
    SweepRunning,
    /// Whoever formatted a pool in memory kept a part of it.
    #[error("the pool is still in use by what formatted it")]
    Kept,
    /// The pool has been opened as often as a pool can be.
    #[error("all generations of this pool are used up")]
    GenerationsExhausted,
}

impl From<Fault> for Error {
    fn from(fault: Fault) -> Self {
        Error::Region(fault.into())
    }
}
