//! The ring in the log's file: positions only grow, and wrap at the capacity.
#![allow(unsafe_code)]

use std::io;
use std::sync::Arc;

use crate::DiskFile;
use crate::disk::WatchedFile;
use crate::format::LOG_HEADER_SIZE;
use crate::mapping::Mapping;

/// A file's ring.
pub(super) struct Ring {
    pub(super) file: Arc<WatchedFile>,
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

    /// `len` bytes from `position` on, at most all of the ring, in one piece. They must not be
    /// written while the view is looked at.
    pub(super) fn view(&self, position: u64, len: u64) -> io::Result<View> {
        let len = len.min(self.capacity) as usize;
        match self.map(position, len) {
            Ok(Some(mapped)) => Ok(mapped),
            // An old system cannot say beforehand what it cannot read.
            Err(error) if error.kind() != io::ErrorKind::InvalidInput => Err(error),
            _ => self.read(position, len),
        }
    }

    fn map(&self, position: u64, len: usize) -> io::Result<Option<View>> {
        let Some(file) = self.file.descriptor() else {
            return Ok(None);
        };
        let mapping = Mapping::twice(file, LOG_HEADER_SIZE, self.capacity)?;
        let at = position % self.capacity;
        mapping.populate(at, len as u64)?;
        Ok(Some(View::Mapped { mapping, at, len }))
    }

    fn read(&self, position: u64, len: usize) -> io::Result<View> {
        let mut bytes = vec![0; len];
        let (first, second) = bytes.split_at_mut(self.before_end(position, len));
        self.file.read_at(first, self.offset(position))?;
        if !second.is_empty() {
            self.file.read_at(second, LOG_HEADER_SIZE)?;
        }
        Ok(View::Read(bytes))
    }

    /// Where a position lies in the file.
    pub(super) fn offset(&self, position: u64) -> u64 {
        LOG_HEADER_SIZE + position % self.capacity
    }

    fn before_end(&self, position: u64, len: usize) -> usize {
        len.min((self.capacity - position % self.capacity) as usize)
    }
}

/// A part of a ring, in one piece.
pub(super) enum View {
    Mapped { mapping: Mapping, at: u64, len: usize },
    Read(Vec<u8>),
}

impl View {
    /// The bytes. None of them is written while they are looked at.
    pub(super) fn bytes(&self) -> &[u8] {
        self.part(0, self.len())
    }

    fn len(&self) -> usize {
        match self {
            View::Mapped { len, .. } => *len,
            View::Read(bytes) => bytes.len(),
        }
    }

    /// `count` of the bytes from `from` on, or as many as there are. None of them is written while they are looked
    /// at; others may be.
    pub(super) fn part(&self, from: usize, count: usize) -> &[u8] {
        let from = from.min(self.len());
        let count = count.min(self.len() - from);
        match self {
            View::Mapped { mapping, at, .. } => {
                // SAFETY: the range is mapped as long as the view lives: twice the capacity is, and the
                // start and the length of the view are at most that. It is not written, says the view's condition.
                unsafe { std::slice::from_raw_parts(mapping.base().at(*at + from as u64), count) }
            }
            View::Read(bytes) => &bytes[from..from + count],
        }
    }
}
