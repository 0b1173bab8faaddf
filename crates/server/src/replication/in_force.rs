//! Changes that the replication makes for itself, and that find no room.

use tembo_kv::Error;

/// A change that is in force and finds no room on the disk to be durable waits for the sync of the turn, as others do.
pub(super) fn in_force(changed: Result<(), Error>) -> Result<(), Error> {
    match changed {
        Err(Error::NotDurable(_)) => Ok(()),
        changed => changed,
    }
}

/// A change that may be left out if there is no room for it.
pub(super) fn unless_full(changed: Result<(), Error>) -> Result<(), Error> {
    match in_force(changed) {
        Err(Error::Full(_)) => Ok(()),
        changed => changed,
    }
}
