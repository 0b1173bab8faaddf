//! The ring in the log's file: positions only grow, and wrap at the capacity.

use std::io;
use std::sync::Arc;

use crate::DiskFile;
use crate::format::LOG_HEADER_SIZE;

/// A file's ring.
pub(super) struct Ring {
    pub(super) file: Arc<dyn DiskFile>,
    /// Bytes in the ring; whole pages.
    pub(super) capacity: u64,
}

impl Ring {
    /// Writes at `position`, around the end where it is reached.
    pub(super) fn write(&self, step: &'static str, bytes: &[u8], position: u64) -> io::Result<()> {
        let (first, second) = bytes.split_at(self.before_end(position, bytes.len()));
        self.file.write_at(step, first, self.offset(position))?;
        if !second.is_empty() {
            self.file.write_at(step, second, LOG_HEADER_SIZE)?;
        }
        Ok(())
    }

    /// Reads from `position`, around the end where it is reached.
    pub(super) fn read(&self, bytes: &mut [u8], position: u64) -> io::Result<()> {
        let at = self.before_end(position, bytes.len());
        let (first, second) = bytes.split_at_mut(at);
        self.file.read_at(first, self.offset(position))?;
        if !second.is_empty() {
            self.file.read_at(second, LOG_HEADER_SIZE)?;
        }
        Ok(())
    }

    /// Where a position lies in the file.
    pub(super) fn offset(&self, position: u64) -> u64 {
        LOG_HEADER_SIZE + position % self.capacity
    }

    fn before_end(&self, position: u64, len: usize) -> usize {
        len.min((self.capacity - position % self.capacity) as usize)
    }
}
