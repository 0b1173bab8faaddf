//! What can go wrong with a backup.

use std::io;
use std::path::PathBuf;

use crate::Error;

/// Errors of backup and restore.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BackupError {
    /// Something has that name already; it was left as it is.
    #[error("{} exists", path.display())]
    Exists {
        /// What exists.
        path: PathBuf,
    },
    /// Where the backup is written until it is whole, lies something else than what a backup has begun: a link, a pipe, a
    /// folder. It was left as it is.
    #[error("{} is in the way, and is no file that a backup has begun: remove it", path.display())]
    InTheWay {
        /// What is in the way.
        path: PathBuf,
    },
    /// It was told to stop; the same backup goes on where it ended.
    #[error("the backup {} was interrupted", path.display())]
    Interrupted {
        /// The backup.
        path: PathBuf,
    },
    /// Reading or writing a file failed.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// The file is not a backup.
    #[error("{} is not a backup", path.display())]
    NotABackup {
        /// The file.
        path: PathBuf,
    },
    /// The backup has a newer format.
    #[error("{} has format {version}, which is newer than {known}", path.display())]
    NewerVersion {
        /// The file.
        path: PathBuf,
        /// Its format.
        version: u32,
        /// The newest that is known.
        known: u32,
    },
    /// The backup is damaged, or was cut off.
    #[error("{} is damaged at byte {offset}: {what}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Where.
        offset: u64,
        /// What should have been there.
        what: &'static str,
    },
    /// The backup was taken from another pool.
    #[error("{} is a backup of another pool", path.display())]
    OtherPool {
        /// The file.
        path: PathBuf,
    },
    /// An incremental backup does not follow what comes before it.
    #[error("{} begins at version {found}, and what comes before ends at {expected}", path.display())]
    NotInARow {
        /// The file.
        path: PathBuf,
        /// The version where what comes before it ends; 0: nothing comes before it.
        expected: u64,
        /// The version since which it tells; 0: it is everything.
        found: u64,
    },
    /// Of the store.
    #[error(transparent)]
    Store(#[from] Error),
}
