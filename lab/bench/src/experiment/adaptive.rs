//! NV-Tree: sizes that follow the workload, and rebuilding. Figures 8a to 8d and 9a, table 4, section 6.5.

use std::sync::Arc;
use std::time::Instant;

use tembo_kv::{DomainRequest, PoolOptions, RegionOptions};
use tembo_pool::{Geometry, Pool};

use super::context::{Context, rotated};
use super::own_leaves;
use super::zones::{PARTS, RATE, READS_PERCENT, sorted, zone};
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
pub(super) struct Grown {
    pub(super) tree: NvTree,
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

pub(super) fn grown(
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

/// Thousand operations a second with keys drawn from a zone: updates, and some reads.
fn updates(tree: &mut NvTree, zone: &[u64], count: u64, random: &mut Random) -> Result<f64, Error> {
    let start = thread_cpu();
    for step in 0..count {
        let key = zone[random.below(zone.len() as u64) as usize];
        if random.below(100) < READS_PERCENT {
            std::hint::black_box(tree.get(key)?);
        } else {
            tree.update(key, step)?;
        }
    }
    Ok(kops(count, thread_cpu().saturating_sub(start)))
}

/// Steps of time of figures 8a and 8d.
const STEPS: u64 = 10;

/// A tree that was loaded with leaves of one size, whatever it does from then on.
fn loaded(
    context: &Context<'_>,
    node_size: u32,
    strategy: Option<Strategy>,
    plan: impl IntoIterator<Item = u64>,
) -> Result<Grown, Error> {
    let mut grown = grown(context, node_size, None, plan)?;
    if let Some(strategy) = strategy {
        grown.tree.follow(strategy, options(node_size, None).leaf_size_max)?;
    }
    Ok(grown)
}

/// Rates, and what explains them.
#[derive(Default)]
struct Skewed {
    rates: Sheet,
    rebuilds: Sheet,
    /// Bytes of a leaf in the zone, at the end.
    leaves: Sheet,
}

impl Skewed {
    /// Notes what a zone of a tree has come to.
    fn note(
        &mut self,
        way: &str,
        at: &str,
        tree: &NvTree,
        before: u64,
        zone: &[u64],
    ) -> Result<(), Error> {
        self.rebuilds.push(way, at, (tree.rebuilds().count - before) as f64);
        let step = (zone.len() / 100).max(1);
        let sizes = zone.iter().step_by(step).map(|key| tree.leaf_bytes(*key));
        let sizes: Vec<Option<u64>> = sizes.collect::<Result<_, Error>>()?;
        let sizes = sizes.into_iter().flatten().map(|bytes| bytes as f64);
        if let Some(spread) = Spread::of(sizes) {
            self.leaves.push(way, at, spread.median);
        }
        Ok(())
    }

    /// Rebuilds in the smallest zone, with leaves of 1 KiB at first.
    fn rebuilds_of(&self, way: &str) -> f64 {
        self.rebuilds.spread(way, "0.5 %, 1 KiB").map_or(0.0, |spread| spread.median)
    }

    fn charts(
        &self,
        finding: &mut Finding,
        titles: [&'static str; 3],
        x: &'static str,
        y: &'static str,
    ) {
        let ys = [y, "rebuilds", "bytes of a leaf in the zone, at the end"];
        let sheets = [&self.rates, &self.rebuilds, &self.leaves];
        for ((sheet, title), y) in sheets.into_iter().zip(titles).zip(ys) {
            finding.charts.push(sheet.chart(Shape::Bars, Labels { title, x, y }));
        }
    }
}

pub(super) fn skewed(context: &mut Context<'_>) -> Result<Finding, Error> {
    let mut finding = Finding::new("nvtree-8", TITLE, "NV-Tree, figures 8a to 8d");
    let keys = Keys { count: context.pick(50_000, 1_000_000), seed: context.seed() };
    let count = context.pick(20_000, 500_000);
    over_time(context, &mut finding, keys, count)?;
    let added = context.pick(keys.count / 4, keys.count);
    let insertions = insertions(context, keys, added)?;
    let by_zone = by_zone(context, keys, count)?;
    let titles = [
        "Insertions among neighbouring keys (8b)",
        "Rebuilds during them (8b)",
        "Leaves that came of them (8b)",
    ];
    insertions.charts(&mut finding, titles, "% of the key space, size of leaves at first", RATE);
    let titles = [
        "Updates of a part of the keys, 2 % of them reads (8c)",
        "Rebuilds during them (8c)",
        "Leaves that came of them (8c)",
    ];
    by_zone.charts(&mut finding, titles, "% of the keys, size of leaves at first", RATE);
    let gain = insertions.rates.ratio(BALANCED, FIXED, "0.5 %, 1 KiB");
    finding.claim("insertions, 0.5 %, 1 KiB: balanced to fixed", "up to 3.05×", times(gain));
    let gain = by_zone.rates.ratio(BALANCED, FIXED, "0.5 %, 1 KiB");
    finding.claim("updates, 0.5 %, 1 KiB: balanced to fixed", "up to 3.2×", times(gain));
    for (node, fixed, balanced) in [("1 KiB", "−92 %", "−70 %"), ("4 KiB", "−31 %", "−27 %")]
    {
        let loss = |way| {
            let of =
                |part: &str| by_zone.rates.spread(way, format!("{part}, {node}")).map(|s| s.median);
            Some(format!("{:+.0} %", (of("0.5 %")? / of("100 %")? - 1.0) * 100.0))
        };
        finding.claim(&format!("updates, 100 % → 0.5 %, {node}, fixed"), fixed, loss(FIXED));
        finding.claim(
            &format!("updates, 100 % → 0.5 %, {node}, balanced"),
            balanced,
            loss(BALANCED),
        );
    }
    let own = own_leaves::by_size(context, &mut finding, keys, count)?;
    judge_rebuilds(&mut finding, &by_zone, (&insertions, added));
    finding.sentence = format!(
        "Following the workload makes updates of half a percent of the keys {:.2} times as fast with leaves of 1 KiB; the paper says up to 3.2. Fixed leaves cause {:.0} rebuilds there. {own}",
        gain.map_or(0.0, |gain: Spread| gain.median),
        by_zone.rebuilds_of(FIXED)
    );
    finding.note(&format!(
        "Every strategy begins with the same tree: loaded in random order (8b: in ascending order) with leaves of the given size, and with nothing known of the workload. A time of the paper is a tenth of the operations here; 2 % of the updates of 8a, 8c and 8d are reads instead, for without reads the paper's model limits no size. The insertions of 8b are without reads, as in the paper: there the cap beside the model decides, which is {} KiB.",
        Options::default().leaf_size_max >> 10
    ));
    Ok(finding)
}

/// What the paper pays for, as it was counted here.
fn judge_rebuilds(finding: &mut Finding, updates: &Skewed, (insertions, added): (&Skewed, u64)) {
    for (what, sheet) in [("updates", updates), ("insertions", insertions)] {
        let (fixed, balanced) = (sheet.rebuilds_of(FIXED), sheet.rebuilds_of(BALANCED));
        let here = if fixed > 0.0 {
            format!("{:.2}× ({balanced:.0} to {fixed:.0})", balanced / fixed)
        } else {
            "fixed sizes cause none".into()
        };
        let what = format!("rebuilds during {what}, 0.5 %, 1 KiB: balanced to fixed");
        finding.claim(&what, "fewer (fixed: “excessive”)", Some(here));
    }
    let all: f64 = [FIXED, BALANCED].map(|way| insertions.rebuilds_of(way)).into_iter().sum();
    let overflow =
        if all > 0.0 { "each rebuild began with a full one" } else { "here none was full" };
    finding.note(&format!(
        "What the paper pays for are rebuilds. An update leaves a dead element behind, so a hot leaf that is full is split once and from then on replaced (section 4.4), as long as less than half of it is valid: its number of keys does not grow, and its PLN does not overflow. Updates of 0.5 % of the keys caused {:.0} rebuilds with fixed leaves of 1 KiB and {:.0} with balanced ones. Insertions split leaves for good, which fills PLNs: {overflow}. {added} insertions into 0.5 % of the key space caused {:.0} and {:.0}.",
        updates.rebuilds_of(FIXED),
        updates.rebuilds_of(BALANCED),
        insertions.rebuilds_of(FIXED),
        insertions.rebuilds_of(BALANCED)
    ));
}

/// Figures 8a and 8d.
fn over_time(
    context: &mut Context<'_>,
    finding: &mut Finding,
    keys: Keys,
    count: u64,
) -> Result<(), Error> {
    let (mut steady, mut shifting) = (Skewed::default(), Skewed::default());
    let all = sorted(keys);
    for round in 0..context.rounds() {
        for (way, strategy) in rotated(&WAYS, round) {
            context.trial(&format!("over time, round {}: {way}", round + 1))?;
            let mut random = Random::new(round.into());
            for (sheet, per_mille, shifts) in [(&mut steady, 50, false), (&mut shifting, 5, true)] {
                let mut grown = loaded(context, 1024, strategy, keys.shuffled(round.into()))?;
                let before = grown.tree.rebuilds().count;
                for step in 1..=STEPS {
                    let hot = zone(&all, per_mille, !shifts || step <= STEPS / 2);
                    let figure = updates(&mut grown.tree, hot, count / STEPS, &mut random)?;
                    sheet.rates.push(way, step, figure);
                    sheet.note(way, &step.to_string(), &grown.tree, before, hot)?;
                }
            }
        }
    }
    let labels = Labels {
        title: "Updates of 5 % of the keys over time, 1 KiB, 2 % reads (8a)",
        x: "time, in tenths of the operations",
        y: RATE,
    };
    finding.charts.push(steady.rates.chart(Shape::Lines, labels));
    let title = "Leaves in that 5 % (8a)";
    let sizes = Labels { title, y: "bytes of a leaf", ..labels };
    finding.charts.push(steady.leaves.chart(Shape::Lines, sizes));
    let title = "The hot 0.5 % move from the right end to the left after 5 (8d)";
    finding.charts.push(shifting.rates.chart(Shape::Lines, Labels { title, ..labels }));
    let title = "Leaves in the hot 0.5 % (8d)";
    finding.charts.push(shifting.leaves.chart(Shape::Lines, Labels { title, ..sizes }));
    let gain = steady.rates.ratio("aggressive", FIXED, STEPS);
    finding.claim("updates of 5 %, at the end: aggressive to fixed", "several times", times(gain));
    Ok(())
}

/// Sizes of leaves of figures 8b and 8c.
const NODES: [(u32, &str); 2] = [(1024, "1 KiB"), (4096, "4 KiB")];

/// The two ways of figures 8b and 8c.
const TWO: [(&str, Option<Strategy>); 2] = [WAYS[0], WAYS[2]];

/// Figure 8b: into a tree of ascending keys, random keys between neighbours in a part of the key space. As
/// many are added as there are in a full run, so that PLNs of a small part overflow.
fn insertions(context: &mut Context<'_>, keys: Keys, added: u64) -> Result<Skewed, Error> {
    let mut skewed = Skewed::default();
    for (node_size, node) in NODES {
        for round in 0..context.rounds() {
            for (way, strategy) in rotated(&TWO, round) {
                context.trial(&format!("insertions, {node}, round {}: {way}", round + 1))?;
                for (part, per_mille) in PARTS {
                    // Even numbers first, odd ones between them later.
                    let scale = u64::MAX / keys.count;
                    let plan = (0..keys.count).map(|n| n * scale);
                    let mut grown = loaded(context, node_size, strategy, plan)?;
                    let before = grown.tree.rebuilds().count;
                    let width = (keys.count * per_mille as u64 / 1000).max(1) * scale;
                    let mut random = Random::new(u64::from(round) << 16 | per_mille as u64);
                    let start = thread_cpu();
                    for _ in 0..added {
                        grown.tree.insert(random.below(width) | 1, 1)?;
                    }
                    let figure = kops(added, thread_cpu().saturating_sub(start));
                    let at = format!("{part}, {node}");
                    skewed.rates.push(way, &at, figure);
                    let zone: Vec<u64> = (0..100).map(|n| width / 100 * n).collect();
                    skewed.note(way, &at, &grown.tree, before, &zone)?;
                }
            }
        }
    }
    Ok(skewed)
}

/// Figure 8c.
fn by_zone(context: &mut Context<'_>, keys: Keys, count: u64) -> Result<Skewed, Error> {
    let mut skewed = Skewed::default();
    let all = sorted(keys);
    for (node_size, node) in NODES {
        for round in 0..context.rounds() {
            for (way, strategy) in rotated(&TWO, round) {
                context.trial(&format!("updates, {node}, round {}: {way}", round + 1))?;
                for (part, per_mille) in PARTS {
                    let plan = keys.shuffled(round.into());
                    let mut grown = loaded(context, node_size, strategy, plan)?;
                    let before = grown.tree.rebuilds().count;
                    let mut random = Random::new(u64::from(round) << 16 | per_mille as u64);
                    let hot = zone(&all, per_mille, true);
                    let figure = updates(&mut grown.tree, hot, count, &mut random)?;
                    let at = format!("{part}, {node}");
                    skewed.rates.push(way, &at, figure);
                    skewed.note(way, &at, &grown.tree, before, hot)?;
                }
            }
        }
    }
    Ok(skewed)
}

pub(super) fn rebuilding(context: &mut Context<'_>) -> Result<Finding, Error> {
    let source = "NV-Tree, figure 9a, table 4 and section 6.5";
    let mut finding = Finding::new("nvtree-9a", TITLE_REBUILD, source);
    let count = context.pick(50_000, 1_000_000);
    let keys = Keys { count, seed: context.seed() };
    let (mut times_ms, mut numbers, mut shares, mut both) =
        (Sheet::default(), Sheet::default(), Sheet::default(), Sheet::default());
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
                    numbers.push(way, &at, rebuilds.count as f64);
                    shares.push(way, &at, ms * 100.0 / all_ms);
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
    let labels = Labels { title: "How many (table 4)", x: labels.x, y: "rebuilds" };
    finding.charts.push(numbers.chart(Shape::LogBars, labels));
    let labels = Labels { title: "Their share (table 4)", x: labels.x, y: "% of the time" };
    finding.charts.push(shares.chart(Shape::LogBars, labels));
    let labels = Labels { title: "Once all keys are there (6.5)", x: "size of leaves", y: "ms" };
    finding.charts.push(both.chart(Shape::Bars, labels));
    for (node, number, share) in [("1 KiB", "3", "1.13 %"), ("4 KiB", "1", "0.02 %")] {
        let at = format!("random, {node}");
        let median = |sheet: &Sheet| sheet.spread(BALANCED, &at).map(|s| s.median);
        let here = median(&numbers).map(|number| format!("{number:.0} (of {count})"));
        finding.claim(&format!("rebuilds in 1 M random insertions, {node}"), number, here);
        let here = median(&shares).map(|share| format!("{share:.2} %"));
        finding.claim(&format!("the time of rebuilds, {node}, share"), share, here);
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
    table_4(context, &mut finding)?;
    finding.sentence = format!(
        "Enlarged PLNs make sequential insertion spend {:.0} times less time in rebuilds; the paper says 32 times, with 1 M keys ({count} here).",
        gain.map_or(0.0, |gain| gain.median)
    );
    finding.note("The factor depends on the number of keys, and not evenly: with few keys the adaptive tree rebuilds once or twice. Only a run with 1 M keys, as in the paper, compares with its 32.");
    Ok(finding)
}

/// Table 4: random insertions of more keys; once, for it is counted more than timed.
fn table_4(context: &mut Context<'_>, finding: &mut Finding) -> Result<(), Error> {
    let counts: &[u64] = context.pick(&[100_000], &[10_000_000]);
    for &count in counts {
        let keys = Keys { count, seed: context.seed() };
        for (node_size, node, number, share) in
            [(1024, "1 KiB", "3", "0.10 %"), (4096, "4 KiB", "2", "0.09 %")]
        {
            context.trial(&format!("table 4: {count} keys, {node}"))?;
            let start = Instant::now();
            let grown = grown(context, node_size, Some(Strategy::Balanced), keys.shuffled(0))?;
            let all_ns = start.elapsed().as_nanos() as f64;
            let rebuilds = grown.tree.rebuilds();
            let here = format!("{} (of {count})", rebuilds.count);
            finding.claim(
                &format!("rebuilds in 10 M random insertions, {node}"),
                number,
                Some(here),
            );
            let here = format!("{:.2} %", rebuilds.time_ns as f64 * 100.0 / all_ns);
            finding.claim(&format!("the time of rebuilds, 10 M, {node}, share"), share, Some(here));
        }
    }
    Ok(())
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
