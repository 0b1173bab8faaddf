//! Where things lie in the formats: `docs/formats/media-header.md`, `superblock.md`, `redo-log.md`.
//! Kept here once more, so that a change of a format that forgets its page is noticed.

use std::ops::Range;

/// The two headers of a pool file, and of a log.
pub(super) const SLOTS: [usize; 2] = [0, 2048];
pub(super) const SLOT_SIZE: usize = 512;
/// Identity in a media header.
pub(super) const POOL_IDENTITY: Range<usize> = 40..56;

/// The superblock's label: one line with its checksum in it.
pub(super) const LABEL: usize = 4096;
pub(super) const LABEL_SIZE: usize = 64;
pub(super) const LABEL_CRC: Range<usize> = 12..16;
/// The superblock's sealed words and the numbers of their fields.
pub(super) const SEALED: [(usize, u8); 3] = [(4160, 1), (4168, 2), (4176, 3)];
/// The superblock's words that are used end here.
pub(super) const ROOTS_END: usize = 4352;

/// Identity of the pool in a log's headers.
pub(super) const LOG_IDENTITIES: [usize; 2] = [SLOTS[0] + 16, SLOTS[1] + 16];
/// A log's ring begins here.
pub(super) const RING: usize = 4096;
/// Sequence of a slot's header, in a log.
pub(super) const LOG_SEQUENCE: usize = 32;
pub(super) const LOG_CHAIN: usize = 12;
pub(super) const LOG_SALT: usize = 56;
pub(super) const LOG_CAPACITY: usize = 64;
pub(super) const LOG_START: usize = 72;
/// What a program must know; bit 1: XXH3 around payloads.
pub(super) const LOG_FEATURES: usize = 88;
pub(super) const LOG_XXH3: u64 = 1 << 1;
/// Bit 2: lines are named in runs.
pub(super) const LOG_RUNS: u64 = 1 << 2;

/// A group's header.
pub(super) const GROUP_SIZE: usize = 64;
pub(super) const GROUP_RUNS: usize = 24;
pub(super) const GROUP_EXTENTS: usize = 28;
/// The first runs.
pub(super) const GROUP_FIRST: [usize; 2] = [40, 48];
pub(super) const GROUP_CHAIN: usize = 56;
pub(super) const GROUP_CRC: usize = 60;
/// Lines, and extents, in a group at most.
pub(super) const GROUP_MAX: usize = 1024;

/// The word at `at`, or zero behind the end.
pub(super) fn word(bytes: &[u8], at: usize) -> u64 {
    let found = at.checked_add(8).and_then(|end| bytes.get(at..end));
    found.and_then(|word| word.try_into().ok()).map_or(0, u64::from_le_bytes)
}

/// The half word at `at`, or zero behind the end.
pub(super) fn half(bytes: &[u8], at: usize) -> u32 {
    let found = at.checked_add(4).and_then(|end| bytes.get(at..end));
    found.and_then(|half| half.try_into().ok()).map_or(0, u32::from_le_bytes)
}

/// Puts `value` at `at`, as far as there are bytes.
pub(super) fn put(bytes: &mut [u8], at: usize, value: &[u8]) {
    if let Some(rest) = bytes.get_mut(at..) {
        let len = value.len().min(rest.len());
        rest[..len].copy_from_slice(&value[..len]);
    }
}
