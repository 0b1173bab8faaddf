//! Makes the checksums of changed bytes right again, so that what lies behind them is reached.

use crc32c::{crc32c, crc32c_append};
use tembo_pmem::OuterChecksum;

use super::format::{
    GROUP_CHAIN, GROUP_CRC, GROUP_EXTENTS, GROUP_FIRST, GROUP_MAX, GROUP_RUNS, GROUP_SIZE, LABEL,
    LABEL_CRC, LABEL_SIZE, LOG_CAPACITY, LOG_CHAIN, LOG_FEATURES, LOG_RUNS, LOG_SALT, LOG_SEQUENCE,
    LOG_START, LOG_XXH3, RING, SEALED, SLOT_SIZE, SLOTS, half, put, word,
};

/// Repairs both media headers, the superblock's label and its sealed words.
pub fn repair_pool(bytes: &mut [u8]) {
    repair_slots(bytes);
    if let Some(label) = bytes.get_mut(LABEL..LABEL + LABEL_SIZE) {
        label[LABEL_CRC].fill(0);
        let crc = crc32c(label);
        label[LABEL_CRC].copy_from_slice(&crc.to_le_bytes());
    }
    for (at, field) in SEALED {
        let mut sealed = [field, 0, 0, 0, 0];
        sealed[1..].copy_from_slice(&half(bytes, at).to_le_bytes());
        put(bytes, at + 4, &crc32c(&sealed).to_le_bytes());
    }
}

/// Repairs both headers of a log and the chain of its groups, as far as they carry its salt.
pub fn repair_log(bytes: &mut [u8]) {
    repair_slots(bytes);
    let newer = match word(bytes, SLOTS[0] + LOG_SEQUENCE) >= word(bytes, SLOTS[1] + LOG_SEQUENCE) {
        true => SLOTS[0],
        false => SLOTS[1],
    };
    let salt = word(bytes, newer + LOG_SALT);
    let capacity = word(bytes, newer + LOG_CAPACITY) as usize;
    let mut chain = half(bytes, newer + LOG_CHAIN);
    let features = word(bytes, newer + LOG_FEATURES);
    let outer = match features & LOG_XXH3 {
        0 => OuterChecksum::Crc32c,
        _ => OuterChecksum::Xxh3,
    };
    // The corpus has no ring that was gone around.
    let Some(mut at) = word(bytes, newer + LOG_START).checked_rem(capacity as u64) else { return };
    while let Some(size) = group_size(bytes, RING + at as usize, salt, features) {
        let group = &mut bytes[RING + at as usize..][..size];
        chain = outer.chain(crc32c_append(chain, &group[..GROUP_CHAIN]), &group[GROUP_SIZE..]);
        group[GROUP_CHAIN..GROUP_CRC].copy_from_slice(&chain.to_le_bytes());
        let crc = crc32c(&group[..GROUP_CRC]);
        group[GROUP_CRC..GROUP_SIZE].copy_from_slice(&crc.to_le_bytes());
        at += size as u64;
    }
}

/// Bytes of the group at `at`, if something like one lies there.
fn group_size(bytes: &[u8], at: usize, salt: u64, features: u64) -> Option<usize> {
    let header = bytes.get(at..)?.get(..GROUP_SIZE)?;
    let names = half(header, GROUP_RUNS) as usize;
    let extents = half(header, GROUP_EXTENTS) as usize;
    if word(header, 0) != salt || names > GROUP_MAX || extents > GROUP_MAX {
        return None;
    }
    let (mut lines, mut words) = (names, names);
    if features & LOG_RUNS != 0 {
        words = names.saturating_sub(GROUP_FIRST.len());
        let here = GROUP_FIRST.iter().take(names).map(|first| word(header, *first));
        let behind = (0..words).map(|number| word(bytes, at + GROUP_SIZE + number * 8));
        lines = here.chain(behind).map(|run| 1 + run as usize % GROUP_MAX).sum();
    }
    if lines > GROUP_MAX {
        return None;
    }
    let size = GROUP_SIZE + (words * 8 + extents * 16).next_multiple_of(64) + lines * 64;
    bytes.get(at..at.checked_add(size)?).map(<[u8]>::len)
}

/// The checksum of a header is its last four bytes.
fn repair_slots(bytes: &mut [u8]) {
    for at in SLOTS {
        if let Some(slot) = bytes.get_mut(at..at + SLOT_SIZE) {
            let crc = crc32c(&slot[..SLOT_SIZE - 4]);
            slot[SLOT_SIZE - 4..].copy_from_slice(&crc.to_le_bytes());
        }
    }
}
