//! What happened between two versions, of whichever index.

use std::ops::Bound;

use crate::{DeadIntervals, Direction, Error, Index, Range, Value, VersionedIndex, View};

/// Versions above one up to and including another.
#[derive(Clone, Copy, Debug)]
pub struct Period<'d> {
    /// Versions above it ...
    pub after: u64,
    /// ... up to and including it ...
    pub until: u64,
    /// ... without these.
    pub dead: &'d DeadIntervals,
}

impl<'d> Period<'d> {
    /// Whether the version lies in it.
    #[inline]
    pub fn contains(&self, version: u64) -> bool {
        self.after < version && version <= self.until
    }

    /// The view of its last version.
    pub(crate) fn last(&self) -> View<'d> {
        View { version: self.until, dead: self.dead }
    }
}

/// What a version did to a key.
#[derive(Clone, Copy, Debug)]
pub struct Changed<'c> {
    /// The key.
    pub key: &'c [u8],
    /// The version.
    pub version: u64,
    /// The value that was put; `None`: it was removed.
    pub value: Option<Value<'c>>,
}

/// Receives changes; returns false to end the walk.
pub type VisitChanged<'v> = dyn FnMut(Changed<'_>) -> bool + 'v;

/// Receives a key and its value (`None`: it is not there); returns false to end the walk.
pub type VisitDiffering<'v> = dyn FnMut(&[u8], Option<Value<'_>>) -> bool + 'v;

impl Index {
    /// Visits everything that happened in the period to keys from `from` on, in the order of keys and, of
    /// one key, of versions. The caller retains all versions from `period.after` on, and what it asks
    /// about is visible. A change may be told that put the value that was there, and a removal of a key
    /// that was not.
    ///
    /// An NV-Tree passes over leaves in which nothing is that new, and reads what is left once. A CDDS
    /// B-Tree reads the leaves of every version in the period, and comes to each from the roots.
    ///
    /// # Errors
    /// Damage.
    pub fn changes(
        &self,
        period: Period<'_>,
        from: &[u8],
        visit: &mut VisitChanged<'_>,
    ) -> Result<(), Error> {
        match self {
            Index::Cdds(tree) => tree.visit_changes(period, from, visit),
            Index::Nvtree(tree) => tree.visit_changes(period, from, visit),
        }
    }

    /// Visits the keys from `from` on that differ between the version `period.after` and the version
    /// `period.until`, in order, with what they have in the later one. The caller retains these two.
    /// A key may be visited that has got the value that it had, or was not there and is not.
    ///
    /// # Errors
    /// Damage.
    pub fn difference(
        &self,
        period: Period<'_>,
        from: &[u8],
        visit: &mut VisitDiffering<'_>,
    ) -> Result<(), Error> {
        let (from, to, direction) = (Bound::Included(from), Bound::Unbounded, Direction::Forward);
        let (range, later) = (Range { from, to, direction }, period.last());
        let mut looked_up = Ok(());
        self.range_changed(range, period.after, later, &mut |key| match self.get(key, later) {
            Ok(value) => visit(key, value),
            Err(error) => {
                looked_up = Err(error);
                false
            }
        })?;
        looked_up
    }
}
