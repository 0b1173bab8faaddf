//! Lines on their way into a file: neighbours are written together.

use std::io;

use crate::{DiskFile, LINE};

/// Bytes that are gathered before they are written.
const RUN_MAX: usize = 1 << 20;

/// Gathers lines in ascending order and writes each run of neighbours at once.
pub(crate) struct Runs<'f> {
    file: &'f dyn DiskFile,
    step: &'static str,
    start: u64,
    bytes: Vec<u8>,
    written: u64,
}

impl<'f> Runs<'f> {
    /// Nothing gathered; `step` names the writes.
    pub(crate) fn new(file: &'f dyn DiskFile, step: &'static str) -> Runs<'f> {
        Runs { file, step, start: 0, bytes: Vec::new(), written: 0 }
    }

    /// Adds the line at `offset`.
    pub(crate) fn put(&mut self, offset: u64, line: &[u8]) -> io::Result<()> {
        debug_assert_eq!(line.len() as u64, LINE);
        if offset != self.start + self.bytes.len() as u64 || self.bytes.len() >= RUN_MAX {
            self.write()?;
            self.start = offset;
        }
        self.bytes.extend_from_slice(line);
        Ok(())
    }

    /// Writes what is left; the bytes written in all.
    pub(crate) fn finish(mut self) -> io::Result<u64> {
        self.write()?;
        Ok(self.written)
    }

    fn write(&mut self) -> io::Result<()> {
        if !self.bytes.is_empty() {
            self.file.write_at(self.step, &self.bytes, self.start)?;
            self.written += self.bytes.len() as u64;
            self.bytes.clear();
        }
        Ok(())
    }
}
