//! NV-Tree: what insertion costs. Figures 1a, 1c and 1d; 5a to 5d; 10a and 10b.

use super::context::{Context, rotated};
use super::index::{Entrant, NODE_SIZES, has_node_size, ms, name, node_size_of};
use crate::contender::Size;
use crate::finding::{Finding, Shape, times};
use crate::keys::Keys;
use crate::sheet::{Labels, Sheet};
use crate::{Error, Kind, Operation};
use tembo_pmem::{Emulation, FlushInstruction};

pub(super) const TITLE_COST: &str = "What consistency costs an insertion";
pub(super) const TITLE_INSERT: &str = "Insertion: NV-Tree against LCB+-Tree and CDDS";
pub(super) const TITLE_COUNT: &str = "Insertion by number of keys";
pub(super) const TITLE_MEDIA: &str = "Slower media: STT-RAM and PCM";
pub(super) const TITLE_FLUSH: &str = "Flushing without losing the cache";

const PAPER: Kind = Kind::NvtreePaperAdaptive;

/// What the insertions of a contender took.
struct Measured {
    ms: f64,
    /// Lines flushed an insertion.
    lines: f64,
    /// Fences an insertion.
    fences: f64,
    flushed: Option<crate::bplus::Flushed>,
}

fn insert(context: &Context<'_>, kind: Kind, size: Size, round: u32) -> Result<Measured, Error> {
    let keys = Keys { count: size.keys, seed: context.seed() };
    let mut entrant = Entrant::new(context, kind, size)?;
    let trial = entrant.trial(Operation::Insert, keys, round)?;
    let each = |count: u64| count as f64 / size.keys as f64;
    let (lines, fences) = (each(trial.counters.lines), each(trial.counters.fences));
    Ok(Measured { ms: ms(&trial), lines, fences, flushed: entrant.contender.flushed() })
}

/// Times, lines and shares of lines, by size of nodes.
#[derive(Default)]
struct Sheets {
    times: Sheet,
    lines: Sheet,
    shares: Vec<(Kind, Sheet)>,
}

fn by_node_size(context: &mut Context<'_>, kinds: &[Kind], keys: u64) -> Result<Sheets, Error> {
    let mut sheets = Sheets::default();
    for node_size in NODE_SIZES {
        for round in 0..context.rounds() {
            for kind in rotated(kinds, round) {
                if !has_node_size(kind, node_size) {
                    continue;
                }
                context.trial(&format!("{node_size} B, round {}: {}", round + 1, name(kind)))?;
                let measured = insert(context, kind, Size::new(keys, node_size), round)?;
                sheets.times.push(name(kind), node_size, measured.ms);
                let is_volatile =
                    matches!(kind, Kind::Bplus | Kind::CddsPaperVolatile | Kind::CddsVolatile);
                if !is_volatile {
                    sheets.lines.push(name(kind), node_size, measured.lines);
                }
                if let Some(flushed) = measured.flushed.filter(|_| !is_volatile) {
                    sheets.share(kind, node_size, flushed);
                }
            }
        }
    }
    Ok(sheets)
}

impl Sheets {
    fn share(&mut self, kind: Kind, node_size: u32, flushed: crate::bplus::Flushed) {
        let crate::bplus::Flushed { sort_leaf, sort_inner, leaf, inner } = flushed;
        let all = (sort_leaf + sort_inner + leaf + inner).max(1) as f64;
        let place = self.shares.iter().position(|(other, _)| *other == kind);
        let place = place.unwrap_or_else(|| {
            self.shares.push((kind, Sheet::default()));
            self.shares.len() - 1
        });
        let sheet = &mut self.shares[place].1;
        for (what, lines) in [
            ("sorting leaves", sort_leaf),
            ("sorting inner nodes", sort_inner),
            ("leaves", leaf),
            ("inner nodes", inner),
        ] {
            sheet.push(what, node_size, lines as f64 * 100.0 / all);
        }
    }

    fn share_of(&self, kind: Kind, what: &[&str], node_size: u32) -> Option<String> {
        let sheet = &self.shares.iter().find(|(other, _)| *other == kind)?.1;
        let parts =
            what.iter().map(|what| sheet.spread(what, node_size).map(|spread| spread.median));
        Some(format!("{:.0} %", parts.collect::<Option<Vec<f64>>>()?.iter().sum::<f64>()))
    }
}

const TIMES: Labels = Labels { title: "", x: "bytes of a node", y: "ms of CPU time" };
const LINES: Labels =
    Labels { title: "Lines flushed", x: "bytes of a node", y: "lines an insertion" };
const SHARES: Labels = Labels { title: "", x: "bytes of a node", y: "% of the lines flushed" };

pub(super) fn cost(context: &mut Context<'_>) -> Result<Finding, Error> {
    let mut finding = Finding::new("nvtree-1", TITLE_COST, "NV-Tree, figures 1a, 1c and 1d");
    let kinds = [
        Kind::Bplus,
        Kind::Lcb,
        Kind::CddsPaper,
        Kind::CddsPaperVolatile,
        Kind::Cdds,
        Kind::CddsVolatile,
        Kind::CddsUnordered,
    ];
    let keys = context.pick(20_000, 1_000_000);
    let sheets = by_node_size(context, &kinds, keys)?;
    let mut chart = sheets.times.chart(Shape::Bars, TIMES);
    chart.title = format!("{keys} insertions (1a)");
    finding.charts.extend([chart, sheets.lines.chart(Shape::Bars, LINES)]);
    for (kind, sheet) in &sheets.shares {
        let mut chart = sheet.chart(Shape::Bars, SHARES);
        chart.title = format!("What lines are flushed for (1d): {}", name(*kind));
        finding.charts.push(chart);
    }
    let slower = |above, below| {
        let at = node_size_of(above, 4096);
        times(sheets.times.ratio(name(above), name(below), at))
    };
    finding.claim("LCB+-Tree to B+-Tree, time, 4 KiB", "up to 16×", slower(Kind::Lcb, Kind::Bplus));
    let cdds = slower(Kind::CddsPaper, Kind::CddsPaperVolatile);
    finding.claim("CDDS to CDDS without flushes, time, 4 KiB", "up to 20×", cdds);
    let here = slower(Kind::Cdds, Kind::CddsVolatile);
    finding.claim("the same of the CDDS here, 1 KiB", "–", here);
    for (kind, document) in [
        (Kind::Lcb, ["14.8", "24.6", "44.7", "85.3"]),
        (Kind::CddsPaper, ["12.1", "19.0", "34.2", "64.7"]),
    ] {
        for (node_size, document) in NODE_SIZES.into_iter().zip(document) {
            let lines = sheets.lines.spread(name(kind), node_size);
            let what = format!("lines an insertion, {}, {node_size} B", name(kind));
            finding.claim(&what, document, lines.map(|lines| format!("{:.1}", lines.median)));
        }
    }
    for (kind, document) in [(Kind::CddsPaper, "60–94 %"), (Kind::Lcb, "81–97 %")] {
        let what = format!("of them for sorting leaves, {}, 4 KiB, share", name(kind));
        finding.claim(&what, document, sheets.share_of(kind, &["sorting leaves"], 4096));
    }
    let lines = |kind| {
        let at = node_size_of(kind, 4096);
        sheets.lines.spread(name(kind), at).map_or(0.0, |lines| lines.median)
    };
    finding.sentence = format!(
        "With 4 KiB nodes the LCB+-Tree flushes {:.0} lines an insertion (the paper: 85), CDDS as published {:.0} (65); the CDDS here with its 1 KiB {:.1}, for it flushes lines and not entries.",
        lines(Kind::Lcb),
        lines(Kind::CddsPaper),
        lines(Kind::Cdds)
    );
    finding.note("1b counts misses of the last cache by the processor's counters, which a guest does not have: nvtree-6 has them by simulation. The trees here have nodes of 1 KiB at most.");
    finding.note("The B+-Tree and the LCB+-Tree (NV-Tree, sections 3.1 and 6.1.1; lab/bench/src/bplus.rs): sorted nodes of 8 B/8 B; the LCB+-Tree copies the used part of a node to a log, flushes it, and then flushes what was changed and shifted. Not recovered after a crash, leaves are not merged. Its lines an insertion are tested beside figure 1c.");
    finding.note("CDDS as published (thesis, chapter 4, algorithms 1 to 6; lab/bench/src/cdds_paper.rs lists the errors that were mended): versions persisted, nodes copied where they are full or too empty, each shifted entry flushed by itself; judged by crash images, its lines an insertion tested beside figure 1c.");
    Ok(finding)
}

pub(super) fn against(context: &mut Context<'_>) -> Result<Finding, Error> {
    let mut finding = Finding::new("nvtree-5", TITLE_INSERT, "NV-Tree, figures 5a to 5c");
    let kinds = [Kind::Lcb, Kind::CddsPaper, PAPER, Kind::NvtA, Kind::Cdds, Kind::Nvtree];
    let keys = context.pick(20_000, 1_000_000);
    let sheets = by_node_size(context, &kinds, keys)?;
    let mut chart = sheets.times.chart(Shape::Bars, TIMES);
    chart.title = format!("{keys} insertions (5a)");
    finding.charts.extend([chart, sheets.lines.chart(Shape::Bars, LINES)]);
    for (kind, sheet) in
        sheets.shares.iter().filter(|(kind, _)| [Kind::Lcb, Kind::NvtA].contains(kind))
    {
        let mut chart = sheet.chart(Shape::Bars, SHARES);
        chart.title = format!("What lines are flushed for (5c): {}", name(*kind));
        finding.charts.push(chart);
    }
    for (rival, document) in [(Kind::Lcb, "up to 7×"), (Kind::CddsPaper, "up to 12×")] {
        for (own, document) in [(PAPER, document), (Kind::Nvtree, "–")] {
            let size = node_size_of(own, 4096);
            let what =
                format!("{} with {size} B faster than {} with 4 KiB", name(own), name(rival));
            let at = size.to_string();
            let ratio = sheets.times.ratio_between((name(rival), "4096"), (name(own), &at));
            finding.claim(&what, document, times(ratio));
            if own == Kind::Nvtree {
                let what = "insertion 8 B/8 B, 1 KiB nodes to their 4 KiB, bare trees";
                finding.duel(what, name(rival), ratio);
            }
        }
    }
    let ratio = sheets.times.ratio(name(PAPER), name(Kind::Nvtree), 1024);
    finding.duel("insertion 8 B/8 B, nodes of 1 KiB, bare trees", name(PAPER), ratio);
    for (rival, document) in [(Kind::Lcb, "80–97 %"), (Kind::CddsPaper, "76–96 %")] {
        let less = |node_size| {
            let ratio = sheets.lines.ratio(name(PAPER), name(rival), node_size)?;
            Some(format!("{:.0} %", (1.0 - ratio.median) * 100.0))
        };
        let here = less(512)
            .zip(less(4096))
            .map(|(small, large)| format!("{small} (512 B), {large} (4 KiB)"));
        let what = format!("fewer lines flushed than {}, share", name(rival));
        finding.claim(&what, document, here);
    }
    for (kind, document) in [(Kind::Lcb, "about 7 %"), (Kind::NvtA, "more than 20 %")] {
        let share = sheets.share_of(kind, &["sorting inner nodes", "inner nodes"], 512);
        let what = format!("lines for inner nodes, {}, 512 B, share", name(kind));
        finding.claim(&what, document, share);
    }
    let median =
        |rival| sheets.times.ratio(name(rival), name(PAPER), 4096).map_or(0.0, |r| r.median);
    finding.sentence = format!(
        "With 4 KiB nodes the published NV-Tree inserts {:.1} times as fast as the LCB+-Tree and {:.1} times as fast as the published CDDS (the paper: 7 and 12, where each flush also cost a cache miss).",
        median(Kind::Lcb),
        median(Kind::CddsPaper)
    );
    Ok(finding)
}

pub(super) fn by_count(context: &mut Context<'_>) -> Result<Finding, Error> {
    let mut finding = Finding::new("nvtree-5d", TITLE_COUNT, "NV-Tree, figure 5d");
    let counts: &[u64] =
        context.pick(&[10_000, 50_000, 100_000], &[1_000_000, 3_000_000, 10_000_000]);
    let kinds = [Kind::Lcb, Kind::CddsPaper, PAPER, Kind::Nvtree];
    let mut sheet = Sheet::default();
    for &count in counts {
        for round in 0..context.rounds().min(3) {
            for kind in rotated(&kinds, round) {
                context.trial(&format!("{count} keys, round {}: {}", round + 1, name(kind)))?;
                let size = Size::new(count, node_size_of(kind, 4096));
                let measured = insert(context, kind, size, round)?;
                sheet.push(name(kind), count, measured.ms);
            }
        }
    }
    let labels = Labels {
        title: "Insertion, nodes of 4 KiB, of the trees here 1 KiB",
        x: "keys",
        y: "ms of CPU time",
    };
    finding.charts.push(sheet.chart(Shape::LogBars, labels));
    for (rival, documents) in
        [(Kind::Lcb, ["7.1×", "6.3×", "5.3×"]), (Kind::CddsPaper, ["12×", "9.7×", "8.2×"])]
    {
        for (count, document) in counts.iter().zip(documents) {
            let what = format!("faster than {}, {count} keys", name(rival));
            finding.claim(&what, document, times(sheet.ratio(name(rival), name(PAPER), count)));
        }
    }
    let last = counts.last().copied().unwrap_or_default();
    let ratio = sheet.ratio(name(Kind::Lcb), name(PAPER), last).map_or(0.0, |r| r.median);
    finding.sentence = format!(
        "At {last} keys the published NV-Tree is {ratio:.1} times as fast as the LCB+-Tree."
    );
    finding.note("The paper has 1, 10 and 100 million keys; 100 million are left out, for they take hours with the baselines.");
    Ok(finding)
}

/// Media by what a line flushed costs more than here (NV-Tree, section 6.7.1).
const MEDIA: [(&str, u32); 3] = [("as here", 0), ("STT-RAM, 50 ns", 50), ("PCM, 180 ns", 180)];

pub(super) fn media(context: &mut Context<'_>) -> Result<Finding, Error> {
    let mut finding = Finding::new("nvtree-10a", TITLE_MEDIA, "NV-Tree, figure 10a");
    let kinds = [Kind::Lcb, Kind::CddsPaper, PAPER, Kind::Cdds, Kind::Nvtree];
    let keys = context.pick(20_000, 1_000_000);
    let (mut sheet, mut counted) = (Sheet::default(), Sheet::default());
    for round in 0..context.rounds() {
        for (medium, line_ns) in MEDIA {
            for kind in rotated(&kinds, round) {
                context.trial(&format!("{medium}, round {}: {}", round + 1, name(kind)))?;
                let emulation = Emulation { waits: true, line_ns, ..Emulation::default() };
                let emulation = Some(emulation);
                let size = Size { emulation, ..Size::new(keys, node_size_of(kind, 4096)) };
                let measured = insert(context, kind, size, round)?;
                sheet.push(medium, name(kind), measured.ms);
                counted.push("lines", name(kind), measured.lines);
                counted.push("fences", name(kind), measured.fences);
            }
        }
    }
    let labels = Labels {
        title: "Insertion, nodes of 4 KiB, of the trees here 1 KiB",
        x: "tree",
        y: "ms of CPU time",
    };
    finding.charts.push(sheet.chart(Shape::LogBars, labels));
    let labels = Labels { title: "Lines flushed, and fences", x: "tree", y: "an insertion" };
    finding.charts.push(counted.chart(Shape::LogBars, labels));
    for (kind, slower) in [
        (PAPER, ["5 %", "206 %"]),
        (Kind::Lcb, ["51 %", "241 %"]),
        (Kind::CddsPaper, ["87 %", "281 %"]),
        (Kind::Nvtree, ["–", "–"]),
    ] {
        for ((medium, _), document) in MEDIA[1..].iter().zip(slower) {
            let ratio = sheet.ratio(medium, MEDIA[0].0, name(kind));
            let here = ratio.map(|ratio| format!("{:.0} %", (ratio.median - 1.0) * 100.0));
            finding.claim(&format!("{} slower on {medium}", name(kind)), document, here);
        }
    }
    loses_least(&mut finding, &sheet);
    let slower = |kind| sheet.ratio(MEDIA[2].0, MEDIA[0].0, name(kind)).map_or(0.0, |r| r.median);
    finding.sentence = format!(
        "On PCM insertions take {:.1} times as long with the NV-Tree here, {:.1} with the published one, {:.1} with the LCB+-Tree.",
        slower(Kind::Nvtree),
        slower(PAPER),
        slower(Kind::Lcb)
    );
    finding.note("A fence waits for what was flushed, as the mfence of the paper's FLUSH does, on the memory as it is, too; then the time of each line is lost. The paper lost it before each write. What is lost is compared with what was asked for by the experiment medium. Reads are as fast as the memory's: PCM and STT-RAM read slower, which nvtree-6 models. A tree that waits for a fence behind each line takes long on the memory as it is, and loses less by what a line costs more: the second chart has its lines and fences.");
    Ok(finding)
}

/// What figure 10a is about: the NV-Tree loses less on a slower medium than its rivals. How many times as
/// long as on the memory as it is a rival takes, to the same of the NV-Tree.
fn loses_least(finding: &mut Finding, sheet: &Sheet) {
    for (medium, _) in &MEDIA[1..] {
        let slower = |kind| Some(sheet.ratio(medium, MEDIA[0].0, name(kind))?.median);
        for rival in [Kind::Lcb, Kind::CddsPaper] {
            let here = slower(rival).zip(slower(PAPER));
            let here =
                here.map(|(rival, own)| format!("{:.2}× ({rival:.2} to {own:.2})", rival / own));
            let what = format!("{} loses more than NV-Tree as published on {medium}", name(rival));
            finding.claim(&what, "more than 1", here);
        }
    }
}

pub(super) fn flushing(context: &mut Context<'_>) -> Result<Finding, Error> {
    let mut finding = Finding::new("nvtree-10b", TITLE_FLUSH, "NV-Tree, figure 10b");
    let kinds = [Kind::Lcb, Kind::CddsPaper, PAPER, Kind::Cdds, Kind::Nvtree];
    let keys = context.pick(20_000, 1_000_000);
    let instructions =
        [FlushInstruction::Clflush, FlushInstruction::Clflushopt, FlushInstruction::Clwb];
    let best = FlushInstruction::detect().ok_or(Error::Absent("no instruction flushes lines"))?;
    let has = |instruction: &FlushInstruction| *instruction as u8 >= best as u8;
    let label = |instruction| format!("{instruction:?}").to_lowercase();
    let mut sheet = Sheet::default();
    for round in 0..context.rounds() {
        for instruction in instructions.into_iter().filter(has) {
            for kind in rotated(&kinds, round) {
                context.trial(&format!("{instruction:?}, round {}: {}", round + 1, name(kind)))?;
                let emulation = Emulation { flush: Some(instruction), ..Emulation::default() };
                let node_size = node_size_of(kind, 4096);
                let size = Size { emulation: Some(emulation), ..Size::new(keys, node_size) };
                let measured = insert(context, kind, size, round)?;
                sheet.push(&label(instruction), name(kind), measured.ms);
            }
        }
    }
    let labels = Labels {
        title: "Insertion, nodes of 4 KiB, of the trees here 1 KiB",
        x: "tree",
        y: "ms of CPU time",
    };
    finding.charts.push(sheet.chart(Shape::LogBars, labels));
    let (old, new) = (label(FlushInstruction::Clflush), label(best));
    let faster = |kind: Kind| {
        let mine = sheet.spread(&new, name(PAPER))?.median;
        Some(format!("{:.1}×", sheet.spread(&new, name(kind))?.median / mine))
    };
    finding.claim(
        "published NV-Tree faster than the LCB+-Tree, line kept",
        "7× (estimate)",
        faster(Kind::Lcb),
    );
    finding.claim(
        "faster than CDDS as published, line kept",
        "9× (estimate)",
        faster(Kind::CddsPaper),
    );
    let gain = sheet.ratio(&old, &new, name(Kind::Nvtree)).map_or(0.0, |r| r.median);
    finding.sentence = format!(
        "What the paper estimated is an instruction today: {new} makes insertion into the NV-Tree here {gain:.2} times as fast as {old}."
    );
    Ok(finding)
}
