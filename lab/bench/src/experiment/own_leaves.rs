//! What sizes of leaves that follow the workload could gain for the NV-Tree here: each size that its leaves can
//! have, at each operation.

use super::context::{Context, rotated};
use super::index::{Entrant, OWN_NODE_MAX, kops};
use super::zones::{PARTS, RATE, READS_PERCENT, sorted, zone};
use crate::contender::Size;
use crate::finding::{Finding, Shape};
use crate::keys::{Keys, Random};
use crate::sheet::{Labels, Sheet};
use crate::{Error, Kind, Operation};

/// Sizes of leaves; the last is what a store has as it comes.
const SIZES: [(u32, &str); 3] = [(256, "256 B"), (512, "512 B"), (OWN_NODE_MAX, DEFAULT)];
const DEFAULT: &str = "1 KiB";

/// Reads among the updates of a zone, in percent.
const MIXES: [(&str, u64); 2] = [("updates", READS_PERCENT), ("half reads", 50)];

/// Operations on all keys, in the order in which they are done.
const WHOLE: [(&str, Operation); 4] = [
    ("inserts, random", Operation::Insert),
    ("scans of 100", Operation::Scan),
    ("removals", Operation::Remove),
    ("inserts, ascending", Operation::SequentialInsert),
];

/// All of them in a chart, a claim and a note; says what the best other size gains.
pub(super) fn by_size(
    context: &mut Context<'_>,
    finding: &mut Finding,
    keys: Keys,
    count: u64,
) -> Result<String, Error> {
    let mut sheet = Sheet::default();
    for round in 0..context.rounds() {
        for size in rotated(&SIZES, round) {
            context.trial(&format!("leaves of {} here, round {}", size.1, round + 1))?;
            one_size(context, size, (keys, count, round), &mut sheet)?;
        }
    }
    let labels = Labels {
        title: "NV-Tree here, by the size of its leaves",
        x: "operations, % of the keys",
        y: RATE,
    };
    finding.charts.push(sheet.chart(Shape::Bars, labels));
    let best = best_gain(&sheet);
    finding.claim(
        "NV-Tree here: the best other size to leaves of 1 KiB, at any operation of the chart",
        "–",
        best.as_ref().map(|(gain, at)| format!("{gain:.2}× ({at})")),
    );
    finding.note("The NV-Tree here has one size of leaves. Its inner nodes are split where they overflow and never rebuilt, and a leaf is found by fingerprints and not by a scan, so that neither side of the paper's model is there. The last chart is what choosing sizes could gain at most: insertions of random and of ascending keys into an empty tree, updates with 2 % and with 50 % reads in parts of the keys, scans and removals of all keys after the updates of all; medians of ratios are taken within rounds. There is no leaf of more than 1 KiB: what is kept of a leaf in memory describes 15 lines of three elements (LINES_MAX in crates/index/src/nvtree/format.rs), which with the head are 1 KiB.");
    Ok(best.map_or_else(String::new, |(gain, at)| {
        format!(
            "For the NV-Tree here the best other size of leaves is {gain:.2} times as fast as 1 KiB, at {at}."
        )
    }))
}

/// One size at all operations of a round.
fn one_size(
    context: &Context<'_>,
    (node_size, size): (u32, &str),
    (keys, count, round): (Keys, u64, u32),
    sheet: &mut Sheet,
) -> Result<(), Error> {
    let all = sorted(keys);
    let [inserts, scans, removals, ascending] = WHOLE;
    let empty = || Entrant::new(context, Kind::Nvtree, Size::new(keys.count, node_size));
    for (part, per_mille) in PARTS {
        let mut entrant = empty()?;
        let inserted = entrant.trial(inserts.1, keys, round)?;
        let hot = zone(&all, per_mille, true);
        for (what, reads) in MIXES {
            let mut random = Random::new(u64::from(round) << 16 | per_mille as u64);
            let plan = (0..count).map(|_| {
                let key = hot[random.below(hot.len() as u64) as usize];
                (random.below(100) >= reads, key)
            });
            let plan: Vec<(bool, u64)> = plan.collect();
            let trial = entrant.contender.mixed(&plan)?;
            sheet.push(size, format!("{what}, {part}"), kops(&trial));
        }
        // Once a round, with the tree that was updated everywhere.
        if hot.len() == all.len() {
            sheet.push(size, inserts.0, kops(&inserted));
            for (what, operation) in [scans, removals] {
                sheet.push(size, what, kops(&entrant.trial(operation, keys, round)?));
            }
        }
    }
    sheet.push(size, ascending.0, kops(&empty()?.trial(ascending.1, keys, round)?));
    Ok(())
}

/// The greatest gain of a size that is not the default over that which is, and where.
fn best_gain(sheet: &Sheet) -> Option<(f64, String)> {
    let zones = MIXES
        .iter()
        .flat_map(|(what, _)| PARTS.iter().map(move |(part, _)| format!("{what}, {part}")));
    let places = zones.chain(WHOLE.iter().map(|(what, _)| (*what).to_owned()));
    let others = || SIZES.iter().map(|(_, size)| *size).filter(|size| *size != DEFAULT);
    let gains = places.flat_map(|at| {
        others().filter_map(move |size| {
            let ratio = sheet.ratio(size, DEFAULT, &at)?;
            Some((ratio.median, format!("{at}, with {size}")))
        })
    });
    gains.max_by(|(a, _), (b, _)| a.total_cmp(b))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::path::PathBuf;

    use super::super::context::Setting;
    use super::*;

    /// Each size has a figure at each operation, and answers are right.
    #[test]
    fn each_size_is_at_each_operation() {
        let folder = tempfile::tempdir().unwrap();
        let path = || folder.path().to_path_buf();
        let setting = Setting {
            memory: path(),
            disk: path(),
            lab: PathBuf::new(),
            tembo: PathBuf::new(),
            quick: true,
            tiny: true,
            rounds: Some(2),
            seed: 1,
            commit: String::new(),
            command: String::new(),
        };
        let mut watch = |_: &str, _: &str| true;
        let mut context = Context::new(&setting, "nvtree-8", &mut watch);
        let mut finding = Finding::new("nvtree-8", "", "");
        let keys = Keys { count: 5000, seed: 1 };
        let said = by_size(&mut context, &mut finding, keys, 500).unwrap();
        let [chart] = &finding.charts[..] else { panic!("{} charts", finding.charts.len()) };
        assert_eq!(chart.series.len(), SIZES.len());
        for series in &chart.series {
            assert_eq!(series.points.len(), MIXES.len() * PARTS.len() + WHOLE.len());
        }
        assert!(said.contains("1 KiB") && finding.claims[0].here.contains("with "), "{said}");
    }

    #[test]
    fn the_best_gain_is_over_the_default_and_says_where() {
        let mut sheet = Sheet::default();
        assert_eq!(best_gain(&sheet), None);
        for (size, at, figure) in [
            (DEFAULT, "scans of 100", 100.0),
            ("256 B", "scans of 100", 50.0),
            ("512 B", "scans of 100", 90.0),
            (DEFAULT, "updates, 5 %", 100.0),
            ("512 B", "updates, 5 %", 104.0),
            ("256 B", "updates, 5 %", 80.0),
        ] {
            sheet.push(size, at, figure);
        }
        assert_eq!(best_gain(&sheet), Some((1.04, "updates, 5 %, with 512 B".into())));
    }
}
