//! Lines of a node that is written once: those that are there, the others left as they are.
#![allow(unsafe_code)]

use zerocopy::IntoBytes;

use super::{Backend, Region};
use crate::{Counters, Error, HEADER_SIZE, LINE};

/// Lines that a node has at most: there is a bit for each.
const LINES_MAX: usize = u64::BITS as usize;

/// A cache line.
pub type LineWords = [u64; (LINE / 8) as usize];

impl Region {
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
        let len = lines.len() as u64 * LINE;
        let is_header = offset < HEADER_SIZE && self.media.is_some();
        if is_header || !offset.is_multiple_of(LINE) {
            return Err(self.fault(offset, len).into());
        }
        debug_assert!(self.may_store(), "a record outside a section");
        if lines.len() > LINES_MAX {
            return Err(self.fault(offset, len).into());
        }
        let at = self.range(offset, len)?;
        let which = which & low_bits(lines.len());
        let is_apart = !super::copy::overlaps(at, len as usize, &[lines.as_bytes()]);
        match &self.backend {
            #[cfg(all(target_arch = "x86_64", not(miri)))]
            Backend::Flush(_) | Backend::Eadr if self.observer.is_none() && is_apart => {
                let count = u64::from(which.count_ones());
                Counters::stored(count * LINE);
                Counters::flushed(count);
                for (number, line) in lines.iter().enumerate() {
                    if which >> number & 1 == 1 {
                        let to = at.wrapping_add(number * LINE as usize);
                        // SAFETY: the range was checked, and begins at a line; it is the region's.
                        unsafe { crate::flush::stream_line(line.as_ptr().cast(), to) };
                    }
                }
            }
            _ => {
                for (number, line) in lines.iter().enumerate() {
                    if which >> number & 1 == 1 {
                        let to = offset + number as u64 * LINE;
                        Region::write(self, name, to, &[line.as_bytes()])?;
                    }
                }
            }
        }
        Ok(())
    }
}

/// So many bits, from the lowest on.
fn low_bits(count: usize) -> u64 {
    match count {
        0..64 => (1 << count) - 1,
        _ => u64::MAX,
    }
}
