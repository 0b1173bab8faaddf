//! Figures of a table, round by round, and what is computed of them.

use std::collections::BTreeMap;
use std::time::Duration;

use super::candidate::{Candidate, Shape};
use super::process::Timed;
use super::report::{RivalCell, RivalLatency, RivalPair, RivalRatio, RivalSpace, RivalTable};
use crate::Operation;
use crate::sheet::Sheet;

/// On one structure, in this order.
pub(super) const OPERATIONS: [Operation; 7] = [
    Operation::Insert,
    Operation::Lookup,
    Operation::MissingLookup,
    Operation::Update,
    Operation::Scan,
    Operation::ZipfLookup,
    Operation::Remove,
];

/// Keys with which instructions are counted, at most.
pub(super) const COUNTED_KEYS: u64 = 100_000;

/// What one round has found.
#[derive(Default)]
pub(super) struct Found {
    pub(super) timed: Vec<(Candidate, Operation, Timed)>,
    /// Bytes in the pool and of other memory, and the share of large pages, after the insertion in random order.
    pub(super) spaces: Vec<(Candidate, [u64; 2], Option<f64>)>,
    /// Millions of operations a second of two threads together and apart.
    pub(super) pairs: Vec<(Candidate, Operation, [f64; 2])>,
}

/// What a table is made of: rounds that were whole.
#[derive(Default)]
pub(super) struct Sheets {
    process: Sheet,
    cpu: Sheet,
    wall: Sheet,
    together: Sheet,
    apart: Sheet,
    spaces: BTreeMap<Candidate, RivalSpace>,
    pub(super) latencies: Vec<RivalLatency>,
    pub(super) counts: Vec<(Candidate, Operation, f64)>,
}

impl Sheets {
    /// Adds a round with so many keys.
    pub(super) fn add(&mut self, found: Found, keys: u64) {
        for (candidate, operation, timed) in found.timed {
            let rate =
                |time: Duration| timed.operations as f64 / time.as_secs_f64().max(1e-9) / 1e6;
            let (name, word) = (candidate.name(), operation.word());
            self.process.push(name, word, rate(timed.process));
            self.cpu.push(name, word, rate(timed.elapsed.cpu));
            self.wall.push(name, word, rate(timed.elapsed.wall));
        }
        for (candidate, bytes, large_pages) in found.spaces {
            let [pool, memory] = bytes.map(|bytes| bytes as f64 / keys as f64);
            self.spaces.insert(candidate, RivalSpace { candidate, pool, memory, large_pages });
        }
        for (candidate, operation, [together, apart]) in found.pairs {
            self.together.push(candidate.name(), operation.word(), together);
            self.apart.push(candidate.name(), operation.word(), apart);
        }
    }

    /// The table of those that did not fail: `candidates` with one thread, `in_pairs` with two.
    pub(super) fn table(
        &self,
        shape: Shape,
        keys: u64,
        candidates: Vec<Candidate>,
        in_pairs: &[Candidate],
    ) -> RivalTable {
        let (mut cells, mut ratios, mut pairs) = (Vec::new(), Vec::new(), Vec::new());
        for operation in OPERATIONS.into_iter().chain([Operation::SequentialInsert]) {
            cells.extend(candidates.iter().filter_map(|one| self.cell(operation, *one)));
            ratios.extend(self.ratios(operation, &candidates));
            pairs.extend(in_pairs.iter().filter_map(|one| self.pair(operation, *one)));
        }
        let spaces = candidates.iter().filter(|candidate| **candidate != Candidate::Wall);
        let spaces = spaces.filter_map(|candidate| self.spaces.get(candidate).copied()).collect();
        RivalTable {
            keys,
            is_strings: shape == Shape::Strings,
            candidates,
            cells,
            ratios,
            pairs,
            spaces,
            latencies: self.latencies.clone(),
            counted_keys: if self.counts.is_empty() { 0 } else { keys.min(COUNTED_KEYS) },
        }
    }

    fn cell(&self, operation: Operation, candidate: Candidate) -> Option<RivalCell> {
        let of = |sheet: &Sheet| sheet.spread(candidate.name(), operation.word());
        let count = self.counts.iter().find(|count| (count.0, count.1) == (candidate, operation));
        Some(RivalCell {
            operation,
            candidate,
            process: of(&self.process)?,
            cpu: of(&self.cpu)?,
            wall: of(&self.wall)?,
            instructions: count.map(|count| count.2),
        })
    }

    fn ratios(&self, operation: Operation, candidates: &[Candidate]) -> Vec<RivalRatio> {
        let median = |candidate: Candidate| {
            let spread = self.process.spread(candidate.name(), operation.word())?;
            Some((spread.median, candidate))
        };
        let rivals = candidates.iter().copied().filter(|candidate| candidate.is_rival());
        let best = rivals.filter_map(median).max_by(|one, other| one.0.total_cmp(&other.0));
        let best = best.map(|(_, rival)| rival);
        let wanted = [
            (Candidate::Bare, best),
            (Candidate::Store, best),
            (Candidate::Store, Some(Candidate::Bare)),
        ];
        let ratio = |(above, below): (Candidate, Option<Candidate>)| {
            let below = below?;
            let ratio = self.process.ratio(above.name(), below.name(), operation.word())?;
            Some(RivalRatio { operation, above, below, ratio })
        };
        wanted.into_iter().filter_map(ratio).collect()
    }

    fn pair(&self, operation: Operation, candidate: Candidate) -> Option<RivalPair> {
        let (name, word) = (candidate.name(), operation.word());
        let (together, apart) = (self.together.spread(name, word)?, self.apart.spread(name, word)?);
        // Rounds of one sheet are those of the other.
        let ratio = self.together.ratio_to(&self.apart, name, word).unwrap_or_default();
        Some(RivalPair { operation, candidate, together, apart, ratio })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::clock::Elapsed;

    /// A contender whose threads in the background work as long as the thread that is timed is half as fast.
    #[test]
    fn ratios_are_those_of_the_process() {
        let mut sheets = Sheets::default();
        let timed = |process| {
            let second = Duration::from_secs(1);
            let elapsed = Elapsed { cpu: second, wall: second };
            Timed { operations: 1_000_000, elapsed, process: second * process, right: 0 }
        };
        let of = |candidate, process| (candidate, Operation::Insert, timed(process));
        let all = [of(Candidate::Bare, 2), of(Candidate::Abseil, 1)];
        sheets.add(Found { timed: all.into(), ..Found::default() }, 1);
        let table = sheets.table(Shape::Numbers, 1, vec![Candidate::Abseil, Candidate::Bare], &[]);
        assert_eq!(table.ratios.len(), 1);
        assert_eq!(table.ratios[0].ratio.median, 0.5);
        assert!(table.cells.iter().all(|cell| cell.cpu.median == 1.0));
    }

    #[test]
    fn a_contender_that_failed_with_two_threads_is_in_the_tables_of_one() {
        let mut sheets = Sheets::default();
        let timed =
            Timed { operations: 1, elapsed: Elapsed::default(), process: Duration::ZERO, right: 1 };
        for candidate in [Candidate::Part, Candidate::Bare] {
            let found = Found {
                timed: vec![(candidate, Operation::Insert, timed)],
                pairs: vec![(candidate, Operation::Insert, [1.0, 2.0])],
                ..Found::default()
            };
            sheets.add(found, 1);
        }
        let all = vec![Candidate::Part, Candidate::Bare];
        let table = sheets.table(Shape::Numbers, 1, all.clone(), &[Candidate::Bare]);
        let cells: Vec<_> = table.cells.iter().map(|cell| cell.candidate).collect();
        assert_eq!(cells, all);
        assert_eq!(table.pairs.len(), 1);
        assert_eq!(table.pairs[0].ratio.median, 0.5);
    }
}
