//! What can go wrong with an ordinary database file.

use std::io;
use std::path::PathBuf;

/// Errors of bringing a database in or out.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FileError {
    /// The file, or the device, does not begin as a database does.
    #[error("{} is not a SQLite database", path.display())]
    NotADatabase {
        /// The file, or the name of the device.
        path: PathBuf,
    },
    /// Another process is in the way: wait for it, stop it, or copy the database with `VACUUM INTO`.
    #[error("another process {what}: {}", path.display())]
    Busy {
        /// The file.
        path: PathBuf,
        /// What the process does.
        what: &'static str,
    },
    /// The file cannot be recovered.
    #[error("{} is damaged: {what}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What does not fit.
        what: &'static str,
    },
    /// Of the file system.
    #[error("{}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Its error.
        source: io::Error,
    },
    /// Of the device.
    #[error(transparent)]
    Device(#[from] tembo_array::Error),
}
