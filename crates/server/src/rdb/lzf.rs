//! Strings that Redis has compressed: LZF by Marc Lehmann.
//!
//! A control byte below 32 says how many bytes, less one, follow as they are. Any other one refers to bytes that stand
//! before: its upper three bits are their number less two (7: the next byte is added), its lower five bits and the last
//! byte are the distance, less one.

/// The string of that size; `None`: the bytes are not the compressed form of one.
pub(super) fn decompress(bytes: &[u8], size: usize) -> Option<Vec<u8>> {
    // No byte stands for more than 264.
    if size > bytes.len().checked_mul(264)? {
        return None;
    }
    let mut string = Vec::with_capacity(size);
    let mut rest = bytes;
    while let Some((&control, behind)) = rest.split_first() {
        let control = usize::from(control);
        if control < 32 {
            let (literal, behind) = behind.split_at_checked(control + 1)?;
            string.extend_from_slice(literal);
            rest = behind;
        } else {
            let (more, behind) =
                if control >> 5 == 7 { behind.split_first()? } else { (&0, behind) };
            let (low, behind) = behind.split_first()?;
            rest = behind;
            let count = (control >> 5) + usize::from(*more) + 2;
            let distance = (control & 31) << 8 | usize::from(*low);
            let from = string.len().checked_sub(distance + 1)?;
            // What is copied may reach into the copy.
            (from..from + count).for_each(|at| string.push(string[at]));
        }
        if string.len() > size {
            return None;
        }
    }
    (string.len() == size).then_some(string)
}

#[cfg(test)]
mod tests {
    use super::decompress;

    #[test]
    fn references_reach_into_their_copy() {
        assert_eq!(decompress(b"\x00a\xe0\x04\x00", 14).unwrap(), b"aaaaaaaaaaaaaa");
        assert_eq!(decompress(b"\x02abc\x20\x02", 6).unwrap(), b"abcabc");
    }

    #[test]
    fn broken_ones_are_refused() {
        for (bytes, size) in [
            (b"\x00a\xe0\x04\x00".as_slice(), 13),
            (b"\x00a\xe0\x04\x00", 15),
            (b"\x05ab", 6),
            (b"\x20\x00", 3),
            (b"\x00a\xe0", 14),
            (b"", 1),
            (b"\x00a", usize::MAX),
        ] {
            assert_eq!(decompress(bytes, size), None);
        }
    }
}
