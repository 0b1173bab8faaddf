//! What a rival is: a store that is opened in a place, and its clients.

use std::net::SocketAddr;
use std::path::Path;

use crate::Error;

/// A change of one key.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Change<'c> {
    Put { key: &'c [u8], value: &'c [u8] },
    Remove { key: &'c [u8] },
}

/// A store that is open.
pub(crate) trait Rival {
    /// Every setting that is not its default, as its own documentation calls it.
    fn settings(&self) -> Vec<String> {
        Vec::new()
    }

    /// Its process and its address, if it is a server.
    fn server(&self) -> Option<(u32, SocketAddr)> {
        None
    }

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

    /// Durable when it returns: in one commit, if the store has commits of several keys.
    fn write(&mut self, changes: &[Change<'_>]) -> Result<(), Error> {
        for change in changes {
            match *change {
                Change::Put { key, value } => self.put(key, value)?,
                Change::Remove { key } => drop(self.remove(key)?),
            }
        }
        Ok(())
    }

    /// Visits up to `len` entries from `key` on, and reads their values; their number. `None`: it has no order.
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
    /// What caches are sized for; `None`: they are as large as the data.
    pub(crate) share: Option<Share>,
}

/// What a store is to live with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Share {
    /// Bytes of memory for everything: caches, buffers and the system's pages of its files.
    pub(crate) memory: u64,
    /// Bytes of a value, about.
    pub(crate) value_size: usize,
}

#[cfg(any(feature = "rivals", feature = "rivals-debian"))]
impl Share {
    /// Values of this size are better kept beside the tree than in it, say the stores that can do either.
    const LARGE: usize = 4096;

    pub(crate) fn has_large_values(self) -> bool {
        self.value_size >= Share::LARGE
    }
}

/// Reads a value: a byte of each line of memory.
pub(crate) fn touch(value: &[u8]) {
    std::hint::black_box(value.iter().step_by(64).fold(0_u8, |sum, byte| sum.wrapping_add(*byte)));
}

/// What went wrong in a rival.
pub(crate) fn failed(
    rival: &'static str,
) -> impl Fn(Box<dyn std::error::Error + Send + Sync>) -> Error {
    move |source| Error::Rival { rival, source }
}
