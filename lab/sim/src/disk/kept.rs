//! A value that a medium keeps: what is read, and what a power loss may leave instead.

use super::sector::mix;

/// What is read, and what may be found when the power comes back: a sector's bytes, a file's
/// length, what a name stands for.
#[derive(Clone, Debug)]
pub(super) struct Kept<T> {
    now: T,
    /// What the medium may hold instead, the oldest first; empty when it holds what is read.
    older: Vec<T>,
    /// A sync will bring `now` to the medium. A sync that failed never will.
    dirty: bool,
    /// The power was lost, and not read since: any of them, `now` among them, is what is there.
    undecided: bool,
}

impl<T: Clone + PartialEq> Kept<T> {
    /// A value that the medium holds.
    pub(super) fn durable(now: T) -> Kept<T> {
        Kept { now, older: Vec::new(), dirty: false, undecided: false }
    }

    /// What is read. `choose` gets the number of things that it may be, where that is open.
    pub(super) fn get(&mut self, choose: impl FnOnce(usize) -> usize) -> &T {
        if self.undecided {
            let pick = choose(self.older.len() + 1);
            if pick < self.older.len() {
                self.now = self.older.swap_remove(pick);
            }
            *self = Kept::durable(self.now.clone());
        }
        &self.now
    }

    /// Of what is open, the oldest value and the last one.
    pub(super) fn ends(&self) -> Option<(&T, &T)> {
        let oldest = self.older.first().filter(|_| self.undecided);
        oldest.map(|oldest| (oldest, &self.now))
    }

    /// What is read, where that is decided.
    pub(super) fn decided(&self) -> Option<&T> {
        (!self.undecided).then_some(&self.now)
    }

    /// Writes. What was there before, and what has been since the last sync, may come back.
    pub(super) fn set(&mut self, value: T) {
        self.undecided = false;
        if value == self.now && self.older.is_empty() {
            return;
        }
        let before = std::mem::replace(&mut self.now, value);
        self.older.push(before);
        self.forget_copies();
        self.dirty = true;
    }

    /// A sync that succeeds brings to the medium what is dirty, and only that.
    pub(super) fn sync(&mut self) {
        if self.dirty {
            (self.older, self.dirty) = (Vec::new(), false);
        }
    }

    /// A sync that fails calls clean what it did not write: it is read until the power goes, is
    /// perhaps on the medium, and no later sync writes it.
    pub(super) fn fail_sync(&mut self) {
        self.dirty = false;
    }

    /// The power is gone.
    pub(super) fn lose_power(&mut self) {
        self.dirty = false;
        self.undecided = !self.older.is_empty();
    }

    /// Stands for what the medium may hold instead, and whether a sync would write: zero when the
    /// medium holds what is read.
    pub(super) fn pending(&self, hash: impl Fn(&T) -> u64) -> u64 {
        if self.older.is_empty() {
            return 0;
        }
        let first = 1 + u64::from(self.dirty);
        self.older.iter().fold(first, |all, value| mix(all, hash(value)))
    }

    /// Whether the medium holds what is read.
    pub(super) fn is_settled(&self) -> bool {
        self.older.is_empty()
    }

    fn forget_copies(&mut self) {
        let mut seen: Vec<T> = Vec::with_capacity(self.older.len());
        for value in self.older.drain(..) {
            if value != self.now && !seen.contains(&value) {
                seen.push(value);
            }
        }
        self.older = seen;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Everything that may be found after a power loss, sorted.
    fn found(kept: &Kept<u8>) -> Vec<u8> {
        let mut lost = kept.clone();
        lost.lose_power();
        let mut found: Vec<u8> =
            (0..=lost.older.len()).map(|pick| *lost.clone().get(|_| pick)).collect();
        found.sort_unstable();
        found.dedup();
        found
    }

    #[test]
    fn what_a_sync_settles_is_found() {
        let mut kept = Kept::durable(1);
        kept.set(2);
        kept.set(3);
        assert_eq!(found(&kept), [1, 2, 3]);
        kept.sync();
        assert_eq!(found(&kept), [3]);
    }

    #[test]
    fn what_a_failed_sync_gave_up_no_later_sync_writes() {
        let mut kept = Kept::durable(1);
        kept.set(2);
        kept.fail_sync();
        kept.sync();
        assert_eq!((kept.decided(), found(&kept)), (Some(&2), vec![1, 2]));
        // Written once more, be it the same, it is dirty again.
        kept.set(2);
        kept.sync();
        assert_eq!(found(&kept), [2]);
    }

    #[test]
    fn an_old_value_that_is_written_back_may_be_the_one_between() {
        let mut kept = Kept::durable(1);
        kept.set(2);
        kept.set(1);
        assert_eq!(found(&kept), [1, 2]);
    }
}
