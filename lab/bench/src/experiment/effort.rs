//! Thesis: what versions cost (5.4), and how much code they took (table 5.1).

use std::fs;
use std::path::Path;

use super::context::{Context, rotated};
use super::index::{Entrant, kops, name};
use crate::contender::Size;
use crate::finding::{Finding, Shape};
use crate::keys::Keys;
use crate::sheet::{Labels, Sheet};
use crate::{Error, Kind, Operation};

pub(super) const TITLE: &str = "What versions cost";
pub(super) const TITLE_LINES: &str = "Lines of code";

pub(super) fn versions(context: &mut Context<'_>) -> Result<Finding, Error> {
    let mut finding = Finding::new("thesis-5.4", TITLE, "Thesis, figure 5.4");
    let counts: &[u64] = context.pick(
        &[20_000, 50_000, 100_000],
        &[1_000_000, 2_000_000, 4_000_000, 7_000_000, 10_000_000],
    );
    let kinds = [Kind::CddsPaperVolatile, Kind::CddsVolatile, Kind::Bplus, Kind::Btreemap];
    let operations = [(Operation::Insert, "puts"), (Operation::Lookup, "gets")];
    let mut sheets = operations.map(|_| Sheet::default());
    for &count in counts {
        let keys = Keys { count, seed: context.seed() };
        for round in 0..context.rounds().min(3) {
            for kind in rotated(&kinds, round) {
                context.trial(&format!("{count} keys, round {}: {}", round + 1, name(kind)))?;
                let mut entrant = Entrant::new(context, kind, Size::new(count, 1024))?;
                for ((operation, _), sheet) in operations.into_iter().zip(&mut sheets) {
                    let trial = entrant.trial(operation, keys, round)?;
                    sheet.push(name(kind), count, kops(&trial));
                }
            }
        }
    }
    let last = counts.last().copied().unwrap_or_default();
    let mut medians = Vec::new();
    for ((_, what), sheet) in operations.into_iter().zip(&sheets) {
        let labels = Labels { title: "", x: "keys", y: "thousand operations a second" };
        let mut chart = sheet.chart(Shape::Lines, labels);
        chart.title = format!("{what} of 8 B/8 B, nodes of 1 KiB, nothing flushed");
        finding.charts.push(chart);
        for &count in counts {
            let document = if what == "puts" { "−21 to −25 %" } else { "−9 to −12 %" };
            for (kind, document) in [(Kind::CddsPaperVolatile, document), (Kind::CddsVolatile, "–")]
            {
                let ratio = sheet.ratio(name(kind), name(Kind::Bplus), count);
                let here = ratio.map(|ratio| format!("{:+.0} %", (ratio.median - 1.0) * 100.0));
                let claim = format!("{what}: {} to a B-Tree, {count} keys", name(kind));
                finding.claim(&claim, document, here);
                if count == last {
                    medians.push(ratio.map_or(0.0, |ratio| ratio.median));
                }
            }
        }
    }
    finding.sentence = format!(
        "At {last} keys the published CDDS without flushes makes {:.2} times the puts and {:.2} times the gets of a plain B+-Tree, the CDDS here {:.2} and {:.2}; the thesis has 0.77 and 0.89.",
        medians[0], medians[2], medians[1], medians[3]
    );
    finding.note("Bare trees with keys and values of 8 bytes; the thesis has 25 and 2048, where copying values hides some of it. Keys of any length cost the CDDS here, too, and numbers the B+-Tree only.");
    Ok(finding)
}

/// Lines that are neither empty nor comments nor tests, below a folder or in a file.
fn lines(path: &Path) -> usize {
    if path.is_dir() {
        let entries = fs::read_dir(path).into_iter().flatten().flatten();
        return entries.map(|entry| lines(&entry.path())).sum();
    }
    let is_test = path.file_stem().is_some_and(|stem| stem.to_string_lossy().ends_with("tests"));
    if path.extension().is_none_or(|extension| extension != "rs") || is_test {
        return 0;
    }
    let text = fs::read_to_string(path).unwrap_or_default();
    let shipped = text.split("#[cfg(test)]").next().unwrap_or_default();
    let counts = |line: &&str| !line.trim().is_empty() && !line.trim().starts_with("//");
    shipped.lines().filter(counts).count()
}

/// What is counted, and what the thesis has beside it.
const PARTS: [(&str, &[&str], &str); 6] = [
    ("waist and pool", &["crates/pmem/src", "crates/pool/src"], "–"),
    ("CDDS", &["crates/index/src/cdds.rs", "crates/index/src/cdds"], "1,902 (and STX 2,110)"),
    ("NV-Tree", &["crates/index/src/nvtree.rs", "crates/index/src/nvtree"], "–"),
    ("store", &["crates/kv/src"], "–"),
    ("server", &["crates/server/src"], "321 (and Redis 18,539)"),
    ("simulator and torture", &["lab/sim/src", "lab/torture/src"], "–"),
];

pub(super) fn code(context: &mut Context<'_>) -> Result<Finding, Error> {
    context.trial("counting")?;
    let mut finding = Finding::new("thesis-t5.1", TITLE_LINES, "Thesis, table 5.1");
    if !Path::new(PARTS[0].1[0]).is_dir() {
        return Err(Error::Absent("the source: start it in the repository"));
    }
    let mut sheet = Sheet::default();
    for (part, paths, document) in PARTS {
        let count: usize = paths.iter().map(|path| lines(Path::new(path))).sum();
        sheet.push("lines", part, count as f64);
        finding.claim(part, document, Some(count.to_string()));
    }
    let labels = Labels { title: "Lines of code, tests and comments left out", x: "", y: "lines" };
    finding.charts.push(sheet.chart(Shape::Bars, labels));
    finding.sentence = "The thesis changed two programs; here all of it is of one house, so the table tells sizes and not changes.".into();
    Ok(finding)
}
