//! What happened between two versions, for each kind of index.

use crate::{DeadIntervals, Value, View};

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
    /// Whether the version lies in the period.
    #[inline]
    pub fn contains(&self, version: u64) -> bool {
        self.after < version && version <= self.until
    }

    /// The view of the period's last version.
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
