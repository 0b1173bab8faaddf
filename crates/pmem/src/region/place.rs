//! A pool file on its way to a region: what is read, checked, mapped, replayed and written at opening.
#![allow(unsafe_code)]

use std::io;
use std::path::Path;
use std::sync::Arc;

use super::{Parts, Region};
use crate::backend::{Backend, Logged};
use crate::choice::Choice;
use crate::disk::Runs;
use crate::disk::WatchedFile;
use crate::format::{FLAG_CLEAN, FLAG_EMULATED, FLAG_LOG_NEEDED, HEADER_SIZE, MediaHeader};
use crate::header::{Slots, check_features};
use crate::log::{self, Pending};
use crate::mapping::{Backing, Mapping, PAGE, SIZE_MAX};
use crate::{DiskFile, Domain, Error, RegionOptions, racy};

/// A file that cannot be mapped is read in pieces of this many bytes.
const FILL_PIECE: usize = 1 << 20;

/// A pool file on its way to a region.
pub(super) struct Place<'a> {
    pub(super) file: Arc<WatchedFile>,
    pub(super) path: &'a Path,
    pub(super) options: &'a RegionOptions,
    pub(super) size: u64,
    pub(super) mapping: Arc<Mapping>,
}

impl Place<'_> {
    fn io(&self, action: &'static str, error: io::Error) -> Error {
        Error::io(action, self.path, error)
    }

    fn source(&self) -> log::Source<'_> {
        log::Source {
            disk: self.options.disk.as_ref(),
            pool: self.file.as_ref(),
            pool_path: self.path,
            log_size: self.options.log_size,
            log_initial: self.options.log_initial,
            memory: self.options.own_memory(),
            zero_later: self.options.background,
            read_only: self.options.read_only,
        }
    }

    /// Maps what the pool holds, its log to be replayed, and lets `check` look at it. Nothing on the disk
    /// is changed.
    pub(super) fn load<E: From<Error>>(
        &self,
        choice: &Choice,
        header: &MediaHeader,
        check: impl FnOnce(&Region) -> Result<(), E>,
    ) -> Result<(log::Old, Option<Arc<Pending>>), E> {
        let is_private = choice.is_private();
        let old = if choice.domain == Domain::Logged || header.has(FLAG_LOG_NEEDED) {
            log::load(&self.source(), header)?
        } else {
            log::Old::default()
        };
        // What the log holds is not in the file: then the check sees copies that are not kept.
        let mapping = if is_private || old.replay.is_none() {
            self.mapping.clone()
        } else {
            let mapping = Mapping::reserve(self.size, self.size);
            Arc::new(mapping.map_err(|e| self.io("map", e))?)
        };
        let backing = match (self.file.descriptor(), is_private || old.replay.is_some()) {
            (Some(fd), true) => Backing::Private(fd),
            (None, true) => Backing::Anonymous,
            (_, false) => choice.backing(self.file.as_ref()),
        };
        mapping.map(backing, 0, self.size).map_err(|e| self.io("map", e))?;
        if self.file.descriptor().is_none() {
            self.fill(&mapping)?;
        }
        let pending = old.replay.as_ref().map(|r| Pending::new(r, mapping.clone(), self.size));
        let pending = pending.map(Arc::new);
        let parts = Parts {
            pending: pending.clone(),
            emulated: choice.emulated,
            ..Parts::in_memory(mapping, self.size)
        };
        let region = Region::new(parts, self.options);
        check(&region)?;
        Ok((old, pending))
    }

    /// Makes the files those of this opening; what makes stores durable from here on.
    pub(super) fn begin(
        &self,
        choice: &Choice,
        slots: &mut Slots<MediaHeader>,
        old: log::Old,
        pending: Option<Arc<Pending>>,
    ) -> Result<Backend, Error> {
        // ORDER: what was read is durable before anything is built on it, the other slot's next
        // value and the extents of the log included. A process whose sync failed may have left it in the system's memory alone.
        self.source().rewrite_extents(&old)?;
        slots.settle("open.settle_write", "open.settle_sync")?;
        // ORDER: the names that were found, the pool's and its log's, are durable before anything
        // is built on them: what gave them may have been cut off before that.
        let synced = self.options.disk.sync_dir("open.sync_dir", self.path);
        synced.map_err(|e| self.io("sync directory of", e))?;
        match choice.domain {
            Domain::Logged => self.open_logged(slots, old, pending),
            _ => self.open_mapped(choice, slots, old),
        }
    }

    /// Maps the file itself. A log that an earlier domain left is brought into the file first.
    fn open_mapped(
        &self,
        choice: &Choice,
        slots: &mut Slots<MediaHeader>,
        mut old: log::Old,
    ) -> Result<Backend, Error> {
        let backend = choice.backend(self.options)?;
        self.file.fill_holes(self.size).map_err(|e| self.io("give blocks to", e))?;
        if old.replay.is_some() {
            log::confirm(slots, &old)?;
            // ORDER: before a line of the log reaches the file, the log is durable, and vouches for what the lines may lie over.
            log::vouch(&mut old)?;
        }
        if let Some(replay) = &old.replay {
            let mut runs = Runs::new(self.file.as_ref(), "open.replay_write");
            let written = replay.last_lines().try_for_each(|(line, bytes)| runs.put(line, &bytes));
            written.and_then(|()| runs.finish()).map_err(|e| self.io("write", e))?;
            // ORDER: the pool file is durable with all that the log holds before the header says
            // that the log is not needed.
            self.file.sync("open.replay_sync").map_err(|e| self.io("sync", e))?;
            let backing = choice.backing(self.file.as_ref());
            self.mapping.map(backing, 0, self.size).map_err(|e| self.io("map", e))?;
        }
        // ORDER: the header says that the region is in use, and in which boot, before anything is
        // stored, so that an emulation that lost its memory is known for one.
        slots.update("open.header_write", "open.header_sync", |header| {
            header.domain.set(choice.domain_on_media());
            header.set(FLAG_EMULATED, choice.emulated);
            header.set(FLAG_CLEAN, false);
            header.set(FLAG_LOG_NEEDED, false);
            header.boot.set(self.options.disk.boot());
        })?;
        Ok(backend)
    }

    /// Begins a generation of the log.
    fn open_logged(
        &self,
        slots: &mut Slots<MediaHeader>,
        old: log::Old,
        pending: Option<Arc<Pending>>,
    ) -> Result<Backend, Error> {
        let adopted = log::adopt(&self.source(), slots, old)?;
        let parts = log::Parts {
            pool: self.file.clone(),
            pool_path: self.path.to_owned(),
            mapping: self.mapping.clone(),
            policy: self.options.sync,
            background: self.options.background,
            private_max: self.options.private_max,
            memory: self.options.own_memory(),
            log_size: self.options.log_size,
            observer: self.options.observer.clone(),
            pending,
        };
        let started = Logged::start(log::RedoLog::new(adopted, parts));
        started.map(Backend::Logged).map_err(|e| self.io("start threads for", e))
    }

    /// Reads a file that cannot be mapped.
    fn fill(&self, mapping: &Mapping) -> Result<(), Error> {
        let mut piece = vec![0; FILL_PIECE];
        let mut at = 0;
        while at < self.size {
            let len = (self.size - at).min(FILL_PIECE as u64);
            let piece = &mut piece[..len as usize];
            self.file.read_at(piece, at).map_err(|e| self.io("read", e))?;
            put(mapping, at, piece);
            at += len;
        }
        Ok(())
    }
}

/// Copies bytes into a region's mapping, if they fit.
fn put(mapping: &Mapping, offset: u64, bytes: &[u8]) {
    if mapping.holds(offset, bytes.len() as u64) {
        // SAFETY: the range is mapped; what a region lends may change; no slice of it exists.
        unsafe { racy::write(bytes.as_ptr(), mapping.base().at(offset), bytes.len()) };
    }
}

/// Whether the header fits this program and the file; the region's size.
pub(super) fn check_header(
    header: &MediaHeader,
    file: &dyn DiskFile,
    path: &Path,
    read_only: bool,
) -> Result<u64, Error> {
    let (must, read) = (header.features_must.get(), header.features_read.get());
    check_features(path, (must, 0), read, read_only)?;
    let size = header.size.get();
    if !size.is_multiple_of(PAGE) || !(2 * HEADER_SIZE..=SIZE_MAX).contains(&size) {
        return Err(Error::Damaged { path: path.to_owned(), what: "impossible size" });
    }
    let len = file.len().map_err(|e| Error::io("measure", path, e))?;
    if len < size {
        return Err(Error::Truncated { path: path.to_owned(), len, size });
    }
    Ok(size)
}
