//! The files under a region, behind a trait so that a simulator can tear, drop and fail.
//!
//! Each step that changes something carries a unique name: a simulator may drop exactly that one.

mod behind;
mod os;
mod runs;
mod watched;

use std::io;
use std::os::fd::BorrowedFd;
use std::path::Path;
use std::sync::Arc;

pub(crate) use behind::Behind;
pub use os::OsDisk;
pub(crate) use runs::Runs;
pub(crate) use watched::WatchedFile;

/// Directories, and what the machine knows beside its files.
pub trait Disk: Send + Sync {
    /// Opens an existing file for reading and writing.
    fn open(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>>;

    /// Opens an existing file for reading only.
    fn open_to_read(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        self.open(path)
    }

    /// Creates an empty file, locked. A file of that name that no process holds is left over from a
    /// killed process and is replaced; one that is held answers `WouldBlock`.
    fn create(&self, step: &'static str, path: &Path) -> io::Result<Arc<dyn DiskFile>>;

    /// Gives the file a second name, never replacing one: `AlreadyExists`.
    fn link(&self, step: &'static str, from: &Path, to: &Path) -> io::Result<()>;

    /// Renames a file, replacing the target.
    fn rename(&self, step: &'static str, from: &Path, to: &Path) -> io::Result<()>;

    /// Removes a name.
    fn remove(&self, step: &'static str, path: &Path) -> io::Result<()>;

    /// Makes the names in the directory that holds `path` durable.
    fn sync_dir(&self, step: &'static str, path: &Path) -> io::Result<()>;

    /// Sixty-four random bits, for identities and salts.
    fn entropy(&self) -> u64;

    /// A number that changes when the machine boots.
    fn boot(&self) -> u64;
}

/// One open file.
pub trait DiskFile: Send + Sync {
    /// Bytes in the file.
    fn len(&self) -> io::Result<u64>;

    /// Whether the file has no bytes.
    fn is_empty(&self) -> io::Result<bool> {
        Ok(self.len()? == 0)
    }

    /// Whether the file has a name still. One that has none is gone when it is closed.
    fn has_name(&self) -> io::Result<bool> {
        Ok(true)
    }

    /// Fills `buffer` from `offset`; `UnexpectedEof` when the file ends before.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()>;

    /// Writes all of `bytes` at `offset`. Durable after the next successful `sync`.
    fn write_at(&self, step: &'static str, bytes: &[u8], offset: u64) -> io::Result<()>;

    /// Writes `parts`, one behind the other, at `offset`, as [`write_at`](DiskFile::write_at) does.
    fn write_parts_at(&self, step: &'static str, parts: &[&[u8]], offset: u64) -> io::Result<()> {
        self.write_at(step, &parts.concat(), offset)
    }

    /// Has the disk begin to take in what was written there: a sync that comes later waits for less. A hint, after which nothing
    /// is durable that was not before.
    fn begin_writing(&self, _offset: u64, _len: u64) {}

    /// Makes what was written, and the file's length, durable (`fdatasync`).
    fn sync(&self, step: &'static str) -> io::Result<()>;

    /// Whether blocks of 4,096 bytes can be written past the system's cache.
    fn is_direct(&self) -> bool {
        true
    }

    /// Writes whole blocks of 4,096 bytes and makes them durable, as [`write_at`](DiskFile::write_at) and [`sync`](DiskFile::sync)
    /// do; where [`is_direct`](DiskFile::is_direct), past the system's cache, which takes one call and a fifth less
    /// time. `bytes` begins at an address that is a multiple of a block, and so is `offset`. What other calls have written
    /// is not durable after it, unless it was before.
    fn write_durably(
        &self,
        write_step: &'static str,
        sync_step: &'static str,
        bytes: &[u8],
        offset: u64,
    ) -> io::Result<()> {
        self.write_at(write_step, bytes, offset)?;
        self.sync(sync_step)
    }

    /// Waits until the disk has taken in what was written, so that little of it stands in the way of
    /// another thread's sync. A hint that promises nothing; a failure reports writes that were lost.
    fn drain(&self) -> io::Result<()> {
        Ok(())
    }

    /// Allocates blocks, extending the file with zeroes where it ends before; never sparse.
    fn allocate(&self, step: &'static str, offset: u64, len: u64) -> io::Result<()>;

    /// Where, at `offset` or behind it, blocks begin that were never written, where the system says it.
    fn hole(&self, _offset: u64) -> io::Result<Option<u64>> {
        Ok(None)
    }

    /// Gives the blocks of whole pages back: they read as zeroes from then on. Durable after the next successful `sync`;
    /// until then a power loss leaves each page as it was, or zero. `false`: the file system cannot do that.
    fn punch(&self, _step: &'static str, _offset: u64, _len: u64) -> io::Result<bool> {
        Ok(false)
    }

    /// Gives blocks to what has none of the first `len` bytes, which keep their content: a store into a mapping of the file
    /// cannot find the disk full then.
    fn fill_holes(&self, _len: u64) -> io::Result<()> {
        Ok(())
    }

    /// Cuts the file to `len` bytes.
    fn truncate(&self, step: &'static str, len: u64) -> io::Result<()>;

    /// Takes the exclusive lock; `false` when another opener has a lock. Released when the file closes.
    fn lock(&self) -> io::Result<bool>;

    /// Takes a lock that excludes the exclusive one only; `false` when a process has that.
    fn lock_shared(&self) -> io::Result<bool> {
        self.lock()
    }

    /// Which process has the lock, where the system says it.
    fn holder(&self) -> Option<u32>;

    /// The descriptor to map, if the file can be mapped.
    fn descriptor(&self) -> Option<BorrowedFd<'_>>;
}
