//! The payload of a small collection: all its entries, one after the other.
//!
//! ```text
//! size          of the entry, 7 bits a byte, the lowest first; bit 7 = another byte follows
//! bytes         the entry
//! ```
//! A list is its elements in order, a set its members, a hash its fields, each followed by its value, in the order in
//! which they came. A sorted set is its members in order, each preceded by its score in
//! [order-preserving](super::score_order) form.

use crate::format::unknown_layout::UnknownLayout;

/// Appends an entry.
pub fn push_entry(to: &mut Vec<u8>, entry: &[u8]) {
    let mut size = entry.len();
    while size > 0x7f {
        to.push(size as u8 | 0x80);
        size >>= 7;
    }
    to.push(size as u8);
    to.extend_from_slice(entry);
}

/// Bytes that an entry of that size takes.
pub fn entry_size(size: usize) -> usize {
    let bits = usize::BITS - size.leading_zeros();
    size + bits.div_ceil(7).max(1) as usize
}

/// The entries of a small collection, in order.
#[derive(Clone, Copy, Debug)]
pub struct Packed<'a> {
    rest: &'a [u8],
}

impl<'a> Packed<'a> {
    /// The entries of a payload.
    ///
    /// # Errors
    /// The payload does not end where its last entry ends.
    pub fn new(payload: &'a [u8]) -> Result<Packed<'a>, UnknownLayout> {
        let mut rest = payload;
        while !rest.is_empty() {
            rest = take(rest).ok_or(UnknownLayout)?.1;
        }
        Ok(Packed { rest: payload })
    }

    /// The entries of a payload that the server has made; behind what is none there are no more.
    #[inline]
    pub fn trusted(payload: &'a [u8]) -> Packed<'a> {
        Packed { rest: payload }
    }

    /// Bytes that have not been visited.
    #[inline]
    pub fn left(&self) -> usize {
        self.rest.len()
    }
}

impl<'a> Iterator for Packed<'a> {
    type Item = &'a [u8];

    #[inline]
    fn next(&mut self) -> Option<&'a [u8]> {
        let (entry, rest) = take(self.rest)?;
        self.rest = rest;
        Some(entry)
    }
}

/// The first entry and what follows it.
#[inline]
fn take(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (&first, mut rest) = bytes.split_first()?;
    let mut size = usize::from(first & 0x7f);
    let (mut byte, mut shift) = (first, 7);
    while byte & 0x80 != 0 {
        if shift > 28 {
            return None;
        }
        (byte, rest) = rest.split_first().map(|(byte, rest)| (*byte, rest))?;
        size |= usize::from(byte & 0x7f) << shift;
        shift += 7;
    }
    rest.split_at_checked(size)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_come_back() {
        let long = vec![7; 20_000];
        let entries = [b"a".as_slice(), b"", &[1; 127], &[2; 128], &long];
        let mut bytes = Vec::new();
        for entry in entries {
            let before = bytes.len();
            push_entry(&mut bytes, entry);
            assert_eq!(bytes.len() - before, entry_size(entry.len()));
        }
        assert!(Packed::new(&bytes).unwrap().eq(entries));
        assert_eq!(bytes[..3], [1, b'a', 0]);
    }

    #[test]
    fn what_is_cut_is_refused() {
        for bytes in [b"\x01".as_slice(), b"\x80", b"\x02a", b"\xff\xff\xff\xff\xff\xff\xff\x01a"] {
            assert_eq!(Packed::new(bytes).err(), Some(UnknownLayout));
            assert_eq!(Packed::trusted(bytes).count(), 0);
        }
        assert_eq!(Packed::new(b"").unwrap().count(), 0);
    }
}
