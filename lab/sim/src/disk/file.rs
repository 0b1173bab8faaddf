//! An open file of a simulated disk.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tembo_pmem::DiskFile;

use super::inner::{Done, Inner, Late, Shared};
use super::sector::SECTOR;

/// An open file.
pub(super) struct SimFile {
    disk: Arc<Shared>,
    file: usize,
    holds: AtomicBool,
    memory: Option<std::fs::File>,
}

impl SimFile {
    pub(super) fn new(
        disk: &Arc<Shared>,
        inner: &mut Inner,
        file: usize,
        holds: bool,
    ) -> io::Result<SimFile> {
        let memory = inner.memory(file)?;
        let holds = AtomicBool::new(holds);
        Ok(SimFile { disk: disk.clone(), file, holds, memory })
    }

    /// Takes a step that `work` does, if it is done.
    fn step<R: Default>(
        &self,
        step: &'static str,
        work: impl FnOnce(&mut Inner, Done) -> io::Result<R>,
    ) -> io::Result<R> {
        let mut inner = self.disk.lock();
        let done = inner.begin(step, Some(Late::File(self.file)))?;
        let result = work(&mut inner, done);
        inner.end(step)?;
        result
    }
}

impl Drop for SimFile {
    fn drop(&mut self) {
        if self.holds.load(Ordering::Relaxed) {
            self.disk.lock().locks.remove(&self.file);
        }
    }
}

impl DiskFile for SimFile {
    fn len(&self) -> io::Result<u64> {
        let inner = &mut *self.disk.lock();
        let len = inner.state.len(self.file, &mut inner.chooser);
        inner.has_read(len);
        Ok(len)
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        let inner = &mut *self.disk.lock();
        inner.absorb()?;
        let len = inner.state.len(self.file, &mut inner.chooser);
        if offset.checked_add(buffer.len() as u64).is_none_or(|end| end > len) {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let hash = inner.state.read(self.file, buffer, offset as usize, &mut inner.chooser);
        inner.has_read(hash);
        Ok(())
    }

    fn write_at(&self, step: &'static str, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.step(step, |inner, done| {
            let part = match done {
                Done::Yes => bytes,
                Done::No => return Ok(()),
                Done::Failed(_) => &bytes[..bytes.len() / 2],
            };
            let written = inner.state.write(self.file, part, offset as usize, &mut inner.chooser);
            inner.mirror(self.file, &part[..written], offset)?;
            match done {
                Done::Failed(error) => Err(error),
                _ if written < part.len() => Err(io::ErrorKind::StorageFull.into()),
                _ => Ok(()),
            }
        })
    }

    fn sync(&self, step: &'static str) -> io::Result<()> {
        self.step(step, |inner, done| {
            let file = Arc::make_mut(&mut inner.state.files[self.file]);
            match done {
                Done::Yes => file.sync(),
                Done::No => {}
                Done::Failed(error) => {
                    file.fail_sync();
                    return Err(error);
                }
            }
            Ok(())
        })
    }

    fn allocate(&self, step: &'static str, offset: u64, len: u64) -> io::Result<()> {
        self.step(step, |inner, done| {
            match done {
                Done::No => return Ok(()),
                Done::Failed(error) => return Err(error),
                Done::Yes => {}
            }
            if !inner.state.allocate(self.file, offset, len, &mut inner.chooser) {
                return Err(io::ErrorKind::StorageFull.into());
            }
            inner.mirror_len(self.file)
        })
    }

    fn hole(&self, offset: u64) -> io::Result<Option<u64>> {
        let inner = &mut *self.disk.lock();
        let len = inner.state.len(self.file, &mut inner.chooser);
        let unwritten = inner.state.files[self.file].unwritten(offset as usize / SECTOR);
        let hole = unwritten.map_or(len, |at| (at * SECTOR) as u64);
        Ok(Some(hole.clamp(offset.min(len), len)))
    }

    fn punch(&self, step: &'static str, offset: u64, len: u64) -> io::Result<bool> {
        self.step(step, |inner, done| {
            match done {
                Done::No => return Ok(true),
                Done::Failed(error) => return Err(error),
                Done::Yes => {}
            }
            inner.state.punch(self.file, offset, len, &mut inner.chooser);
            inner.mirror(self.file, &vec![0; len as usize], offset)?;
            Ok(true)
        })
    }

    fn fill_holes(&self, len: u64) -> io::Result<()> {
        let inner = &mut *self.disk.lock();
        match inner.state.allocate(self.file, 0, len, &mut inner.chooser) {
            true => Ok(()),
            false => Err(io::ErrorKind::StorageFull.into()),
        }
    }

    fn truncate(&self, step: &'static str, len: u64) -> io::Result<()> {
        self.step(step, |inner, done| {
            match done {
                Done::No => return Ok(()),
                Done::Failed(error) => return Err(error),
                Done::Yes => {}
            }
            inner.state.truncate(self.file, len, &mut inner.chooser);
            inner.mirror_len(self.file)
        })
    }

    fn lock(&self) -> io::Result<bool> {
        let is_free = self.disk.lock().locks.insert(self.file);
        self.holds.fetch_or(is_free, Ordering::Relaxed);
        Ok(is_free)
    }

    fn holder(&self) -> Option<u32> {
        None
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.memory.as_ref().map(AsFd::as_fd)
    }
}
