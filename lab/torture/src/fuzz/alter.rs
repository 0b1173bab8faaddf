//! Cases: an input of the corpus, changed as a seed says.

use tembo_kv::IndexKind;
use tembo_sim::Random;

use super::base::{closed, crashed, crashed_log};
use super::format::{LABEL, RING, ROOTS_END, SLOT_SIZE, SLOTS, put, word};
use super::kind::Kind;
use super::repair::{repair_log, repair_pool};
use super::talk;

/// What the case of that seed is made from; a client's words are made from nothing.
pub fn input(kind: Kind, seed: u64) -> Option<Vec<u8>> {
    let index = if (seed / 4).is_multiple_of(3) { IndexKind::Cdds } else { IndexKind::Nvtree };
    match kind {
        Kind::Pool | Kind::Served if seed.is_multiple_of(4) => Some(crashed(index)),
        Kind::Pool | Kind::Served => Some(closed(index)),
        Kind::Log => Some(crashed_log(index)),
        Kind::Resp => None,
    }
}

/// The bytes of a case.
pub fn case(kind: Kind, seed: u64) -> Vec<u8> {
    let mut random = Random::new(seed);
    let Some(mut bytes) = input(kind, seed) else {
        return talk::case(&mut random);
    };
    let (place, repair): (Place, fn(&mut [u8])) = match kind {
        Kind::Log => (place_in_log, repair_log),
        _ => (place_in_pool, repair_pool),
    };
    alter(&mut bytes, &mut random, place);
    // Now and then the checksums stay wrong.
    if random.below(16) > 0 {
        repair(&mut bytes);
    }
    bytes
}

/// Finds a place that is worth changing.
type Place = fn(&mut Random, &[u8]) -> usize;

/// A word in the headers, in the superblock, or, most often, in a line that is used.
fn place_in_pool(random: &mut Random, bytes: &[u8]) -> usize {
    match random.below(16) {
        0 => SLOTS[random.below(2)] + 8 * random.below(SLOT_SIZE / 8),
        // The fields that are used stand at the beginning.
        1 => SLOTS[random.below(2)] + 8 * random.below(12),
        2 | 3 => LABEL + 8 * random.below((ROOTS_END - LABEL) / 8),
        _ => used(random, bytes, ROOTS_END),
    }
}

fn place_in_log(random: &mut Random, bytes: &[u8]) -> usize {
    match random.below(8) {
        0 => SLOTS[random.below(2)] + 8 * random.below(12),
        _ => used(random, bytes, RING),
    }
}

/// A word at or behind `from`, of a line that is not empty if one is soon found.
fn used(random: &mut Random, bytes: &[u8], from: usize) -> usize {
    let lines = (bytes.len().saturating_sub(from) / 64).max(1);
    let mut at = from;
    for _ in 0..64 {
        at = from + 64 * random.below(lines);
        if bytes.get(at..at + 64).is_some_and(|line| line.iter().any(|&byte| byte != 0)) {
            break;
        }
    }
    at + 8 * random.below(8)
}

/// One to eight changes.
fn alter(bytes: &mut Vec<u8>, random: &mut Random, place: Place) {
    let count = 1 + random.below(8).min(random.below(8));
    for _ in 0..count {
        let at = place(random, bytes);
        let from = place(random, bytes);
        match random.below(20) {
            0..8 => {
                let value = value(word(bytes, at), word(bytes, from), random);
                put(bytes, at, &value.to_le_bytes());
            }
            8..11 => {
                let half = value(word(bytes, at) & 0xffff_ffff, word(bytes, from), random) as u32;
                put(bytes, at + 4 * random.below(2), &half.to_le_bytes());
            }
            11..14 => {
                let at = at + random.below(8);
                let byte = bytes.get(at).copied().unwrap_or_default() ^ 1 << random.below(8);
                put(bytes, at, &[byte]);
            }
            14..19 => {
                // An entry, a line, a node.
                let len = [32, 32, 64, 192, 1024][random.below(5)];
                let (at, from) = (at / 32 * 32, from / 32 * 32);
                let piece = bytes.get(from..(from + len).min(bytes.len())).unwrap_or_default();
                let piece = if random.below(8) == 0 { vec![0; len] } else { piece.to_vec() };
                put(bytes, at, &piece);
            }
            _ => {
                let len = random.below(bytes.len() + 8192);
                bytes.resize(if random.below(4) == 0 { len } else { len / 4096 * 4096 }, 0);
            }
        }
    }
}

/// A value that is worth trying where `old` stood; `other` stands elsewhere.
fn value(old: u64, other: u64, random: &mut Random) -> u64 {
    match random.below(12) {
        0 => 0,
        1 => u64::MAX - random.below(3) as u64,
        2 => old.wrapping_add(1 + random.below(4) as u64),
        3 => old.wrapping_sub(1 + random.below(4) as u64),
        4 => old ^ 1 << random.below(64),
        5 => 1 << random.below(64),
        6 => random.below(512) as u64,
        // The offset of one object with the size of another.
        7 => old & !((1 << 40) - 1) | other & ((1 << 40) - 1),
        8 => random.number(),
        _ => other,
    }
}
