//! Fingerprints: one byte for each slot. A search compares all of them at once.

use crate::simd::Bytes48;

use crate::nvtree::format::{LINES_MAX, SLOTS_MAX, SLOTS_PER_LINE};

/// Words of eight fingerprints.
pub(crate) const WORDS: usize = SLOTS_MAX.div_ceil(8);
const _: () = assert!(WORDS * 8 >= SLOTS_MAX && SLOTS_MAX < 64);

/// Mark of a slot without an element that counts.
pub(crate) const FREE: u8 = 0;
/// Mark of an element that a later one of its key has ended.
pub(crate) const STALE: u8 = 1;
/// Mark of a removal that is the newest element of its key.
pub(crate) const TOMB: u8 = 2;
const FIRST: u64 = 3;

const SEED: u64 = 0x9e37_79b9_7f4a_7c15;

/// A hash of a key.
#[inline]
pub(crate) fn hash(key: &[u8]) -> u64 {
    match key.try_into() {
        Ok(eight) => mix(8 ^ SEED, u64::from_le_bytes(eight)).wrapping_mul(SEED),
        Err(_) => hash_any(key),
    }
}

fn hash_any(key: &[u8]) -> u64 {
    let mut hash = key.len() as u64 ^ SEED;
    let mut chunks = key.chunks_exact(8);
    for chunk in &mut chunks {
        let word = chunk.first_chunk::<8>().map_or(0, |bytes| u64::from_le_bytes(*bytes));
        hash = mix(hash, word);
    }
    let rest = chunks.remainder();
    let last = match key.last_chunk::<8>() {
        Some(end) if !rest.is_empty() => {
            raised(u64::from_be_bytes(*end), u64::MAX >> (u64::BITS - 8 * rest.len() as u32))
        }
        _ => rest.iter().fold(0, |last, &byte| (last << 8) | (u64::from(byte) + 1)),
    };
    let hash = if last == 0 { hash } else { mix(hash, last) };
    hash.wrapping_mul(SEED)
}

/// Adds one to each byte that the mask names, at most the seven lowest. Returns the carry of a byte in the byte above.
#[inline]
fn raised(word: u64, mask: u64) -> u64 {
    const LOW: u64 = 0x0101_0101_0101_0101;
    const HIGH: u64 = LOW << 7;
    let sums = (word & !HIGH) + LOW;
    let raised = sums ^ (word & HIGH);
    // A byte that is 255 has a carry.
    let carries = sums & word & HIGH;
    (raised & mask) | (carries & mask) << 1
}

#[inline]
fn mix(hash: u64, word: u64) -> u64 {
    let product = u128::from(hash ^ word) * u128::from(SEED);
    product as u64 ^ (product >> 64) as u64
}

/// The fingerprint that the newest element of a key with this hash has.
#[inline]
pub(crate) fn print(hash: u64) -> u8 {
    (FIRST + (((hash & 0xffff) * (256 - FIRST)) >> 16)) as u8
}

/// The line, of so many, in which an element of a key with this hash should lie.
#[inline]
pub(crate) fn line(hash: u64, lines: usize) -> usize {
    line_of(print(hash), lines)
}

/// As [`line()`], computed from the fingerprint.
#[inline]
pub(crate) fn line_of(print: u8, lines: usize) -> usize {
    (usize::from(print) * lines) >> 8
}

/// A set of slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Slots(pub(crate) u64);

impl Slots {
    #[inline]
    pub(crate) fn first(self) -> Option<usize> {
        (self.0 != 0).then(|| self.0.trailing_zeros() as usize)
    }

    /// Whether the set has at most one slot.
    #[inline]
    pub(crate) fn is_last(self) -> bool {
        self.0 & self.0.wrapping_sub(1) == 0
    }

    /// The first slot of the set from `line` on, or else from the first line on.
    #[inline]
    pub(crate) fn near(self, line: usize) -> Option<usize> {
        let from = Slots(self.0 & u64::MAX << (line * SLOTS_PER_LINE));
        from.first().or(self.first())
    }
}

impl Iterator for Slots {
    type Item = usize;

    #[inline]
    fn next(&mut self) -> Option<usize> {
        let first = self.first()?;
        self.0 &= self.0 - 1;
        Some(first)
    }
}

/// All slots of a leaf of so many lines.
#[inline]
pub(crate) fn all_slots(lines: usize) -> u64 {
    (1 << (lines.min(LINES_MAX) * SLOTS_PER_LINE)) - 1
}

/// The fingerprints of a leaf.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Prints(pub(crate) [u64; WORDS]);

/// Fingerprints, byte by byte.
pub(crate) type PrintBytes = [[u8; 8]; WORDS];

impl Prints {
    #[inline]
    pub(crate) fn of_bytes(bytes: &PrintBytes) -> Prints {
        Prints(bytes.map(u64::from_le_bytes))
    }

    #[inline]
    pub(crate) fn to_bytes(self) -> PrintBytes {
        self.0.map(u64::to_le_bytes)
    }

    #[inline]
    pub(crate) fn set(&mut self, slot: usize, print: u8) {
        let (word, shift) = (slot / 8, slot % 8 * 8);
        self.0[word] = self.0[word] & !(0xff << shift) | u64::from(print) << shift;
    }

    /// The fingerprints in a word, without the other bits.
    #[inline]
    pub(crate) fn word(&self, at: usize) -> u64 {
        let last = (SLOTS_MAX - (WORDS - 1) * 8) * 8;
        if at == WORDS - 1 { self.0[at] & ((1 << last) - 1) } else { self.0[at] }
    }

    pub(crate) fn get(&self, slot: usize) -> u8 {
        (self.0[slot / 8] >> (slot % 8 * 8)) as u8
    }

    /// The slots, in a leaf of so many lines, that have this fingerprint.
    #[inline]
    pub(crate) fn matching(&self, print: u8, lines: usize) -> Slots {
        let slots = lines.min(LINES_MAX) * SLOTS_PER_LINE;
        Slots(Bytes48::of(&self.0).equal(print) & ((1 << slots) - 1))
    }

    /// The slots of elements that count.
    #[inline]
    pub(crate) fn used(&self, lines: usize) -> Slots {
        let slots = lines.min(LINES_MAX) * SLOTS_PER_LINE;
        Slots(((1 << slots) - 1) & !self.matching(FREE, lines).0)
    }

    /// The slots of elements that live.
    pub(crate) fn live(&self, lines: usize) -> Slots {
        Slots(self.used(lines).0 & !self.ended(lines).0)
    }

    /// The slots of elements that were ended, and of removals.
    pub(crate) fn ended(&self, lines: usize) -> Slots {
        Slots(self.matching(STALE, lines).0 | self.matching(TOMB, lines).0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn eight_bytes_hash_as_any_bytes_do() {
        for n in 0..1000_u64 {
            let key = n.wrapping_mul(SEED).to_be_bytes();
            assert_eq!(hash(&key), hash_any(&key));
        }
    }

    /// The hash is on media, above records, so it may not change.
    #[test]
    fn any_bytes_hash_as_one_byte_after_the_other_does() {
        let one_by_one = |key: &[u8]| {
            let word = |chunk: &[u8]| u64::from_le_bytes(chunk.try_into().unwrap());
            let chunks = key.chunks_exact(8);
            let last = chunks.remainder();
            let last = last.iter().fold(0, |last, &byte| (last << 8) | (u64::from(byte) + 1));
            let hash = chunks.fold(key.len() as u64 ^ SEED, |hash, chunk| mix(hash, word(chunk)));
            (if last == 0 { hash } else { mix(hash, last) }).wrapping_mul(SEED)
        };
        let mut seed = 1_u64;
        for round in 0..20_000 {
            let mut key = vec![0; round % 41];
            for byte in &mut key {
                seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                // Many bytes are 0, 127, 128 or 255.
                let edges = [0, 127, 128, 255, (seed >> 40) as u8];
                *byte = edges[(seed >> 33) as usize % edges.len()];
            }
            assert_eq!(hash(&key), one_by_one(&key), "{key:?}");
        }
    }

    #[test]
    fn fingerprints_are_never_marks_and_lines_are_in_the_leaf() {
        for n in 0..100_000_u64 {
            let hash = hash(&n.to_be_bytes());
            assert!(u64::from(print(hash)) >= FIRST);
            assert!(line(hash, 2) < 2 && line(hash, 15) < 15);
        }
    }

    #[test]
    fn near_is_in_the_line_or_after_it_or_the_first() {
        let slots = Slots(0b1000_0010);
        assert_eq!([0, 1, 2, 3].map(|line| slots.near(line)), [Some(1), Some(7), Some(7), Some(1)]);
        assert_eq!(slots.collect::<Vec<_>>(), [1, 7]);
    }
}
