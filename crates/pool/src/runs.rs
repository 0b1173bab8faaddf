//! Free runs of whole chunks: best fit, neighbours joined.

use std::collections::{BTreeMap, BTreeSet};

/// Chunks at which a search for a wanted one looks.
const LOOK: usize = 64;

/// Runs of free chunks, by place and by length.
#[derive(Debug, Default)]
pub(crate) struct Runs {
    /// First chunk to count.
    by_start: BTreeMap<u32, u32>,
    /// (count, first chunk).
    by_count: BTreeSet<(u32, u32)>,
    total: u64,
}

impl Runs {
    /// Chunks in all runs.
    pub(crate) fn total(&self) -> u64 {
        self.total
    }

    /// Takes `count` chunks from the shortest run that has them.
    pub(crate) fn take(&mut self, count: u32) -> Option<u32> {
        let &(length, start) = self.by_count.range((count, 0)..).next()?;
        self.remove(start, length);
        if length > count {
            self.put(start + count, length - count);
        }
        Some(start)
    }

    /// Takes a chunk that is `wanted`: the first free one from `from` on, then from the begin. `None`: the search, which looks
    /// only at some chunks, has found none.
    pub(crate) fn take_wanted(&mut self, from: u32, wanted: impl Fn(u32) -> bool) -> Option<u32> {
        let all = |(&start, &length): (&u32, &u32)| start..start + length;
        let within = self.by_start.range(..from).next_back().map(all);
        let behind = within.into_iter().flatten().filter(|chunk| *chunk >= from);
        let others = self.by_start.range(from..).chain(self.by_start.range(..from));
        let mut looked_at = behind.chain(others.flat_map(all)).take(LOOK);
        let chunk = looked_at.find(|chunk| wanted(*chunk))?;
        self.cut_out(chunk, 1);
        Some(chunk)
    }

    /// Takes `count` chunks from the lowest run that has them.
    pub(crate) fn take_lowest(&mut self, count: u32) -> Option<u32> {
        let (&start, &length) = self.by_start.iter().find(|&(_, &length)| length >= count)?;
        self.remove(start, length);
        if length > count {
            self.put(start + count, length - count);
        }
        Some(start)
    }

    /// The length of the longest run.
    pub(crate) fn longest(&self) -> u32 {
        self.by_count.last().map_or(0, |&(count, _)| count)
    }

    /// Gives chunks back, and joins them with the runs beside them. Returns the run of which they are a part then.
    pub(crate) fn give(&mut self, mut start: u32, mut count: u32) -> (u32, u32) {
        if let Some((&before, &length)) = self.by_start.range(..start).next_back()
            && before + length == start
        {
            self.remove(before, length);
            (start, count) = (before, count + length);
        }
        if let Some(&length) = self.by_start.get(&(start + count)) {
            self.remove(start + count, length);
            count += length;
        }
        self.put(start, count);
        (start, count)
    }

    /// Runs that begin at `start` or behind it: first chunk and count, in ascending order.
    pub(crate) fn from(&self, start: u32) -> impl Iterator<Item = (u32, u32)> {
        self.by_start.range(start..).map(|(&start, &count)| (start, count))
    }

    /// Takes out `count` chunks from `start` on, which lie in one run.
    pub(crate) fn cut_out(&mut self, start: u32, count: u32) {
        let Some((&from, &length)) = self.by_start.range(..=start).next_back() else { return };
        self.remove(from, length);
        if start > from {
            self.put(from, start - from);
        }
        if from + length > start + count {
            self.put(start + count, from + length - start - count);
        }
    }

    /// Takes out a whole run.
    pub(crate) fn remove(&mut self, start: u32, count: u32) {
        self.by_start.remove(&start);
        self.by_count.remove(&(count, start));
        self.total -= u64::from(count);
    }

    fn put(&mut self, start: u32, count: u32) {
        self.by_start.insert(start, count);
        self.by_count.insert((count, start));
        self.total += u64::from(count);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_join_and_the_best_fit_is_taken() {
        let mut runs = Runs::default();
        assert_eq!(runs.give(10, 2), (10, 2));
        assert_eq!(runs.give(20, 5), (20, 5));
        assert_eq!(runs.give(14, 1), (14, 1));
        assert_eq!(runs.give(12, 2), (10, 5));
        assert_eq!(runs.total(), 10);
        assert_eq!(runs.take(6), None);
        assert_eq!(runs.take(4), Some(10));
        assert_eq!(runs.take(1), Some(14));
        assert_eq!(runs.take(5), Some(20));
        assert_eq!((runs.total(), runs.take(1)), (0, None));
        assert_eq!((runs.give(30, 3), runs.give(10, 9)), ((30, 3), (10, 9)));
        assert_eq!((runs.longest(), runs.take(2), runs.take_lowest(2)), (9, Some(30), Some(10)));
        assert_eq!((runs.take_lowest(8), runs.take_lowest(7), runs.longest()), (None, Some(12), 1));
    }

    #[test]
    fn a_chunk_that_is_wanted_is_the_next_one_or_another() {
        let mut runs = Runs::default();
        assert_eq!((runs.give(10, 4), runs.give(20, 3)), ((10, 4), (20, 3)));
        assert_eq!(runs.take_wanted(12, |_| true), Some(12));
        assert_eq!(runs.take_wanted(13, |_| true), Some(13));
        assert_eq!(runs.take_wanted(14, |chunk| chunk != 20), Some(21));
        assert_eq!(runs.take_wanted(22, |chunk| chunk < 20), Some(10));
        assert_eq!(runs.take_wanted(11, |chunk| chunk > 22), None);
        assert_eq!(runs.total(), 3);
        assert_eq!((runs.take(1), runs.take(1), runs.take(1)), (Some(11), Some(20), Some(22)));
        // No more of them are looked at than is quick.
        runs.give(100, LOOK as u32 + 1);
        assert_eq!(runs.take_wanted(0, |chunk| chunk == 100 + LOOK as u32), None);
        assert_eq!(
            runs.take_wanted(101, |chunk| chunk == 100 + LOOK as u32),
            Some(100 + LOOK as u32)
        );
    }
}
