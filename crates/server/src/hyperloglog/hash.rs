//! Which register an element raises, and to what.

/// Bits of the hash that choose the register.
const INDEX_BITS: u32 = 14;
/// Registers of a HyperLogLog.
pub(crate) const REGISTERS: usize = 1 << INDEX_BITS;
/// The largest value of a register: all other bits of the hash are 0.
pub(super) const VALUE_MAX: usize = 64 - INDEX_BITS as usize + 1;
/// Redis's seed.
const SEED: u64 = 0xadc8_3b19;

/// The register that the element raises, and to what: one more than the zeros at the end of what is left of its hash.
pub(crate) fn place(element: &[u8]) -> (usize, u8) {
    let hash = murmur64a(element, SEED);
    let index = hash & ((1 << INDEX_BITS) - 1);
    let rest = hash >> INDEX_BITS | 1 << (64 - INDEX_BITS);
    (index as usize, rest.trailing_zeros() as u8 + 1)
}

/// Austin Appleby's `MurmurHash64A`, reading words in little-endian order.
fn murmur64a(bytes: &[u8], seed: u64) -> u64 {
    const M: u64 = 0xc6a4_a793_5bd1_e995;
    const R: u32 = 47;
    let mut hash = seed ^ (bytes.len() as u64).wrapping_mul(M);
    let (words, rest) = bytes.as_chunks::<8>();
    for word in words {
        let mut word = u64::from_le_bytes(*word).wrapping_mul(M);
        word ^= word >> R;
        hash = (hash ^ word.wrapping_mul(M)).wrapping_mul(M);
    }
    if !rest.is_empty() {
        let mut word = [0; 8];
        word[..rest.len()].copy_from_slice(rest);
        hash = (hash ^ u64::from_le_bytes(word)).wrapping_mul(M);
    }
    hash ^= hash >> R;
    hash = hash.wrapping_mul(M);
    hash ^ hash >> R
}
