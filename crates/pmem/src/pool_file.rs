//! The file under a region.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::format::MediaHeader;
use crate::header::Slots;

/// The path of a pool file, and its header.
pub(crate) struct PoolFile {
    path: PathBuf,
    header: Mutex<Slots<MediaHeader>>,
}

impl PoolFile {
    /// The file at `path`, of which `header` has been read or is to be written.
    pub(crate) fn new(path: &Path, header: Slots<MediaHeader>) -> PoolFile {
        PoolFile { path: path.to_owned(), header: Mutex::new(header) }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The header, for one thread at a time.
    pub(crate) fn header(&self) -> MutexGuard<'_, Slots<MediaHeader>> {
        self.header.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The path with `suffix` behind its file name.
pub(crate) fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name: OsString = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}
