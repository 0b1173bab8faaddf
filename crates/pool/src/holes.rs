//! Holes: chunks without content whose blocks were given back to the file system.
//!
//! A pool that has shrunk gives back free chunks in its middle, some at a time. Meanwhile these are taken out of
//! the free runs, so that no thread gets them, and no sweep begins, since a sweep would find them free.

/// The set of holes, and whether some are being made.
#[derive(Debug, Default)]
pub(crate) struct Holes {
    /// A bit for each chunk. It is set if the chunk is free and without blocks.
    bits: Vec<u64>,
    count: u32,
    /// Whether chunks are taken out to be given back.
    pub(crate) is_busy: bool,
    /// Whether a sweep was refused meanwhile.
    pub(crate) has_refused: bool,
    /// Whether giving back has begun, which goes on until only the chunks that keep their blocks are left.
    pub(crate) goes_on: bool,
    /// The run at which the next search begins.
    pub(crate) hand: u32,
}

/// The result of a search for chunks to give back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Spare {
    /// These chunks were taken out: the first, and how many.
    Chunks(u32, u32),
    /// The search has looked at some runs, and not yet at others.
    More,
    Nothing,
}

/// How much is given back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Measure {
    /// Chunks of the shortest run.
    pub(crate) least: u32,
    /// Chunks of the longest part of a run.
    pub(crate) most: u32,
    /// Free chunks that keep their blocks.
    pub(crate) kept: u32,
    /// Free chunks with blocks at which giving back begins.
    pub(crate) begin: u32,
}

impl Holes {
    fn has(&self, chunk: u32) -> bool {
        let word = self.bits.get(chunk as usize / 64);
        word.is_some_and(|word| word >> (chunk % 64) & 1 == 1)
    }

    /// The number of holes.
    pub(crate) fn count(&self) -> u32 {
        self.count
    }

    /// Makes chunks holes.
    pub(crate) fn add(&mut self, start: u32, count: u32) {
        let words = (start + count).div_ceil(64) as usize;
        self.bits.resize(words.max(self.bits.len()), 0);
        for chunk in start..start + count {
            self.count += u32::from(!self.has(chunk));
            self.bits[chunk as usize / 64] |= 1 << (chunk % 64);
        }
    }

    /// Removes chunks that are handed out. They get blocks again when they are written.
    pub(crate) fn remove(&mut self, start: u32, count: u32) {
        if self.count == 0 {
            return;
        }
        for chunk in start..start + count {
            if self.has(chunk) {
                self.bits[chunk as usize / 64] &= !(1 << (chunk % 64));
                self.count -= 1;
            }
        }
    }

    /// The first of the 64 chunks before `to`, which share a word of bits, if all of them are holes.
    fn before_word(&self, to: u32) -> Option<u32> {
        let is_end = to.is_multiple_of(64) && to > 0;
        let word = is_end.then(|| self.bits.get(to as usize / 64 - 1)).flatten()?;
        (*word == u64::MAX).then_some(to - 64)
    }

    /// The last chunks of a range that are no holes and lie together, at most `most` of them.
    pub(crate) fn last_gap(&self, start: u32, end: u32, measure: Measure) -> Option<(u32, u32)> {
        let mut to = end;
        while to > start {
            if self.has(to - 1) {
                to = self.before_word(to).unwrap_or(to - 1);
                continue;
            }
            let mut from = to - 1;
            while from > start && to - from < measure.most && !self.has(from - 1) {
                from -= 1;
            }
            if to - from >= measure.least {
                return Some((from, to - from));
            }
            to = from;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_gap_is_found_behind_any_holes() {
        let measure = Measure { least: 1, most: 4, kept: 0, begin: 0 };
        for end in [64, 65, 127, 128, 129, 200] {
            for gap in 0..end {
                let mut holes = Holes::default();
                holes.add(0, gap);
                holes.add(gap + 1, end - gap - 1);
                assert_eq!(holes.last_gap(0, end, measure), Some((gap, 1)), "{gap} of {end}");
                assert_eq!(holes.last_gap(gap + 1, end, measure), None, "{gap} of {end}");
            }
        }
    }
}
