//! Growth: blocks first, then the durable size, then the region's.

use std::sync::PoisonError;
use std::sync::atomic::Ordering;

use super::Region;
use crate::Error;
use crate::backend::Backend;
use crate::mapping::{Backing, PAGE};

impl Region {
    /// Grows the region to `size` bytes (rounded up to whole pages); the new bytes are zero.
    /// Durable on return. Does nothing when the region is as large already.
    ///
    /// # Errors
    /// [`Error::Fault`] beyond the space reserved at opening, [`Error::DiskFull`], [`Error::Io`],
    /// [`Error::Forked`]; the region is as before then. If the system has taken back the reserved space (it may when it refuses a
    /// mapping), the region does not grow again before it is opened again.
    pub fn grow(&self, size: u64) -> Result<(), Error> {
        self.check_process()?;
        if size.checked_next_multiple_of(PAGE).is_none_or(|size| size > self.mapping.reserved()) {
            return Err(self.fault(0, size).into());
        }
        let size = size.next_multiple_of(PAGE);
        match &self.file {
            Some(_) if !self.read_only => self.grow_file(size),
            _ => self.grow_memory(size),
        }?;
        if let Some(observer) = &self.observer {
            observer.resize(self.size());
        }
        Ok(())
    }

    fn grow_memory(&self, size: u64) -> Result<(), Error> {
        let _turn = self.growth.lock().unwrap_or_else(PoisonError::into_inner);
        let old = self.size();
        if size > old {
            let from = old.next_multiple_of(PAGE);
            self.mapping
                .map(Backing::Anonymous, from, size)
                .map_err(|e| Error::io("map", "memory".as_ref(), e))?;
            self.size.store(size, Ordering::Release);
        }
        Ok(())
    }

    fn grow_file(&self, size: u64) -> Result<(), Error> {
        let Some(file) = &self.file else {
            return Ok(());
        };
        let path = file.path();
        let mut slots = file.header();
        let old = self.size();
        if size <= old {
            return Ok(());
        }
        let file = slots.file().clone();
        let io = |e| Error::io("grow", path, e);
        // What an interrupted growth left behind the end must not be seen.
        if file.len().map_err(io)? > old {
            // ORDER: no header, not even one whose sync has failed, names more than the file has
            // when it is cut.
            slots.update("grow.header_write", "grow.header_sync", |_| {})?;
            file.truncate("grow.truncate", old).map_err(io)?;
        }
        let allocate = || {
            file.allocate("grow.allocate", old, size - old)?;
            // ORDER: blocks and length are durable before the header's size: a file shorter than
            // its header says is damage.
            file.sync("grow.sync_before_size")
        };
        allocate().map_err(io)?;
        let backing = match (&self.backend, file.descriptor()) {
            (_, None) => Backing::Anonymous,
            (Backend::Flush(_) | Backend::Slow(_) | Backend::Eadr, Some(fd)) if !self.emulated => {
                Backing::Synchronous(fd)
            }
            (Backend::Flush(_) | Backend::Slow(_) | Backend::Eadr, Some(fd)) => Backing::Shared(fd),
            (_, Some(fd)) => Backing::Private(fd),
        };
        self.mapping.map(backing, old, size).map_err(|e| Error::io("map", path, e))?;
        // ORDER: the size is durable before the new space is stored to.
        slots.update("grow.size_write", "grow.size_sync", |header| header.size.set(size))?;
        self.size.store(size, Ordering::Release);
        Ok(())
    }
}
