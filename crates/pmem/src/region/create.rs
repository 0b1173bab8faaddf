//! Creation: the new pool is made under another name, and gets its own when it is whole.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::choice::{Choice, choose};
use super::format_lines::FormatLines;
use super::{Backend, File, Region, RegionOptions};
use crate::format::{FLAG_EMULATED, HEADER_SIZE, MediaHeader};
use crate::header::Slots;
use crate::mapping::{Backing, Mapping, PAGE};
use crate::process::Process;
use crate::runs::Runs;
use crate::{DiskFile, Domain, Error, Fault, LINE};

impl Region {
    /// Creates a pool file of `size` bytes (rounded up to whole pages) and opens it. `format` puts
    /// the first bytes into the region, through stores, flushes and fences like all others.
    ///
    /// Durable on return. A crash before leaves no file of that name, at most `PATH.tmp`, which
    /// the next creation replaces.
    ///
    /// # Errors
    /// [`Error::Exists`], [`Error::Held`] when somebody is creating the same pool,
    /// [`Error::DiskFull`], [`Error::Io`], [`Error::Oversize`]; what `format` says.
    pub fn create<E: From<Error>>(
        path: &Path,
        size: u64,
        options: &RegionOptions,
        format: impl FnOnce(&Region) -> Result<(), E>,
    ) -> Result<Region, E> {
        Region::create_with(path, size, options, |region| format(&region).map(|()| region))
    }

    /// As [`create`](Region::create), where `format` takes the region and gives back what it is
    /// part of. That is dropped before the file gets its name.
    ///
    /// # Errors
    /// As [`create`](Region::create).
    pub fn create_with<E: From<Error>, R: AsRef<Region>>(
        path: &Path,
        size: u64,
        options: &RegionOptions,
        format: impl FnOnce(Region) -> Result<R, E>,
    ) -> Result<Region, E> {
        options.check_sizes(size)?;
        if options.read_only {
            let what = "a pool that is created is written";
            return Err(Error::Unsupported { path: path.to_owned(), what }.into());
        }
        let size = size.max(2 * HEADER_SIZE).next_multiple_of(PAGE);
        if options.disk.open(path).is_ok() {
            return Err(Error::Exists { path: path.to_owned() }.into());
        }
        let draft_path = with_suffix(path, ".tmp");
        let draft =
            options.disk.create("create.file", &draft_path).map_err(|e| match e.kind() {
                io::ErrorKind::WouldBlock => Error::Held { path: draft_path.clone(), pid: None },
                _ => Error::io("create", &draft_path, e),
            })?;
        let made = make(&draft, &draft_path, path, size, options, format);
        // Of no consequence when it fails: the next creation replaces the file.
        let _ = options.disk.remove("create.remove_draft", &draft_path);
        made?;
        Region::open_locked(draft, path, options, |_| Ok(()))
    }
}

impl AsRef<Region> for Region {
    fn as_ref(&self) -> &Region {
        self
    }
}

fn make<E: From<Error>, R: AsRef<Region>>(
    draft: &Arc<dyn DiskFile>,
    draft_path: &Path,
    path: &Path,
    size: u64,
    options: &RegionOptions,
    format: impl FnOnce(Region) -> Result<R, E>,
) -> Result<(), E> {
    let io = |action, e| Error::io(action, draft_path, e);
    draft.allocate("create.allocate", 0, size).map_err(|e| io("allocate", e))?;
    let choice = choose(draft.as_ref(), draft_path, options, None)?;
    let log_path = with_suffix(path, ".log");
    if choice.domain == Domain::Logged && options.disk.open(&log_path).is_ok() {
        return Err(Error::Exists { path: log_path }.into());
    }
    let region = draft_region(draft, draft_path, size, &choice, options)?;
    let formatted = format(region)?;
    formatted.as_ref().write_formatted(draft, draft_path)?;
    drop(formatted);
    let disk = &options.disk;
    disk.link("create.link", draft_path, path).map_err(|e| match e.kind() {
        io::ErrorKind::AlreadyExists => Error::Exists { path: path.to_owned() },
        _ => Error::io("link", path, e),
    })?;
    // Opening makes the name durable.
    Ok(())
}

/// The region that `format` works on.
fn draft_region(
    draft: &Arc<dyn DiskFile>,
    draft_path: &Path,
    size: u64,
    choice: &Choice,
    options: &RegionOptions,
) -> Result<Region, Error> {
    let entropy = || u128::from(options.disk.entropy());
    let mut header = MediaHeader::new(entropy() | (entropy() << 64), size);
    header.domain.set(choice.domain_on_media());
    header.set(FLAG_EMULATED, choice.emulated);
    header.boot.set(options.disk.boot());
    let slots = Slots::new(draft.clone(), draft_path, header);
    let mapping = Mapping::reserve(size, size).map_err(|e| Error::io("map", draft_path, e))?;
    let (backing, backend) = match choice.domain {
        Domain::Flush | Domain::Eadr => (choice.backing(draft.as_ref()), choice.backend(options)?),
        Domain::Logged | Domain::Volatile => {
            (Backing::Anonymous, Backend::Format(FormatLines::new()))
        }
    };
    mapping.map(backing, 0, size).map_err(|e| Error::io("map", draft_path, e))?;
    Ok(Region {
        base: mapping.base(),
        mapping: Arc::new(mapping),
        size: AtomicU64::new(size),
        reach: AtomicU64::new(0),
        pending: None,
        backend,
        observer: options.observer.clone(),
        sync_policy: options.sync,
        emulated: choice.emulated,
        recovery: Duration::ZERO,
        media: Some(File { path: draft_path.to_owned(), header: Mutex::new(slots) }),
        growth: Mutex::default(),
        replayed: (0, 0),
        read_only: false,
        process: Process::current(),
    })
}

impl Region {
    /// Brings what formatting has fenced into the file, and its header, durably.
    fn write_formatted(&self, draft: &Arc<dyn DiskFile>, draft_path: &Path) -> Result<(), Error> {
        if let Backend::Format(lines) = &self.backend {
            write_lines(self, lines, draft, draft_path)?;
        }
        let Some(media) = &self.media else {
            return Ok(());
        };
        let mut slots = media.header.lock().unwrap_or_else(PoisonError::into_inner);
        // ORDER: the file's content and length are durable before it has its name, so that whoever
        // finds the name finds a whole pool.
        slots.update("create.header_write", "create.sync_before_link", |_| {})
    }
}

fn write_lines(
    region: &Region,
    lines: &FormatLines,
    draft: &Arc<dyn DiskFile>,
    draft_path: &Path,
) -> Result<(), Error> {
    let mut runs = Runs::new(draft.as_ref(), "create.format_write");
    for line in lines.take() {
        if line >= HEADER_SIZE {
            let mut bytes = [0; LINE as usize];
            let found = region.media_bytes(line, LINE);
            found.map_err(|fault: Fault| Error::from(fault))?.copy_to(&mut bytes);
            runs.put(line, &bytes).map_err(|e| Error::io("write", draft_path, e))?;
        }
    }
    runs.finish().map(drop).map_err(|e| Error::io("write", draft_path, e))
}

/// The path with `suffix` behind its file name.
pub(crate) fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name: OsString = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}
