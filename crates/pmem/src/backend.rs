//! What makes the bytes of a region durable: a variant for each domain.
#![allow(unsafe_code)]

mod copy;
mod format_lines;
mod logged;

pub(crate) use copy::overlaps;
pub(crate) use format_lines::FormatLines;
pub(crate) use logged::Logged;

use crate::Counters;
use crate::emulation::SlowMedium;
use crate::flush::{FlushInstruction, line_count, store_fence};
use crate::mapping::PAGE;
use crate::{Domain, Error};

use copy::{copy_parts, stream};

/// Writes of this many bytes and more go past the cache where flushing is by instruction.
const STREAM_MIN: usize = 64;

/// In the `logged` domain, writes of this many bytes and more that begin at a page go beside the
/// log, as far as they fill whole pages.
pub const BYPASS_MIN: u64 = 64 << 10;

/// What makes the bytes durable.
pub(crate) enum Backend {
    Volatile,
    Flush(FlushInstruction),
    /// As `Flush`, with a medium that is slower: for experiments.
    Slow(SlowMedium),
    Eadr,
    /// A pool file in the making: fenced lines are written to it in the end.
    Format(FormatLines),
    Logged(Logged),
}

impl Backend {
    pub(crate) fn domain(&self) -> Domain {
        match self {
            Backend::Volatile => Domain::Volatile,
            Backend::Flush(_) | Backend::Slow(_) => Domain::Flush,
            Backend::Eadr => Domain::Eadr,
            Backend::Format(_) | Backend::Logged(_) => Domain::Logged,
        }
    }

    /// Whether a flush has anything to do.
    #[inline]
    pub(crate) fn needs_flush(&self) -> bool {
        !matches!(self, Backend::Volatile | Backend::Eadr)
    }

    /// Flushes the lines that hold `len` bytes at `offset`, which lie at `at`.
    ///
    /// # Safety
    /// They lie there, in the region.
    pub(crate) unsafe fn flush(&self, at: *const u8, offset: u64, len: u64) {
        match self {
            Backend::Volatile | Backend::Eadr => {}
            // SAFETY: the caller's promise.
            Backend::Flush(instruction) => unsafe { instruction.flush(at, len) },
            // SAFETY: the caller's promise.
            Backend::Slow(medium) => unsafe { medium.flush(at, len) },
            Backend::Format(lines) => lines.note(offset, len),
            // SAFETY: the caller's promise.
            Backend::Logged(logged) => unsafe { logged.note(offset, len) },
        }
    }

    pub(crate) fn fence(&self) {
        match self {
            Backend::Volatile => {}
            Backend::Flush(_) | Backend::Eadr => {
                store_fence();
                Counters::ordered();
            }
            Backend::Slow(medium) => {
                medium.fence();
                Counters::ordered();
            }
            Backend::Format(lines) => lines.fence(),
            Backend::Logged(logged) => logged.fence(),
        }
    }

    /// Writes the parts one after another, and flushes them. Of an object that was allocated, `room` is its size, else
    /// zero.
    ///
    /// # Safety
    /// They are `len` bytes, for which there is room at `at`, in the region; none of them lies there.
    #[inline(always)]
    pub(crate) unsafe fn write(
        &self,
        at: *mut u8,
        offset: u64,
        len: usize,
        parts: &[&[u8]],
        room: u64,
    ) -> Result<(), Error> {
        // SAFETY: of all: the caller's promise.
        unsafe {
            match self {
                Backend::Flush(instruction) if len >= STREAM_MIN => {
                    stream(at, parts, Some(*instruction));
                }
                Backend::Eadr if len >= STREAM_MIN => stream(at, parts, None),
                Backend::Logged(logged) if is_bypass(offset, len as u64) => {
                    logged.write_beside(at, (offset, len as u64), parts, room)?;
                }
                Backend::Logged(logged) => {
                    if fills_pages(offset, len as u64, room)
                        && logged.write_alone(at, (offset, len as u64), parts, room)?
                    {
                        return Ok(());
                    }
                    logged.will_touch(offset, len as u64);
                    copy_parts(at, parts);
                    logged.note(offset, len as u64);
                    logged.note_room(offset, len as u64, room);
                }
                _ => {
                    copy_parts(at, parts);
                    self.flush(at, offset, len as u64);
                }
            }
        }
        Ok(())
    }

    /// The lines to reserve for a write of `len` bytes at `offset`.
    pub(crate) fn write_lines(&self, offset: u64, len: u64) -> u64 {
        match self {
            Backend::Logged(_) if is_bypass(offset, len) => {
                let whole = len / PAGE * PAGE;
                1 + line_count(offset.saturating_add(whole), len - whole)
            }
            _ => line_count(offset, len),
        }
    }

    /// Whether the calling thread has reserved, where it has to.
    pub(crate) fn may_store(&self) -> bool {
        match self {
            Backend::Logged(logged) => logged.may_store(),
            _ => true,
        }
    }
}

/// Whether a record has all pages that it touches for itself.
fn fills_pages(offset: u64, len: u64, room: u64) -> bool {
    len >= PAGE && offset.is_multiple_of(PAGE) && len.next_multiple_of(PAGE) <= room
}

fn is_bypass(offset: u64, len: u64) -> bool {
    len >= BYPASS_MIN && offset.is_multiple_of(PAGE)
}
