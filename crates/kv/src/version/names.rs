//! Named snapshots: versions that are kept until their name is dropped.
//!
//! They need the lock of their table, not the writer's: a version that is named is pinned first, as a snapshot
//! pins it.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard};

use tembo_pmem::thread::lock;

use super::pins::{PinKind, Pins};
use crate::Error;
use crate::media::{NameTable, Root};

/// The names of a store.
#[derive(Default)]
pub(crate) struct Names {
    named: Mutex<BTreeMap<String, u64>>,
}

impl Names {
    /// The names that were found on media, whose versions are pinned.
    pub(crate) fn new(named: BTreeMap<String, u64>) -> Names {
        Names { named: Mutex::new(named) }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, u64>> {
        lock(&self.named)
    }

    /// The names and their versions.
    pub(crate) fn all(&self) -> Vec<(String, u64)> {
        self.lock().iter().map(|(name, &version)| (name.clone(), version)).collect()
    }

    /// Whether a version has a name.
    pub(crate) fn has(&self, version: u64) -> bool {
        self.lock().values().any(|&named| named == version)
    }

    /// The version of a name.
    pub(crate) fn version(&self, name: &str) -> Option<u64> {
        self.lock().get(name).copied()
    }

    /// Names a version that the caller has pinned; the name takes the pin over. The version that it gives up, if it
    /// was another's name. Fenced when it returns, not synced. After an error nothing has changed, and the pin is given up.
    pub(crate) fn put(
        &self,
        root: &Root,
        pins: &Pins,
        name: &str,
        version: u64,
    ) -> Result<Option<u64>, Error> {
        let mut named = self.lock();
        let put = || {
            let _section = root.region().reserve(1)?;
            NameTable(root).put(name, version)
        };
        if let Err(error) = put() {
            pins.unpin(version, PinKind::Name);
            return Err(error);
        }
        let before = named.insert(name.to_owned(), version);
        if let Some(before) = before {
            pins.unpin(before, PinKind::Name);
        }
        Ok(before)
    }

    /// Drops the names of versions above the first, up to the second. Fenced when it returns, not synced. The caller has reserved
    /// a line for each.
    pub(crate) fn forget_between(
        &self,
        root: &Root,
        pins: &Pins,
        (after, until): (u64, u64),
    ) -> Result<(), Error> {
        let mut named = self.lock();
        let is_between = |version: u64| version > after && version <= until;
        let void = named.iter().filter(|&(_, &version)| is_between(version));
        let void: Vec<(String, u64)> =
            void.map(|(name, &version)| (name.clone(), version)).collect();
        for (name, version) in void {
            NameTable(root).forget(&name)?;
            named.remove(&name);
            pins.unpin(version, PinKind::Name);
        }
        Ok(())
    }

    /// Drops a name and returns its version; `None`: there was none. Fenced when it returns, not synced.
    pub(crate) fn forget(
        &self,
        root: &Root,
        pins: &Pins,
        name: &str,
    ) -> Result<Option<u64>, Error> {
        let mut named = self.lock();
        let Some(&version) = named.get(name) else { return Ok(None) };
        let section = root.region().reserve(1)?;
        NameTable(root).forget(name)?;
        drop(section);
        named.remove(name);
        pins.unpin(version, PinKind::Name);
        Ok(Some(version))
    }
}
