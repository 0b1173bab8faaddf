//! Pages that a process keeps from one lock to the next, of a database that another one owns.
//!
//! SQLite drops all that it has when another connection has committed. Most of it has not changed: the owner says with the lock what
//! has, and the rest is read from here. What was kept longest without being read goes first, by halves.

use std::collections::BTreeMap;
use std::ops::Range;

/// Bytes of a half.
const HALF_MAX: usize = 1 << 20;

type Half = BTreeMap<u64, Box<[u8]>>;

/// Bytes by where they stand in the database, none of them twice.
#[derive(Default)]
pub(crate) struct KeptPages {
    /// What was read since the last exchange, and what was not.
    young: Half,
    old: Half,
    young_bytes: usize,
}

impl KeptPages {
    /// Copies what stands at `offset`, if all of it is here.
    pub(crate) fn copy(&mut self, offset: u64, to: &mut [u8]) -> bool {
        if copy_of(&self.young, offset, to).is_some() {
            return true;
        }
        let Some(start) = copy_of(&self.old, offset, to) else { return false };
        if let Some(bytes) = self.old.remove(&start) {
            self.insert(start, bytes);
        }
        true
    }

    /// Keeps what was read.
    pub(crate) fn put(&mut self, offset: u64, bytes: &[u8]) {
        self.forget(offset..offset.saturating_add(bytes.len() as u64));
        self.insert(offset, bytes.into());
    }

    fn insert(&mut self, offset: u64, bytes: Box<[u8]>) {
        if self.young_bytes + bytes.len() > HALF_MAX {
            self.old = std::mem::take(&mut self.young);
            self.young_bytes = 0;
        }
        self.young_bytes += bytes.len();
        self.young.insert(offset, bytes);
    }

    /// Drops what overlaps with a range.
    pub(crate) fn forget(&mut self, range: Range<u64>) {
        self.young_bytes -= drop_in(&mut self.young, &range);
        drop_in(&mut self.old, &range);
    }

    pub(crate) fn clear(&mut self) {
        *self = KeptPages::default();
    }
}

/// Where what was copied begins.
fn copy_of(half: &Half, offset: u64, to: &mut [u8]) -> Option<u64> {
    let (start, bytes) = half.range(..=offset).next_back()?;
    let from = usize::try_from(offset - start).ok()?;
    to.copy_from_slice(bytes.get(from..from.checked_add(to.len())?)?);
    Some(*start)
}

/// How many bytes were dropped.
fn drop_in(half: &mut Half, range: &Range<u64>) -> usize {
    let mut dropped = 0;
    if let Some((start, bytes)) = half.range(..range.start).next_back() {
        let (start, len) = (*start, bytes.len());
        if start + len as u64 > range.start {
            half.remove(&start);
            dropped += len;
        }
    }
    while let Some((start, bytes)) = half.range(range.clone()).next() {
        let (start, len) = (*start, bytes.len());
        half.remove(&start);
        dropped += len;
    }
    dropped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_overlaps_with_a_range_is_gone_and_nothing_else() {
        let mut kept = KeptPages::default();
        let mut page = [0; 100];
        (0..10).for_each(|number| kept.put(number * 100, &[number as u8; 100]));
        kept.forget(250..401);
        for number in 0..10 {
            let is_there = kept.copy(number * 100, &mut page);
            assert_eq!(is_there, !(2..=4).contains(&number), "{number}");
            assert!(!is_there || page == [number as u8; 100]);
        }
        kept.forget(500..500);
        assert!(kept.copy(510, &mut page[..90]) && !kept.copy(510, &mut page));
        kept.forget(700..u64::MAX);
        assert!(kept.copy(600, &mut page) && !kept.copy(700, &mut page));
        kept.clear();
        assert!(!kept.copy(600, &mut page));
    }

    #[test]
    fn what_is_read_often_stays_and_the_bytes_are_bounded() {
        let mut kept = KeptPages::default();
        let mut page = vec![0; 4096];
        kept.put(0, &[7; 4096]);
        for number in 1..5_000 {
            kept.put(number * 4096, &[1; 4096]);
            let bytes = |half: &Half| half.values().map(|bytes| bytes.len()).sum::<usize>();
            assert_eq!(bytes(&kept.young), kept.young_bytes);
            assert!(bytes(&kept.young) <= HALF_MAX && bytes(&kept.old) <= HALF_MAX);
            if number % 100 == 0 {
                assert!(kept.copy(0, &mut page) && page == [7; 4096]);
            }
        }
        assert!(!kept.copy(4096, &mut page));
    }
}
