//! Which size the two leaves of a split should have (section 5.3, algorithm 3).

use tembo_pmem::LINE;

use super::model::Times;
use super::profile::Load;

/// How eagerly sizes follow the workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strategy {
    /// A line at a time, and only where reads and writes agree.
    Conservative,
    /// Doubles what is written often, shrinks what is read often.
    Balanced,
    /// Doubles whatever is written more than read; never shrinks.
    Aggressive,
}

/// What algorithm 3 asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wish {
    Keep,
    LineLess,
    LineMore,
    Double,
}

/// A leaf and the tree that it is held against.
#[derive(Clone, Copy, Debug)]
pub(super) struct Observed {
    pub(super) leaf: Load,
    pub(super) total: Load,
    pub(super) leaves: u64,
}

impl Observed {
    /// `nWrites_LN` against `nWrites / N_LN`, without a fraction.
    fn writes(&self) -> std::cmp::Ordering {
        wide(self.leaf.writes, self.leaves).cmp(&u128::from(self.total.writes))
    }

    fn reads(&self) -> std::cmp::Ordering {
        wide(self.leaf.reads, self.leaves).cmp(&u128::from(self.total.reads))
    }
}

fn wide(count: u64, leaves: u64) -> u128 {
    u128::from(count) * u128::from(leaves)
}

impl Strategy {
    /// Algorithm 3 as far as line 20. A leaf read as often as written is not write-intensive.
    fn wish(self, seen: Observed) -> Wish {
        let (hot_write, cold_write) = (seen.writes().is_gt(), seen.writes().is_lt());
        let (hot_read, cold_read) = (seen.reads().is_gt(), seen.reads().is_lt());
        let write_intensive = seen.leaf.reads < seen.leaf.writes;
        match self {
            Strategy::Conservative if write_intensive && hot_write && cold_read => Wish::LineMore,
            Strategy::Conservative if !write_intensive && cold_write && hot_read => Wish::LineLess,
            Strategy::Balanced if write_intensive && hot_write => Wish::Double,
            Strategy::Balanced if write_intensive => Wish::LineMore,
            Strategy::Balanced if hot_read => Wish::LineLess,
            Strategy::Aggressive if write_intensive => Wish::Double,
            Strategy::Conservative | Strategy::Balanced | Strategy::Aggressive => Wish::Keep,
        }
    }

    /// The size of the two leaves that come of a leaf of `size` bytes, as far as the model has it pay.
    ///
    /// Where doubling does not pay, the balanced strategy tries a line more and the aggressive one
    /// leaves the size alone (section 6.4.2).
    pub(super) fn new_size(self, size: u64, seen: Observed, times: &Times) -> u64 {
        let grown = |to| times.growth_pays(size, to, seen.leaf).then_some(to);
        let new = match self.wish(seen) {
            Wish::Keep => None,
            Wish::LineLess => {
                let to = size.saturating_sub(LINE);
                times.shrinking_pays(size, to, seen.leaf).then_some(to)
            }
            Wish::LineMore => grown(size + LINE),
            Wish::Double => grown(2 * size)
                .or_else(|| if self == Strategy::Balanced { grown(size + LINE) } else { None }),
        };
        new.unwrap_or(size)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every kind of leaf: how it compares with itself, and with the average, in each respect.
    ///
    /// The average is 100 in both respects, of 10 leaves.
    #[test]
    fn algorithm_3_over_all_cases() {
        use Strategy::{Aggressive as A, Balanced as B, Conservative as C};
        use Wish::{Double, Keep, LineLess, LineMore};
        // (reads, writes), then what conservative, balanced and aggressive ask for.
        let cases = [
            // Write-intensive.
            ((50, 200), [LineMore, Double, Double], "hot-write, cold-read"),
            ((100, 200), [Keep, Double, Double], "hot-write, average read"),
            ((150, 200), [Keep, Double, Double], "hot-write, hot-read"),
            ((50, 100), [Keep, LineMore, Double], "average write, cold-read"),
            ((40, 60), [Keep, LineMore, Double], "cold-write, cold-read"),
            // Neither.
            ((100, 100), [Keep, Keep, Keep], "as often, and average"),
            ((60, 60), [Keep, Keep, Keep], "as often, and cold"),
            ((150, 150), [Keep, LineLess, Keep], "as often, and hot"),
            // Read-intensive.
            ((200, 50), [LineLess, LineLess, Keep], "hot-read, cold-write"),
            ((200, 100), [Keep, LineLess, Keep], "hot-read, average write"),
            ((200, 150), [Keep, LineLess, Keep], "hot-read, hot-write"),
            ((100, 50), [Keep, Keep, Keep], "average read, cold-write"),
            ((60, 40), [Keep, Keep, Keep], "cold-read, cold-write"),
            ((0, 0), [Keep, Keep, Keep], "untouched"),
        ];
        for ((reads, writes), wishes, what) in cases {
            let seen = Observed {
                leaf: Load { reads, writes },
                total: Load { reads: 1000, writes: 1000 },
                leaves: 10,
            };
            assert_eq!([C, B, A].map(|strategy| strategy.wish(seen)), wishes, "{what}");
        }
    }

    /// The two strategies differ where doubling does not pay and a line more does.
    #[test]
    fn where_doubling_does_not_pay_balanced_takes_a_line_and_aggressive_nothing() {
        // Reading takes a nanosecond a byte, writing two.
        let times = Times::linear(1.0, 2.0, 1 << 20);
        let size = 1024;
        // Growing by d bytes costs d/24 * ratio * 2 T_r, and saves 3 T_r: pays below 36 / ratio.
        let seen = |reads, writes| Observed {
            leaf: Load { reads, writes },
            total: Load { reads: 0, writes: 10 },
            leaves: 10,
        };
        let sizes = |seen| {
            [Strategy::Balanced, Strategy::Aggressive, Strategy::Conservative]
                .map(|strategy| strategy.new_size(size, seen, &times))
        };
        // A ratio of 1/100 pays up to 3600 bytes more, of 4/10 up to 90, of 9/10 up to 40.
        assert_eq!(sizes(seen(1, 100)), [2048, 2048, 1024]);
        assert_eq!(sizes(seen(40, 100)), [1088, 1024, 1024]);
        assert_eq!(sizes(seen(90, 100)), [1024, 1024, 1024]);
    }
}
