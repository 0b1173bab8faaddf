//! What `pmem` puts on media; `docs/formats/media-header.md` and `docs/formats/redo-log.md` draw it.

use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::checksum::OuterChecksum;
use crate::{LINE, SIZE_MAX};

/// Bytes at the start of a region that `pmem` keeps for itself.
pub const HEADER_SIZE: u64 = 4096;

/// Where the two copies of a header lie: in separate sectors, so that a torn write spares one.
pub(crate) const SLOT_OFFSETS: [u64; 2] = [0, 2048];

/// Bytes in a header: one sector.
pub(crate) const SLOT_SIZE: usize = 512;

/// Magic of a pool file.
pub(crate) const MEDIA_MAGIC: [u8; 8] = *b"TEMBOMED";

/// The newest version of the media header known here.
pub(crate) const MEDIA_VERSION: u32 = 1;

/// The redo log must be replayed before the region is used.
pub(crate) const FLAG_LOG_NEEDED: u64 = 1;
/// The region was closed, and all of it is on the medium.
pub(crate) const FLAG_CLEAN: u64 = 1 << 1;
/// Persistent memory was emulated: flushed lines live in memory that loses power.
pub(crate) const FLAG_EMULATED: u64 = 1 << 2;

/// One of the two headers of a pool file.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub(crate) struct MediaHeader {
    pub(crate) magic: [u8; 8],
    pub(crate) version: U32,
    /// The domain last used: 1 flush, 2 eadr, 3 logged.
    pub(crate) domain: U32,
    /// Bits that a program must know; may be unknown to; must know to write.
    pub(crate) features_must: U64,
    pub(crate) features_may: U64,
    pub(crate) features_read: U64,
    pub(crate) identity: [U64; 2],
    /// The valid header with the higher sequence counts.
    pub(crate) sequence: U64,
    /// Bytes in the region.
    pub(crate) size: U64,
    /// Generation of the redo log.
    pub(crate) generation: U64,
    pub(crate) flags: U64,
    /// A hash of the boot in which the region was last opened.
    pub(crate) boot: U64,
    pub(crate) reserved: [u8; 412],
    /// CRC-32C of all bytes before it.
    pub(crate) crc: U32,
}

const _: () = {
    assert!(size_of::<MediaHeader>() == SLOT_SIZE);
    assert!(std::mem::offset_of!(MediaHeader, identity) == 40);
    assert!(std::mem::offset_of!(MediaHeader, size) == 64);
    assert!(std::mem::offset_of!(MediaHeader, boot) == 88);
    assert!(std::mem::offset_of!(MediaHeader, crc) == 508);
};

/// No sequence, generation or position comes as far as this.
const COUNT_END: u64 = 1 << 62;

/// A header of one sector, one of two, that ends in its checksum and carries a sequence.
pub(crate) trait Slot: FromBytes + IntoBytes + Immutable + Copy {
    /// The magic that it begins with.
    const MAGIC: [u8; 8];
    /// The newest version known here.
    const VERSION: u32;

    /// The version found.
    fn version(&self) -> u32;
    /// The sequence found.
    fn sequence(&self) -> u64;
    /// Sets sequence and checksum.
    fn seal(&mut self, sequence: u64);
    /// The numbers that only grow: each below [`COUNT_END`], or it was never counted to.
    fn counts(&self) -> [u64; 3];

    /// Whether everything that counts can go on counting.
    fn can_count(&self) -> bool {
        self.counts().iter().all(|count| *count < COUNT_END)
    }

    /// Whether the checksum holds. It stands at the end in every version of the format.
    fn checks(&self) -> bool {
        let (body, crc) = self.as_bytes().split_at(SLOT_SIZE - 4);
        crc32c::crc32c(body).to_le_bytes() == *crc
    }
}

impl Slot for MediaHeader {
    const MAGIC: [u8; 8] = MEDIA_MAGIC;
    const VERSION: u32 = MEDIA_VERSION;

    fn counts(&self) -> [u64; 3] {
        [self.sequence.get(), self.generation.get(), 0]
    }

    fn version(&self) -> u32 {
        self.version.get()
    }

    fn sequence(&self) -> u64 {
        self.sequence.get()
    }

    fn seal(&mut self, sequence: u64) {
        self.sequence.set(sequence);
        self.crc.set(crc32c::crc32c(&self.as_bytes()[..SLOT_SIZE - 4]));
    }
}

impl MediaHeader {
    /// The header of a new pool.
    pub(crate) fn new(identity: u128, size: u64) -> MediaHeader {
        let mut header = MediaHeader::new_zeroed();
        header.magic = MEDIA_MAGIC;
        header.version.set(MEDIA_VERSION);
        header.identity = split(identity);
        header.size.set(size);
        header
    }

    /// The pool's identity.
    pub(crate) fn identity(&self) -> u128 {
        join(self.identity)
    }

    /// Whether a flag is set.
    pub(crate) fn has(&self, flag: u64) -> bool {
        self.flags.get() & flag != 0
    }

    /// Sets or clears a flag.
    pub(crate) fn set(&mut self, flag: u64, on: bool) {
        let flags = self.flags.get();
        self.flags.set(if on { flags | flag } else { flags & !flag });
    }
}

/// Magic of a redo log.
pub(crate) const LOG_MAGIC: [u8; 8] = *b"TEMBOLOG";

/// The newest version of the redo log known here.
pub(crate) const LOG_VERSION: u32 = 1;

/// Feature of a log that a program must know: extents carry checksums, and may be written after their group.
pub(crate) const LOG_EXTENTS_CHECKED: u64 = 1;

/// Feature of a log that a program must know: payloads and extents are checked by XXH3, in place of CRC-32C, which does not
/// see when a value with its CRC-32C stands in the place of another.
pub(crate) const LOG_XXH3: u64 = 1 << 1;

/// Feature of a log that a program must know: a group names its lines in [runs](LineRun), not one by one.
pub(crate) const LOG_RUNS: u64 = 1 << 2;

/// What a program must know of the logs that are written today.
pub(crate) const LOG_MUST: u64 = LOG_EXTENTS_CHECKED | LOG_XXH3 | LOG_RUNS;

/// Bytes of a log file before its ring.
pub(crate) const LOG_HEADER_SIZE: u64 = 4096;

/// Bytes of a block of the log that is written past the system's cache: a page, which all disks take.
pub(crate) const BLOCK: u64 = 4096;

/// A block in memory, at an address that the disk can take it from.
#[derive(Clone, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C, align(4096))]
pub(crate) struct Block([u8; BLOCK as usize]);

const _: () = assert!(align_of::<Block>() as u64 == BLOCK && LOG_HEADER_SIZE.is_multiple_of(BLOCK));

/// One of the two headers of a redo log.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub(crate) struct LogHeader {
    pub(crate) magic: [u8; 8],
    pub(crate) version: U32,
    /// The running checksum before the group at `start_position`.
    pub(crate) start_chain: U32,
    pub(crate) identity: [U64; 2],
    /// The valid header with the higher sequence counts.
    pub(crate) sequence: U64,
    pub(crate) generation: U64,
    /// The generation whose content this one holds too.
    pub(crate) previous: U64,
    /// Stands in every group: those of other generations are not taken for this one's.
    pub(crate) salt: U64,
    /// Bytes in the ring.
    pub(crate) capacity: U64,
    /// Where replay begins; positions only grow, and are taken modulo the capacity.
    pub(crate) start_position: U64,
    /// Sequence of the group there.
    pub(crate) start_sequence: U64,
    /// Bits that a program must know; may be unknown to; must know to write.
    pub(crate) features_must: U64,
    pub(crate) features_may: U64,
    pub(crate) features_read: U64,
    /// All groups up to this one were durable when the header was written.
    pub(crate) synced_through: U64,
    pub(crate) reserved: [u8; 388],
    /// CRC-32C of all bytes before it.
    pub(crate) crc: U32,
}

const _: () = {
    assert!(size_of::<LogHeader>() == SLOT_SIZE);
    assert!(std::mem::offset_of!(LogHeader, identity) == 16);
    assert!(std::mem::offset_of!(LogHeader, salt) == 56);
    assert!(std::mem::offset_of!(LogHeader, start_sequence) == 80);
    assert!(std::mem::offset_of!(LogHeader, features_must) == 88);
    assert!(std::mem::offset_of!(LogHeader, synced_through) == 112);
    assert!(std::mem::offset_of!(LogHeader, crc) == 508);
};

impl Slot for LogHeader {
    const MAGIC: [u8; 8] = LOG_MAGIC;
    const VERSION: u32 = LOG_VERSION;

    fn counts(&self) -> [u64; 3] {
        [
            self.sequence.get(),
            self.generation.get(),
            self.start_sequence.get().max(self.synced_through.get()),
        ]
    }

    fn version(&self) -> u32 {
        self.version.get()
    }

    fn sequence(&self) -> u64 {
        self.sequence.get()
    }

    fn seal(&mut self, sequence: u64) {
        self.sequence.set(sequence);
        self.crc.set(crc32c::crc32c(&self.as_bytes()[..SLOT_SIZE - 4]));
    }
}

impl LogHeader {
    /// Whether extents carry checksums.
    pub(crate) fn checks_extents(&self) -> bool {
        self.features_must.get() & LOG_EXTENTS_CHECKED != 0
    }

    /// The checksum around payloads and extents.
    pub(crate) fn outer_checksum(&self) -> OuterChecksum {
        match self.features_must.get() & LOG_XXH3 {
            0 => OuterChecksum::Crc32c,
            _ => OuterChecksum::Xxh3,
        }
    }

    /// Whether groups name their lines in runs.
    pub(crate) fn has_runs(&self) -> bool {
        self.features_must.get() & LOG_RUNS != 0
    }

    /// Whether a program of an earlier release made the log.
    pub(crate) fn is_old(&self) -> bool {
        self.features_must.get() & LOG_MUST != LOG_MUST
    }
}

/// The line before a group's payload. The payload is the runs that do not stand in the header, `extents` records of extents, zeroes
/// up to a line, then 64 bytes for each line. Without [`LOG_RUNS`] it begins with an offset of eight bytes for each line.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub(crate) struct GroupHeader {
    pub(crate) salt: U64,
    pub(crate) sequence: U64,
    /// All groups up to this one were durable when the group was appended.
    pub(crate) synced_through: U64,
    /// Runs of lines. Without [`LOG_RUNS`] lines.
    pub(crate) runs: U32,
    pub(crate) extents: U32,
    /// Where the group begins.
    pub(crate) position: U64,
    /// The first runs, zero behind them. Without runs: random in the first group that an opening appends to a log in use, zero in
    /// others.
    pub(crate) first: [U64; 2],
    /// CRC-32C of the 56 bytes before it and of the payload's XXH3, begun with the previous group's. Without [`LOG_XXH3`] of the
    /// payload itself.
    pub(crate) chain: U32,
    /// CRC-32C of the 60 bytes before it: certifies the header alone.
    pub(crate) crc: U32,
}

const _: () = {
    assert!(size_of::<GroupHeader>() == 64);
    assert!(std::mem::offset_of!(GroupHeader, runs) == 24);
    assert!(std::mem::offset_of!(GroupHeader, position) == 32);
    assert!(std::mem::offset_of!(GroupHeader, first) == 40);
    assert!(std::mem::offset_of!(GroupHeader, chain) == 56);
};

/// Lines of a group that lie side by side, in one word: the number of the first, and above its lowest [`RUN_BITS`] bits, in which
/// stands the number of lines less one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LineRun {
    /// Offset of the first line: any multiple of a line below 2⁶⁰.
    pub(crate) offset: u64,
    /// Lines: 1 to 1024.
    pub(crate) count: u64,
}

/// Bits of the number of lines in a run.
const RUN_BITS: u32 = 10;

impl LineRun {
    /// As it stands on media.
    pub(crate) fn word(self) -> u64 {
        ((self.offset / LINE) << RUN_BITS) | ((self.count - 1) & ((1 << RUN_BITS) - 1))
    }

    /// Any word is one.
    pub(crate) fn of(word: u64) -> LineRun {
        let count = 1 + (word & ((1 << RUN_BITS) - 1));
        LineRun { offset: (word >> RUN_BITS) * LINE, count }
    }

    /// The offsets of the lines.
    pub(crate) fn lines(self) -> impl Iterator<Item = u64> {
        (0..self.count).map(move |number| self.offset + number * LINE)
    }
}

const _: () = assert!(SIZE_MAX / LINE <= 1 << (u64::BITS - RUN_BITS));

/// Whole pages of the pool file that were written beside the log. Without [`LOG_EXTENTS_CHECKED`] the second half is
/// one length in bytes.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub(crate) struct ExtentRecord {
    pub(crate) offset: U64,
    pub(crate) pages: U32,
    /// The lower half of the XXH3 of the bytes. Without [`LOG_XXH3`] their CRC-32C.
    pub(crate) checksum: U32,
}

const _: () = assert!(size_of::<ExtentRecord>() == 16);

/// An identity as it stands on media.
pub(crate) fn split(identity: u128) -> [U64; 2] {
    [U64::new(identity as u64), U64::new((identity >> 64) as u64)]
}

/// An identity from media.
pub(crate) fn join(identity: [U64; 2]) -> u128 {
    u128::from(identity[0].get()) | (u128::from(identity[1].get()) << 64)
}
