//! A file whose failed syncs are counted.
//!
//! The system reports a lost write to one sync only. A thread that relies on its own sync must know
//! of those that failed for another thread since it began to write. Syncs come one at a time, so that one which
//! had the failure has counted it before another can succeed.

use std::io;
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::DiskFile;
use crate::error::is_full;

/// A file, the number of its syncs, and of those that failed.
pub(crate) struct WatchedFile {
    file: Arc<dyn DiskFile>,
    one: Mutex<()>,
    syncs: AtomicU64,
    failed: AtomicU64,
}

impl WatchedFile {
    /// Watches `file`: from here on it is synced through this only.
    pub(crate) fn new(file: Arc<dyn DiskFile>) -> Arc<WatchedFile> {
        let (syncs, failed) = (AtomicU64::new(0), AtomicU64::new(0));
        Arc::new(WatchedFile { file, one: Mutex::new(()), syncs, failed })
    }

    /// Syncs that failed so far.
    pub(crate) fn failed(&self) -> u64 {
        self.failed.load(Ordering::SeqCst)
    }

    /// Syncs so far.
    pub(crate) fn syncs(&self) -> u64 {
        self.syncs.load(Ordering::Relaxed)
    }

    fn alone(&self, sync: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
        let _one = self.one.lock().unwrap_or_else(PoisonError::into_inner);
        self.syncs.fetch_add(1, Ordering::Relaxed);
        sync().inspect_err(|_| {
            self.failed.fetch_add(1, Ordering::SeqCst);
        })
    }

    /// Syncs, and fails also when another sync has failed since `failed` was read.
    pub(crate) fn sync_since(&self, step: &'static str, failed: u64) -> io::Result<()> {
        self.sync(step)?;
        if self.failed() != failed {
            return Err(io::Error::other("another sync of the file failed meanwhile"));
        }
        Ok(())
    }
}

impl DiskFile for WatchedFile {
    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }

    fn has_name(&self) -> io::Result<bool> {
        self.file.has_name()
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        self.file.read_at(buffer, offset)
    }

    fn write_at(&self, step: &'static str, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.file.write_at(step, bytes, offset)
    }

    fn write_parts_at(&self, step: &'static str, parts: &[&[u8]], offset: u64) -> io::Result<()> {
        self.file.write_parts_at(step, parts, offset)
    }

    fn begin_writing(&self, offset: u64, len: u64) {
        self.file.begin_writing(offset, len);
    }

    fn is_direct(&self) -> bool {
        self.file.is_direct()
    }

    /// Fails also when any sync has failed. A disk that is full has lost nothing: the blocks are to be written once more.
    fn write_durably(
        &self,
        write_step: &'static str,
        sync_step: &'static str,
        bytes: &[u8],
        offset: u64,
    ) -> io::Result<()> {
        let _one = self.one.lock().unwrap_or_else(PoisonError::into_inner);
        self.syncs.fetch_add(1, Ordering::Relaxed);
        match self.file.write_durably(write_step, sync_step, bytes, offset) {
            Err(full) if is_full(&full) => return Err(full),
            Err(error) => {
                self.failed.fetch_add(1, Ordering::SeqCst);
                return Err(error);
            }
            Ok(()) => {}
        }
        if self.failed() > 0 {
            return Err(io::Error::other("another sync of the file failed"));
        }
        Ok(())
    }

    fn sync(&self, step: &'static str) -> io::Result<()> {
        self.alone(|| self.file.sync(step))
    }

    fn drain(&self) -> io::Result<()> {
        self.alone(|| self.file.drain())
    }

    fn allocate(&self, step: &'static str, offset: u64, len: u64) -> io::Result<()> {
        self.file.allocate(step, offset, len)
    }

    fn hole(&self, offset: u64) -> io::Result<Option<u64>> {
        self.file.hole(offset)
    }

    fn punch(&self, step: &'static str, offset: u64, len: u64) -> io::Result<bool> {
        self.file.punch(step, offset, len)
    }

    fn fill_holes(&self, len: u64) -> io::Result<()> {
        self.file.fill_holes(len)
    }

    fn truncate(&self, step: &'static str, len: u64) -> io::Result<()> {
        self.file.truncate(step, len)
    }

    fn lock(&self) -> io::Result<bool> {
        self.file.lock()
    }

    fn lock_shared(&self) -> io::Result<bool> {
        self.file.lock_shared()
    }

    fn holder(&self) -> Option<u32> {
        self.file.holder()
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.file.descriptor()
    }
}
