//! What the store itself has on media: its root and the entries of the catalogue.

use tembo_pmem::{Word, media};
use tembo_pool::TenantFeatures;
use zerocopy::big_endian::U64 as BigU64;
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

media! {
    /// The root of a store, named by the pool's table of tenants.
    #[derive(Debug)]
    pub(crate) struct StoreRoot {
        /// [`STORE_MAGIC`].
        pub(crate) magic: Word,
        /// Object of the root cell of the catalogue.
        pub(crate) catalogue: Word,
        /// No version above it has been used. Raised in steps; open goes on above it.
        pub(crate) version_limit: Word,
        /// The version since which everything is kept, with [`WINDOW_FIXED`] if the window does not move on. 0: there is
        /// no window.
        pub(crate) window_from: Word,
        /// How many versions a moving window keeps. 0: there is no moving window. It does not count if the window is fixed.
        pub(crate) window_count: Word,
        /// Versions above it ...
        pub(crate) void_from: Word,
        /// ... and up to and including this one: some of them were rolled back. 0: none. Dead intervals can have more.
        pub(crate) void_to: Word,
        pub(crate) reserved: Word,
        pub(crate) lanes: [Lane; LANE_COUNT],
        pub(crate) dead: [DeadSlot; DEAD_COUNT],
        pub(crate) snapshots: [SnapshotSlot; SNAPSHOT_COUNT],
    }
}

/// Bit of [`StoreRoot::window_from`]: the window is fixed. So one store of that word changes the kind of the window.
pub(crate) const WINDOW_FIXED: u64 = 1 << 63;

media! {
    /// A lane's commit word, alone in its line.
    #[derive(Debug)]
    pub(crate) struct Lane {
        /// Grouped stamps of this lane are committed up to this version, unless dead.
        pub(crate) committed: Word,
        pub(crate) reserved: [Word; 7],
    }
}

media! {
    /// A dead interval: half a line; `kind` is stored last, and vouches for the others.
    #[derive(Debug)]
    pub(crate) struct DeadSlot {
        /// Versions above it ...
        pub(crate) from: Word,
        /// ... up to and including it ...
        pub(crate) to: Word,
        pub(crate) reserved: Word,
        /// ... are void: 0 none (an empty slot), [`KIND_ALL`] all, else grouped ones of lane `kind - 1`.
        pub(crate) kind: Word,
    }
}

media! {
    /// A named snapshot: one line; `len` is stored last, and vouches for the name. Not in the catalogue,
    /// since a rollback must not bring back a name whose version has been given up.
    #[derive(Debug)]
    pub(crate) struct SnapshotSlot {
        /// The version that is kept. When the name is given again, one store changes it.
        pub(crate) version: Word,
        /// The name's bytes, padded with zeros.
        pub(crate) name: [Word; SNAPSHOT_NAME_SIZE / 8],
        /// Length of the name plus 1; 0: an empty slot.
        pub(crate) len: Word,
    }
}

pub(crate) const SNAPSHOT_COUNT: usize = 64;
pub(crate) const SNAPSHOT_NAME_SIZE: usize = 48;
const _: () = assert!(size_of::<SnapshotSlot>() == 64);

pub(crate) const STORE_MAGIC: u64 = u64::from_le_bytes(*b"TEMBO-KV");
pub(crate) const LANE_COUNT: usize = 8;
pub(crate) const DEAD_COUNT: usize = 128;
pub(crate) const KIND_ALL: u64 = u64::MAX;
pub(crate) const ROOT_SIZE: u64 = size_of::<StoreRoot>() as u64;

const _: () = {
    assert!(size_of::<Lane>() == 64 && size_of::<DeadSlot>() == 32);
    assert!(
        ROOT_SIZE
            == 64 + 64 * LANE_COUNT as u64 + 32 * DEAD_COUNT as u64 + 64 * SNAPSHOT_COUNT as u64
    );
};

/// The catalogue's value for a keyspace.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct KeyspaceEntry {
    /// Number of the keyspace, from 0.
    pub(crate) id: U64,
    /// Object of the root cell of its tree.
    pub(crate) cell: U64,
    /// The version that made the tree.
    pub(crate) birth: U64,
    /// The kind of index: [`INDEX_CDDS`], [`INDEX_NVTREE`] or [`INDEX_HASH`].
    pub(crate) index: U64,
}

pub(crate) const INDEX_CDDS: u64 = 1;
pub(crate) const INDEX_NVTREE: u64 = 2;
pub(crate) const INDEX_HASH: u64 = 3;
const _: () = assert!(size_of::<KeyspaceEntry>() == 32);

/// First byte of a catalogue key: a keyspace's name follows.
pub(crate) const KEYSPACE_TAG: u8 = b'k';

/// First byte of a catalogue key that stands for a range of keys that was removed: [`TombstoneKey`] follows.
pub(crate) const TOMBSTONE_TAG: u8 = b't';

/// What follows the tag in the key of a range that was removed. Big-endian, so that they stand in order.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct TombstoneKey {
    /// Object of the root cell of the keyspace's tree.
    pub(crate) cell: BigU64,
    /// The version that has removed the range, and nothing else.
    pub(crate) version: BigU64,
}

const _: () = assert!(size_of::<TombstoneKey>() == 16);

/// The begin of the value of a range that was removed: its first key follows, then the first one behind it.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct TombstoneHeader {
    /// Length of the first key, in bytes.
    pub(crate) from_size: U64,
    /// Whether there is a first key behind the range: 1, else 0.
    pub(crate) has_end: U64,
}

const _: () = assert!(size_of::<TombstoneHeader>() == 16);

/// The catalogue key that stands for a replica, with an empty value: every change of the store was made at a
/// version that was given, and committed with a group.
pub(crate) const REPLICA_KEY: &[u8] = b"replica";

/// The catalogue key of how many keys there were: a [`CountsHeader`], then a [`KeyspaceCount`] for each keyspace. An
/// estimate; exact if the header has the limit of versions, since then nothing was changed after it.
pub(crate) const COUNTS_KEY: &[u8] = b"counts";

/// The begin of the value under [`COUNTS_KEY`].
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct CountsHeader {
    /// The limit of versions, if a clean stop wrote the counts as its last change; else 0.
    pub(crate) limit: U64,
}

/// How many keys a keyspace has.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct KeyspaceCount {
    /// Object of the root cell of its tree.
    pub(crate) cell: U64,
    pub(crate) keys: U64,
}

const _: () = assert!(size_of::<CountsHeader>() == 8 && size_of::<KeyspaceCount>() == 16);

/// First byte of a catalogue key: the length of a prepared transaction's id (one byte), the id, and the number of a
/// piece (4 bytes, the highest first) follow.
pub(crate) const PREPARED_TAG: u8 = b'p';

/// Bytes in each piece of a prepared transaction but the last.
pub(crate) const PREPARED_PIECE_SIZE: usize = 16 << 10;

/// The pieces of a prepared transaction begin with this. [`PreparedItem`]s follow, each with its bytes.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct PreparedHeader {
    /// The version in which it was prepared.
    pub(crate) version: U64,
    /// Bytes that follow.
    pub(crate) size: U64,
    /// Items that follow.
    pub(crate) items: U64,
    /// 1: serialisable, so that it holds what it has read; else 0.
    pub(crate) is_serialisable: U64,
}

/// A key that a prepared transaction writes, or a key or range that it has read. The bytes of `first`, then those of `second`,
/// follow.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct PreparedItem {
    /// Number of the keyspace.
    pub(crate) keyspace: U32,
    /// One of [`ITEM_PUT`], [`ITEM_REMOVE`], [`ITEM_KEY_READ`], [`ITEM_RANGE_READ`].
    pub(crate) kind: u8,
    /// How a range begins: [`BOUND_UNBOUNDED`], [`BOUND_INCLUDED`], [`BOUND_EXCLUDED`]. 0 in other items.
    pub(crate) from: u8,
    /// How a range ends. 0 in other items.
    pub(crate) to: u8,
    pub(crate) reserved: u8,
    /// Bytes of the key, or of the key where the range begins.
    pub(crate) first_size: U32,
    /// Bytes of the value, or of the key where the range ends; else 0.
    pub(crate) second_size: U32,
}

pub(crate) const ITEM_PUT: u8 = 1;
pub(crate) const ITEM_REMOVE: u8 = 2;
pub(crate) const ITEM_KEY_READ: u8 = 3;
pub(crate) const ITEM_RANGE_READ: u8 = 4;
pub(crate) const BOUND_UNBOUNDED: u8 = 0;
pub(crate) const BOUND_INCLUDED: u8 = 1;
pub(crate) const BOUND_EXCLUDED: u8 = 2;
const _: () = assert!(size_of::<PreparedHeader>() == 32 && size_of::<PreparedItem>() == 16);

/// In the store a transaction was once prepared. A program that does not know this would change keys that are held.
pub(crate) const FEATURES_PREPARED: TenantFeatures =
    TenantFeatures { may: 0, must: 0, read_only: 1 };

/// The store was once a replica. A program that does not know this would make changes that only another store may make.
pub(crate) const FEATURES_REPLICA: TenantFeatures =
    TenantFeatures { may: 0, must: 0, read_only: 2 };

/// Some version of the store has a range that was removed and is not erased. A program that does not know this would show
/// removed keys.
pub(crate) const FEATURES_RANGES: TenantFeatures = TenantFeatures { may: 0, must: 1, read_only: 0 };

/// The store's keyspaces are hash indexes; its catalogue is an NV-Tree. This is set when the store is made.
pub(crate) const FEATURES_HASH: TenantFeatures = TenantFeatures { may: 0, must: 2, read_only: 0 };

/// All feature bits that this program knows.
pub(crate) const FEATURES_KNOWN: TenantFeatures = TenantFeatures {
    may: 0,
    must: FEATURES_RANGES.must | FEATURES_HASH.must,
    read_only: FEATURES_PREPARED.read_only | FEATURES_REPLICA.read_only,
};

/// The value of a large value's header.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct LargeValueHeader {
    /// Bytes in each of its pieces but the last.
    pub(crate) piece_size: U64,
    /// Its length, in bytes.
    pub(crate) len: U64,
}

/// The byte behind the name in the key of a large value's header.
pub(crate) const LARGE_HEADER: u8 = 0;

/// The byte behind the name in the key of a large value's piece. The number of the piece follows.
pub(crate) const LARGE_PIECE: u8 = 1;
const _: () = assert!(size_of::<LargeValueHeader>() == 16);
