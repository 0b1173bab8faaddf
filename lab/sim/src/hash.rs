//! Hashes of what was read. Two contents with one hash would be taken for one, so all 64 bits count.

use std::hash::{BuildHasherDefault, Hasher};

/// Mixes two words.
pub(crate) fn mix(a: u64, b: u64) -> u64 {
    let product = u128::from(a ^ 0x2d35_8dcc_aa6c_78a5) * u128::from(b ^ 0x8bb8_4b93_962e_acc9);
    (product >> 64) as u64 ^ product as u64
}

/// The hash of some bytes.
pub fn hash(bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks::<8>();
    let mut hash = bytes.len() as u64;
    for word in words {
        hash = mix(hash, u64::from_le_bytes(*word)).rotate_left(23);
    }
    for &byte in rest {
        hash = mix(hash, u64::from(byte)).rotate_left(23);
    }
    mix(hash, 0x9e37_79b9_7f4a_7c15)
}

/// Leaves a key that is a hash as it is.
#[derive(Clone, Copy, Debug, Default)]
pub struct Hashed(u64);

impl Hasher for Hashed {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        self.0 = hash(bytes);
    }

    fn write_u64(&mut self, key: u64) {
        self.0 = key;
    }
}

/// The hasher of maps and sets whose keys are hashes.
pub type ByHash = BuildHasherDefault<Hashed>;
