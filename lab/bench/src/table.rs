//! The outcome as tables for people.

use std::fmt;

use comfy_table::presets::UTF8_FULL_CONDENSED;
use comfy_table::{Cell as Field, CellAlignment, Table};

use crate::nvtree_paper::Rebuilds;
use crate::{Cell, Kind, Latency, Operation, Outcome, Pair, Space, Spread};

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Outcome { keys, rounds, seed, node_size, .. } = self;
        writeln!(f, "{keys} keys of 8 bytes with values of 8 bytes, {rounds} rounds")?;
        writeln!(f, "nodes of {node_size} bytes, seed {seed}")?;
        if self.stopped {
            writeln!(f, "stopped before its end: the rounds that were whole")?;
        }
        self.part(f, "M ops/s of thread CPU time: median (best)", |cell| Some(rate(cell.cpu)))?;
        self.part(f, "M ops/s of wall time: median (best)", |cell| Some(rate(cell.wall)))?;
        self.part(f, "ratio to the one-line persist, by thread CPU time", |cell| {
            cell.of_wall.map(ratio)
        })?;
        self.part(f, "ratio to BTreeMap, by thread CPU time", |cell| cell.of_btreemap.map(ratio))?;
        let counts = |cell: &Cell| {
            let Cell { fences, lines, bytes, .. } = cell;
            (*fences > 0.0).then(|| format!("{fences:.2} / {lines:.2} / {bytes:.0}"))
        };
        self.part(f, "fences / lines flushed / bytes stored, an operation", counts)?;
        self.pairs(f)?;
        self.costs(f)
    }
}

impl Outcome {
    /// A table of operations by contenders; nothing, if it would be empty.
    fn part(
        &self,
        f: &mut fmt::Formatter<'_>,
        title: &str,
        text: impl Fn(&Cell) -> Option<String>,
    ) -> fmt::Result {
        if !self.cells.iter().any(|cell| text(cell).is_some()) {
            return Ok(());
        }
        let mut table = headed("", self.contenders.iter().map(|kind| kind.name()));
        for operation in Operation::ALL {
            let find = |kind: &Kind| {
                let mut cells = self.cells.iter();
                cells.find(|cell| cell.operation == operation && cell.contender == *kind)
            };
            let texts = self.contenders.iter().map(|kind| find(kind).and_then(&text));
            let texts: Vec<_> = texts.collect();
            if texts.iter().any(Option::is_some) {
                table.add_row(row(operation.name(), texts));
            }
        }
        writeln!(f, "\n{title}\n{table}")
    }

    fn pairs(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.pairs.is_empty() {
            return Ok(());
        }
        let columns = [
            "M ops/s of wall time: median (best)",
            "ratio by thread CPU time",
            "ratio by wall time",
        ];
        let mut table = headed("", columns);
        for Pair { operation, contender, wall, cpu_ratio, wall_ratio } in &self.pairs {
            let texts = [rate(*wall), ratio(*cpu_ratio), ratio(*wall_ratio)];
            let name = format!("{}, {}", operation.name(), contender.name());
            table.add_row(row(&name, texts.map(Some)));
        }
        writeln!(f, "\ntwo threads on one structure, and their ratio to two with one each\n{table}")
    }

    fn costs(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.costs.is_empty() {
            return Ok(());
        }
        let columns = [
            "bytes / entry: pool, memory",
            "after updates",
            "insert ns: median, 99 %, 99.9 %, longest",
            "sequential insert ns: the same",
            "rebuilds: random, sequential",
        ];
        let mut table = headed("", columns);
        for kind in &self.contenders {
            let Some(cost) = self.costs.iter().find(|cost| cost.contender == *kind) else {
                continue;
            };
            let space = |space: Space| format!("{:.1}, {:.1}", space.pool, space.memory);
            let latency = |latency: Option<Latency>| {
                let Latency { median_ns, p99_ns, p999_ns, max_ns } = latency?;
                Some(format!("{median_ns}, {p99_ns}, {p999_ns}, {max_ns}"))
            };
            let texts = [
                Some(space(cost.inserted)),
                cost.updated.map(space),
                latency(cost.insert),
                latency(cost.sequential_insert),
                rebuilds(cost.rebuilds, cost.sequential_rebuilds),
            ];
            table.add_row(row(kind.name(), texts));
        }
        writeln!(
            f,
            "\nspace after insertions and after as many updates, and single insertions in thread CPU time\n{table}"
        )
    }
}

/// Of the insertion in random order, and of that of ascending keys.
fn rebuilds(random: Option<Rebuilds>, sequential: Option<Rebuilds>) -> Option<String> {
    let text = |rebuilds: Rebuilds| {
        format!("{} in {:.1} ms", rebuilds.count, rebuilds.time_ns as f64 / 1e6)
    };
    Some(format!("{}, {}", text(random?), text(sequential?)))
}

pub(crate) fn rate(spread: Spread) -> String {
    format!("{:.3} ({:.3})", spread.median, spread.best)
}

pub(crate) fn ratio(spread: Spread) -> String {
    format!("{:.2} ({:.2}–{:.2})", spread.median, spread.worst, spread.best)
}

pub(crate) fn headed<'c>(first: &'c str, columns: impl IntoIterator<Item = &'c str>) -> Table {
    let mut table = Table::new();
    table.load_preset(UTF8_FULL_CONDENSED);
    table.set_header(std::iter::once(first).chain(columns));
    table
}

pub(crate) fn row(name: &str, texts: impl IntoIterator<Item = Option<String>>) -> Vec<Field> {
    let field = |text: Option<String>| {
        Field::new(text.unwrap_or_else(|| "–".into())).set_alignment(CellAlignment::Right)
    };
    std::iter::once(Field::new(name)).chain(texts.into_iter().map(field)).collect()
}
