//! NV-Tree: sizes that follow the workload, and rebuilding. Figures 8a to 8d and 9a, table 4, section 6.5.

use std::sync::Arc;
use std::time::Instant;

use tembo_kv::{DomainRequest, PoolOptions, RegionOptions};
use tembo_pool::{Geometry, Pool};

use super::context::{Context, rotated};
use crate::clock::thread_cpu;
use crate::finding::{Finding, Shape, times};
use crate::keys::{Keys, Random};
use crate::nvtree_paper::{NvTree, Options, Recovery, Strategy};
use crate::rival::Medium;
use crate::sheet::{Labels, Sheet};
use crate::tuple::kops;
use crate::{Error, Spread};

pub(super) const TITLE: &str = "Sizes of leaves that follow the workload";
pub(super) const TITLE_REBUILD: &str = "Rebuilding inner nodes";

/// The contenders: without adaptivity (the paper's NV-Tree'), and with each strategy.
const WAYS: [(&str, Option<Strategy>); 4] = [
    ("fixed", None),
    ("conservative", Some(Strategy::Conservative)),
    ("balanced", Some(Strategy::Balanced)),
    ("aggressive", Some(Strategy::Aggressive)),
];

const FIXED: &str = "fixed";
const BALANCED: &str = "balanced";

/// A tree in a folder that goes with it.
struct Grown {
    tree: NvTree,
    _folder: tempfile::TempDir,
}

fn pool_options(node_size: u32) -> PoolOptions {
    let region = RegionOptions { domain: DomainRequest::Flush, ..RegionOptions::default() };
    let geometry = Geometry { node_size, ..Geometry::default() };
    PoolOptions { region, geometry, ..PoolOptions::default() }
}

fn options(node_size: u32, strategy: Option<Strategy>) -> Options {
    Options { leaf_size: node_size.into(), strategy, ..Options::default() }
}

fn grown(
    context: &Context<'_>,
    node_size: u32,
    strategy: Option<Strategy>,
    plan: impl IntoIterator<Item = u64>,
) -> Result<Grown, Error> {
    let folder = context.folder(Medium::Memory)?;
    let pool = Arc::new(Pool::create(&folder.path().join("pool"), &pool_options(node_size))?);
    let mut tree = NvTree::create(pool, &options(node_size, strategy))?;
    for key in plan {
        tree.insert(key, key)?;
    }
    Ok(Grown { tree, _folder: folder })
}

/// Ascending keys, so that a zone of keys is a zone of leaves.
fn sorted(keys: Keys) -> Vec<u64> {
    keys.last(keys.count as usize)
}

/// Thousand updates a second of keys drawn from a zone.
fn updates(tree: &mut NvTree, zone: &[u64], count: u64, random: &mut Random) -> Result<f64, Error> {
    let start = thread_cpu();
    for step in 0..count {
        tree.update(zone[random.below(zone.len() as u64) as usize], step)?;
    }
    Ok(kops(count, thread_cpu().saturating_sub(start)))
}

/// The part of all keys that `per_mille` says, from the left or up to the right end.
fn zone(keys: &[u64], per_mille: usize, is_right: bool) -> &[u64] {
    let len = (keys.len() * per_mille / 1000).max(1);
    if is_right { &keys[keys.len() - len..] } else { &keys[..len] }
}

/// Steps of time of figures 8a and 8d.
const STEPS: u64 = 10;

pub(super) fn skewed(context: &mut Context<'_>) -> Result<Finding, Error> {
    let mut finding = Finding::new("nvtree-8", TITLE, "NV-Tree, figures 8a to 8d");
    let keys = Keys { count: context.pick(50_000, 1_000_000), seed: context.seed() };
    let count = context.pick(20_000, 500_000);
    over_time(context, &mut finding, keys, count)?;
    let insertions = insertions(context, keys)?;
    let by_zone = by_zone(context, keys, count)?;
    let labels = Labels {
        title: "Insertions among neighbouring keys (8b)",
        x: "% of the key space, size of leaves",
        y: "thousand insertions a second",
    };
    finding.charts.push(insertions.chart(Shape::Bars, labels));
    let labels = Labels {
        title: "Updates of a part of the keys (8c)",
        x: "% of the keys, size of leaves",
        y: "thousand updates a second",
    };
    finding.charts.push(by_zone.chart(Shape::Bars, labels));
    let gain = insertions.ratio(BALANCED, FIXED, "0.5 %, 1 KiB");
    finding.claim("insertions, 0.5 %, 1 KiB: balanced to fixed", "up to 3.05×", times(gain));
    let gain = by_zone.ratio(BALANCED, FIXED, "0.5 %, 1 KiB");
    finding.claim("updates, 0.5 %, 1 KiB: balanced to fixed", "up to 3.2×", times(gain));
    for (node, fixed, balanced) in [("1 KiB", "−92 %", "−70 %"), ("4 KiB", "−31 %", "−27 %")]
    {
        let loss = |way| {
            let of = |part: &str| by_zone.spread(way, format!("{part}, {node}")).map(|s| s.median);
            Some(format!("{:+.0} %", (of("0.5 %")? / of("100 %")? - 1.0) * 100.0))
        };
        finding.claim(&format!("updates, 100 % → 0.5 %, {node}, fixed"), fixed, loss(FIXED));
        finding.claim(
            &format!("updates, 100 % → 0.5 %, {node}, balanced"),
            balanced,
            loss(BALANCED),
        );
    }
    let median = gain.map_or(0.0, |gain: Spread| gain.median);
    finding.sentence = format!(
        "Following the workload makes updates of half a percent of the keys {median:.2} times as fast with 1 KiB leaves; the paper says up to 3.2."
    );
    finding.note("A time of the paper is a tenth of the updates here. Its 0.5 % of a million keys are few leaves: rebuilds of all inner nodes for their splits are what fixed sizes pay for, and what larger leaves save.");
    Ok(finding)
}

/// Figures 8a and 8d.
fn over_time(
    context: &mut Context<'_>,
    finding: &mut Finding,
    keys: Keys,
    count: u64,
) -> Result<(), Error> {
    let (mut steady, mut shifting) = (Sheet::default(), Sheet::default());
    let all = sorted(keys);
    for round in 0..context.rounds() {
        for (way, strategy) in rotated(&WAYS, round) {
            context.trial(&format!("over time, round {}: {way}", round + 1))?;
            let mut random = Random::new(round.into());
            let mut grown_tree = grown(context, 1024, strategy, keys.shuffled(round.into()))?;
            for step in 1..=STEPS {
                let hot = zone(&all, 50, true);
                let figure = updates(&mut grown_tree.tree, hot, count / STEPS, &mut random)?;
                steady.push(way, step, figure);
            }
            let mut grown_tree = grown(context, 1024, strategy, keys.shuffled(round.into()))?;
            for step in 1..=STEPS {
                let hot = zone(&all, 5, step <= STEPS / 2);
                let figure = updates(&mut grown_tree.tree, hot, count / STEPS, &mut random)?;
                shifting.push(way, step, figure);
            }
        }
    }
    let labels = Labels {
        title: "Updates of 5 % of the keys over time, 1 KiB (8a)",
        x: "time, in tenths of the updates",
        y: "thousand updates a second",
    };
    finding.charts.push(steady.chart(Shape::Lines, labels));
    let title = "The hot 0.5 % move from the right end to the left after 5 (8d)";
    finding.charts.push(shifting.chart(Shape::Lines, Labels { title, ..labels }));
    let gain = steady.ratio("aggressive", FIXED, STEPS);
    finding.claim("updates of 5 %, at the end: aggressive to fixed", "several times", times(gain));
    Ok(())
}

/// Sizes of leaves of figures 8b and 8c.
const NODES: [(u32, &str); 2] = [(1024, "1 KiB"), (4096, "4 KiB")];

/// The two ways of figures 8b and 8c.
const TWO: [(&str, Option<Strategy>); 2] = [WAYS[0], WAYS[2]];

/// Figure 8b: into a tree of ascending keys, random keys between neighbours in a part of the key space.
fn insertions(context: &mut Context<'_>, keys: Keys) -> Result<Sheet, Error> {
    let mut sheet = Sheet::default();
    let added = keys.count / 4;
    for (node_size, node) in NODES {
        for round in 0..context.rounds() {
            for (way, strategy) in rotated(&TWO, round) {
                context.trial(&format!("insertions, {node}, round {}: {way}", round + 1))?;
                for (part, per_mille) in [("100 %", 1000), ("5 %", 50), ("0.5 %", 5)] {
                    // Even numbers first, odd ones between them later.
                    let scale = u64::MAX / keys.count;
                    let loaded = (0..keys.count).map(|n| n * scale);
                    let mut grown = grown(context, node_size, strategy, loaded)?;
                    let width = (keys.count * per_mille / 1000).max(1) * scale;
                    let mut random = Random::new(u64::from(round) << 16 | per_mille);
                    let start = thread_cpu();
                    for _ in 0..added {
                        grown.tree.insert(random.below(width) | 1, 1)?;
                    }
                    let figure = kops(added, thread_cpu().saturating_sub(start));
                    sheet.push(way, format!("{part}, {node}"), figure);
                }
            }
        }
    }
    Ok(sheet)
}

/// Figure 8c.
fn by_zone(context: &mut Context<'_>, keys: Keys, count: u64) -> Result<Sheet, Error> {
    let mut sheet = Sheet::default();
    let all = sorted(keys);
    for (node_size, node) in NODES {
        for round in 0..context.rounds() {
            for (way, strategy) in rotated(&TWO, round) {
                context.trial(&format!("updates, {node}, round {}: {way}", round + 1))?;
                for (part, per_mille) in [("100 %", 1000), ("5 %", 50), ("0.5 %", 5)] {
                    let mut grown =
                        grown(context, node_size, strategy, keys.shuffled(round.into()))?;
                    let mut random = Random::new(u64::from(round) << 16 | per_mille as u64);
                    let hot = zone(&all, per_mille, true);
                    let figure = updates(&mut grown.tree, hot, count, &mut random)?;
                    sheet.push(way, format!("{part}, {node}"), figure);
                }
            }
        }
    }
    Ok(sheet)
}

pub(super) fn rebuilding(context: &mut Context<'_>) -> Result<Finding, Error> {
    let source = "NV-Tree, figure 9a, table 4 and section 6.5";
    let mut finding = Finding::new("nvtree-9a", TITLE_REBUILD, source);
    let count = context.pick(50_000, 1_000_000);
    let keys = Keys { count, seed: context.seed() };
    let (mut times_ms, mut shares, mut both) =
        (Sheet::default(), Sheet::default(), Sheet::default());
    for round in 0..context.rounds() {
        for (way, strategy) in rotated(&TWO, round) {
            for (node_size, node) in NODES {
                for (order, is_random) in [("random", true), ("sequential", false)] {
                    context.trial(&format!("{order}, {node}, round {}: {way}", round + 1))?;
                    let plan =
                        if is_random { keys.shuffled(round.into()) } else { (0..count).collect() };
                    let start = Instant::now();
                    let grown = grown(context, node_size, strategy, plan)?;
                    let all_ms = start.elapsed().as_secs_f64() * 1e3;
                    let rebuilds = grown.tree.rebuilds();
                    let ms = rebuilds.time_ns as f64 / 1e6;
                    let at = format!("{order}, {node}");
                    times_ms.push(way, &at, ms);
                    shares.push(&format!("{way}: number"), &at, rebuilds.count as f64);
                    shares.push(&format!("{way}: % of the time"), &at, ms * 100.0 / all_ms);
                    if is_random && strategy.is_none() {
                        from_leaves(grown, node_size, node, &mut both)?;
                    }
                }
            }
        }
    }
    let labels =
        Labels { title: "Time of all rebuilds (9a)", x: "insertions, size of leaves", y: "ms" };
    finding.charts.push(times_ms.chart(Shape::LogBars, labels));
    let labels = Labels { title: "How many, and their share (table 4)", x: labels.x, y: "" };
    finding.charts.push(shares.chart(Shape::LogBars, labels));
    let labels = Labels { title: "Once all keys are there (6.5)", x: "size of leaves", y: "ms" };
    finding.charts.push(both.chart(Shape::Bars, labels));
    for (node, number, share) in [("1 KiB", "3", "1.13 %"), ("4 KiB", "1", "0.02 %")] {
        let at = format!("random, {node}");
        let median =
            |what: &str| shares.spread(&format!("{BALANCED}: {what}"), &at).map(|s| s.median);
        let here = median("number").map(|number| format!("{number:.0} (of {count})"));
        finding.claim(&format!("rebuilds in 1 M random insertions, {node}"), number, here);
        let here = median("% of the time").map(|share| format!("{share:.2} %"));
        finding.claim(&format!("their share of the time, {node}"), share, here);
    }
    let gain = times_ms.ratio(FIXED, BALANCED, "sequential, 1 KiB");
    finding.claim(
        "sequential, 1 KiB: rebuilding time, fixed to adaptive",
        "32× (44.5 to 1.4 s)",
        times(gain),
    );
    let slower = both.ratio("from leaves", "from PLNs", "1 KiB");
    let here = slower.map(|ratio| format!("{:+.0} %", (ratio.median - 1.0) * 100.0));
    finding.claim("rebuild-from-LN slower than rebuild-from-PLN", "+22 to +47 %", here);
    finding.sentence = format!(
        "Enlarged PLNs make sequential insertion spend {:.0} times less time in rebuilds; the paper says 32 times, with 1 M keys ({count} here).",
        gain.map_or(0.0, |gain| gain.median)
    );
    Ok(finding)
}

/// Section 6.5: the tree is rebuilt once from its PLNs, and once from its leaves, as after a crash.
fn from_leaves(
    mut grown: Grown,
    node_size: u32,
    node: &str,
    sheet: &mut Sheet,
) -> Result<(), Error> {
    let start = Instant::now();
    grown.tree.rebuild()?;
    sheet.push("from PLNs", node, start.elapsed().as_secs_f64() * 1e3);
    let Grown { tree, _folder } = grown;
    drop(tree);
    let pool = Arc::new(Pool::open(&_folder.path().join("pool"), &pool_options(node_size))?);
    let start = Instant::now();
    let (tree, recovery) = NvTree::open(pool, &options(node_size, None))?;
    let elapsed = start.elapsed();
    if recovery == Recovery::FromLeaves && tree.leaf_count() > 0 {
        sheet.push("from leaves", node, elapsed.as_secs_f64() * 1e3);
    }
    Ok(())
}
