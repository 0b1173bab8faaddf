//! A disk at some moment.

use super::state::State;

/// A disk as it was at some moment.
#[derive(Clone, Debug)]
pub struct Snapshot {
    state: State,
    mapped: bool,
}

/// A moment at which a crash is tried.
#[derive(Clone, Debug)]
pub struct Point {
    /// The step that was about to be done.
    pub step: &'static str,
    /// The disk before it.
    pub snapshot: Snapshot,
    /// What was marked last.
    pub mark: u64,
}

impl Snapshot {
    pub(super) fn of(state: &State, mapped: bool) -> Snapshot {
        Snapshot { state: state.clone(), mapped }
    }

    /// Stands for all that a power loss may take: two disks of which the same is read differ in it.
    pub fn pending(&self) -> u64 {
        self.state.pending()
    }

    pub(super) fn state(&self) -> &State {
        &self.state
    }

    /// Whether files of the disk can be mapped.
    pub(super) fn is_mapped(&self) -> bool {
        self.mapped
    }
}
