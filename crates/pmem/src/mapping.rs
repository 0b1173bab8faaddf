//! Address space: a large range is reserved, its start is mapped, growth maps more of it.
#![allow(unsafe_code)]

#[cfg(miri)]
mod heap;
#[cfg(not(miri))]
mod protection;
#[cfg(not(miri))]
mod system;

use std::os::fd::BorrowedFd;
use std::ptr::NonNull;

#[cfg(miri)]
pub(crate) use heap::{Mapping, is_persistent_memory};
#[cfg(not(miri))]
pub(crate) use system::{Mapping, is_persistent_memory};

/// Bytes in a page of the machine.
pub(crate) const PAGE: u64 = 4096;

/// Bytes in a large page: the base is aligned so that they can be used.
pub(crate) const LARGE_PAGE: u64 = 2 << 20;

/// Bytes that a region, its log and a table have at most: far more than can be addressed, and so little that
/// sums of a few sizes do not wrap.
pub const SIZE_MAX: u64 = 1 << 56;

/// How a range is backed.
#[cfg_attr(miri, allow(dead_code))]
#[derive(Clone, Copy, Debug)]
pub(crate) enum Backing<'a> {
    /// Memory of the process.
    Anonymous,
    /// Pages of the file, copied when they are stored to.
    Private(BorrowedFd<'a>),
    /// Pages of the file.
    Shared(BorrowedFd<'a>),
    /// Persistent memory itself: the file system's metadata is durable before a store is.
    Synchronous(BorrowedFd<'a>),
}

/// Where a mapping begins, kept where it is quick to reach.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Base(NonNull<u8>);

// SAFETY: an address; using it is the region's business.
unsafe impl Send for Base {}
// SAFETY: as above.
unsafe impl Sync for Base {}

impl Base {
    /// The address of a byte; not yet checked.
    #[inline]
    pub(crate) fn at(self, offset: u64) -> *mut u8 {
        self.0.as_ptr().wrapping_add(offset as usize)
    }
}
