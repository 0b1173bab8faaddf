//! The CDDS hash table of the thesis (4.5), made a versioned hash index: beside the trees, bare and below the store.
//!
//! The thesis says that there was one, as a proof of concept, and gives neither an algorithm nor a figure. So nothing here is
//! held against it: the index stands beside the trees of this house. The aim, 1.2 times the NV-Tree, is this project's.

use super::context::{Context, rotated};
use super::index::{Entrant, kops, name};
use crate::contender::Size;
use crate::finding::{Finding, Shape, times};
use crate::keys::Keys;
use crate::sheet::{Labels, Sheet};
use crate::{Error, Kind, Operation};

pub(super) const TITLE: &str = "The CDDS hash table: a versioned hash index beside the trees";

const BARE: [Kind; 3] = [Kind::Hash, Kind::Nvtree, Kind::Cdds];
const STORES: [Kind; 2] = [Kind::KvHash, Kind::KvNvtree];
/// Each with what the page calls it; removals take half of the keys.
const OPERATIONS: [(Operation, &str); 5] = [
    (Operation::Insert, "insertion"),
    (Operation::Lookup, "lookup"),
    (Operation::MissingLookup, "lookup of a missing key"),
    (Operation::Update, "update"),
    (Operation::Remove, "removal"),
];
/// For these the index has an aim.
const AIMED: [&str; 2] = [OPERATIONS[0].1, OPERATIONS[1].1];

pub(super) fn run(context: &mut Context<'_>) -> Result<Finding, Error> {
    let mut finding = Finding::new("thesis-4.5", TITLE, "Thesis, section 4.5");
    let counts: &[u64] = context.pick(&[20_000, 100_000], &[1_000_000, 10_000_000]);
    let mut sheets = OPERATIONS.map(|_| Sheet::default());
    let mut fences = Sheet::default();
    for &count in counts {
        let keys = Keys { count, seed: context.seed() };
        for round in 0..context.rounds().min(3) {
            let kinds: Vec<Kind> = BARE.into_iter().chain(STORES).collect();
            for kind in rotated(&kinds, round) {
                context.trial(&format!("{count} keys, round {}: {}", round + 1, name(kind)))?;
                let mut entrant = Entrant::new(context, kind, Size::new(count, 1024))?;
                for ((operation, what), sheet) in OPERATIONS.into_iter().zip(&mut sheets) {
                    let trial = entrant.trial(operation, keys, round)?;
                    sheet.push(name(kind), count, kops(&trial));
                    if operation.is_write() {
                        let each = trial.counters.fences as f64 / trial.operations as f64;
                        fences.push(name(kind), what, each);
                    }
                }
            }
        }
    }
    let pauses = pauses(context, counts)?;
    for ((_, what), sheet) in OPERATIONS.into_iter().zip(&sheets) {
        let labels = Labels { title: "", x: "keys", y: "thousand operations a second" };
        let mut chart = sheet.chart(Shape::Bars, labels);
        chart.title = format!("{what}, 8 B/8 B");
        finding.charts.push(chart);
        compare(&mut finding, what, sheet, counts);
    }
    let title = "Longest insertion, 8 B/8 B";
    let labels = Labels { title, x: "keys", y: "µs of CPU time" };
    finding.charts.push(pauses.chart(Shape::Bars, labels));
    let labels = Labels { title: "Fences", x: "operation", y: "fences an operation" };
    finding.charts.push(fences.chart(Shape::Bars, labels));
    let last = counts.last().copied().unwrap_or_default();
    let ratio = |sheet: &Sheet, at| {
        sheet.ratio(name(Kind::Hash), name(Kind::Nvtree), at).map_or(0.0, |ratio| ratio.median)
    };
    let [inserts, lookups, ..] = &sheets;
    finding.sentence = format!(
        "With {} keys the hash index makes {:.2} times the insertions and {:.2} times the lookups of the NV-Tree here, with {last} keys {:.2} and {:.2}.",
        counts[0],
        ratio(inserts, counts[0]),
        ratio(lookups, counts[0]),
        ratio(inserts, last),
        ratio(lookups, last)
    );
    finding.note("The thesis has implemented a proof-of-concept CDDS hash table and gives no figure of it. The index here has no ranges; versions, snapshots and recovery are those of the trees. An insertion splits one leaf at most, and a larger directory begins empty and takes over what the smaller one names a leaf at a time, so that none waits for the growth of all; what a large directory takes from the system at once is in the longest insertion.");
    Ok(finding)
}

/// The longest of all insertions, each timed by itself, in one round.
fn pauses(context: &mut Context<'_>, counts: &[u64]) -> Result<Sheet, Error> {
    let mut sheet = Sheet::default();
    for &count in counts {
        let keys = Keys { count, seed: context.seed() };
        for round in 0..context.rounds().min(3) {
            let plan = keys.shuffled(u64::from(round));
            for kind in rotated(&BARE, round) {
                context.trial(&format!("{count} keys, longest insertion: {}", name(kind)))?;
                let mut entrant = Entrant::new(context, kind, Size::new(count, 1024))?;
                let histogram = entrant.contender.timed_inserts(&plan)?;
                sheet.push(name(kind), count, histogram.max() as f64 / 1e3);
            }
        }
    }
    Ok(sheet)
}

fn compare(finding: &mut Finding, what: &str, sheet: &Sheet, counts: &[u64]) {
    let aim = if AIMED.contains(&what) { "aim: at least 1.2" } else { "–" };
    for &count in counts {
        let ratio = sheet.ratio(name(Kind::Hash), name(Kind::Nvtree), count);
        finding.claim(&format!("{what}: hash index to NV-Tree, {count} keys"), aim, times(ratio));
        let ratio = sheet.ratio(name(Kind::KvHash), name(Kind::KvNvtree), count);
        finding.claim(&format!("{what}: stores over both, {count} keys"), "–", times(ratio));
    }
}
