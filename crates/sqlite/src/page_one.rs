//! Page 1: its change counter, which is kept beside the page, and what it says of a WAL.
//!
//! With each transaction SQLite adds one to a counter on page 1, by which other connections see that their caches are old. If a
//! transaction changes nothing else of the page, a block would be written for eight bytes. The counter goes into the tag of the
//! device then, in the same commit, and into the page whenever it is read. A program that does not know the tag reads the
//! page with an older counter, which is a sound database too.
//!
//! A page 1 that comes from a database with a WAL says that it cannot be read without one. Here there is none: neither what is stored nor
//! what is shown says so.

use std::ops::Range;

/// What a database begins with.
pub(crate) const MAGIC: &[u8; 16] = b"SQLite format 3\0";

/// The two bytes that say which SQLite may write and read the database: 1 with a rollback journal, 2 with a WAL.
const VERSIONS: Range<usize> = 18..20;
const WITHOUT_WAL: u8 = 1;
const WITH_WAL: u8 = 2;

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

/// Whether bytes at `offset` are of a page 1 that says that it needs a WAL.
pub(crate) fn needs_wal(offset: u64, bytes: &[u8]) -> bool {
    offset == 0
        && bytes.starts_with(MAGIC)
        && bytes.get(VERSIONS).is_some_and(|versions| versions.contains(&WITH_WAL))
}

/// Makes a page 1 say that it needs no WAL.
pub(crate) fn take_wal_away(offset: u64, bytes: &mut [u8]) {
    if needs_wal(offset, bytes) {
        bytes[VERSIONS].fill(WITHOUT_WAL);
    }
}

/// Makes bytes that were read at `offset` what SQLite is to see: with the counter of the tag, and without a WAL.
pub(crate) fn show(tag: u64, offset: u64, bytes: &mut [u8]) {
    take_wal_away(offset, bytes);
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

    #[test]
    fn a_page_one_of_a_database_with_a_wal_is_shown_without() {
        let page = |versions: [u8; 2]| [&MAGIC[..], &[16, 0], &versions, &[2; 80]].concat();
        for (versions, shown) in [([2, 2], [1, 1]), ([1, 1], [1, 1]), ([3, 3], [3, 3])] {
            let mut read = page(versions);
            show(0, 0, &mut read);
            assert_eq!(read, page(shown));
        }
        // Other bytes of a database are its own, and so are those of what is no database.
        let mut elsewhere = page([2, 2]);
        show(0, 4096, &mut elsewhere);
        assert_eq!(elsewhere, page([2, 2]));
        let mut other = vec![2; 100];
        show(0, 0, &mut other);
        assert_eq!(other, [2; 100]);
        let mut short = page([2, 2]);
        short.truncate(19);
        show(0, 0, &mut short);
        assert_eq!(short, page([2, 2])[..19]);
    }
}
