//! The table of named snapshots.

use super::format::{SNAPSHOT_COUNT, SNAPSHOT_NAME_SIZE, SnapshotSlot};
use super::root::Root;
use crate::Error;

/// The named snapshots of a store.
pub(crate) struct NameTable<'r>(pub(crate) &'r Root);

impl NameTable<'_> {
    /// The names and their versions.
    pub(crate) fn all(&self) -> Result<Vec<(String, u64)>, Error> {
        let slots = self.0.media()?.snapshots.iter();
        Ok(slots.filter_map(|slot| Some((name(slot)?, slot.version.load()))).collect())
    }

    /// Names a version. Fenced when it returns.
    pub(crate) fn put(&self, wanted: &str, version: u64) -> Result<(), Error> {
        let region = self.0.region();
        let slots = &self.0.media()?.snapshots;
        let full = Error::SnapshotName { count: SNAPSHOT_COUNT, size: SNAPSHOT_NAME_SIZE };
        if let Some(slot) = slots.iter().find(|slot| name(slot).as_deref() == Some(wanted)) {
            // ORDER: one store; the older version is kept until it is durable.
            region.commit("kv.snapshot.move", &slot.version, version);
            // ORDER: the new version is durable before the older one is given up.
            region.flush("kv.snapshot.move.flush", region.offset_of(&slot.version), 8);
        } else {
            let mut bytes = [0; SNAPSHOT_NAME_SIZE];
            let Some(place) = bytes.get_mut(..wanted.len()) else { return Err(full) };
            place.copy_from_slice(wanted.as_bytes());
            let empty = slots.iter().find(|slot| slot.len.load() == 0);
            let Some(slot) = empty else { return Err(full) };
            region.store(&slot.version, version);
            for (word, chunk) in slot.name.iter().zip(bytes.as_chunks().0) {
                region.store(word, u64::from_le_bytes(*chunk));
            }
            // ORDER: after version and name: same line, store order.
            region.commit("kv.snapshot.name", &slot.len, wanted.len() as u64 + 1);
            // ORDER: the name is durable before the caller counts on it.
            region.flush("kv.snapshot.name.flush", region.offset_of(&slot.version), 64);
        }
        // ORDER: as above.
        region.fence("kv.snapshot.fence");
        Ok(())
    }

    /// Forgets a name. Fenced when it returns.
    pub(crate) fn forget(&self, wanted: &str) -> Result<(), Error> {
        let region = self.0.region();
        for slot in &self.0.media()?.snapshots {
            if name(slot).as_deref() == Some(wanted) {
                // ORDER: after a rollback's interval; the version is given up later.
                region.commit("kv.snapshot.forget", &slot.len, 0);
                // ORDER: the name is durably forgotten before its version is given up.
                region.flush("kv.snapshot.forget.flush", region.offset_of(&slot.len), 8);
            }
        }
        // ORDER: as above.
        region.fence("kv.snapshot.forget.fence");
        Ok(())
    }
}

fn name(slot: &SnapshotSlot) -> Option<String> {
    let len = slot.len.load().checked_sub(1)? as usize;
    let mut bytes = [0; SNAPSHOT_NAME_SIZE];
    for (chunk, word) in bytes.as_chunks_mut().0.iter_mut().zip(&slot.name) {
        *chunk = word.load().to_le_bytes();
    }
    Some(String::from_utf8_lossy(bytes.get(..len)?).into_owned())
}
