//! Which file lies at a path.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// A file of the system. While it is open, another file that comes to lie at its path has another id.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct FileId {
    device: u64,
    number: u64,
}

impl FileId {
    /// What lies at a path; links are not followed at its end.
    pub(crate) fn at(path: &Path) -> Option<FileId> {
        let found = fs::symlink_metadata(path).ok()?;
        Some(FileId { device: found.dev(), number: found.ino() })
    }
}
