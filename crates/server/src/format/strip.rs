//! A strip of a large list: the elements of up to 32 positions that follow each other, in one element of the store.
//!
//! Strip n has those from position 32 n on, as far as the list reaches: the first strip begins with the list's first
//! element, and the last one ends with its last.
//!
//! ```text
//! byte          0 to 64: so many bytes follow, the element; 255: the element has an element of the store for itself
//! bytes         the element
//! ```

use std::ops::Range;

use crate::format::unknown_layout::UnknownLayout;

/// Positions in a strip, as a power of two.
const STRIP_BITS: u32 = 5;
/// Positions in a strip.
pub const STRIP_LEN: usize = 1 << STRIP_BITS;
/// The longest element that lies in a strip.
pub const STRIP_ELEMENT_MAX: usize = 64;
/// Stands in the place of a longer one.
const LONG: u8 = 255;

/// An element in a strip.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StripEntry {
    /// Its bytes are here.
    Short(Range<usize>),
    /// It has an element of the store for itself.
    Long,
}

/// The strip with a position.
pub fn strip_of(position: i64) -> i64 {
    position >> STRIP_BITS
}

/// The first position of a strip.
pub fn strip_begin(strip: i64) -> i64 {
    strip << STRIP_BITS
}

/// Whether an element lies in its strip.
pub fn fits_strip(element: &[u8]) -> bool {
    element.len() <= STRIP_ELEMENT_MAX
}

/// Writes the entry of an element into `entry`, and returns its size.
pub fn strip_entry<'e>(entry: &'e mut [u8; 1 + STRIP_ELEMENT_MAX], element: &[u8]) -> &'e [u8] {
    let size = if fits_strip(element) { element.len() } else { 0 };
    entry[0] = if fits_strip(element) { size as u8 } else { LONG };
    entry[1..=size].copy_from_slice(&element[..size]);
    &entry[..=size]
}

/// The entries of a strip, in order.
#[derive(Clone, Debug)]
pub struct Strip<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Strip<'a> {
    /// Of these bytes.
    pub fn new(bytes: &'a [u8]) -> Strip<'a> {
        Strip { bytes, at: 0 }
    }

    /// Where the next entry begins.
    pub fn at(&self) -> usize {
        self.at
    }

    /// Passes so many entries; where the next one begins.
    ///
    /// # Errors
    /// There are not so many.
    pub fn pass(&mut self, count: usize) -> Result<usize, UnknownLayout> {
        for _ in 0..count {
            self.next().ok_or(UnknownLayout)??;
        }
        Ok(self.at)
    }
}

impl Iterator for Strip<'_> {
    type Item = Result<StripEntry, UnknownLayout>;

    fn next(&mut self) -> Option<Result<StripEntry, UnknownLayout>> {
        let &size = self.bytes.get(self.at)?;
        let from = self.at + 1;
        if size == LONG {
            self.at = from;
            return Some(Ok(StripEntry::Long));
        }
        let to = from + usize::from(size);
        if usize::from(size) > STRIP_ELEMENT_MAX || to > self.bytes.len() {
            self.at = self.bytes.len();
            return Some(Err(UnknownLayout));
        }
        self.at = to;
        Some(Ok(StripEntry::Short(from..to)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_come_back() {
        let (fits, long) = ([7; STRIP_ELEMENT_MAX], [7; STRIP_ELEMENT_MAX + 1]);
        let mut bytes = Vec::new();
        for element in [b"".as_slice(), b"ab", &fits, &long] {
            bytes.extend_from_slice(strip_entry(&mut [0; 1 + STRIP_ELEMENT_MAX], element));
        }
        assert_eq!(bytes.len(), 1 + 3 + 65 + 1);
        let entries: Vec<_> = Strip::new(&bytes).map(Result::unwrap).collect();
        let short = StripEntry::Short;
        assert_eq!(entries, [short(1..1), short(2..4), short(5..69), StripEntry::Long]);
        assert_eq!(Strip::new(&bytes).pass(2), Ok(4));
        assert_eq!(Strip::new(&bytes).pass(5), Err(UnknownLayout));
    }

    #[test]
    fn what_is_cut_or_unknown_is_refused() {
        for bytes in [b"\x02a".as_slice(), b"\x41", b"\xfe"] {
            let mut strip = Strip::new(bytes);
            assert_eq!(strip.next(), Some(Err(UnknownLayout)));
            assert_eq!(strip.next(), None);
        }
    }

    #[test]
    fn positions_before_the_first_have_strips() {
        assert_eq!([-33, -32, -1, 0, 31, 32].map(strip_of), [-2, -1, -1, 0, 0, 1]);
        assert_eq!([-1, 0, 1].map(strip_begin), [-32, 0, 32]);
    }
}
