//! Records: bytes that are written and flushed at once, into space that is not read yet.
#![allow(unsafe_code)]

use zerocopy::IntoBytes;

use super::Region;
use crate::backend::{Backend, overlaps};
use crate::flush::line_count;
use crate::{Counters, Error, Frees, HEADER_SIZE, LINE, LineWords, Observer, Stored};

/// Lines that a node has at most: there is a bit for each.
const LINES_MAX: usize = u64::BITS as usize;

impl Region {
    /// Writes the parts one after another into space that is not read yet, and flushes it: durable
    /// after the thread's next fence. The offset may be published only behind that fence, or an atomic
    /// read-modify-write: the bytes may go past the caches, and then they come into order only there.
    ///
    /// # Errors
    /// [`Error::Fault`] when the range is not in the region or in its header, and when a part lies in
    /// it, which a damaged pool may bring about; in the `logged` domain, for 64 KiB and more at a page's start, also what writing beside the log met
    /// ([`Error::Poisoned`], [`Error::DiskFull`], [`Error::Io`], [`Error::Forked`]).
    pub fn write(&self, name: &'static str, offset: u64, parts: &[&[u8]]) -> Result<(), Error> {
        self.write_within(name, offset, parts, 0)
    }

    /// As [`write`](Region::write), into a space of `room` bytes at `offset` that holds nothing else: what lies there
    /// behind the parts is undefined then. When the space was freed, that was [noted](Frees::note). In the
    /// `logged` domain such records are written once where they fill pages.
    ///
    /// # Errors
    /// As of [`write`](Region::write).
    pub fn write_object(
        &self,
        name: &'static str,
        offset: u64,
        parts: &[&[u8]],
        room: u64,
    ) -> Result<(), Error> {
        self.range(offset, room)?;
        self.write_within(name, offset, parts, room)
    }

    /// Where the allocator of the region's space has to say that space is free.
    pub fn frees(&self) -> Frees {
        match &self.backend {
            Backend::Logged(logged) => logged.frees(),
            _ => Frees::default(),
        }
    }

    fn write_within(
        &self,
        name: &'static str,
        offset: u64,
        parts: &[&[u8]],
        room: u64,
    ) -> Result<(), Error> {
        let sum = parts.iter().try_fold(0_usize, |sum, part| sum.checked_add(part.len()));
        let len = sum.ok_or_else(|| self.fault(offset, u64::MAX))?;
        if offset < HEADER_SIZE && self.file.is_some() {
            return Err(self.fault(offset, len as u64).into());
        }
        debug_assert!(self.may_store(), "a record outside a section");
        let at = self.range(offset, len as u64)?;
        if overlaps(at, len, parts) {
            return Err(self.fault(offset, len as u64).into());
        }
        Counters::stored(len as u64);
        Counters::flushed(line_count(offset, len as u64));
        match &self.observer {
            // SAFETY: the parts are `len` bytes, `range` found room for them, and none of them lies there.
            None => unsafe { self.backend.write(at, offset, len, parts, room) },
            // SAFETY: as above.
            Some(observer) => unsafe {
                self.write_observed(&**observer, (name, at, offset, len), parts, room)
            },
        }
    }

    /// # Safety
    /// The parts are `len` bytes, for which there is room at `at`, where `offset` is, and none of them lies there.
    #[cold]
    unsafe fn write_observed(
        &self,
        observer: &dyn Observer,
        (name, at, offset, len): (&'static str, *mut u8, u64, usize),
        parts: &[&[u8]],
        room: u64,
    ) -> Result<(), Error> {
        let mut written = Ok(());
        let stored = Stored { name: None, offset, parts };
        observer.store(stored, &mut || {
            // SAFETY: the caller's promise.
            written = unsafe { self.backend.write(at, offset, len, parts, room) };
        });
        observer.flush(name, offset, len as u64);
        written
    }

    /// As a [`write`](Region::write) of each of the lines whose bit is set in `which`, the first of which
    /// lies at `offset`.
    ///
    /// # Errors
    /// As of [`write`](Region::write), and [`Error::Fault`] when `offset` is not that of a line, or there are more
    /// than 64 lines.
    #[inline]
    pub fn write_node(
        &self,
        name: &'static str,
        offset: u64,
        lines: &[LineWords],
        which: u64,
    ) -> Result<(), Error> {
        let len = (lines.len() as u64).saturating_mul(LINE);
        let is_header = offset < HEADER_SIZE && self.file.is_some();
        if is_header || !offset.is_multiple_of(LINE) || lines.len() > LINES_MAX {
            return Err(self.fault(offset, len).into());
        }
        debug_assert!(self.may_store(), "a record outside a section");
        let at = self.range(offset, len)?;
        let which = which & low_bits(lines.len());
        let is_fast = self.observer.is_none()
            && matches!(self.backend, Backend::Flush(_) | Backend::Eadr)
            && !overlaps(at, len as usize, &[lines.as_bytes()]);
        if is_fast {
            let count = u64::from(which.count_ones());
            Counters::stored(count * LINE);
            Counters::flushed(count);
            for (number, line) in chosen(lines, which) {
                // SAFETY: the range was checked, and begins at a line; it is the region's.
                unsafe { stream_line(line, at.wrapping_add(number * LINE as usize)) };
            }
            return Ok(());
        }
        for (number, line) in chosen(lines, which) {
            let to = offset + number as u64 * LINE;
            Region::write(self, name, to, &[line.as_bytes()])?;
        }
        Ok(())
    }

    /// The lines to reserve for a [`write`](Region::write) of `len` bytes at `offset`: fewer than
    /// its bytes fill where the write goes beside the log.
    pub fn write_lines(&self, offset: u64, len: u64) -> u64 {
        self.backend.write_lines(offset, len)
    }
}

/// The lines whose bits are set, with their numbers.
#[inline]
fn chosen(lines: &[LineWords], which: u64) -> impl Iterator<Item = (usize, &LineWords)> {
    lines.iter().enumerate().filter(move |(number, _)| which >> number & 1 == 1)
}

/// Stores a line past the cache.
///
/// # Safety
/// `to` is a line of a region.
#[inline]
unsafe fn stream_line(line: &LineWords, to: *mut u8) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: the caller's promise.
    unsafe {
        crate::flush::stream_line(line.as_ptr().cast(), to);
    }
    // There is no domain that flushes by instruction.
    #[cfg(any(miri, not(target_arch = "x86_64")))]
    let _ = (line, to);
}

/// So many bits, from the lowest on.
fn low_bits(count: usize) -> u64 {
    match count {
        0..64 => (1 << count) - 1,
        _ => u64::MAX,
    }
}
