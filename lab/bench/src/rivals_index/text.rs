//! The report as tables for people.

use std::fmt;

use super::candidate::Candidate;
use super::report::{NotMeasured, RivalCell, RivalPair, RivalTable, RivalsReport};
use crate::Operation;
use crate::table::{headed, rate, ratio, row};

impl fmt::Display for RivalsReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let RivalsReport { machine, folder, rounds, seed, .. } = self;
        writeln!(f, "{machine}")?;
        writeln!(
            f,
            "{folder}, {rounds} rounds, seed {seed}; in each round a contender is a process with a structure of its own"
        )?;
        if self.stopped {
            writeln!(f, "stopped before its end: the rounds that were whole")?;
        }
        for table in &self.tables {
            table.fmt(f)?;
        }
        writeln!(f)?;
        for NotMeasured { candidate, what, why } in &self.missing {
            let what = if what.is_empty() { String::new() } else { format!(", {what}") };
            writeln!(f, "{}{what}: not measured: {why}", candidate.title())?;
        }
        for note in &self.notes {
            writeln!(f, "{note}")?;
        }
        for build in &self.builds {
            writeln!(f, "{}, {}: {}", build.candidate.title(), build.commit, build.command)?;
        }
        Ok(())
    }
}

impl fmt::Display for RivalTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = if self.is_strings {
            "keys of 16 to 32 bytes with values of 100"
        } else {
            "keys of 8 bytes with values of 8"
        };
        writeln!(f, "\n{} {what}", self.keys)?;
        let title = "M ops/s of the process's CPU time: median (best)";
        self.part(f, title, |cell| Some(rate(cell.process)))?;
        self.ratios(f)?;
        self.part(f, "M ops/s of thread CPU time: median (best)", |cell| Some(rate(cell.cpu)))?;
        self.part(f, "M ops/s of wall time: median (best)", |cell| Some(rate(cell.wall)))?;
        let title =
            format!("instructions an operation, by callgrind with {} keys", self.counted_keys);
        self.part(f, &title, |cell| cell.instructions.map(|count| format!("{count:.0}")))?;
        self.pairs(f)?;
        self.latencies(f)?;
        self.spaces(f)
    }
}

/// In the order of the cells.
fn operations(cells: &[RivalCell]) -> Vec<Operation> {
    let mut operations: Vec<Operation> = cells.iter().map(|cell| cell.operation).collect();
    operations.dedup();
    operations
}

impl RivalTable {
    /// A table of operations by contenders; nothing, if it would be empty.
    fn part(
        &self,
        f: &mut fmt::Formatter<'_>,
        title: &str,
        text: impl Fn(&RivalCell) -> Option<String>,
    ) -> fmt::Result {
        if !self.cells.iter().any(|cell| text(cell).is_some()) {
            return Ok(());
        }
        let mut table = headed("", self.candidates.iter().map(|candidate| candidate.title()));
        for operation in operations(&self.cells) {
            let find = |candidate: &Candidate| {
                let mut cells = self.cells.iter();
                cells.find(|cell| (cell.operation, cell.candidate) == (operation, *candidate))
            };
            let texts = self.candidates.iter().map(|candidate| find(candidate).and_then(&text));
            table.add_row(row(operation.name(), texts.collect::<Vec<_>>()));
        }
        writeln!(f, "\n{title}\n{table}")
    }

    fn ratios(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.ratios.is_empty() {
            return Ok(());
        }
        let columns = ["best rival", "bare to it", "store to it", "store to bare"];
        let mut table = headed("", columns);
        for operation in operations(&self.cells) {
            let mut of = self.ratios.iter().filter(|ratio| ratio.operation == operation);
            let all: Vec<_> = of.by_ref().collect();
            let find = |above: Candidate, is_rival: bool| {
                all.iter().find(|r| r.above == above && r.below.is_rival() == is_rival)
            };
            let best = all.iter().find(|ratio| ratio.below.is_rival());
            let texts = [
                best.map(|ratio| ratio.below.title().to_owned()),
                find(Candidate::Bare, true).map(|found| ratio(found.ratio)),
                find(Candidate::Store, true).map(|found| ratio(found.ratio)),
                find(Candidate::Store, false).map(|found| ratio(found.ratio)),
            ];
            table.add_row(row(operation.name(), texts));
        }
        writeln!(
            f,
            "\nratios by the process's CPU time, round by round: median (worst–best)\n{table}"
        )
    }

    fn pairs(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.pairs.is_empty() {
            return Ok(());
        }
        let columns = ["two threads, one structure", "two processes, one each", "ratio"];
        let mut table = headed("", columns);
        for RivalPair { operation, candidate, together, apart, ratio: of } in &self.pairs {
            let name = format!("{}, {}", operation.name(), candidate.title());
            table.add_row(row(&name, [rate(*together), rate(*apart), ratio(*of)].map(Some)));
        }
        writeln!(f, "\ntwo threads: M ops/s of wall time, median (best)\n{table}")
    }

    fn latencies(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.latencies.is_empty() {
            return Ok(());
        }
        let mut table = headed("", ["median", "99.9 %", "longest"]);
        for latency in &self.latencies {
            let texts = [latency.median_ns, latency.p999_ns, latency.max_ns];
            table.add_row(row(latency.candidate.title(), texts.map(|ns| Some(ns.to_string()))));
        }
        writeln!(f, "\nsingle insertions in random order, ns of thread CPU time\n{table}")
    }

    fn spaces(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut table = headed("", ["pool, file or log", "other memory", "2 MiB pages"]);
        for space in &self.spaces {
            let [pool, memory] =
                [space.pool, space.memory].map(|bytes| Some(format!("{bytes:.1}")));
            let large = space.large_pages.map(|share| format!("{:.0} %", share * 100.0));
            table.add_row(row(space.candidate.title(), [pool, memory, large]));
        }
        writeln!(
            f,
            "\nbytes an entry after the insertion in random order; resident memory in pages of 2 MiB\n{table}"
        )
    }
}
