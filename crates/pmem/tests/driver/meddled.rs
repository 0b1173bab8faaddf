//! The system's files, in whose writes and syncs something happens.

use std::io;
use std::os::fd::BorrowedFd;
use std::path::Path;
use std::sync::Arc;

use tembo_pmem::{Disk, DiskFile, OsDisk};

/// How a write or a sync ended.
pub(crate) type Done = io::Result<()>;

/// What happens.
pub(crate) trait Meddler: Send + Sync + 'static {
    /// In the place of a write.
    fn write(&self, file: &dyn DiskFile, step: &'static str, bytes: &[u8], offset: u64) -> Done {
        file.write_at(step, bytes, offset)
    }
    /// In the place of a sync that has a name.
    fn sync(&self, file: &dyn DiskFile, step: &'static str) -> Done {
        file.sync(step)
    }
}

/// The files.
pub(crate) struct Meddled<M>(pub(crate) Arc<M>);

struct MeddledFile<M>(Arc<dyn DiskFile>, Arc<M>);

impl<M: Meddler> Meddled<M> {
    fn file(&self, file: Arc<dyn DiskFile>) -> Arc<dyn DiskFile> {
        Arc::new(MeddledFile(file, self.0.clone()))
    }
}

impl<M: Meddler> Disk for Meddled<M> {
    fn open(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        Ok(self.file(OsDisk.open(path)?))
    }
    fn create(&self, step: &'static str, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        Ok(self.file(OsDisk.create(step, path)?))
    }
    fn link(&self, step: &'static str, from: &Path, to: &Path) -> io::Result<()> {
        OsDisk.link(step, from, to)
    }
    fn rename(&self, step: &'static str, from: &Path, to: &Path) -> io::Result<()> {
        OsDisk.rename(step, from, to)
    }
    fn remove(&self, step: &'static str, path: &Path) -> io::Result<()> {
        OsDisk.remove(step, path)
    }
    fn sync_dir(&self, step: &'static str, path: &Path) -> io::Result<()> {
        OsDisk.sync_dir(step, path)
    }
    fn entropy(&self) -> u64 {
        OsDisk.entropy()
    }
    fn boot(&self) -> u64 {
        OsDisk.boot()
    }
}

impl<M: Meddler> DiskFile for MeddledFile<M> {
    fn write_at(&self, step: &'static str, bytes: &[u8], offset: u64) -> Done {
        self.1.write(&*self.0, step, bytes, offset)
    }
    fn len(&self) -> io::Result<u64> {
        self.0.len()
    }
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        self.0.read_at(buffer, offset)
    }
    fn sync(&self, step: &'static str) -> Done {
        self.1.sync(&*self.0, step)
    }
    fn allocate(&self, step: &'static str, offset: u64, len: u64) -> io::Result<()> {
        self.0.allocate(step, offset, len)
    }
    fn truncate(&self, step: &'static str, len: u64) -> io::Result<()> {
        self.0.truncate(step, len)
    }
    fn lock(&self) -> io::Result<bool> {
        self.0.lock()
    }
    fn holder(&self) -> Option<u32> {
        self.0.holder()
    }
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.0.descriptor()
    }
}
