//! A header that is written in place, in two slots by turns: a torn write leaves the other valid.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::format::{SLOT_OFFSETS, SLOT_SIZE, Slot};
use crate::{DiskFile, Error};

/// A header's current value, and the file it stands in.
pub(crate) struct Slots<T> {
    file: Arc<dyn DiskFile>,
    path: PathBuf,
    value: T,
}

/// Whether this program may do with a file what it is opened for. Of `must` only bits in `known` may be set, of
/// `read_only` none, except where nothing is written. Others may be unknown, and are kept.
pub(crate) fn check_features(
    path: &Path,
    (must, known): (u64, u64),
    read_only: u64,
    only_reads: bool,
) -> Result<(), Error> {
    if must & !known != 0 {
        let bits = must & !known;
        return Err(Error::UnknownFeatures { path: path.to_owned(), bits });
    }
    if read_only != 0 && !only_reads {
        return Err(Error::ReadOnlyFeatures { path: path.to_owned(), bits: read_only });
    }
    Ok(())
}

impl<T: Slot> Slots<T> {
    /// A header for a new file; nothing is written yet.
    pub(crate) fn new(file: Arc<dyn DiskFile>, path: &Path, value: T) -> Self {
        Slots { file, path: path.to_owned(), value }
    }

    /// Reads the newer of the two valid headers. Nothing else of the file is trusted before.
    pub(crate) fn read(file: Arc<dyn DiskFile>, path: &Path) -> Result<Self, Error> {
        let len = file.len().map_err(|e| Error::io("measure", path, e))?;
        let mut best: Option<T> = None;
        let mut ours = false;
        for offset in SLOT_OFFSETS {
            if offset + SLOT_SIZE as u64 > len {
                continue;
            }
            let mut bytes = [0; SLOT_SIZE];
            file.read_at(&mut bytes, offset).map_err(|e| Error::io("read", path, e))?;
            ours |= bytes.starts_with(&T::MAGIC);
            let valid = T::read_from_bytes(&bytes)
                .ok()
                .filter(|slot| bytes.starts_with(&T::MAGIC) && slot.checks() && slot.can_count());
            let valid = valid.filter(|slot| SLOT_OFFSETS[(slot.sequence() % 2) as usize] == offset);
            if let Some(slot) = valid
                && best.is_none_or(|best| slot.sequence() > best.sequence())
            {
                best = Some(slot);
            }
        }
        match best {
            Some(found) if found.version() > T::VERSION => Err(Error::NewerVersion {
                path: path.to_owned(),
                found: found.version(),
                known: T::VERSION,
            }),
            Some(value) => Ok(Slots::new(file, path, value)),
            None if ours => {
                Err(Error::Damaged { path: path.to_owned(), what: "both headers are bad" })
            }
            None => Err(Error::NotAPool { path: path.to_owned() }),
        }
    }

    /// The current value.
    pub(crate) fn get(&self) -> &T {
        &self.value
    }

    /// The path of that file.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The file that the header stands in.
    pub(crate) fn file(&self) -> &Arc<dyn DiskFile> {
        &self.file
    }

    /// Writes the header once more where it was found, and makes it durable: the other slot may
    /// hold the only durable value, and a sync alone would not write what a failed one gave up.
    pub(crate) fn settle(&self, step: &'static str, sync_step: &'static str) -> Result<(), Error> {
        self.write_slot(step, sync_step, &self.value)
    }

    /// [Settles](Slots::settle) the header as it was found, and then [updates](Slots::update) it: a changed one that is torn leaves that one. Both
    /// are the same steps.
    pub(crate) fn update_found(
        &mut self,
        step: &'static str,
        sync_step: &'static str,
        change: impl FnOnce(&mut T),
    ) -> Result<(), Error> {
        self.settle(step, sync_step)?;
        self.update(step, sync_step, change)
    }

    fn write_slot(
        &self,
        step: &'static str,
        sync_step: &'static str,
        value: &T,
    ) -> Result<(), Error> {
        let offset = SLOT_OFFSETS[(value.sequence() % 2) as usize];
        self.file
            .write_at(step, value.as_bytes(), offset)
            .and_then(|()| self.file.sync(sync_step))
            .map_err(|e| Error::io(step, &self.path, e))
    }

    /// Writes a changed header into the older slot and makes it durable. `step` names the write,
    /// `sync_step` the sync. On failure the value is as before.
    pub(crate) fn update(
        &mut self,
        step: &'static str,
        sync_step: &'static str,
        change: impl FnOnce(&mut T),
    ) -> Result<(), Error> {
        let mut value = self.value;
        change(&mut value);
        let sequence = value.sequence() + 1;
        value.seal(sequence);
        self.write_slot(step, sync_step, &value)?;
        self.value = value;
        Ok(())
    }
}
