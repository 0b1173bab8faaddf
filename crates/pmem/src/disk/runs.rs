//! Lines on their way into a file: neighbours are written together.

use std::io;
use std::ops::Range;

use super::behind::Behind;
use crate::mapping::PAGE;
use crate::{DiskFile, LINE};

/// Bytes that are gathered before they are written.
const RUN_MAX: usize = 1 << 20;

/// Gathers lines in ascending order and writes each run of neighbours at once. Lines of one page,
/// or of the next, are neighbours: what lies between them is written once more as the file has it,
/// which dirties no other page and saves a call for each line. Nothing else writes there meanwhile: records that go
/// beside the log take no page of which it has lines. So nothing may be gathered across a page without lines.
pub(crate) struct Runs<'f> {
    file: &'f dyn DiskFile,
    step: &'static str,
    start: u64,
    bytes: Vec<u8>,
    /// Parts of `bytes` that are to come from the file.
    gaps: Vec<Range<usize>>,
    found: Vec<u8>,
    behind: Behind,
    written: u64,
}

impl<'f> Runs<'f> {
    /// Nothing gathered; `step` names the writes.
    pub(crate) fn new(file: &'f dyn DiskFile, step: &'static str) -> Runs<'f> {
        let (bytes, gaps, found, behind) = Default::default();
        Runs { file, step, start: 0, bytes, gaps, found, behind, written: 0 }
    }

    /// Adds the line at `offset`.
    pub(crate) fn put(&mut self, offset: u64, line: &[u8]) -> io::Result<()> {
        debug_assert_eq!(line.len() as u64, LINE);
        let end = self.start + self.bytes.len() as u64;
        // The page of the last byte, and the one behind it.
        let reach = end.saturating_sub(1) / PAGE + 1;
        if offset < end || offset / PAGE > reach || self.bytes.len() >= RUN_MAX {
            self.write()?;
            self.start = offset;
        } else if self.bytes.is_empty() {
            self.start = offset;
        } else if offset > end {
            let (from, to) = (self.bytes.len(), (offset - self.start) as usize);
            self.bytes.resize(to, 0);
            self.gaps.push(from..to);
        }
        self.bytes.extend_from_slice(line);
        Ok(())
    }

    /// Bytes written so far.
    pub(crate) fn written(&self) -> u64 {
        self.written
    }

    /// All lines that were put before this offset are written, and those from it on are not.
    pub(crate) fn start(&self) -> u64 {
        self.start
    }

    /// Writes what is left; the bytes written in all.
    pub(crate) fn finish(mut self) -> io::Result<u64> {
        self.write()?;
        if let Some((offset, len)) = self.behind.take() {
            self.file.begin_writing(offset, len);
        }
        Ok(self.written)
    }

    fn write(&mut self) -> io::Result<()> {
        if self.bytes.is_empty() {
            return Ok(());
        }
        if !self.gaps.is_empty() {
            self.found.resize(self.bytes.len(), 0);
            self.file.read_at(&mut self.found, self.start)?;
            for gap in self.gaps.drain(..) {
                self.bytes[gap.clone()].copy_from_slice(&self.found[gap]);
            }
        }
        self.file.write_at(self.step, &self.bytes, self.start)?;
        let len = self.bytes.len() as u64;
        if let Some((offset, len)) = self.behind.note(self.start, len) {
            self.file.begin_writing(offset, len);
        }
        self.written += len;
        self.bytes.clear();
        Ok(())
    }
}
