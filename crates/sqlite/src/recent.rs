//! What the last commits of a database have changed: for processes that keep pages from one lock to the next.
//!
//! A change is noted before its commit is visible, and counted when that has ended. So a reader that takes the count, then its
//! snapshot, then the changes behind an earlier count, learns of all that its snapshot has and that one of the earlier count may not
//! have had. A commit that waits for the disk is visible already: whether a snapshot has it the change counter says.

use std::collections::VecDeque;
use std::ops::Range;

use parking_lot::Mutex;

/// Commits that are known.
const COMMITS_MAX: usize = 64;

/// Ranges that a commit may have before it has changed everything.
const RANGES_MAX: usize = 64;

/// Bytes of a database that a transaction has written, in the order of its writes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Changes {
    ranges: Vec<Range<u64>>,
    /// SQLite's change counter behind them, which each transaction raises.
    pub(crate) counter: Option<u32>,
}

impl Changes {
    const EVERYTHING: Range<u64> = 0..u64::MAX;

    pub(crate) fn add(&mut self, range: Range<u64>) {
        let count = self.ranges.len();
        match self.ranges.last_mut() {
            Some(last) if last.start <= range.start && range.start <= last.end => {
                last.end = last.end.max(range.end);
            }
            _ if count < RANGES_MAX => self.ranges.push(range),
            _ => self.ranges = vec![Changes::EVERYTHING],
        }
    }
}

#[derive(Default)]
struct Commits {
    /// Commits before the first that is known.
    forgotten: u64,
    known: VecDeque<Changes>,
    /// Commits that have ended.
    ended: u64,
}

/// The last commits of a database, of which one is made at a time.
#[derive(Default)]
pub(crate) struct Recent(Mutex<Commits>);

impl Recent {
    /// A commit of these begins.
    pub(crate) fn begin(&self, changes: Changes) {
        let commits = &mut *self.0.lock();
        commits.known.push_back(changes);
        while commits.known.len() > COMMITS_MAX {
            commits.known.pop_front();
            commits.forgotten += 1;
        }
    }

    /// It is visible, or has failed.
    pub(crate) fn end(&self) {
        let commits = &mut *self.0.lock();
        commits.ended = commits.forgotten + commits.known.len() as u64;
    }

    /// Commits that have ended, if none is under way: a snapshot that was taken between two calls with one answer shows them all, and no
    /// other.
    pub(crate) fn settled(&self) -> Option<u64> {
        let commits = self.0.lock();
        let begun = commits.forgotten + commits.known.len() as u64;
        (commits.ended == begun).then_some(begun)
    }

    /// Commits that have ended: to be taken before a snapshot.
    pub(crate) fn count(&self) -> u64 {
        self.0.lock().ended
    }

    /// Commits that a snapshot has which shows this change counter, and before which `count` had ended.
    pub(crate) fn shown(&self, count: u64, counter: Option<u32>) -> u64 {
        let commits = self.0.lock();
        let is_last = |one: &Changes| one.counter.is_some() && one.counter == counter;
        let last = commits.known.iter().rposition(is_last);
        last.map_or(count, |last| count.max(commits.forgotten + last as u64 + 1))
    }

    /// What commits may have changed since the first `count`: to be taken behind a snapshot. `None`: anything.
    pub(crate) fn since(&self, count: u64) -> Option<Vec<Range<u64>>> {
        let commits = self.0.lock();
        let first = count.checked_sub(commits.forgotten)? as usize;
        (first <= commits.known.len())
            .then(|| commits.known.range(first..).flat_map(|one| one.ranges.clone()).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn changes(ranges: &[Range<u64>]) -> Changes {
        let mut changes = Changes::default();
        ranges.iter().for_each(|range| changes.add(range.clone()));
        changes
    }

    fn only(range: Range<u64>) -> Option<Vec<Range<u64>>> {
        Some(Vec::from_iter([range]))
    }

    #[test]
    fn ranges_that_meet_are_one_and_too_many_are_everything() {
        let some = changes(&[0..4096, 4096..8192, 4000..8192, 20_000..20_001, 0..1]);
        assert_eq!(some.ranges, [0..8192, 20_000..20_001, 0..1]);
        let many: Vec<Range<u64>> = (0..1000).map(|at| at * 10..at * 10 + 1).collect();
        let many = changes(&many);
        assert!(many.ranges.contains(&Changes::EVERYTHING) && many.ranges.len() <= RANGES_MAX);
    }

    #[test]
    fn a_change_is_listed_from_before_its_commit_is_visible() {
        let recent = Recent::default();
        let (first, second) = (changes(&[0..10, 3..4]), changes(&[50..60, 55..60]));
        let first = Changes { counter: Some(7), ..first };
        assert_eq!((recent.count(), recent.since(0)), (0, Some(vec![])));
        recent.begin(first);
        // A snapshot that is taken now may have it, and may not.
        assert_eq!((recent.count(), recent.since(0)), (0, only(0..10)));
        assert_eq!((recent.shown(0, Some(6)), recent.shown(0, None)), (0, 0));
        assert_eq!((recent.shown(0, Some(7)), recent.since(1)), (1, Some(vec![])));
        assert_eq!(recent.settled(), None);
        recent.end();
        assert_eq!(recent.settled(), Some(1));
        assert_eq!((recent.count(), recent.since(0)), (1, only(0..10)));
        assert_eq!(recent.since(1), Some(vec![]));
        recent.begin(second);
        recent.end();
        assert_eq!(recent.since(1), only(50..60));
        assert_eq!(recent.since(0), Some(vec![0..10, 50..60]));
        // It had ended, and its counter was set back.
        assert_eq!(recent.shown(2, Some(7)), 2);
        // Not a number of this database's.
        assert_eq!(recent.since(3), None);
        for _ in 0..COMMITS_MAX {
            recent.begin(Changes::default());
            recent.end();
        }
        assert_eq!((recent.since(0), recent.since(1)), (None, None));
        assert_eq!(recent.since(2), Some(vec![]));
    }
}
