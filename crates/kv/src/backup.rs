//! Backups: the store at one version, or what has changed since another, in one file; taken while others
//! write.
//!
//! A backup is of a snapshot, so it is consistent whatever happens meanwhile. The version is *named* until
//! the backup is done, and so survives the process: a backup that was interrupted is gone on with where
//! its last whole block ends. It is written beside its place and linked there, synced, when it is whole;
//! what has the name of a backup is one.
//!
//! An incremental backup says what differs between two retained versions: the one of the backup before,
//! which a name or the window keeps, and its own. Each block has a checksum, and the whole file. A restore
//! reads all of it first, then makes a store beside the place of the pool, and links that when it is closed.

mod error;
mod format;
mod reader;
mod restore;
mod save;
mod writer;

pub use error::BackupError;
pub use restore::restore;
pub use save::SaveOptions;

use std::path::{Path, PathBuf};

/// What a backup says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BackupInfo {
    /// Identity of the pool that it was taken from.
    pub identity: u128,
    /// It says what has changed since that version; `None`: it is everything.
    pub since: Option<u64>,
    /// The version that it is a backup of.
    pub until: u64,
    /// Keys put and removed.
    pub entries: u64,
    /// Bytes of the file.
    pub bytes: u64,
}

/// Calls `at` with the path and what went wrong there.
fn io<T>(path: &Path, done: std::io::Result<T>) -> Result<T, BackupError> {
    done.map_err(|source| BackupError::Io { path: path.to_owned(), source })
}

/// The path with an ending more.
fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    name.into()
}

/// Gives a finished file its name, unless something has it, durably.
fn publish(from: &Path, to: &Path) -> Result<(), BackupError> {
    io(to, std::fs::hard_link(from, to))?;
    io(from, std::fs::remove_file(from))?;
    let parent = to.parent().filter(|parent| !parent.as_os_str().is_empty());
    let parent = parent.unwrap_or(Path::new("."));
    io(parent, std::fs::File::open(parent).and_then(|directory| directory.sync_all()))
}

/// Of which pool a backup says that it is, and of which version; nothing else of it is read.
///
/// # Errors
/// [`BackupError::NotABackup`], [`BackupError::Damaged`], [`BackupError::Io`].
pub fn peek(path: &Path) -> Result<(u128, u64), BackupError> {
    let header = reader::Reader::open(path)?.header;
    Ok((u128::from_le_bytes(header.identity), header.until.get()))
}

/// Reads a backup, all of it, and says what it is.
///
/// # Errors
/// [`BackupError::Damaged`], [`BackupError::Io`].
pub fn verify(path: &Path, progress: &mut dyn FnMut(u64)) -> Result<BackupInfo, BackupError> {
    let mut reader = reader::Reader::open(path)?;
    while let Some(block) = reader.next_block()? {
        progress(block.len() as u64);
    }
    reader.finish()
}
