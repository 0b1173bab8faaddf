//! The change counter of page 1, kept beside the page.
//!
//! With each transaction SQLite adds one to a counter on page 1, by which other connections see that their caches are old. If a
//! transaction changes nothing else of the page, a block would be written for eight bytes. The counter goes into the tag of the
//! device then, in the same commit, and into the page whenever it is read. A program that does not know the tag reads the
//! page with an older counter, which is a sound database too.

use std::ops::Range;

/// Where the counter stands, twice: the second says for which state the count of pages holds.
const PLACES: [Range<usize>; 2] = [24..28, 92..96];

/// Bytes of the page up to the end of the second.
pub(crate) const COUNTED: usize = 96;

/// A tag that has a counter.
const HAS_COUNTER: u64 = 1 << 32;

/// The tag for a page 1 that differs from the one that is stored in its counter only. `None`: it differs in more.
pub(crate) fn tag_for(stored: &[u8], page: &[u8]) -> Option<u64> {
    let [first, second] = PLACES;
    if stored.len() != page.len()
        || page.len() < COUNTED
        || page[first.clone()] != page[second.clone()]
    {
        return None;
    }
    let is_same = stored[..first.start] == page[..first.start]
        && stored[first.end..second.start] == page[first.end..second.start]
        && stored[second.end..] == page[second.end..];
    let counter = page[first].try_into().map(u32::from_be_bytes).ok()?;
    is_same.then_some(tag_of(counter))
}

/// The tag with which page 1 shows a counter.
pub(crate) fn tag_of(counter: u32) -> u64 {
    HAS_COUNTER | u64::from(counter)
}

/// The counter in the first bytes of a database; zero before there are any.
pub(crate) fn counter(head: &[u8]) -> u32 {
    let [first, _] = PLACES;
    head.get(first).and_then(|bytes| bytes.try_into().ok()).map_or(0, u32::from_be_bytes)
}

/// The counter of a database with this tag, and these as its first [`COUNTED`] bytes. `None`: they are fewer.
pub(crate) fn shown_counter(tag: u64, head: &mut [u8]) -> Option<u32> {
    show(tag, 0, head);
    (head.len() == COUNTED).then(|| counter(head))
}

/// Puts the counter of a tag into bytes that were read at `offset`.
pub(crate) fn show(tag: u64, offset: u64, bytes: &mut [u8]) {
    if tag & HAS_COUNTER == 0 || offset >= COUNTED as u64 {
        return;
    }
    let (offset, counter) = (offset as usize, (tag as u32).to_be_bytes());
    for place in PLACES {
        for (at, byte) in place.zip(counter) {
            if let Some(to) = at.checked_sub(offset).and_then(|at| bytes.get_mut(at)) {
                *to = byte;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_counter_alone_goes_into_the_tag_and_comes_back() {
        let stored: Vec<u8> = (0..=255).collect();
        let mut page = stored.clone();
        page[24..28].copy_from_slice(&[1, 2, 3, 4]);
        assert_eq!(tag_for(&stored, &page), None);
        page[92..96].copy_from_slice(&[1, 2, 3, 4]);
        let tag = tag_for(&stored, &page).unwrap();
        for (from, to) in [(0, 256), (24, 40), (26, 27), (93, 200), (28, 92), (96, 97)] {
            let mut shown = stored[from..to].to_vec();
            show(tag, from as u64, &mut shown);
            assert_eq!(shown, page[from..to]);
        }
        let mut shown = stored.clone();
        show(0, 0, &mut shown);
        assert_eq!(shown, stored);
        page[96] ^= 1;
        assert_eq!(tag_for(&stored, &page), None);
    }
}
