//! Objects that are written together, into space that is not read yet.
#![allow(unsafe_code)]

use super::Region;
use crate::backend::{Backend, overlaps};
use crate::flush::line_count;
use crate::log::RUNS_MIN;
use crate::mapping::PAGE;
use crate::{Counters, Error, HEADER_SIZE, WholeObject};

impl Region {
    /// Writes objects, no two of which share a byte, each into a space that it fills and that is not read yet: those that fill
    /// pages together, if the region is in the `logged` domain, can write them once, now, and that is less work than one by
    /// one. For each, whether it was written: durable after the thread's next fence, as by
    /// [`write_object`](Region::write_object), by which the others are to be written. When the space was freed, that was
    /// [noted](crate::Frees::note).
    ///
    /// Takes room for one line for each that is written. What an observer watches is written one by one.
    ///
    /// # Errors
    /// [`Error::Fault`] when an object is not in the region or lies in its header; [`Error::Poisoned`], [`Error::Forked`].
    pub fn write_together(&self, objects: &[WholeObject<'_>]) -> Result<Vec<bool>, Error> {
        let mut written = vec![false; objects.len()];
        let (Backend::Logged(logged), None) = (&self.backend, &self.observer) else {
            return Ok(written);
        };
        debug_assert!(self.may_store(), "a record outside a section");
        for &WholeObject { offset, bytes } in objects {
            let len = bytes.len() as u64;
            if offset < HEADER_SIZE {
                return Err(self.fault(offset, len).into());
            }
            self.range(offset, len)?;
            if overlaps(self.base.at(0), self.size() as usize, &[bytes]) {
                // A damaged pool may bring that about. What writes it by itself looks where it goes.
                return Ok(written);
            }
        }
        for run in logged.whole_runs(objects)? {
            // SAFETY: the run consists of objects, which were checked to lie in the region, and whose bytes do not.
            if unsafe { logged.write_whole(self.base.at(run.offset), &run) } {
                Counters::stored(run.len);
                Counters::flushed(line_count(run.offset, run.len));
                run.objects.iter().for_each(|&at| written[at] = true);
            }
        }
        Ok(written)
    }

    /// Whether objects of so many bytes together are enough for [`write_together`](Region::write_together) to write them.
    #[inline]
    pub fn writes_together(&self, bytes: u64) -> bool {
        match &self.backend {
            Backend::Logged(logged) => {
                self.observer.is_none() && bytes >= logged.written_together_min()
            }
            _ => false,
        }
    }

    /// Whether objects of so many bytes, if they are [written together](Region::write_together), are seldom stored to where
    /// they are mapped: then their pages need not be made ready.
    pub fn writes_beside(&self, size: u64) -> bool {
        matches!(self.backend, Backend::Logged(_)) && size >= PAGE
    }

    /// Whether a record in an object of so many bytes goes to its place by itself when it is written, as a rule: then its pages need
    /// not be read before.
    pub fn writes_alone(&self, size: u64) -> bool {
        self.reads_alone() && size >= RUNS_MIN && size.is_multiple_of(PAGE)
    }
}
