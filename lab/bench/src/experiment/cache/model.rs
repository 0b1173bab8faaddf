//! A last cache that can lose lines by flushes: sets of ways, and in each set the line that was used longest ago gives way.

const LINE: u64 = 64;
const WAYS: usize = 16;
/// No line has this number.
const NOTHING: u64 = u64::MAX;

/// The lines that it holds, and how often one that was asked for was not among them.
#[derive(Debug)]
pub(super) struct CacheModel {
    /// Set after set; in each the line used last comes first.
    held: Vec<u64>,
    misses: u64,
}

impl CacheModel {
    /// An empty cache of so many bytes.
    pub(super) fn new(bytes: u64) -> CacheModel {
        CacheModel { held: vec![NOTHING; (bytes / LINE) as usize], misses: 0 }
    }

    /// `len` bytes at an address are read or written.
    pub(super) fn touch(&mut self, address: u64, len: u64) {
        for line in address / LINE..(address + len).div_ceil(LINE) {
            let set = self.set_of(line);
            let found = set.iter().position(|held| *held == line);
            set[..=found.unwrap_or(WAYS - 1)].rotate_right(1);
            set[0] = line;
            self.misses += u64::from(found.is_none());
        }
    }

    /// Removes the line at an address from the cache.
    pub(super) fn evict(&mut self, address: u64) {
        let line = address / LINE;
        let set = self.set_of(line);
        if let Some(place) = set.iter().position(|held| *held == line) {
            set[place..].rotate_left(1);
            set[WAYS - 1] = NOTHING;
        }
    }

    pub(super) fn misses(&self) -> u64 {
        self.misses
    }

    fn set_of(&mut self, line: u64) -> &mut [u64] {
        let sets = self.held.len() / WAYS;
        let from = (line % sets as u64) as usize * WAYS;
        &mut self.held[from..from + WAYS]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two sets of sixteen lines.
    fn cache() -> CacheModel {
        CacheModel::new(2 * WAYS as u64 * LINE)
    }

    #[test]
    fn the_line_that_was_used_longest_ago_gives_way() {
        let mut cache = cache();
        // Even lines share a set.
        (0..16).for_each(|line| cache.touch(line * 2 * LINE, 8));
        assert_eq!(cache.misses(), 16);
        cache.touch(0, 8);
        cache.touch(16 * 2 * LINE, 8);
        assert_eq!(cache.misses(), 17, "the first is there, the seventeenth is not");
        cache.touch(0, 8);
        cache.touch(2 * LINE, 8);
        assert_eq!(cache.misses(), 18, "the second gave way, not the first");
    }

    #[test]
    fn an_access_touches_each_line_that_it_has_bytes_of() {
        let mut cache = cache();
        cache.touch(LINE - 1, 2);
        assert_eq!(cache.misses(), 2);
        cache.touch(3 * LINE, LINE);
        assert_eq!(cache.misses(), 3);
    }

    #[test]
    fn a_line_that_was_evicted_is_missed_once() {
        let mut cache = cache();
        cache.touch(0, 2 * LINE);
        cache.evict(8);
        cache.evict(100 * LINE);
        cache.touch(0, 2 * LINE);
        cache.touch(0, 2 * LINE);
        assert_eq!(cache.misses(), 3);
    }
}
