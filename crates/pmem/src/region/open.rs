//! Opening, which is recovery; closing.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use super::place::{Place, check_header};
use super::{Parts, Region};
use crate::backend::Backend;
use crate::choice::choose;
use crate::disk::WatchedFile;
use crate::format::{FLAG_CLEAN, FLAG_LOG_NEEDED, HEADER_SIZE, MediaHeader};
use crate::header::Slots;
use crate::mapping::{Mapping, PAGE};
use crate::pool_file::PoolFile;
use crate::{DiskFile, Domain, Error, RegionOptions};

impl Region {
    /// Opens a pool file for this process alone. Opening is recovery: it is the same after a crash
    /// and after a clean stop, and may itself be interrupted and repeated.
    ///
    /// # Errors
    /// [`Error::Held`], [`Error::NotAPool`], [`Error::Damaged`], [`Error::Truncated`],
    /// [`Error::NewerVersion`], [`Error::UnknownFeatures`], [`Error::LogMissing`],
    /// [`Error::LogForeign`], [`Error::LogDamaged`], [`Error::EmulationLost`],
    /// [`Error::Unsupported`], [`Error::Oversize`], [`Error::DiskFull`], [`Error::Io`].
    pub fn open(path: &Path, options: &RegionOptions) -> Result<Region, Error> {
        Region::open_checked(path, options, |_| Ok(()))
    }

    /// As [`open`](Region::open), where `check` sees the region as it will be, replayed, before a
    /// byte on the disk is changed: what it refuses stays as it is. It must not store.
    ///
    /// # Errors
    /// As [`open`](Region::open); what `check` says.
    pub fn open_checked<E: From<Error>>(
        path: &Path,
        options: &RegionOptions,
        check: impl FnOnce(&Region) -> Result<(), E>,
    ) -> Result<Region, E> {
        options.check_sizes(0)?;
        let io = |action, e: io::Error| Error::io(action, path, e);
        let (file, is_locked) = if options.read_only {
            let file = options.disk.open_to_read(path).map_err(|e| io("open", e))?;
            (file.clone(), file.lock_shared())
        } else {
            let file = options.disk.open(path).map_err(|e| io("open", e))?;
            (file.clone(), file.lock())
        };
        if !is_locked.map_err(|e| io("lock", e))? {
            return Err(Error::Held { path: path.to_owned(), pid: file.holder() }.into());
        }
        Region::open_locked(file, path, options, check)
    }

    pub(super) fn open_locked<E: From<Error>>(
        file: Arc<dyn DiskFile>,
        path: &Path,
        options: &RegionOptions,
        check: impl FnOnce(&Region) -> Result<(), E>,
    ) -> Result<Region, E> {
        let began = Instant::now();
        let file = WatchedFile::new(file);
        let mut slots = Slots::<MediaHeader>::read(file.clone(), path)?;
        let size = check_header(slots.get(), file.as_ref(), path, options.read_only)?;
        let choice = choose(file.as_ref(), path, options, Some(slots.get()))?;
        let mapping = Mapping::reserve(size, options.size_max);
        let mapping = mapping.map_err(|e| Error::io("map", path, e))?;
        let mapping = Arc::new(mapping.read_alone_above(options.alone_above()));
        let at = Place { file, path, options, size, mapping: mapping.clone() };
        let (old, pending) = at.load(&choice, slots.get(), check)?;
        let replay = old.replay.as_ref();
        let replayed = replay.map_or((0, 0), |replay| (replay.groups, replay.bytes));
        let backend = if options.read_only {
            Backend::Volatile
        } else {
            at.begin(&choice, &mut slots, old, pending.clone())?
        };
        let parts = Parts {
            mapping,
            size,
            pending: pending.filter(|_| choice.is_private()),
            backend,
            emulated: choice.emulated,
            recovery: began.elapsed(),
            file: Some(PoolFile::new(path, slots)),
            replayed,
            read_only: options.read_only,
        };
        Ok(Region::new(parts, options).protected(options)?)
    }

    /// A clean stop: everything fenced is brought into the one file, which may then be copied.
    /// Nothing depends on it but that.
    ///
    /// # Errors
    /// As [`checkpoint`](Region::checkpoint). The region is gone in any case, as by a crash.
    pub fn close(self) -> Result<(), Error> {
        let size = self.size();
        self.close_with(size).map(drop)
    }

    /// As [`close`](Region::close), and cuts region and file to `size` bytes (rounded up to whole pages), if they have
    /// more. What lies behind is lost. Interrupted, the region is cut, or as large as before, and the file may be longer than
    /// the region: what an interrupted growth leaves.
    ///
    /// # Errors
    /// As [`close`](Region::close).
    pub fn close_at(self, size: u64) -> Result<(), Error> {
        let (old, least) = (self.size(), 2 * HEADER_SIZE);
        // What is larger than the region has no next page, perhaps.
        let size = size.clamp(least.min(old), old).next_multiple_of(PAGE).min(old);
        if self.close_with(size)?
            && let Some(file) = &self.file
        {
            let cut = || {
                let disk = file.header().file().clone();
                // ORDER: the smaller size is durable before the file is cut: a file that is shorter than its header says
                // is damage.
                if disk.len()? > size { disk.truncate("close.truncate", size) } else { Ok(()) }
            };
            cut().map_err(|e| Error::io("shrink", file.path(), e))?;
        }
        Ok(())
    }

    /// Closes a region that has `size` bytes from now on; whether it has a file that it may change.
    fn close_with(&self, size: u64) -> Result<bool, Error> {
        self.check_process()?;
        let cut = || {
            if let Some(observer) = self.observer.as_ref().filter(|_| size < self.size()) {
                observer.resize(size);
            }
        };
        let Some(file) = self.file.as_ref().filter(|_| !self.read_only) else {
            cut();
            return Ok(false);
        };
        if let Backend::Logged(logged) = &self.backend {
            logged.fence();
            logged.stop();
            logged.checkpoint()?;
        }
        let is_logged = self.domain() == Domain::Logged;
        let mut slots = file.header();
        if !is_logged {
            // ORDER: all stores are in the file before the header calls it clean. The checkpoint
            // has seen to it in the `logged` domain.
            slots.file().sync("close.sync").map_err(|e| Error::io("sync", file.path(), e))?;
        }
        slots.update("close.header_write", "close.header_sync", |header| {
            header.set(FLAG_CLEAN, true);
            header.set(FLAG_LOG_NEEDED, false);
            header.size.set(size);
        })?;
        cut();
        Ok(true)
    }
}
