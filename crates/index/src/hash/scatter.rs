//! The scattered key: the bytes that stand for a key in the list of leaves. Scattering is a permutation of all byte
//! strings that keeps their length.
//!
//! # The permutation
//! The first eight bytes of a key are taken as a number, the first byte the highest. The hash of the bytes behind
//! them is added without carries, and the number is *mixed*: two rounds of a shift and an odd factor (the finaliser
//! of SplitMix64: Steele, Lea, Flood, *Fast splittable pseudorandom number generators*, OOPSLA 2014), each step of
//! which has an inverse. So the number of the scattered key is a hash of the whole key, and the key comes back
//! from it: nothing is stored twice. A key of fewer bytes is a number of as many bits, mixed within them.
//!
//! The hash has no secret. Keys that were chosen to scatter to neighbours fill leaves next to each other, which the
//! directory then cannot distinguish; a search finds these through the inner nodes.

use crate::nvtree::hash;

const ONE: u64 = 0xbf58_476d_1ce4_e5b9;
const TWO: u64 = 0x94d0_49bb_1331_11eb;
const ONE_BACK: u64 = inverse(ONE);
const TWO_BACK: u64 = inverse(TWO);

/// Keys up to this length are scattered on the stack.
const SHORT: usize = 128;

/// The number whose product with `odd` is one (Newton's method: each step doubles the bits that are right).
const fn inverse(odd: u64) -> u64 {
    let mut inverse = odd;
    let mut step = 0;
    while step < 5 {
        inverse = inverse.wrapping_mul(2_u64.wrapping_sub(odd.wrapping_mul(inverse)));
        step += 1;
    }
    inverse
}

/// Mixes the lowest `bits` of a number, the others of which are zero.
#[inline(always)]
const fn mix(mut word: u64, bits: u32) -> u64 {
    let (half, mask) = (bits / 2, u64::MAX >> (64 - bits));
    word ^= word >> half;
    word = word.wrapping_mul(ONE) & mask;
    word ^= word >> half;
    word = word.wrapping_mul(TWO) & mask;
    word ^ (word >> half)
}

/// Computes the inverse of [`mix`].
#[inline(always)]
const fn unmix(mut word: u64, bits: u32) -> u64 {
    let (half, mask) = (bits / 2, u64::MAX >> (64 - bits));
    word ^= word >> half;
    word = word.wrapping_mul(TWO_BACK) & mask;
    word ^= word >> half;
    word = word.wrapping_mul(ONE_BACK) & mask;
    word ^ (word >> half)
}

/// Replaces the first bytes of a key by those of the scattered key, or of a scattered key by those of the key.
#[inline(always)]
fn replace(key: &mut [u8], step: fn(u64, u32, u64) -> u64) {
    if let Some((first, rest)) = key.split_first_chunk_mut::<8>() {
        let hashed = if rest.is_empty() { 0 } else { hash(rest) };
        *first = step(u64::from_be_bytes(*first), 64, hashed).to_be_bytes();
    } else if !key.is_empty() {
        let word = key.iter().fold(0, |word, &byte| word << 8 | u64::from(byte));
        let word = step(word, 8 * key.len() as u32, 0);
        let bytes = word.to_be_bytes().into_iter().skip(8 - key.len());
        key.iter_mut().zip(bytes).for_each(|(to, from)| *to = from);
    }
}

/// Calls `with` with a copy of the key that was changed by `step`.
#[inline(always)]
fn with_replaced<T>(
    key: &[u8],
    step: fn(u64, u32, u64) -> u64,
    with: impl FnOnce(&[u8]) -> T,
) -> T {
    if let Ok(mut eight) = <[u8; 8]>::try_from(key) {
        replace(&mut eight, step);
        return with(&eight);
    }
    let (mut short, mut long);
    let copy = match key.len() {
        ..=SHORT => {
            short = [0; SHORT];
            &mut short[..key.len()]
        }
        len => {
            long = vec![0; len];
            &mut long[..]
        }
    };
    copy.copy_from_slice(key);
    replace(copy, step);
    with(copy)
}

/// The scattered key of a key of eight bytes.
#[inline(always)]
pub(crate) fn scattered_eight(key: &[u8; 8]) -> [u8; 8] {
    mix(u64::from_be_bytes(*key), 64).to_be_bytes()
}

/// Calls `with` with the scattered key.
#[inline(always)]
pub(crate) fn scattered<T>(key: &[u8], with: impl FnOnce(&[u8]) -> T) -> T {
    with_replaced(key, |word, bits, hashed| mix(word ^ hashed, bits), with)
}

/// Calls `with` with the key that was scattered.
#[inline(always)]
pub(crate) fn gathered<T>(scattered: &[u8], with: impl FnOnce(&[u8]) -> T) -> T {
    with_replaced(scattered, |word, bits, hashed| unmix(word, bits) ^ hashed, with)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    fn scatter(key: &[u8]) -> Vec<u8> {
        scattered(key, <[u8]>::to_vec)
    }

    #[test]
    fn a_key_comes_back_and_keeps_its_length() {
        let mut seed = 1_u64;
        for len in (0..40).chain([127, 128, 129, 1000, 65_535]) {
            for _ in 0..20 {
                let key: Vec<u8> = (0..len)
                    .map(|_| {
                        seed = seed.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
                        (seed >> 56) as u8
                    })
                    .collect();
                let there = scatter(&key);
                assert_eq!(there.len(), len);
                assert_eq!(gathered(&there, <[u8]>::to_vec), key);
            }
        }
    }

    #[test]
    fn no_two_short_keys_scatter_to_one() {
        let one: HashSet<_> = (0..=u8::MAX).map(|n| scatter(&[n])).collect();
        let two: HashSet<_> = (0..=u16::MAX).map(|n| scatter(&n.to_be_bytes())).collect();
        assert_eq!((one.len(), two.len()), (1 << 8, 1 << 16));
    }

    /// The scattered key is on media, so the permutation may not change.
    #[test]
    fn keys_scatter_as_they_always_have() {
        for (key, expected) in KNOWN {
            let hex: String = scatter(key).iter().map(|byte| format!("{byte:02x}")).collect();
            assert_eq!(hex, expected, "{}", key.escape_ascii());
        }
    }

    const KNOWN: [(&[u8], &str); 6] = [
        (b"", ""),
        (b"a", "65"),
        (b"seven b", "9b29b6a20d1290"),
        (b"12345678", "61e3ddc8647b03a9"),
        (b"nine byte", "7db816363131abdb65"),
        (
            b"a key of more than two words",
            "671ca28dcc219b66206d6f7265207468616e2074776f20776f726473",
        ),
    ];

    /// Neighbouring keys have equal shares of the parts of the space of hashes: the chi-squared sum is one that chance
    /// exceeds for less than one of a million choices of constants.
    #[test]
    fn neighbours_are_scattered_evenly() {
        let keys: [fn(u64) -> Vec<u8>; 4] = [
            |n| n.to_be_bytes().to_vec(),
            |n| n.to_le_bytes().to_vec(),
            |n| format!("user:{n:010}").into_bytes(),
            |n| n.to_be_bytes()[4..].to_vec(),
        ];
        for key in keys {
            const PARTS: usize = 1024;
            const COUNT: u64 = 64 << 10;
            let mut counts = [0_u64; PARTS];
            for n in 0..COUNT {
                let there = scatter(&key(n));
                counts[usize::from(u16::from_be_bytes([there[0], there[1]])) >> 6] += 1;
            }
            let share = COUNT as f64 / PARTS as f64;
            let chi =
                counts.iter().map(|&count| (count as f64 - share).powi(2) / share).sum::<f64>();
            // The mean is 1023, the deviation 45.
            assert!(chi < 1023.0 + 5.0 * 45.2, "{chi}");
        }
    }
}
