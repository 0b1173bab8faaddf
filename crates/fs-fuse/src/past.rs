//! Earlier versions, as trees below `.tembo/snapshots`, `.tembo/versions` and `.tembo/at`.

use std::sync::{Mutex, MutexGuard, PoisonError};

use tembo_fs::{Error, Fs, ROOT, Time, Tree};
use tembo_kv::{Error as StoreError, Snapshot, is_own_name};

use crate::place::{Place, SLOT_MAX};

/// The versions that were looked at, with their snapshots. They are held while it lives.
#[derive(Default)]
pub(crate) struct Past(Mutex<Vec<(u64, Snapshot)>>);

impl Past {
    fn slots(&self) -> MutexGuard<'_, Vec<(u64, Snapshot)>> {
        // A panic leaves every slot whole.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The tree of a snapshot.
    ///
    /// # Errors
    /// [`Error::NoSuchInode`]: none has that number.
    pub(crate) fn tree(&self, fs: &Fs, slot: usize) -> Result<Tree<Snapshot>, Error> {
        let slots = self.slots();
        let (_, snapshot) = slots.get(slot).ok_or(Error::NoSuchInode { inode: ROOT })?;
        Ok(fs.tree(snapshot.clone()))
    }

    /// The root of a named snapshot.
    ///
    /// # Errors
    /// [`Error::NoSuchName`]; those of the store.
    pub(crate) fn named(&self, fs: &Fs, name: &[u8]) -> Result<Place, Error> {
        let all = shown(fs);
        let found = all.into_iter().find(|(other, _)| other.as_bytes() == name);
        let missing = || Error::NoSuchName { directory: ROOT, name: name.to_vec() };
        self.version(fs, found.ok_or_else(missing)?.1)
    }

    /// The root of a version that is kept.
    ///
    /// # Errors
    /// [`Error::NoSuchName`]: it is not kept, or is still to come; those of the store.
    pub(crate) fn version(&self, fs: &Fs, version: u64) -> Result<Place, Error> {
        let missing = Error::NoSuchName { directory: ROOT, name: format!("{version}").into() };
        let mut slots = self.slots();
        if let Some(slot) = slots.iter().position(|(other, _)| *other == version) {
            return Ok(Place::Past(slot, ROOT));
        }
        if slots.len() > SLOT_MAX {
            return Err(missing);
        }
        let snapshot = match fs.store().snapshot_at(version) {
            Err(StoreError::NotRetained { .. }) => return Err(missing),
            found => found?,
        };
        slots.push((version, snapshot));
        Ok(Place::Past(slots.len() - 1, ROOT))
    }

    /// The root as it was at a time.
    ///
    /// # Errors
    /// [`Error::NotKept`]; as of [`version`](Past::version).
    pub(crate) fn at(&self, fs: &Fs, time: Time) -> Result<Place, Error> {
        // The version is held until it has its place.
        let found = fs.snapshot_at(time)?;
        self.version(fs, found.version())
    }

    /// The names of all.
    pub(crate) fn names(fs: &Fs) -> Vec<Vec<u8>> {
        shown(fs).into_iter().map(|(name, _)| name.into_bytes()).collect()
    }
}

/// The named snapshots, but for Tembo's own.
fn shown(fs: &Fs) -> Vec<(String, u64)> {
    let mut all = fs.store().snapshots();
    all.retain(|(name, _)| !is_own_name(name));
    all
}
