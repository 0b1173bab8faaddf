//! Ordinary database files, brought into a pool and out of it.
//!
//! A file comes in as SQLite would show it at the next opening: what a hot journal has is taken back, what is whole in a WAL is
//! there. The file, its journal and its WAL stay as they are. SQLite's locks are respected: a process that is about to write
//! is an error, and so is one that has the file open with a WAL, because it may write at any time.

mod error;
mod file_lock;
mod format;
mod overlay;
mod rollback_journal;
mod wal;

use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use tembo_array::{Array, Device, DeviceOptions, DeviceSnapshot, Isolation};
use tembo_kv::Durability;

pub use error::FileError;
pub use format::DatabaseHeader;
use format::HEADER_SIZE;
use overlay::Overlay;

use crate::page_one;

/// Most pages of a database, by SQLite.
const PAGES_MAX: u32 = 0xffff_fffe;

/// Bytes that are copied at a time out of a pool.
const COPIED: usize = 1 << 20;

/// A database that was brought in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Imported {
    /// Its pages.
    pub pages: u64,
    /// Bytes in a page.
    pub page_size: u32,
    /// Pages that were taken from a hot journal or a WAL.
    pub recovered: u64,
}

/// An ordinary database file, as SQLite would show it.
struct OrdinaryFile {
    path: PathBuf,
    file: File,
    page_size: u32,
    page_count: u64,
    overlay: Option<Overlay>,
}

/// The header of a database in a snapshot of a device. `None`: the device holds none, or one without a table.
///
/// # Errors
/// Damage.
pub fn header(snapshot: &DeviceSnapshot) -> Result<Option<DatabaseHeader>, tembo_array::Error> {
    let mut bytes = [0; HEADER_SIZE];
    let len = snapshot.read_at(0, &mut bytes)?;
    Ok(DatabaseHeader::of(&bytes[..len]))
}

/// Makes a device of that name, if there is none that is empty, and copies an ordinary database into it, recovered as SQLite would.
///
/// Durability point: when it returns. A crash leaves no device, an empty one, or the whole database.
///
/// # Errors
/// [`FileError::NotADatabase`], [`FileError::Busy`], [`FileError::Damaged`], [`FileError::Io`]; those of
/// [`Array::create`] and of a commit: there is no device then.
pub fn import(array: &Array, name: &str, path: &Path) -> Result<Imported, FileError> {
    let source = OrdinaryFile::open(path)?;
    let block_size = match source.page_size {
        0 => DeviceOptions::default().block_size,
        size => size as usize,
    };
    let options = DeviceOptions { block_size, ..DeviceOptions::default() };
    let (device, is_made) = match array.create(name, options) {
        // One that a crash has left.
        Err(tembo_array::Error::DeviceExists { .. }) if array.device(name)?.is_empty()? => {
            (array.device(name)?, false)
        }
        created => (created?, true),
    };
    match source.copy_into(array, &device) {
        Ok(()) => Ok(Imported {
            pages: source.page_count,
            page_size: source.page_size,
            recovered: source.overlay.map_or(0, |overlay| overlay.pages.len() as u64),
        }),
        Err(error) => {
            if is_made {
                // What is reported is why: an empty device may be left.
                let _ = array.remove(&device);
            }
            Err(error)
        }
    }
}

/// Writes a database to a file that is not there yet, and syncs it; its bytes.
///
/// # Errors
/// [`FileError::NotADatabase`]: the device holds none. [`FileError::Io`], also if something has that name: then it stays as it is.
pub fn export(snapshot: &DeviceSnapshot, path: &Path) -> Result<u64, FileError> {
    if !snapshot.is_empty() && header(snapshot)?.is_none() {
        return Err(FileError::NotADatabase { path: snapshot.name().into() });
    }
    let io = |source| FileError::Io { path: path.to_owned(), source };
    let mut file = File::create_new(path).map_err(io)?;
    let copied = copy_out(snapshot, &mut file, path);
    if copied.is_err() {
        // What is reported is why; the file is not whole.
        let _ = std::fs::remove_file(path);
    }
    copied
}

fn copy_out(snapshot: &DeviceSnapshot, file: &mut File, path: &Path) -> Result<u64, FileError> {
    let io = |source| FileError::Io { path: path.to_owned(), source };
    let (mut at, mut buffer) = (0, vec![0; COPIED]);
    loop {
        let len = snapshot.read_at(at, &mut buffer)?;
        if len == 0 {
            file.sync_all().map_err(io)?;
            return Ok(at);
        }
        page_one::show(snapshot.tag(), at, &mut buffer[..len]);
        file.write_all(&buffer[..len]).map_err(io)?;
        at += len as u64;
    }
}

/// A file beside the database.
fn beside(path: &Path, end: &str) -> PathBuf {
    let mut name: OsString = path.as_os_str().to_owned();
    name.push(end);
    name.into()
}

/// A file, if it is there.
fn opened(path: &Path) -> Result<Option<File>, FileError> {
    match File::open(path) {
        Ok(file) => Ok(Some(file)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(FileError::Io { path: path.to_owned(), source }),
    }
}

impl OrdinaryFile {
    fn open(path: &Path) -> Result<OrdinaryFile, FileError> {
        let io = |source| FileError::Io { path: path.to_owned(), source };
        // SQLite looks for the journal beside what a link leads to.
        let path = &path.canonicalize().map_err(io)?;
        let (file, is_writable) = match OpenOptions::new().read(true).write(true).open(path) {
            Ok(file) => (file, true),
            Err(_) => (File::open(path).map_err(io)?, false),
        };
        let busy = |what| FileError::Busy { path: path.clone(), what };
        if !file_lock::keep_writers_out(&file, is_writable).map_err(io)? {
            return Err(busy("writes to it"));
        }
        let len = file.metadata().map_err(io)?.len();
        let mut overlay = None;
        // With a writer, the journal is its own, and the file as it was before.
        if len > 0 && !file_lock::has_writer(&file).map_err(io)? {
            let journal = opened(&beside(path, "-journal"))?;
            overlay = journal.map(rollback_journal::read).transpose().map_err(io)?.flatten();
        }
        if len > 0
            && let Some(wal) = opened(&beside(path, "-wal"))?
        {
            if file_lock::has_readers(&file).map_err(io)? {
                return Err(busy("has it open with a WAL"));
            }
            let found = wal::read(wal).map_err(io)?;
            if overlay.is_some() && found.is_some() {
                let what = "it has both a hot journal and a WAL";
                return Err(FileError::Damaged { path: path.clone(), what });
            }
            overlay = overlay.or(found);
        }
        let (page_size, page_count) = match &overlay {
            Some(overlay) if overlay.page_count > PAGES_MAX => {
                let what = "its journal or WAL names more pages than SQLite has";
                return Err(FileError::Damaged { path: path.clone(), what });
            }
            Some(overlay) => (overlay.page_size, overlay.page_count.into()),
            None => {
                let mut head = vec![0; HEADER_SIZE.min(len as usize)];
                file.read_exact_at(&mut head, 0).map_err(io)?;
                let header = DatabaseHeader::of(&head);
                let size = header.map_or(0, |header| header.page_size);
                if size == 0 && len > 0 {
                    return Err(FileError::NotADatabase { path: path.clone() });
                }
                (size, if size == 0 { 0 } else { len.div_ceil(size.into()) })
            }
        };
        Ok(OrdinaryFile { path: path.clone(), file, page_size, page_count, overlay })
    }

    /// Reads a page; the first is number 1.
    fn page(&self, number: u64, to: &mut [u8]) -> Result<(), FileError> {
        let io = |source| FileError::Io { path: self.path.clone(), source };
        let place = self.overlay.as_ref().and_then(|overlay| {
            Some((&overlay.file, *overlay.pages.get(&u32::try_from(number).ok()?)?))
        });
        match place {
            Some((file, at)) => file.read_exact_at(to, at).map_err(io)?,
            None => {
                let mut done = 0;
                let at = (number - 1) * u64::from(self.page_size);
                while done < to.len() {
                    match self.file.read_at(&mut to[done..], at + done as u64) {
                        Ok(0) => break,
                        Ok(len) => done += len,
                        Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                        Err(error) => return Err(io(error)),
                    }
                }
                to[done..].fill(0);
            }
        }
        if number == 1 {
            match DatabaseHeader::of(to) {
                Some(header) if header.page_size == self.page_size => {}
                Some(_) => {
                    let what = "its first page says another size of pages than its journal or WAL";
                    return Err(FileError::Damaged { path: self.path.clone(), what });
                }
                None => return Err(FileError::NotADatabase { path: self.path.clone() }),
            }
            // It has no WAL from now on.
            page_one::take_wal_away(0, to);
        }
        Ok(())
    }

    /// The numbers of the pages that the file, its journal or its WAL holds. The others have only zeros: a journal or a WAL may name
    /// billions of them.
    fn held(&self) -> Result<Vec<u64>, FileError> {
        let io = |source| FileError::Io { path: self.path.clone(), source };
        let len = self.file.metadata().map_err(io)?.len();
        let in_file = len.div_ceil(u64::from(self.page_size).max(1)).min(self.page_count);
        let others = self.overlay.iter().flat_map(|overlay| overlay.pages.keys());
        let others = others.map(|&number| u64::from(number));
        let mut behind: Vec<u64> =
            others.filter(|number| (in_file + 1..=self.page_count).contains(number)).collect();
        behind.sort_unstable();
        Ok((1..=in_file).chain(behind).collect())
    }

    /// Copies all of it in one transaction.
    fn copy_into(&self, array: &Array, device: &Device) -> Result<(), FileError> {
        let mut tx = array.transaction(Isolation::FirstCommitter)?;
        let mut page = vec![0; self.page_size as usize];
        for number in self.held()? {
            self.page(number, &mut page)?;
            if page.iter().any(|byte| *byte != 0) {
                tx.write(device, (number - 1) * u64::from(self.page_size), &page)?;
            }
        }
        if self.page_count > 0 {
            tx.set_len(device, self.page_count * u64::from(self.page_size))?;
        }
        tx.commit(Durability::Strict)?;
        Ok(())
    }
}
