//! Opening, which is recovery; the choice of a domain; closing.

use std::io;
use std::path::Path;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, PoisonError};

use super::{Backend, Media, Region, RegionOptions};
use crate::flush::FlushInstruction;
use crate::format::{FLAG_CLEAN, FLAG_EMULATED, HEADER_SIZE, MediaHeader};
use crate::header::Slots;
use crate::mapping::{Backing, Mapping, PAGE, is_persistent_memory};
use crate::{DiskFile, Domain, DomainRequest, Error};

/// A domain, and whether the medium really is what the domain wants.
#[derive(Clone, Copy, Debug)]
pub(super) struct Choice {
    pub(super) domain: Domain,
    pub(super) emulated: bool,
}

impl Choice {
    /// The number that stands for the domain in the header.
    pub(super) fn domain_on_media(&self) -> u32 {
        match self.domain {
            Domain::Volatile => 0,
            Domain::Flush => 1,
            Domain::Eadr => 2,
            Domain::Logged => 3,
        }
    }

    /// How the file is mapped in the domains that store into it.
    pub(super) fn backing<'f>(&self, file: &'f dyn DiskFile) -> Backing<'f> {
        match (file.descriptor(), self.emulated) {
            (Some(fd), false) => Backing::Synchronous(fd),
            (Some(fd), true) => Backing::Shared(fd),
            (None, _) => Backing::Anonymous,
        }
    }

    /// What flushes, in the domains that store into the file.
    pub(super) fn backend(&self) -> Result<Backend, Error> {
        match (self.domain, FlushInstruction::detect()) {
            (Domain::Flush, Some(instruction)) => Ok(Backend::Flush(instruction)),
            (Domain::Eadr, Some(_)) => Ok(Backend::Eadr),
            _ => Err(Error::Unsupported {
                path: "".into(),
                what: "this processor has no flush instruction",
            }),
        }
    }
}

/// The domain of a pool that is being created.
pub(super) fn choose_new(
    file: &dyn DiskFile,
    path: &Path,
    options: &RegionOptions,
) -> Result<Choice, Error> {
    choose(file, path, options, None)
}

/// The domain of a pool, new or, with its header, old. Probed, never assumed.
fn choose(
    file: &dyn DiskFile,
    path: &Path,
    options: &RegionOptions,
    header: Option<&MediaHeader>,
) -> Result<Choice, Error> {
    let unsupported = |what| Err(Error::Unsupported { path: path.to_owned(), what });
    let mappable = file.descriptor().is_some() && FlushInstruction::detect().is_some();
    let persistent = mappable && file.descriptor().is_some_and(is_persistent_memory);
    let emulated = !persistent;
    match options.domain {
        DomainRequest::Volatile => unsupported("a file is not volatile"),
        DomainRequest::Logged => Ok(Choice { domain: Domain::Logged, emulated: false }),
        DomainRequest::Flush | DomainRequest::Eadr if !mappable => {
            unsupported("the file cannot be mapped, or this processor cannot flush")
        }
        DomainRequest::Flush => Ok(Choice { domain: Domain::Flush, emulated }),
        DomainRequest::Eadr => Ok(Choice { domain: Domain::Eadr, emulated }),
        DomainRequest::Auto if persistent => {
            let domain = if caches_are_persistent() { Domain::Eadr } else { Domain::Flush };
            Ok(Choice { domain, emulated: false })
        }
        DomainRequest::Auto => match header {
            Some(header) if header.has(FLAG_EMULATED) => {
                if header.boot.get() != options.disk.boot() && !header.has(FLAG_CLEAN) {
                    return Err(Error::EmulationLost { path: path.to_owned() });
                }
                let domain = if header.domain.get() == 2 { Domain::Eadr } else { Domain::Flush };
                Ok(Choice { domain, emulated: true })
            }
            _ => Ok(Choice { domain: Domain::Logged, emulated: false }),
        },
    }
}

/// Whether the platform says of every persistent memory that its caches survive too.
fn caches_are_persistent() -> bool {
    let Ok(devices) = std::fs::read_dir("/sys/bus/nd/devices") else {
        return false;
    };
    let mut domains = devices
        .flatten()
        .filter(|device| device.file_name().to_string_lossy().starts_with("region"))
        .map(|device| std::fs::read_to_string(device.path().join("persistence_domain")))
        .peekable();
    domains.peek().is_some()
        && domains.all(|domain| domain.is_ok_and(|domain| domain.trim() == "cpu_cache"))
}

impl Region {
    /// Opens a pool file for this process alone. Opening is recovery: it is the same after a crash
    /// and after a clean stop, and may itself be interrupted and repeated.
    ///
    /// # Errors
    /// [`Error::Held`], [`Error::NotAPool`], [`Error::Damaged`], [`Error::Truncated`],
    /// [`Error::NewerVersion`], [`Error::UnknownFeatures`], [`Error::LogMissing`],
    /// [`Error::LogForeign`], [`Error::LogDamaged`], [`Error::EmulationLost`],
    /// [`Error::Unsupported`], [`Error::DiskFull`], [`Error::Io`].
    pub fn open(path: &Path, options: &RegionOptions) -> Result<Region, Error> {
        let io = |action, e: io::Error| Error::io(action, path, e);
        let file = options.disk.open(path).map_err(|e| io("open", e))?;
        if !file.lock().map_err(|e| io("lock", e))? {
            return Err(Error::Held { path: path.to_owned(), pid: file.holder() });
        }
        Region::open_locked(file, path, options)
    }

    pub(super) fn open_locked(
        file: Arc<dyn DiskFile>,
        path: &Path,
        options: &RegionOptions,
    ) -> Result<Region, Error> {
        let mut slots = Slots::<MediaHeader>::read(file.clone(), path)?;
        let header = *slots.get();
        let size = check(&header, file.as_ref(), path)?;
        let choice = choose(file.as_ref(), path, options, Some(&header))?;
        if choice.domain == Domain::Logged {
            return Err(Error::Unsupported { path: path.to_owned(), what: "not built yet" });
        }
        let backend = choice.backend()?;
        let mapping = Mapping::reserve(size, options.size_max)
            .and_then(|m| m.map(choice.backing(file.as_ref()), 0, size).map(|()| m))
            .map_err(|e| Error::io("map", path, e))?;
        // ORDER: the header says that the region is in use, and in which boot, before anything is
        // stored, so that an emulation that lost its memory is known for one.
        slots.update("open.header_write", "open.header_sync", |header| {
            header.domain.set(choice.domain_on_media());
            header.set(FLAG_EMULATED, choice.emulated);
            header.set(FLAG_CLEAN, false);
            header.boot.set(options.disk.boot());
        })?;
        Ok(Region {
            mapping,
            size: AtomicU64::new(size),
            backend,
            observer: options.observer.clone(),
            sync_policy: options.sync,
            emulated: choice.emulated,
            media: Some(Media {
                path: path.to_owned(),
                disk: options.disk.clone(),
                header: Mutex::new(slots),
            }),
        })
    }

    /// A clean stop: everything fenced is brought into the one file, which may then be copied.
    /// Nothing depends on it but that.
    ///
    /// # Errors
    /// As [`sync`](Region::sync), and of writing the pool file. The region is gone in any case, as
    /// by a crash.
    pub fn close(self) -> Result<(), Error> {
        let Some(media) = &self.media else {
            return Ok(());
        };
        let mut slots = media.header.lock().unwrap_or_else(PoisonError::into_inner);
        // ORDER: all stores are in the file before the header calls it clean.
        slots.file().sync("close.sync").map_err(|e| Error::io("sync", &media.path, e))?;
        slots.update("close.header_write", "close.header_sync", |header| {
            header.set(FLAG_CLEAN, true);
        })
    }
}

/// Whether the header fits this program and the file; the region's size.
fn check(header: &MediaHeader, file: &dyn DiskFile, path: &Path) -> Result<u64, Error> {
    let unknown = header.features_must.get() | header.features_read.get();
    if unknown != 0 {
        return Err(Error::UnknownFeatures { path: path.to_owned(), bits: unknown });
    }
    let size = header.size.get();
    if size % PAGE != 0 || size < 2 * HEADER_SIZE || size > 1 << 56 {
        return Err(Error::Damaged { path: path.to_owned(), what: "impossible size" });
    }
    let len = file.len().map_err(|e| Error::io("measure", path, e))?;
    if len < size {
        return Err(Error::Truncated { path: path.to_owned(), len, size });
    }
    Ok(size)
}
