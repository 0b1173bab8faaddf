//! The records of a store: 16-byte keys, values of random bytes, and the order in which they come.
//!
//! A record has a *rank*, its place among all keys in their order, and a *number*, its place among all that are loaded.
//! One is a permutation of the other that is computed, in both directions: a set larger than memory has no room for a list.

use crate::keys::{Random, scramble};

/// Bytes of a key.
pub(super) const KEY_SIZE: usize = 16;

/// The source of keys and values.
#[derive(Clone, Copy, Debug)]
pub(super) struct Dataset {
    /// Records that are loaded.
    pub(super) count: u64,
    pub(super) seed: u64,
}

impl Dataset {
    /// The key of a number. Those below the count are loaded; others are inserted later, and lie among these.
    pub(super) fn key(self, number: u64) -> [u8; KEY_SIZE] {
        if number < self.count {
            return self.key_at(Shuffle::new(self.count, self.seed).at(number));
        }
        joined(scramble(number ^ self.seed))
    }

    /// The key of a rank: greater for a greater rank.
    pub(super) fn key_at(self, rank: u64) -> [u8; KEY_SIZE] {
        let stride = u64::MAX / self.count.max(1);
        joined(rank * stride + scramble(rank ^ self.seed) % stride)
    }
}

fn joined(high: u64) -> [u8; KEY_SIZE] {
    let mut key = [0; KEY_SIZE];
    key[..8].copy_from_slice(&high.to_be_bytes());
    key[8..].copy_from_slice(&scramble(high).to_be_bytes());
    key
}

/// A permutation of the numbers below a count: a Feistel network over the next power of four, walked until it comes back
/// below the count (Black and Rogaway: "Ciphers with arbitrary finite domains", CT-RSA 2002).
#[derive(Clone, Copy, Debug)]
pub(super) struct Shuffle {
    count: u64,
    half_bits: u32,
    seed: u64,
}

const ROUNDS: u64 = 4;

impl Shuffle {
    pub(super) fn new(count: u64, seed: u64) -> Shuffle {
        let bits = u64::BITS - count.saturating_sub(1).leading_zeros();
        Shuffle { count, half_bits: bits.div_ceil(2).max(1), seed }
    }

    /// The rank of a number below the count.
    pub(super) fn at(self, number: u64) -> u64 {
        self.walked(number, Shuffle::forward)
    }

    /// The number of a rank below the count.
    pub(super) fn number_of(self, rank: u64) -> u64 {
        self.walked(rank, Shuffle::backward)
    }

    fn walked(self, from: u64, step: fn(Shuffle, u64) -> u64) -> u64 {
        let mut at = step(self, from);
        while at >= self.count {
            at = step(self, at);
        }
        at
    }

    fn forward(self, number: u64) -> u64 {
        let (mut left, mut right) = self.halves(number);
        for round in 0..ROUNDS {
            (left, right) = (right, left ^ self.mixed(right, round));
        }
        left << self.half_bits | right
    }

    fn backward(self, number: u64) -> u64 {
        let (mut left, mut right) = self.halves(number);
        for round in (0..ROUNDS).rev() {
            (left, right) = (right ^ self.mixed(left, round), left);
        }
        left << self.half_bits | right
    }

    fn halves(self, number: u64) -> (u64, u64) {
        (number >> self.half_bits, number & self.mask())
    }

    fn mixed(self, half: u64, round: u64) -> u64 {
        scramble(half ^ scramble(self.seed ^ round)) & self.mask()
    }

    fn mask(self) -> u64 {
        (1 << self.half_bits) - 1
    }
}

/// Writes values: the record's number, then bytes that no compression makes fewer, and that were not written before.
pub(super) struct Values {
    random: Random,
}

impl Values {
    pub(super) fn new(seed: u64) -> Values {
        Values { random: Random::new(seed) }
    }

    /// A value of at least 8 bytes.
    pub(super) fn fill(&mut self, number: u64, size: usize, value: &mut Vec<u8>) {
        value.clear();
        value.extend_from_slice(&number.to_le_bytes());
        while value.len() < size {
            value.extend_from_slice(&self.random.next().to_le_bytes());
        }
        value.truncate(size.max(8));
    }

    /// Whether it is a value of this record.
    pub(super) fn is_of(number: u64, value: &[u8]) -> bool {
        value.first_chunk().is_some_and(|bytes| u64::from_le_bytes(*bytes) == number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shuffle_has_each_number_once_and_finds_it_again() {
        for count in [1, 2, 3, 16, 17, 1000, 4097] {
            let shuffle = Shuffle::new(count, 7);
            let mut ranks: Vec<u64> = (0..count).map(|number| shuffle.at(number)).collect();
            assert!((0..count).all(|number| shuffle.number_of(ranks[number as usize]) == number));
            ranks.sort_unstable();
            assert!(ranks.into_iter().eq(0..count));
        }
    }

    #[test]
    fn keys_ascend_with_their_ranks_and_come_in_another_order() {
        let data = Dataset { count: 5000, seed: 3 };
        let ranked: Vec<_> = (0..5000).map(|rank| data.key_at(rank)).collect();
        assert!(ranked.is_sorted_by(|one, next| one < next));
        let mut numbered: Vec<_> = (0..5000).map(|number| data.key(number)).collect();
        assert!(!numbered.is_sorted());
        numbered.sort_unstable();
        assert!(numbered == ranked);
        assert!((5000..9000).all(|number| numbered.binary_search(&data.key(number)).is_err()));
    }

    #[test]
    fn a_value_has_its_size_and_names_its_record() {
        let (mut values, mut value) = (Values::new(1), Vec::new());
        for size in [8, 9, 100, 1024, 16384] {
            values.fill(42, size, &mut value);
            assert!(value.len() == size && Values::is_of(42, &value) && !Values::is_of(43, &value));
        }
    }
}
