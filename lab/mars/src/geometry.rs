//! How an array is striped over its controllers.

use std::ops::Range;

use tembo_pmem::{HEADER_SIZE, LINE};

use crate::Error;
use crate::format::{CONTROLLERS_MAX, ENTRY_SIZE, TABLE_SIZE};

/// How many controllers an array has, and what each of them has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// Memory controllers, each with a logger: 8 in the thesis.
    pub controllers: usize,
    /// Bytes that lie together on one controller: 8 KB in the thesis. A multiple of a line.
    pub stripe: u64,
    /// Stripes of a controller.
    pub stripes: u64,
    /// Entries of metadata of a controller.
    pub entries: u32,
}

/// A part of a range that lies on one controller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) controller: usize,
    /// Where it begins in that controller's file space.
    pub(crate) local: u64,
    /// Which bytes of the range.
    pub(crate) range: Range<usize>,
}

impl Geometry {
    /// The thesis's: 8 controllers and stripes of 8 KB, `size` bytes or a little more.
    pub fn moneta(size: u64) -> Geometry {
        let (controllers, stripe) = (8, 8 << 10);
        let stripes = size.div_ceil(stripe * controllers as u64);
        Geometry { controllers, stripe, stripes, entries: 4096 }
    }

    pub(crate) fn check(&self) -> Result<(), Error> {
        let wrong = |what| Err(Error::Geometry { what });
        match *self {
            _ if !(1..=CONTROLLERS_MAX).contains(&self.controllers) => {
                wrong("no controllers, or more than 64")
            }
            _ if self.stripe == 0 || !self.stripe.is_multiple_of(LINE) => {
                wrong("stripes that are no whole lines")
            }
            _ if self.stripes == 0 || self.entries == 0 => wrong("no stripes, or no entries"),
            _ => Ok(()),
        }
    }

    /// Bytes in a row of stripes, one of each controller.
    pub fn row(&self) -> u64 {
        self.stripe * self.controllers as u64
    }

    /// Bytes of the array's file space.
    pub fn size(&self) -> u64 {
        self.row() * self.stripes
    }

    /// Bytes of a controller's file space.
    pub(crate) fn local_size(&self) -> u64 {
        self.stripe * self.stripes
    }

    /// Bytes of the region that an array needs.
    pub fn region_size(&self) -> u64 {
        HEADER_SIZE + self.controllers as u64 * self.bank_size()
    }

    fn space(&self) -> u64 {
        TABLE_SIZE + (u64::from(self.entries) * ENTRY_SIZE).next_multiple_of(LINE)
    }

    fn bank_size(&self) -> u64 {
        self.space() + self.local_size()
    }

    /// Where the storage of a controller begins in the region.
    pub(crate) fn bank(&self, controller: usize) -> u64 {
        HEADER_SIZE + controller as u64 * self.bank_size()
    }

    /// Where its file space begins.
    pub(crate) fn files(&self, controller: usize) -> u64 {
        self.bank(controller) + self.space()
    }

    /// The first log offset from `log` on that falls on the controllers of `target`.
    pub fn colocated(&self, target: u64, log: u64) -> u64 {
        let row = self.row();
        log + (target % row + row - log % row) % row
    }

    /// # Errors
    /// [`Error::OutOfRange`], also of no bytes.
    pub(crate) fn check_range(&self, offset: u64, len: u64) -> Result<(), Error> {
        let size = self.size();
        match len > 0 && offset.checked_add(len).is_some_and(|end| end <= size) {
            true => Ok(()),
            false => Err(Error::OutOfRange { offset, len, size }),
        }
    }

    /// The parts of a range, cut at the stripes.
    pub(crate) fn parts(&self, offset: u64, len: usize) -> Vec<Part> {
        let (mut parts, mut done) = (Vec::new(), 0);
        while done < len {
            let at = offset + done as u64;
            let (number, within) = (at / self.stripe, at % self.stripe);
            let size = (self.stripe - within).min((len - done) as u64) as usize;
            let count = self.controllers as u64;
            let controller = (number % count) as usize;
            let local = number / count * self.stripe + within;
            parts.push(Part { controller, local, range: done..done + size });
            done += size;
        }
        parts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: Geometry = Geometry { controllers: 2, stripe: 64, stripes: 4, entries: 8 };

    #[test]
    fn a_range_is_cut_at_stripes_and_dealt_to_the_controllers() {
        let parts = SMALL.parts(60, 72);
        let part = |controller, local, range| Part { controller, local, range };
        assert_eq!(parts, [part(0, 60, 0..4), part(1, 0, 4..68), part(0, 64, 68..72)]);
    }

    #[test]
    fn a_colocated_log_offset_is_cut_as_its_target() {
        let (target, log) = (60, SMALL.colocated(60, 200));
        assert_eq!(log, 316);
        let cut = |offset| {
            let parts = SMALL.parts(offset, 72).into_iter();
            parts.map(|part| (part.controller, part.range)).collect::<Vec<_>>()
        };
        assert_eq!(cut(target), cut(log));
    }

    #[test]
    fn a_range_beyond_the_end_is_refused() {
        assert!(SMALL.check_range(500, 12).is_ok());
        assert!(matches!(
            SMALL.check_range(500, 13),
            Err(Error::OutOfRange { offset: 500, len: 13, size: 512 })
        ));
        assert!(SMALL.check_range(0, 0).is_err());
    }
}
