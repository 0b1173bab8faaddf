//! What a rival is: a store that is opened in a place, and its clients.

use std::path::Path;

use crate::Error;

/// A store that is open.
pub(crate) trait Rival {
    /// A client of it; several may use it at once.
    fn client(&self) -> Result<Box<dyn Client + '_>, Error>;
}

/// A handle of a store, or a connection to it.
pub(crate) trait Client: Send {
    /// Durable when it returns, in the configurations that say so.
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), Error>;

    /// Whether it is there; then `out` holds its value.
    fn get(&mut self, key: &[u8], out: &mut Vec<u8>) -> Result<bool, Error>;

    /// Durable when it returns; whether it was there.
    fn remove(&mut self, key: &[u8]) -> Result<bool, Error>;

    /// Visits up to `len` entries from `key` on; their number. `None`: it has no order.
    fn scan(&mut self, key: &[u8], len: usize) -> Result<Option<usize>, Error>;
}

/// Where the files are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Medium {
    /// A tmpfs: memory as if it were persistent. A file system's fsync is free there.
    Memory,
    /// A disk, whose fsync is waited for.
    Disk,
}

/// Where a store is made.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place<'p> {
    /// Empty.
    pub(crate) folder: &'p Path,
    pub(crate) medium: Medium,
    /// The binary `tembo`, for servers.
    pub(crate) tembo: &'p Path,
}

/// What went wrong in a rival.
pub(crate) fn failed(
    rival: &'static str,
) -> impl Fn(Box<dyn std::error::Error + Send + Sync>) -> Error {
    move |source| Error::Rival { rival, source }
}
