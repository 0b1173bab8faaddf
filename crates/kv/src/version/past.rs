//! What is retained beside pins: everything since some version, for a window or for a follower of the
//! changes. Volatile; what of it is durable stands in the words of the window (`media/window.rs`).

use std::collections::BTreeMap;

use super::commits::Commits;
use crate::Error;

/// Since which versions everything is retained, and what for.
pub(crate) struct Past {
    /// Where the window begins, if there is one.
    window: Option<u64>,
    /// How many follow the changes after each version.
    followers: BTreeMap<u64, usize>,
    /// Versions in `(from, to]` that were rolled back: the hull of them all.
    void: Option<(u64, u64)>,
    /// The versions that each rollback took away that this process knows of.
    rollbacks: Vec<(u64, u64)>,
    /// The hull of those that rollbacks of earlier processes took away.
    earlier: Option<(u64, u64)>,
    /// The commits of several versions.
    commits: Commits,
}

/// How many rollbacks a follower knows of.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rollbacks(usize);

impl Past {
    /// Of a store that was opened at a version.
    pub(crate) fn since_open(visible: u64) -> Past {
        Past {
            window: None,
            followers: BTreeMap::new(),
            void: None,
            rollbacks: Vec::new(),
            earlier: None,
            commits: Commits::since(visible),
        }
    }

    /// The commits of several versions.
    pub(crate) fn commits(&self) -> &Commits {
        &self.commits
    }

    /// Notes a commit of several versions, the first and the last, which become visible next.
    pub(crate) fn note_commit(&mut self, versions: (u64, u64), visible: u64) {
        let oldest = self.since(visible);
        self.commits.note(versions, oldest);
    }

    /// Everything since this version is retained.
    pub(crate) fn since(&self, visible: u64) -> u64 {
        let follower = self.followers.keys().next().copied();
        let since = self.window.into_iter().chain(follower).min();
        since.map_or(visible, |since| since.min(visible))
    }

    pub(crate) fn window(&self) -> Option<u64> {
        self.window
    }

    /// Never to an earlier version than that since which everything is retained.
    pub(crate) fn set_window(&mut self, window: Option<u64>) {
        self.window = window;
    }

    pub(crate) fn followers(&self) -> &BTreeMap<u64, usize> {
        &self.followers
    }

    /// A follower of the changes after a version begins.
    ///
    /// # Errors
    /// [`Error::HistoryForgotten`]; [`Error::RolledBack`], if what came up to the version may not be all that came
    /// to be.
    pub(crate) fn follow(&mut self, after: u64, visible: u64) -> Result<Rollbacks, Error> {
        if let Some(to) = self.rollback_before(after) {
            return Err(Error::RolledBack { version: after, to });
        }
        let oldest = self.since(visible);
        if after < oldest || after > visible {
            return Err(Error::HistoryForgotten { version: after, oldest });
        }
        *self.followers.entry(after).or_default() += 1;
        Ok(Rollbacks(self.rollbacks.len()))
    }

    /// Where the rollbacks went back to that may have taken a version away; `None`: none did. Of earlier processes only the
    /// hull of what was taken away is known.
    pub(crate) fn rollback_before(&self, version: u64) -> Option<u64> {
        went_back(self.rollbacks.iter().chain(&self.earlier), version)
    }

    /// Where the rollbacks went back to that are known to have taken a version away.
    pub(crate) fn rollback_of(&self, version: u64) -> Option<u64> {
        went_back(self.rollbacks.iter(), version)
    }

    /// A follower from one version follows from a later one.
    pub(crate) fn advance(&mut self, from: u64, to: u64) {
        *self.followers.entry(to).or_default() += 1;
        self.unfollow(from);
    }

    pub(crate) fn unfollow(&mut self, after: u64) {
        if let Some(count) = self.followers.get_mut(&after) {
            *count -= 1;
            if *count == 0 {
                self.followers.remove(&after);
            }
        }
    }

    pub(crate) fn void(&self) -> Option<(u64, u64)> {
        self.void
    }

    /// Versions in `(from, to]` did not happen.
    pub(crate) fn rolled_back(&mut self, from: u64, to: u64) {
        self.note_void((from, to));
        self.rollbacks.push((from, to));
        self.commits.roll_back(from);
    }

    /// Some versions in `(from, to]` did not happen: earlier processes have rolled them back.
    pub(crate) fn rolled_back_earlier(&mut self, void: Option<(u64, u64)>) {
        void.into_iter().for_each(|void| self.note_void(void));
        self.earlier = void;
    }

    fn note_void(&mut self, (from, to): (u64, u64)) {
        let before = self.void.unwrap_or((from, to));
        self.void = Some((before.0.min(from), before.1.max(to)));
    }

    /// The rollbacks that a follower knows of by now, which has got everything up to `given`. It did not get what
    /// was rolled back before it began: so what it gets may end between two rollbacks.
    ///
    /// # Errors
    /// [`Error::RolledBack`], if it got what has been rolled back since.
    pub(crate) fn check(&self, known: Rollbacks, given: u64) -> Result<Rollbacks, Error> {
        let unknown = self.rollbacks.get(known.0..).unwrap_or_default();
        match unknown.iter().map(|(from, _)| from).min() {
            Some(&to) if to < given => Err(Error::RolledBack { version: given, to }),
            _ => Ok(Rollbacks(self.rollbacks.len())),
        }
    }
}

/// Where rollbacks went back to that took a version away; `None`: none did.
fn went_back<'r>(
    rollbacks: impl Iterator<Item = &'r (u64, u64)> + Clone,
    version: u64,
) -> Option<u64> {
    let mut to = version;
    // What one went back to may have been taken away by another.
    while let Some(from) = rollbacks.clone().find_map(|&(from, until)| {
        let is_void = from < to && to <= until;
        is_void.then_some(from)
    }) {
        to = from;
    }
    (to < version).then_some(to)
}
