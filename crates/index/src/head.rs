//! Heads: the eight bytes of a key behind a prefix, as a number that orders like the key.

/// The eight bytes of `key` from `at` on, the first one highest, with zeros behind the key's end. If two keys agree before
/// `at`, the lower one does not have the greater head. Equal heads do not decide.
#[inline]
pub(crate) fn head(key: &[u8], at: usize) -> u64 {
    let Some(rest) = key.get(at..) else { return 0 };
    match rest.first_chunk() {
        Some(word) => u64::from_be_bytes(*word),
        None => short_head(key, rest),
    }
}

#[inline]
fn short_head(key: &[u8], rest: &[u8]) -> u64 {
    let bits = 8 * rest.len() as u32;
    match key.last_chunk() {
        // What lies before `rest` is shifted out.
        Some(word) => u64::from_be_bytes(*word).checked_shl(u64::BITS - bits).unwrap_or(0),
        None => {
            let word = rest.iter().fold(0, |word, &byte| word << 8 | u64::from(byte));
            word.checked_shl(u64::BITS - bits).unwrap_or(0)
        }
    }
}

/// The length of the longest common prefix.
pub(crate) fn common_len(one: &[u8], other: &[u8]) -> usize {
    one.iter().zip(other).take_while(|(one, other)| one == other).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_is_the_key_padded_with_zeros() {
        let long: Vec<u8> = (1..=20).collect();
        for len in 0..=long.len() {
            for at in 0..=len + 9 {
                let key = &long[..len];
                let mut padded = [0; 8];
                for (to, from) in padded.iter_mut().zip(key.iter().skip(at)) {
                    *to = *from;
                }
                assert_eq!(head(key, at), u64::from_be_bytes(padded), "{len} bytes from {at}");
            }
        }
    }
}
