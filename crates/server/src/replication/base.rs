//! The version before a change that is larger than a turn: what a replica goes back to if the rest of the change never comes.
//!
//! It has a name in the store, so that it is there after a restart too.

use tembo_kv::{BASE_NAME, Error, Keyspace, Snapshot, Store};

use crate::replication::format::{Content, PLACE_KEY, Place};

/// The version, while the store is within such a change.
pub(crate) struct Base(Option<Snapshot>);

impl Base {
    /// That of a store that was opened at a place.
    pub(crate) fn find(store: &Store, place: &Place) -> Base {
        // A full synchronisation has no way back.
        let is_within = place.content == Content::Incomplete && !place.source.is_empty();
        Base(if is_within { store.snapshot_named(BASE_NAME).ok() } else { None })
    }

    /// Whether there is a way back.
    pub(crate) fn is_there(&self) -> bool {
        self.0.is_some()
    }

    /// The same, which is here no more.
    pub(crate) fn take(&mut self) -> Base {
        Base(self.0.take())
    }

    /// The version of that history which the store holds with it; `None`: there is none, or it is of another one.
    pub(crate) fn held(&self, own: Keyspace, source: &str) -> Option<u64> {
        let record = self.0.as_ref()?.get(own, PLACE_KEY).ok()??;
        let place = Place::decode(&record.to_vec()).ok()?;
        let is_held = place.content == Content::Whole && place.source == source;
        is_held.then_some(place.version)
    }

    /// The first version that may not be whole.
    pub(crate) fn first_torn(&self) -> u64 {
        self.0.as_ref().map_or(1, |snapshot| snapshot.version() + 1)
    }

    /// Keeps the visible version. Durable when it returns.
    ///
    /// # Errors
    /// Those of the store.
    pub(crate) fn keep(&mut self, store: &Store) -> Result<(), Error> {
        let snapshot = store.snapshot()?;
        match store.name_snapshot(BASE_NAME, &snapshot) {
            // All names are in use: then it is kept until the server ends.
            Ok(()) | Err(Error::SnapshotName { .. }) => {}
            Err(error) => return Err(error),
        }
        self.0 = Some(snapshot);
        Ok(())
    }

    /// There is no way back from here on.
    pub(crate) fn forget(&mut self, store: &Store) {
        self.0 = None;
        forget_name(store);
    }

    /// Goes back; false: there is no version to go back to. Durable when it returns. No transaction may be open.
    ///
    /// # Errors
    /// [`Error::VersionInUse`] and others of the store, which is where it was.
    pub(crate) fn go_back(&mut self, store: &Store) -> Result<bool, Error> {
        let Some(snapshot) = &self.0 else { return Ok(false) };
        match store.rollback(snapshot.version()) {
            // What a crash would leave is not known.
            Err(Error::NotDurable { .. }) => return Err(Error::Poisoned),
            rolled_back => drop(rolled_back?),
        }
        self.forget(store);
        Ok(true)
    }
}

/// Drops the name, if there is one: a crash may have left it.
pub(crate) fn forget_name(store: &Store) {
    if store.snapshots().iter().any(|(name, _)| name == BASE_NAME) {
        // One that stays keeps space in use until the next opening, and nothing else.
        let _ = store.drop_snapshot(BASE_NAME);
    }
}
