//! When another size of a leaf pays (section 5.4, equations 1 to 4).
//!
//! `T_r(size)` is the time to read a node and `T_w(size)` the time to FLUSH one, on the medium in use:
//! measured when the tree is opened, for neither is proportional to the size.
//!
//! Two gaps of the paper. With no reads at all equation 2 is zero, so an update-only workload, on which
//! the paper reports that sizes reach a limit (section 6.4.2), would double for ever: a greatest size
//! is given beside the model. And equation 3 weighs the reads that a smaller node makes cheaper by the
//! time of the smaller node, not by the difference; it is kept as printed.

use std::hint::black_box;
use std::time::Instant;

use tembo_pmem::LINE;
use tembo_pool::Pool;

use super::format::ELEMENT_SIZE;
use super::profile::Load;
use crate::Error;
use crate::keys::Random;

/// Bytes in which places are measured: more than a core's own caches hold.
const SCRATCH: u64 = 8 << 20;

/// Of so many measurements at a size the median is taken.
const REPEATS: usize = 65;

/// `T_r` and `T_w` by size, and the greatest size.
#[derive(Clone, Debug)]
pub struct Times {
    /// Size in bytes, nanoseconds to read, nanoseconds to write: by size.
    measured: Vec<(u64, f64, f64)>,
    size_max: u64,
}

impl Times {
    /// Measures on a pool's medium, which takes some milliseconds.
    ///
    /// # Errors
    /// Those of the pool.
    pub(super) fn measure(pool: &Pool, size_max: u64) -> Result<Times, Error> {
        let scratch = SCRATCH.max(8 * size_max);
        let section = pool.reserve(scratch, scratch / LINE)?;
        let object = pool.alloc(scratch)?;
        let (region, offset) = (pool.region(), object.offset());
        region.prefault(offset, scratch);
        let (mut random, mut measured) = (Random::new(1), Vec::new());
        let mut place = |size: u64| offset + random.below((scratch - size) / LINE) * LINE;
        let mut size = LINE;
        while size <= 2 * size_max {
            let content = vec![1; size as usize];
            let write = median(|| {
                let start = Instant::now();
                region.write("nvtree_paper.measure.write", place(size), &[&content])?;
                // ORDER: none: what is measured is a FLUSH.
                region.fence("nvtree_paper.measure.fence");
                Ok(start.elapsed().as_nanos() as f64)
            })?;
            let read = median(|| {
                let words = region.words(place(size), (size / 8) as usize)?;
                let start = Instant::now();
                black_box(words.iter().fold(0, |sum: u64, word| sum.wrapping_add(word.load())));
                Ok(start.elapsed().as_nanos() as f64)
            })?;
            measured.push((size, read, write));
            size *= 2;
        }
        drop(section);
        pool.free(object);
        Ok(Times { measured, size_max })
    }

    /// As if time were proportional to size: nanoseconds a byte.
    #[cfg(test)]
    pub(super) fn linear(read: f64, write: f64, size_max: u64) -> Times {
        let at = |size: u64| (size, read * size as f64, write * size as f64);
        Times { measured: vec![at(64), at(1 << 30)], size_max }
    }

    /// `T_r`, in nanoseconds; between measured sizes on a line.
    pub fn read_ns(&self, size: u64) -> f64 {
        self.interpolate(size, |&(_, read, _)| read)
    }

    /// `T_w`, in nanoseconds; between measured sizes on a line.
    pub fn write_ns(&self, size: u64) -> f64 {
        self.interpolate(size, |&(_, _, write)| write)
    }

    fn interpolate(&self, size: u64, time: fn(&(u64, f64, f64)) -> f64) -> f64 {
        let after = self.measured.partition_point(|at| at.0 < size);
        let after = after.clamp(1, self.measured.len().saturating_sub(1).max(1));
        let (Some(low), Some(high)) = (self.measured.get(after - 1), self.measured.get(after))
        else {
            return 0.0;
        };
        let share = (size as f64 - low.0 as f64) / (high.0 - low.0) as f64;
        (time(low) + share * (time(high) - time(low))).max(0.0)
    }

    /// Whether growing from `old` to `new` bytes saves more in splits (equation 1) than it costs in
    /// searches (equation 2).
    pub(super) fn growth_pays(&self, old: u64, new: u64, load: Load) -> bool {
        let saved = self.read_ns(old) + 2.0 * self.write_ns(old / 2);
        let cost = self.searches(new - old, load) * self.read_ns(old);
        new <= self.size_max && saved > cost
    }

    /// Whether shrinking from `old` to `new` bytes saves more in searches (equation 3) than it costs
    /// in splits (equation 4).
    pub(super) fn shrinking_pays(&self, old: u64, new: u64, load: Load) -> bool {
        let saved = self.searches(old - new, load) * self.read_ns(new);
        let cost = self.read_ns(new) + 2.0 * self.write_ns(new / 2);
        new >= super::format::LEAF_SIZE_MIN && saved > cost
    }

    /// Searches in both leaves while so many bytes of elements are appended to each, as until now.
    fn searches(&self, bytes: u64, load: Load) -> f64 {
        if load.reads == 0 {
            return 0.0;
        }
        bytes as f64 / ELEMENT_SIZE as f64 * load.reads as f64 / load.writes as f64 * 2.0
    }
}

fn median(mut measure: impl FnMut() -> Result<f64, Error>) -> Result<f64, Error> {
    let mut times = (0..REPEATS).map(|_| measure()).collect::<Result<Vec<f64>, Error>>()?;
    times.sort_by(f64::total_cmp);
    Ok(times[REPEATS / 2])
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use tembo_pool::PoolOptions;

    use super::*;

    const SIZE_MAX: u64 = 16 << 10;

    fn load(reads: u64, writes: u64) -> Load {
        Load { reads, writes }
    }

    /// With reads at a nanosecond a byte and writes at two, equations 1 and 2 give
    /// `3 old > (new - old) / 24 * ratio * 2 old`: the limit is `old + 36 / ratio`.
    #[test]
    fn growth_ends_where_searches_cost_what_splits_save() {
        let times = Times::linear(1.0, 2.0, SIZE_MAX);
        for (reads, writes, more) in [(36, 64, 64), (36, 640, 640), (36, 100, 100)] {
            let load = load(reads, writes);
            assert!(!times.growth_pays(1024, 1024 + more, load), "at the limit nothing is gained");
            assert!(times.growth_pays(1024, 1024 + more - 1, load), "below it something is");
        }
    }

    /// Equations 3 and 4 give `(old - new) / 24 * ratio * 2 new > 3 new`: from `36 / ratio` on.
    #[test]
    fn shrinking_pays_from_where_searches_save_what_splits_cost() {
        let times = Times::linear(1.0, 2.0, SIZE_MAX);
        let load = load(36, 64);
        assert!(!times.shrinking_pays(1024, 1024 - 64, load));
        assert!(times.shrinking_pays(1024, 1024 - 65, load));
    }

    #[test]
    fn both_ways_there_is_an_end_whatever_the_load() {
        let times = Times::linear(1.0, 2.0, SIZE_MAX);
        assert!(times.growth_pays(SIZE_MAX / 2, SIZE_MAX, load(0, 1)));
        assert!(!times.growth_pays(SIZE_MAX, SIZE_MAX + LINE, load(0, 1)));
        assert!(times.shrinking_pays(256, 192, load(1000, 0)));
        assert!(!times.shrinking_pays(192, 128, load(1000, 0)));
    }

    #[test]
    fn what_is_measured_is_given_back_and_grows_with_the_size() {
        let pool = Pool::volatile(&PoolOptions { size: 64 << 20, ..PoolOptions::default() });
        let pool = pool.unwrap();
        let before = pool.usage().allocated_bytes;
        let times = Times::measure(&pool, SIZE_MAX).unwrap();
        assert_eq!(pool.usage().allocated_bytes, before);
        assert!(times.read_ns(SIZE_MAX) > 0.0 && times.write_ns(SIZE_MAX) > 0.0);
        let between = times.write_ns(1536);
        let ends = (times.write_ns(1024), times.write_ns(2048));
        assert!(ends.0.min(ends.1) <= between && between <= ends.0.max(ends.1));
    }
}
