//! The search for free chunks whose blocks can be given back.

use crate::allocator::{Allocator, Knowledge};
use crate::chunk::{Chunk, Use};
use crate::holes::{Measure, Spare};

/// Runs of free chunks at which one search for blocks to give back looks while it holds the allocator's lock.
const LOOK: usize = 1024;

impl Allocator {
    /// Takes free chunks out whose blocks are to be given back, while no sweep is owed or running.
    pub(crate) fn take_spare(&mut self, measure: Measure) -> Spare {
        if self.knowledge != Knowledge::Whole || self.holes.is_busy {
            return Spare::Nothing;
        }
        let free = self.runs.total() + u64::from(self.frontier - self.top());
        let with_blocks = free.saturating_sub(self.holes.count().into());
        let limit = if self.holes.goes_on { measure.kept } else { measure.begin };
        self.holes.goes_on = with_blocks > limit.into();
        if !self.holes.goes_on {
            self.holes.hand = 0;
            return Spare::Nothing;
        }
        let left = u32::try_from(with_blocks - u64::from(measure.kept)).unwrap_or(u32::MAX);
        let measure = Measure { most: measure.most.min(left.max(measure.least)), ..measure };
        let found = match self.holes.last_gap(self.top(), self.frontier, measure) {
            Some(found) => Spare::Chunks(found.0, found.1),
            None => self.find_in_runs(measure),
        };
        match found {
            Spare::Chunks(start, count) => self.take_out(start, count),
            Spare::More => {}
            Spare::Nothing => self.holes.goes_on = false,
        }
        found
    }

    fn find_in_runs(&mut self, measure: Measure) -> Spare {
        let mut last = None;
        for (start, count) in self.runs.from(self.holes.hand).take(LOOK) {
            if let Some((from, count)) = self.holes.last_gap(start, start + count, measure) {
                self.holes.hand = start;
                return Spare::Chunks(from, count);
            }
            last = Some(start);
        }
        match last {
            Some(last) => {
                self.holes.hand = last + 1;
                Spare::More
            }
            None => {
                self.holes.hand = 0;
                Spare::Nothing
            }
        }
    }

    /// Takes free chunks out of their run, or from above the top.
    fn take_out(&mut self, start: u32, count: u32) {
        let (top, end) = (self.top(), start + count);
        if start >= top {
            self.chunks.resize_with(end as usize, || Chunk::unused(Use::Free));
            if start > top {
                self.runs.give(top, start - top);
            }
        } else {
            self.runs.cut_out(start, count);
        }
        for chunk in start..end {
            self.chunks[chunk as usize].usage = Use::Unknown;
        }
        self.holes.is_busy = true;
    }

    /// Puts chunks that were taken out back, as holes or as they were. Returns whether a sweep waits for that.
    pub(crate) fn put_spare(&mut self, start: u32, count: u32, is_hole: bool) -> bool {
        self.holes.is_busy = false;
        if is_hole {
            self.holes.add(start, count);
        }
        self.release(start, count);
        std::mem::take(&mut self.holes.has_refused)
    }
}
