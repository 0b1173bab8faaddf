//! The files of a backup: their names, and errors with the path.

use std::path::{Path, PathBuf};

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

/// Gives a finished file its name, unless something has it, durably.
pub(super) fn publish(from: &Path, to: &Path) -> Result<(), BackupError> {
    io(to, std::fs::hard_link(from, to))?;
    io(from, std::fs::remove_file(from))?;
    let parent = to.parent().filter(|parent| !parent.as_os_str().is_empty());
    let parent = parent.unwrap_or(Path::new("."));
    io(parent, std::fs::File::open(parent).and_then(|directory| directory.sync_all()))
}
