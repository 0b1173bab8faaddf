//! The checksum around bytes that may hold checksums of their own.
//!
//! CRC-32C is linear: two messages of one length have the same one if their difference, without carry, is a multiple
//! of its polynomial. A value that is followed by its own CRC-32C is such a message, whatever the value: where one
//! stands in the place of another, a CRC-32C around both sees no difference.
//!
//! ```text
//!   a group as it was written   header │ … │ frontier 13 │ CRC-32C │ …
//!   after a torn write          header │ … │ frontier 11 │ CRC-32C │ …    the second sector is that of an older group
//! ```
//!
//! So a CRC-32C stands around what is ours and holds no other one. Around what others have written stands XXH3 (Collet's
//! xxHash, 64 bits): it multiplies, and no field can cancel its own change.

use std::hash::Hasher;

use twox_hash::XxHash3_64;

use crate::{MediaBytes, crc32c};

/// Bytes of a region that are copied at once, to be looked at.
const PIECE: usize = 64 << 10;

/// The XXH3 of bytes, of 64 bits, with the seed 0.
#[inline]
fn xxh3(bytes: &[u8]) -> u64 {
    XxHash3_64::oneshot(bytes)
}

/// The checksum around bytes that may hold checksums of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OuterChecksum {
    /// What earlier programs wrote: it does not see when one value with its CRC-32C stands in the place of another.
    Crc32c,
    /// XXH3.
    Xxh3,
}

impl OuterChecksum {
    /// The checksum of a header and its payload, where the header and all before it have the CRC-32C `before`.
    #[inline]
    pub fn chain(self, before: u32, payload: &[u8]) -> u32 {
        match self {
            OuterChecksum::Crc32c => crc32c(before, payload),
            OuterChecksum::Xxh3 => crc32c(before, &xxh3(payload).to_le_bytes()),
        }
    }

    /// The checksum of bytes: 64 bits, or the 32 of the CRC-32C.
    #[inline]
    pub fn of(self, bytes: &[u8]) -> u64 {
        match self {
            OuterChecksum::Crc32c => crc32c(0, bytes).into(),
            OuterChecksum::Xxh3 => xxh3(bytes),
        }
    }

    /// As [`of`](OuterChecksum::of), of bytes of a region, which are copied piece by piece: there may be many.
    pub fn of_media(self, bytes: &MediaBytes<'_>) -> u64 {
        let (mut running, mut piece) = (self.running(), Vec::new());
        for start in (0..bytes.len()).step_by(PIECE) {
            let end = bytes.len().min(start + PIECE);
            bytes.slice(start..end).into_iter().for_each(|part| part.append_to(&mut piece));
            running.put(&piece);
            piece.clear();
        }
        running.whole()
    }

    /// The checksum of an extent, whose bytes come in pieces.
    pub(crate) fn running(self) -> Running {
        match self {
            OuterChecksum::Crc32c => Running::Crc32c(0),
            OuterChecksum::Xxh3 => Running::Xxh3(Box::default()),
        }
    }

    /// The checksum of an extent that is at hand, in parts.
    pub(crate) fn of_parts(self, parts: &[&[u8]]) -> u32 {
        if let [bytes] = parts {
            return self.of(bytes) as u32;
        }
        let mut running = self.running();
        parts.iter().for_each(|part| running.put(part));
        running.value()
    }
}

/// A checksum of what has been put into it.
pub(crate) enum Running {
    Crc32c(u32),
    Xxh3(Box<XxHash3_64>),
}

impl Running {
    pub(crate) fn put(&mut self, bytes: &[u8]) {
        match self {
            Running::Crc32c(crc) => *crc = crc32c(*crc, bytes),
            Running::Xxh3(hasher) => hasher.write(bytes),
        }
    }

    pub(crate) fn value(&self) -> u32 {
        self.whole() as u32
    }

    fn whole(&self) -> u64 {
        match self {
            Running::Crc32c(crc) => (*crc).into(),
            Running::Xxh3(hasher) => hasher.finish(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes with two values in them, each followed by its own CRC-32C.
    fn with_checksums(first: u32, second: u64) -> Vec<u8> {
        let mut bytes = vec![7; 4096];
        bytes[96..100].copy_from_slice(&first.to_le_bytes());
        bytes[100..104].copy_from_slice(&crc32c(0, &first.to_le_bytes()).to_le_bytes());
        bytes[1024..1032].copy_from_slice(&second.to_le_bytes());
        bytes[1032..1036].copy_from_slice(&crc32c(0, &second.to_le_bytes()).to_le_bytes());
        bytes
    }

    #[test]
    fn a_value_and_its_checksum_in_the_place_of_others_are_seen() {
        let (old, new) = (with_checksums(11, 5), with_checksums(13, 1 << 40));
        assert_eq!(crc32c(9, &old), crc32c(9, &new), "CRC-32C does not see them");
        assert_ne!(OuterChecksum::Xxh3.chain(9, &old), OuterChecksum::Xxh3.chain(9, &new));
        assert_ne!(OuterChecksum::Xxh3.of_parts(&[&old]), OuterChecksum::Xxh3.of_parts(&[&new]));
    }

    #[test]
    fn a_checksum_in_pieces_is_that_of_the_whole() {
        let bytes: Vec<u8> = (0..9000_u32).map(|at| ((at * at) >> 3) as u8).collect();
        for outer in [OuterChecksum::Crc32c, OuterChecksum::Xxh3] {
            for cut in [0, 1, 63, 240, 4096, 9000] {
                let mut running = outer.running();
                running.put(&bytes[..cut]);
                running.put(&bytes[cut..]);
                assert_eq!(running.value(), outer.of_parts(&[&bytes]), "{outer:?}, cut at {cut}");
                let parts = [&bytes[..cut], &[], &bytes[cut..]];
                assert_eq!(running.value(), outer.of_parts(&parts), "{outer:?}, cut at {cut}");
            }
        }
    }

    #[test]
    fn the_published_values_come_out() {
        // Of nothing, by the reference implementation.
        assert_eq!(xxh3(b""), 0x2d06_8005_38d3_94c2);
    }
}
