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
mod files;
mod format;
mod info;
mod reader;
mod restore;
mod save;
mod writer;

pub use error::BackupError;
pub use info::BackupInfo;
pub use reader::{peek, verify};
pub use restore::restore;
pub use save::{SaveOptions, Since};
