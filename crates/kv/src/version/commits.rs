//! Commits that have several versions: a savepoint and a removed range each begin another. All of them become visible with
//! the last, so none before it was ever the state of the store.
//!
//! Followers of the changes are given them together. They are noted in memory only: of a version of an earlier life of the
//! process it is not known whether it was the last of its commit.

use std::collections::VecDeque;

/// More notes are forgotten, the oldest first.
const NOTES_MAX: usize = 1 << 16;

/// The commits of several versions that followers may come to.
#[derive(Debug)]
pub(crate) struct Commits {
    /// First and last version of each, in order.
    several: VecDeque<(u64, u64)>,
    /// It was visible; of versions before it nothing is known.
    since: u64,
    most: usize,
}

impl Commits {
    /// Of a store that was opened at a version.
    pub(crate) fn since(version: u64) -> Commits {
        Commits { several: VecDeque::new(), since: version, most: NOTES_MAX }
    }

    /// Notes a commit. `oldest`: no follower comes to an older version any more.
    pub(crate) fn note(&mut self, (first, last): (u64, u64), oldest: u64) {
        while let Some(&(_, forgotten)) = self.several.front()
            && (forgotten <= oldest || self.several.len() >= self.most)
        {
            self.several.pop_front();
            self.since = self.since.max(forgotten);
        }
        self.several.push_back((first, last));
    }

    /// What came after a version is taken back. If that lies within a commit, it is the last of it from here on.
    pub(crate) fn roll_back(&mut self, to: u64) {
        self.several.retain_mut(|(first, last)| {
            *last = to.min(*last);
            first < last
        });
    }

    /// Those of versions above the first, up to the second.
    pub(crate) fn between(&self, after: u64, until: u64) -> Commits {
        let from = self.several.partition_point(|&(_, last)| last <= after);
        let to = self.several.partition_point(|&(first, _)| first <= until);
        let several = self.several.range(from..to.max(from)).copied().collect();
        Commits { several, since: self.since, most: self.most }
    }

    /// The last version of the commit that a version belongs to; of a commit that is not known: the version itself.
    pub(crate) fn last_of(&self, version: u64) -> u64 {
        let at = self.several.partition_point(|&(_, last)| last < version);
        let found = self.several.get(at).filter(|&&(first, _)| first <= version);
        found.map_or(version, |&(_, last)| last)
    }

    /// Whether the version is known to be the last of its commit.
    pub(crate) fn is_last(&self, version: u64) -> bool {
        version >= self.since && self.last_of(version) == version
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_forgotten_is_not_known() {
        let mut commits = Commits { most: 3, ..Commits::since(10) };
        let known =
            |commits: &Commits| (0..60).filter(|&it| commits.is_last(it)).collect::<Vec<_>>();
        for first in [20, 30, 40] {
            commits.note((first, first + 2), 5);
        }
        let within = [20, 21, 30, 31, 40, 41];
        let all = |from| (from..60).filter(|it| !within.contains(it)).collect::<Vec<_>>();
        assert_eq!(known(&commits), all(10));
        assert_eq!(
            [19, 20, 21, 22, 23, 42, 50].map(|it| commits.last_of(it)),
            [19, 22, 22, 22, 23, 42, 50]
        );
        // Too many; and what no follower comes to.
        commits.note((50, 50), 5);
        assert_eq!(known(&commits), all(22));
        commits.note((52, 52), 32);
        assert_eq!(known(&commits), all(32));
        assert_eq!(commits.last_of(21), 21);
        commits.roll_back(41);
        assert_eq!([40, 41, 50].map(|it| commits.last_of(it)), [41, 41, 50]);
        commits.roll_back(39);
        assert_eq!([40, 41, 50].map(|it| commits.last_of(it)), [40, 41, 50]);
    }
}
