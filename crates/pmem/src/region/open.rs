//! Opening, which is recovery; closing.
#![allow(unsafe_code)]

use std::io;
use std::path::Path;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::choice::{Choice, choose};
use super::{Backend, File, Logged, Region, RegionOptions};
use crate::format::{FLAG_CLEAN, FLAG_EMULATED, FLAG_LOG_NEEDED, HEADER_SIZE, MediaHeader};
use crate::header::{Slots, check_features};
use crate::log::{self, Pending};
use crate::mapping::{Backing, Mapping, PAGE, SIZE_MAX};
use crate::process::Process;
use crate::runs::Runs;
use crate::watched::WatchedFile;
use crate::{DiskFile, Domain, Error};

/// A file that cannot be mapped is read in pieces of this many bytes.
const FILL_PIECE: usize = 1 << 20;

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
        let mapping = Arc::new(mapping.map_err(|e| Error::io("map", path, e))?);
        let at = Place { file, path, options, size, mapping: mapping.clone() };
        let (old, pending) = at.load(&choice, slots.get(), check)?;
        let replay = old.replay.as_ref();
        let replayed = replay.map_or((0, 0), |replay| (replay.groups, replay.bytes));
        let backend = if options.read_only {
            Backend::Volatile
        } else {
            at.begin(&choice, &mut slots, old, pending.clone())?
        };
        Ok(Region {
            base: mapping.base(),
            mapping,
            size: AtomicU64::new(size),
            reach: AtomicU64::new(0),
            pending: pending.filter(|_| choice.is_private()),
            backend,
            observer: options.observer.clone(),
            sync_policy: options.sync,
            emulated: choice.emulated,
            recovery: began.elapsed(),
            media: Some(File { path: path.to_owned(), header: Mutex::new(slots) }),
            growth: Mutex::default(),
            replayed,
            read_only: options.read_only,
            process: Process::current(),
        })
    }

    /// Brings everything fenced into the pool file, and frees the log.
    ///
    /// # Errors
    /// As [`sync`](Region::sync), and of writing the pool file; that is tried again later.
    pub fn checkpoint(&self) -> Result<(), Error> {
        self.check_process()?;
        match &self.backend {
            Backend::Logged(logged) => logged.checkpoint(),
            _ => Ok(()),
        }
    }

    /// A clean stop: everything fenced is brought into the one file, which may then be copied.
    /// Nothing depends on it but that.
    ///
    /// # Errors
    /// As [`checkpoint`](Region::checkpoint). The region is gone in any case, as by a crash.
    pub fn close(self) -> Result<(), Error> {
        self.check_process()?;
        let Some(media) = self.media.as_ref().filter(|_| !self.read_only) else {
            return Ok(());
        };
        if let Backend::Logged(logged) = &self.backend {
            logged.fence();
            logged.stop();
            logged.checkpoint()?;
        }
        let is_logged = self.domain() == Domain::Logged;
        let mut slots = media.header.lock().unwrap_or_else(PoisonError::into_inner);
        if !is_logged {
            // ORDER: all stores are in the file before the header calls it clean. The checkpoint
            // has seen to it in the `logged` domain.
            slots.file().sync("close.sync").map_err(|e| Error::io("sync", &media.path, e))?;
        }
        slots.update("close.header_write", "close.header_sync", |header| {
            header.set(FLAG_CLEAN, true);
            header.set(FLAG_LOG_NEEDED, false);
        })
    }
}

/// A pool file on its way to a region.
struct Place<'a> {
    file: Arc<WatchedFile>,
    path: &'a Path,
    options: &'a RegionOptions,
    size: u64,
    mapping: Arc<Mapping>,
}

impl Place<'_> {
    fn io(&self, action: &'static str, error: io::Error) -> Error {
        Error::io(action, self.path, error)
    }

    fn source(&self) -> log::Source<'_> {
        log::Source {
            disk: self.options.disk.as_ref(),
            pool_path: self.path,
            log_size: self.options.log_size,
            zero_later: self.options.background,
            read_only: self.options.read_only,
        }
    }

    /// Maps what the pool holds, its log to be replayed, and lets `check` look at it. Nothing on the disk
    /// is changed.
    fn load<E: From<Error>>(
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
        let region = Region {
            base: mapping.base(),
            mapping,
            size: AtomicU64::new(self.size),
            reach: AtomicU64::new(0),
            pending: pending.clone(),
            backend: Backend::Volatile,
            observer: self.options.observer.clone(),
            sync_policy: self.options.sync,
            emulated: choice.emulated,
            recovery: Duration::ZERO,
            media: None,
            growth: Mutex::default(),
            replayed: (0, 0),
            read_only: true,
            process: Process::current(),
        };
        check(&region)?;
        Ok((old, pending))
    }

    /// Makes the files those of this opening; what makes stores durable from here on.
    fn begin(
        &self,
        choice: &Choice,
        slots: &mut Slots<MediaHeader>,
        old: log::Old,
        pending: Option<Arc<Pending>>,
    ) -> Result<Backend, Error> {
        // ORDER: what was read is durable before anything is built on it, the other slot's next
        // value included. A process whose sync failed may have left it in the system's memory alone.
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
        old: log::Old,
    ) -> Result<Backend, Error> {
        let backend = choice.backend(self.options)?;
        if old.replay.is_some() {
            log::confirm(slots, &old)?;
        }
        if let Some(replay) = &old.replay {
            let mut runs = Runs::new(self.file.as_ref(), "open.replay_write");
            let written = replay.last_lines().try_for_each(|(line, bytes)| runs.put(line, bytes));
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
            self.put(mapping, at, piece);
            at += len;
        }
        Ok(())
    }

    fn put(&self, mapping: &Mapping, offset: u64, bytes: &[u8]) {
        debug_assert!(offset + bytes.len() as u64 <= self.size);
        // SAFETY: the region is mapped and not yet anybody's; the caller stays within its size.
        unsafe {
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), mapping.base().at(offset), bytes.len());
        }
    }
}

/// Whether the header fits this program and the file; the region's size.
fn check_header(
    header: &MediaHeader,
    file: &dyn DiskFile,
    path: &Path,
    read_only: bool,
) -> Result<u64, Error> {
    let (must, read) = (header.features_must.get(), header.features_read.get());
    check_features(path, must, read, read_only)?;
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
