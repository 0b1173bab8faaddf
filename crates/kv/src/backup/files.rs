//! The files of a backup: their names, and errors with the path.

use std::fs::{File, OpenOptions};
use std::io::ErrorKind;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use tembo_pmem::open_regular;

use super::error::BackupError;

/// What was done with the file at `path`.
pub(super) fn io<T>(path: &Path, done: std::io::Result<T>) -> Result<T, BackupError> {
    done.map_err(|source| BackupError::Io { path: path.to_owned(), source })
}

/// The path with an ending more.
pub(super) fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    name.into()
}

/// Readable by the owner and the group, as a pool is: it has all that the pool has.
const MODE: u32 = 0o640;

/// Opens the file that a backup is written to until it is whole; makes it if it is not there. Other programs may write to the
/// folder: a pipe would make the backup wait, and a link lead it to another file.
pub(super) fn open_partial(path: &Path) -> Result<File, BackupError> {
    let opened = open_regular(path, OpenOptions::new().write(true).create(true).mode(MODE), false);
    let file = match opened {
        Err(error) if error.kind() == ErrorKind::InvalidInput => {
            return Err(BackupError::InTheWay { path: path.to_owned() });
        }
        opened => io(path, opened)?,
    };
    if io(path, file.metadata())?.nlink() == 1 {
        return Ok(file);
    }
    // The other name is that of a whole backup, which had got it when the process ended.
    io(path, std::fs::remove_file(path))?;
    io(path, OpenOptions::new().write(true).create_new(true).mode(MODE).open(path))
}

/// Gives a finished file its name, unless something has it, durably.
pub(super) fn publish(from: &Path, to: &Path) -> Result<(), BackupError> {
    io(to, std::fs::hard_link(from, to))?;
    io(from, std::fs::remove_file(from))?;
    let parent = to.parent().filter(|parent| !parent.as_os_str().is_empty());
    let parent = parent.unwrap_or(Path::new("."));
    io(parent, std::fs::File::open(parent).and_then(|directory| directory.sync_all()))
}
