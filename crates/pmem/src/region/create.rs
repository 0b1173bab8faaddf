//! Creation: the new pool is made under another name, and gets its own when it is whole.

use std::io;
use std::path::Path;
use std::sync::Arc;

use super::{Parts, Region};
use crate::backend::{Backend, FormatLines};
use crate::choice::{Choice, choose};
use crate::disk::Runs;
use crate::format::{FLAG_EMULATED, MediaHeader};
use crate::header::Slots;
use crate::mapping::{Backing, Mapping, PAGE};
use crate::pool_file::{PoolFile, with_suffix};
use crate::{DiskFile, Domain, Error, HEADER_SIZE, LINE, RegionOptions};

impl Region {
    /// Creates a pool file of `size` bytes (rounded up to whole pages) and opens it. `format` puts
    /// the first bytes into the region, through stores, flushes and fences like all others.
    ///
    /// Durable on return. A crash before leaves no file of that name, at most `PATH.tmp`, which
    /// the next creation replaces.
    ///
    /// # Errors
    /// [`Error::Exists`], [`Error::Held`] while another process creates the same pool,
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
            let what = "a pool that is created is written: create it without `read_only`";
            return Err(Error::Unsupported { path: path.to_owned(), what }.into());
        }
        let size = size.max(2 * HEADER_SIZE).next_multiple_of(PAGE);
        if options.disk.open(path).is_ok() {
            return Err(Error::Exists { path: path.to_owned() }.into());
        }
        let new_path = with_suffix(path, ".tmp");
        let new_file =
            options.disk.create("create.file", &new_path).map_err(|e| match e.kind() {
                io::ErrorKind::WouldBlock => Error::Held { path: new_path.clone(), pid: None },
                _ => Error::io("create", &new_path, e),
            })?;
        let made = make(&new_file, &new_path, path, size, options, format);
        // Of no consequence when it fails: the next creation replaces the file.
        let _ = options.disk.remove("create.remove_new", &new_path);
        made?;
        Region::open_locked(new_file, path, options, |_| Ok(()))
    }
}

fn make<E: From<Error>, R: AsRef<Region>>(
    new_file: &Arc<dyn DiskFile>,
    new_path: &Path,
    path: &Path,
    size: u64,
    options: &RegionOptions,
    format: impl FnOnce(Region) -> Result<R, E>,
) -> Result<(), E> {
    let io = |action, e| Error::io(action, new_path, e);
    new_file.allocate("create.allocate", 0, size).map_err(|e| io("allocate", e))?;
    let choice = choose(new_file.as_ref(), new_path, options, None)?;
    let log_path = with_suffix(path, ".log");
    if choice.domain == Domain::Logged && options.disk.open(&log_path).is_ok() {
        return Err(Error::Exists { path: log_path }.into());
    }
    let region = format_region(new_file, new_path, size, &choice, options)?;
    let formatted = format(region)?;
    formatted.as_ref().write_formatted(new_file, new_path)?;
    drop(formatted);
    let disk = &options.disk;
    disk.link("create.link", new_path, path).map_err(|e| match e.kind() {
        io::ErrorKind::AlreadyExists => Error::Exists { path: path.to_owned() },
        _ => Error::io("link", path, e),
    })?;
    // Opening makes the name durable.
    Ok(())
}

/// The region that `format` works on.
fn format_region(
    new_file: &Arc<dyn DiskFile>,
    new_path: &Path,
    size: u64,
    choice: &Choice,
    options: &RegionOptions,
) -> Result<Region, Error> {
    let entropy = || u128::from(options.disk.entropy());
    let mut header = MediaHeader::new(entropy() | (entropy() << 64), size);
    header.domain.set(choice.domain_on_media());
    header.set(FLAG_EMULATED, choice.emulated);
    header.boot.set(options.disk.boot());
    let slots = Slots::new(new_file.clone(), new_path, header);
    let mapping = Mapping::reserve(size, size).map_err(|e| Error::io("map", new_path, e))?;
    let (backing, backend) = match choice.domain {
        Domain::Flush | Domain::Eadr => {
            (choice.backing(new_file.as_ref()), choice.backend(options)?)
        }
        Domain::Logged | Domain::Volatile => {
            (Backing::Anonymous, Backend::Format(FormatLines::new()))
        }
    };
    mapping.map(backing, 0, size).map_err(|e| Error::io("map", new_path, e))?;
    let parts = Parts {
        backend,
        emulated: choice.emulated,
        file: Some(PoolFile::new(new_path, slots)),
        ..Parts::in_memory(Arc::new(mapping), size)
    };
    Ok(Region::new(parts, options))
}

impl Region {
    /// Brings what formatting has fenced into the file, and its header, durably.
    fn write_formatted(&self, new_file: &Arc<dyn DiskFile>, new_path: &Path) -> Result<(), Error> {
        if let Backend::Format(lines) = &self.backend {
            write_lines(self, lines, new_file, new_path)?;
        }
        let Some(file) = &self.file else {
            return Ok(());
        };
        let mut slots = file.header();
        // ORDER: the file's content and length are durable before it has its name, so that its name
        // always leads to a whole pool.
        slots.update("create.header_write", "create.sync_before_link", |_| {})
    }
}

fn write_lines(
    region: &Region,
    lines: &FormatLines,
    new_file: &Arc<dyn DiskFile>,
    new_path: &Path,
) -> Result<(), Error> {
    let mut runs = Runs::new(new_file.as_ref(), "create.format_write");
    for line in lines.take() {
        if line >= HEADER_SIZE {
            let mut bytes = [0; LINE as usize];
            let found = region.media_bytes(line, LINE);
            found.map_err(Error::from)?.copy_to(&mut bytes);
            runs.put(line, &bytes).map_err(|e| Error::io("write", new_path, e))?;
        }
    }
    runs.finish().map(drop).map_err(|e| Error::io("write", new_path, e))
}
