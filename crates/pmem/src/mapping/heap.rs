//! Memory of the allocator in the place of mappings, for Miri: no files, no growth, no pages.

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::io;
use std::os::fd::BorrowedFd;
use std::ptr::NonNull;

use super::{Backing, Base, LARGE_PAGE, PAGE};

/// More is not asked of Miri.
const MEMORY_MAX: u64 = 1 << 26;

/// A range of zeroed memory.
#[derive(Debug)]
pub(crate) struct Mapping {
    base: NonNull<u8>,
    layout: Layout,
}

// SAFETY: the memory belongs to the mapping until it is dropped; what is in it is synchronised by
// the region's own rules.
unsafe impl Send for Mapping {}
// SAFETY: as above; the mapping itself is not changed after creation.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// As many bytes as are needed at once.
    pub(crate) fn reserve(size: u64, _size_max: u64) -> io::Result<Mapping> {
        if size > MEMORY_MAX {
            return Err(io::ErrorKind::OutOfMemory.into());
        }
        let size = size.max(1).next_multiple_of(PAGE);
        let layout = Layout::from_size_align(size as usize, LARGE_PAGE as usize);
        let layout = layout.map_err(|_| io::ErrorKind::OutOfMemory)?;
        // SAFETY: the layout has at least a page.
        let base = NonNull::new(unsafe { alloc_zeroed(layout) });
        Ok(Mapping { base: base.ok_or(io::ErrorKind::OutOfMemory)?, layout })
    }

    /// The memory is there already.
    pub(crate) fn map(&self, backing: Backing<'_>, from: u64, to: u64) -> io::Result<()> {
        let is_there = matches!(backing, Backing::Anonymous) && from <= to && to <= self.reserved();
        if is_there { Ok(()) } else { Err(io::ErrorKind::Unsupported.into()) }
    }

    /// Whether there are `len` bytes at `offset`.
    pub(crate) fn holds(&self, offset: u64, len: u64) -> bool {
        offset.checked_add(len).is_some_and(|end| end <= self.reserved())
    }

    /// There are no files.
    pub(crate) fn twice(_file: BorrowedFd<'_>, _from: u64, _len: u64) -> io::Result<Mapping> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// There are no files.
    pub(crate) fn populate(&self, _at: u64, _len: u64) -> io::Result<()> {
        Err(io::ErrorKind::InvalidInput.into())
    }

    /// There are no files, here and below.
    pub(crate) fn read_alone_above(self, _bytes: u64) -> Mapping {
        self
    }

    pub(crate) fn reads_alone(&self) -> bool {
        false
    }

    pub(crate) fn will_read(&self, _from: u64, _to: u64) {}

    /// See the other module.
    pub(crate) fn will_touch(&self, _from: u64, _to: u64) {}

    /// See the other module.
    pub(crate) fn will_write_in_file(&self, _from: u64, _to: u64) {}

    /// There are no pages, here and below.
    pub(crate) fn prefault(&self, _from: u64, _to: u64) {}

    /// Nothing comes from a file.
    pub(crate) fn will_store(&self, _from: u64, _to: u64) {}

    pub(crate) fn want_small_pages(&self) {}

    pub(crate) fn want_large_pages(&self, _from: u64, _to: u64) {}

    pub(crate) fn make_large_pages(&self, _from: u64, _to: u64) {}

    /// There are no files.
    pub(crate) fn give_back(&self, _from: u64, _to: u64) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// There are no pages, here and below.
    pub(crate) fn protect(&self, _size: u64) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub(crate) fn is_protected(&self) -> bool {
        false
    }

    pub(crate) fn open_pages(&self) -> io::Result<bool> {
        Ok(false)
    }

    pub(crate) fn close_pages(&self) {}

    pub(crate) fn protection_calls(&self) -> u64 {
        0
    }

    pub(crate) fn base(&self) -> Base {
        Base(self.base)
    }

    /// Bytes of memory.
    pub(crate) fn reserved(&self) -> u64 {
        self.layout.size() as u64
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: as it was allocated; no borrow of the region outlives it.
        unsafe { dealloc(self.base.as_ptr(), self.layout) }
    }
}

/// There are no files.
pub(crate) fn is_persistent_memory(_file: BorrowedFd<'_>) -> bool {
    false
}
