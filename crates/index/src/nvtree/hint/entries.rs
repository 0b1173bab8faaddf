//! Leaves with their low keys as they stand in a hint: each low key without what it shares with the
//! one before.

use zerocopy::{FromBytes, IntoBytes};

use crate::nvtree::format::{HintEntry, HintPage};
use crate::nvtree::inner::LeafId;

/// Bytes of the longest low key in a hint. Each key can repeat the one before: without a limit few bytes would be many.
pub(crate) const LOW_MAX: usize = 256;

/// Some leaves with their low keys.
#[derive(Default)]
pub(crate) struct Entries {
    bytes: Vec<u8>,
    /// Each leaf, and where its low key ends.
    leaves: Vec<(LeafId, usize)>,
}

impl Entries {
    pub(crate) fn len(&self) -> usize {
        self.leaves.len()
    }

    pub(crate) fn low(&self, at: usize) -> &[u8] {
        let start = at.checked_sub(1).map_or(0, |before| self.leaves[before].1);
        &self.bytes[start..self.leaves[at].1]
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (LeafId, &[u8])> {
        self.leaves.iter().enumerate().map(|(at, &(leaf, _))| (leaf, self.low(at)))
    }

    /// How many of the first leaves have a low key for which `is_passed` holds.
    pub(crate) fn count_passed(&self, is_passed: impl Fn(&[u8]) -> bool) -> usize {
        let (mut from, mut to) = (0, self.len());
        while from < to {
            let middle = usize::midpoint(from, to);
            (from, to) =
                if is_passed(self.low(middle)) { (middle + 1, to) } else { (from, middle) };
        }
        from
    }
}

/// Reads entries from the front of `bytes`. Behind each, `rest` takes what may follow. `None`: the bytes are no
/// entries, or not in order.
pub(crate) fn read(
    mut bytes: &[u8],
    mut rest: impl FnMut(&[u8]) -> Option<&[u8]>,
) -> Option<Entries> {
    let mut entries = Entries::default();
    while !bytes.is_empty() {
        let (entry, behind) = HintEntry::read_from_prefix(bytes).ok()?;
        let (tail, behind) = behind.split_at_checked(usize::from(entry.rest))?;
        let count = entries.len();
        let before = count.checked_sub(1).map_or(&[][..], |last| entries.low(last));
        let shared = before.get(..usize::from(entry.shared))?;
        let is_long = shared.len() + tail.len() > LOW_MAX;
        if is_long || count > 0 && before[shared.len()..] >= *tail {
            return None;
        }
        let start = entries.bytes.len() - before.len();
        entries.bytes.extend_from_within(start..start + usize::from(entry.shared));
        entries.bytes.extend_from_slice(tail);
        entries.leaves.push((entry.leaf, entries.bytes.len()));
        bytes = rest(behind)?;
    }
    (entries.len() > 0).then_some(entries)
}

/// Entries that are being written.
#[derive(Default)]
pub(crate) struct Page {
    pub(crate) bytes: Vec<u8>,
    low: Vec<u8>,
}

impl Page {
    /// The bytes that an entry with this low key takes at most.
    pub(crate) fn size_max(low: &[u8]) -> usize {
        size_of::<HintEntry>() + low.len()
    }

    pub(crate) fn push(&mut self, leaf: LeafId, low: &[u8]) {
        let shared = self.low.iter().zip(low).take_while(|(one, other)| one == other).count();
        let tail = &low[shared..];
        let entry = HintEntry { leaf, shared: shared as u16, rest: tail.len() as u16 };
        self.bytes.extend_from_slice(entry.as_bytes());
        self.bytes.extend_from_slice(tail);
        low.clone_into(&mut self.low);
    }

    /// Adds the place of the page that begins with the last leaf pushed.
    pub(crate) fn push_page(&mut self, page: HintPage) {
        self.bytes.extend_from_slice(page.as_bytes());
    }

    /// Removes all entries.
    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
        self.low.clear();
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let lows: [&[u8]; 6] = [b"", b"a", b"aa", b"ab", b"b\0", b"b\0\0"];
        let mut page = Page::default();
        lows.iter().zip(7..).for_each(|(low, leaf)| page.push(leaf, low));
        let entries = read(&page.bytes, |behind| Some(behind)).unwrap();
        assert!(entries.iter().eq((7..).zip(lows)));
        assert_eq!(entries.count_passed(|low| low <= b"ab"), 4);
        for len in 1..page.bytes.len() {
            let cut = read(&page.bytes[..len], |behind| Some(behind));
            assert!(cut.is_none_or(|cut| cut.len() < lows.len()));
        }
    }

    #[test]
    fn few_bytes_are_not_many_keys() {
        let mut low = vec![7; LOW_MAX];
        let mut page = Page::default();
        page.push(1, &low);
        assert_eq!(read(&page.bytes, |behind| Some(behind)).unwrap().low(0), low);
        low.push(0);
        page.push(2, &low);
        assert!(read(&page.bytes, |behind| Some(behind)).is_none());
    }

    #[test]
    fn entries_out_of_order_are_none() {
        for (one, other) in [("b", "a"), ("a", "a"), ("ab", "a"), ("b", "")] {
            let mut page = Page::default();
            page.push(1, one.as_bytes());
            page.push(2, other.as_bytes());
            assert!(read(&page.bytes, |behind| Some(behind)).is_none(), "{one} {other}");
        }
    }
}
