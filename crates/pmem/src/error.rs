//! What can go wrong below the waist.

use std::io;
use std::path::PathBuf;

/// An access outside the region, or misaligned: on an opened pool, a sign of damage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no {len} bytes at offset {offset:#x} (the region has {size})")]
pub struct Fault {
    /// The offset asked for.
    pub offset: u64,
    /// The length asked for, in bytes.
    pub len: u64,
    /// The region's size, in bytes.
    pub size: u64,
}

/// Errors of creating, opening, growing and syncing a region.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The operating system refused.
    #[error("{action} {path}: {source}", path = path.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// On which file.
        path: PathBuf,
        /// Its answer.
        source: io::Error,
    },
    /// An offset on media led nowhere.
    #[error(transparent)]
    Fault(#[from] Fault),
}
