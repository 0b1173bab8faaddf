//! What is tried over a `logged` region on a disk, in a store that is made there.

use tembo_kv::Store;

use crate::subject::Subject;

/// A store, or what lies over one.
pub(crate) trait Stacked: Subject {
    /// Makes an empty one in a store that was just made.
    fn make_in(&self, store: Store) -> Result<Self::Live, String>;

    /// Opens it in a store; `None`: its making was interrupted.
    fn open_in(&self, store: Store) -> Result<Option<Self::Live>, String>;

    /// The store.
    fn store_of(&self, live: &Self::Live) -> Store;

    /// The first operation, if chance does not choose it.
    fn first_op(&self) -> Option<Self::Op>;

    /// What lies over the store fits together.
    fn check_over(&self, live: &mut Self::Live) -> Result<(), String>;
}
