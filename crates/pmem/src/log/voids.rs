//! Ranges whose older lines no longer count, because the range was written beside the log.

use std::collections::BTreeMap;

/// For each range, the sequence of the first group whose lines count again.
#[derive(Debug, Default)]
pub(super) struct Voids {
    /// Start to end and sequence; ranges do not overlap.
    ranges: BTreeMap<u64, (u64, u64)>,
}

impl Voids {
    /// Lines in `start..end` count only from group `sequence` on. Later calls have higher sequences.
    pub(super) fn paint(&mut self, start: u64, end: u64, sequence: u64) {
        let overlapping: Vec<u64> = self
            .ranges
            .range(..end)
            .rev()
            .take_while(|(_, (range_end, _))| *range_end > start)
            .map(|(range_start, _)| *range_start)
            .collect();
        for old_start in overlapping {
            let Some((old_end, old)) = self.ranges.remove(&old_start) else {
                continue;
            };
            if old_start < start {
                self.ranges.insert(old_start, (start, old));
            }
            if old_end > end {
                self.ranges.insert(end, (old_end, old));
            }
        }
        self.ranges.insert(start, (end, sequence));
    }

    /// Whether all lines count.
    pub(super) fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// Whether a line of group `sequence` at `offset` no longer counts.
    pub(super) fn covers(&self, offset: u64, sequence: u64) -> bool {
        self.ranges
            .range(..=offset)
            .next_back()
            .is_some_and(|(_, (end, first))| offset < *end && sequence < *first)
    }

    /// The highest sequence of a range that overlaps `start..end`.
    pub(super) fn newest(&self, start: u64, end: u64) -> Option<u64> {
        let overlapping = self.ranges.range(..end).rev();
        let overlapping = overlapping.take_while(|(_, (range_end, _))| *range_end > start);
        overlapping.map(|(_, (_, sequence))| *sequence).max()
    }

    /// Forgets what concerns only groups before `sequence`.
    pub(super) fn forget(&mut self, sequence: u64) {
        self.ranges.retain(|_, (_, first)| *first > sequence);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_paint_of_a_line_counts() {
        // Every sequence of three paints over a few lines, against a plain array.
        let ranges: Vec<(u64, u64)> =
            (0..5).flat_map(|a| (a + 1..6).map(move |b| (a, b))).collect();
        for first in &ranges {
            for second in &ranges {
                for third in &ranges {
                    let mut voids = Voids::default();
                    let mut plain = [0; 6];
                    for (index, (start, end)) in [first, second, third].into_iter().enumerate() {
                        let sequence = 10 * (index as u64 + 1);
                        voids.paint(start * 64, end * 64, sequence);
                        (*start..*end).for_each(|line| plain[line as usize] = sequence);
                    }
                    for (line, painted) in plain.iter().enumerate() {
                        let at = line as u64 * 64;
                        let newest = voids.newest(at, at + 64).unwrap_or(0);
                        assert_eq!(newest, *painted);
                        for sequence in [5, 15, 25, 35] {
                            let expected = sequence < *painted;
                            assert_eq!(voids.covers(line as u64 * 64, sequence), expected);
                        }
                    }
                }
            }
        }
    }
}
