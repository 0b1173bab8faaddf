//! NV-Tree, figures 1b and 6: loads and misses of the last cache, by callgrind's simulation, for a guest
//! has no counters; and misses where a flush throws its line out of the cache, by a model of our own.

mod model;

use std::fs;
use std::io::BufReader;
use std::process::{Command, Stdio};

use self::model::CacheModel;
use super::context::Context;
use super::index::{NODE_SIZES, has_node_size, name};
use crate::finding::{Chart, Finding, Point, Series, Shape};
use crate::guard;
use crate::rival::{Medium, failed};
use crate::sheet::{Labels, Sheet};
use crate::traced::{self, Event};
use crate::{Error, Kind, Spread};

pub(super) const TITLE: &str = "Loads, and misses of the last cache";

const KINDS: [Kind; 6] =
    [Kind::Bplus, Kind::Lcb, Kind::CddsPaper, Kind::NvtreePaperAdaptive, Kind::Cdds, Kind::Nvtree];

/// A small last cache, 16 ways, lines of 64 bytes, so that few keys do not fit: its bytes in a quick run and
/// in a full one. 20,000 entries take 700 KB, a million 35 MB.
const LAST_CACHES: [u64; 2] = [128 << 10, 2 << 20];

struct Simulated {
    /// Loads an insertion.
    loads: f64,
    /// Misses of the last cache an insertion, by loads and stores.
    misses: f64,
}

fn simulate(
    context: &Context<'_>,
    kind: Kind,
    (keys, node_size): (u64, u32),
    last_cache: u64,
) -> Result<Simulated, Error> {
    let folder = context.folder(Medium::Memory)?;
    let out = folder.path().join("out");
    let error = failed("callgrind");
    let mut command = Command::new("valgrind");
    command.args(guard::CALLGRIND).args(["--cache-sim=yes", "--D1=32768,8,64"]);
    command.arg(format!("--LL={last_cache},16,64"));
    command.arg(format!("--callgrind-out-file={}", out.display()));
    command.arg(context.lab()).args(["guard", "--run", "--tree", kind.name()]);
    command.arg("--keys").arg(keys.to_string()).arg("--node-size").arg(node_size.to_string());
    let output = command.output().map_err(|_| Error::Absent("valgrind is not installed"))?;
    if !output.status.success() {
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        return Err(error(text.lines().last().unwrap_or_default().into()));
    }
    let text = fs::read_to_string(out.with_extension("1"));
    let text = text.map_err(|source| error(Box::new(source)))?;
    let line = |name: &str| text.lines().find_map(|line| line.strip_prefix(name));
    let events: Vec<&str> = line("events: ").unwrap_or_default().split(' ').collect();
    let totals: Vec<f64> =
        line("totals: ").unwrap_or_default().split(' ').filter_map(|n| n.parse().ok()).collect();
    let count = |event: &str| {
        let place = events.iter().position(|other| *other == event);
        place.and_then(|place| totals.get(place)).copied().unwrap_or_default() / keys as f64
    };
    Ok(Simulated { loads: count("Dr"), misses: count("DLmr") + count("DLmw") })
}

/// Misses an insertion of a last cache that a flush does not change, and of one that loses each flushed line.
struct Flushed {
    kept: f64,
    evicted: f64,
}

fn flushed(
    context: &Context<'_>,
    kind: Kind,
    (keys, node_size): (u64, u32),
    last_cache: u64,
) -> Result<Flushed, Error> {
    let error = failed("lackey");
    let mut command = Command::new("valgrind");
    command.args(["--tool=lackey", "--trace-mem=yes", "--log-fd=1"]);
    command.arg(context.lab()).args(["guard", "--run", "--traced", "--tree", kind.name()]);
    command.arg("--keys").arg(keys.to_string()).arg("--node-size").arg(node_size.to_string());
    command.stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().map_err(|_| Error::Absent("valgrind is not installed"))?;
    let (mut kept, mut evicted) = (CacheModel::new(last_cache), CacheModel::new(last_cache));
    let mut visit = |event| match event {
        Event::Access { address, len } => {
            kept.touch(address, len);
            evicted.touch(address, len);
        }
        Event::Flush { address } => evicted.evict(address),
    };
    let out = child.stdout.take();
    let read = out.map(|out| traced::read(&mut BufReader::with_capacity(1 << 20, out), &mut visit));
    // What comes behind the end of the trace is not waited for.
    let _ = child.kill();
    child.wait().map_err(|source| error(Box::new(source)))?;
    match read {
        Some(Ok(true)) => {}
        Some(Err(source)) => return Err(error(Box::new(source))),
        _ => return Err(error("the trace has no end".into())),
    }
    let each = |cache: &CacheModel| cache.misses() as f64 / keys as f64;
    Ok(Flushed { kept: each(&kept), evicted: each(&evicted) })
}

/// Figure 6b, where `clflush` throws what it flushes out of the cache.
fn with_flushes(context: &mut Context<'_>, finding: &mut Finding) -> Result<(), Error> {
    let keys = context.extent(2_000, 5_000, 30_000);
    let last_cache = context.extent(8 << 10, 16 << 10, 64 << 10);
    let (mut evicted, mut kept) = (Sheet::default(), Sheet::default());
    for node_size in [512, 4096] {
        for kind in KINDS.into_iter().filter(|kind| has_node_size(*kind, node_size)) {
            context.trial(&format!("{node_size} B, flushes: {}", name(kind)))?;
            let flushed = flushed(context, kind, (keys, node_size), last_cache)?;
            evicted.push(name(kind), node_size, flushed.evicted);
            kept.push(name(kind), node_size, flushed.kept);
        }
    }
    let (x, y) = ("bytes of a node", "misses an insertion");
    let title = "Misses where a flush evicts its line (6b)";
    let evictions = evicted.chart(Shape::LogBars, Labels { title, x, y });
    let title = "The same cache where a flush keeps its line";
    let keeping = kept.chart(Shape::LogBars, Labels { title, x, y });
    let reads = [
        slower_reads(&evictions, "Modelled: what slower reads add, flushes evict"),
        slower_reads(&keeping, "Modelled: what slower reads add, flushes keep their line"),
    ];
    finding.charts.extend([evictions, keeping]);
    finding.charts.extend(reads);
    for (rival, document) in [(Kind::Lcb, "24–83 %"), (Kind::CddsPaper, "39–90 %")] {
        let what = format!("fewer misses than {}, flushes evict, share", name(rival));
        finding.claim(&what, document, fewer(&evicted, rival));
    }
    finding.note(&format!(
        "Where a flush evicts its line, as clflush did on the paper's machine, the cache is a model of our own (16 ways, {} KiB, {keys} keys), fed by each load and store that valgrind's lackey sees and by each flush of the tree.",
        last_cache >> 10
    ));
    note_reads(finding, &kept);
    Ok(())
}

/// What a line takes to be read from memory, in nanoseconds.
const DRAM_READ_NS: f64 = 25.0;

/// The same of slower media: Coburn, section 2.3.2, which models them as it is done here, by the misses of a
/// simulated last cache.
const READS_NS: [(&str, f64); 2] = [("STT-RAM", 29.0), ("PCM", 67.0)];

/// What misses add to an operation on slower media, if each waits for a line that is read from there.
fn slower_reads(misses: &Chart, title: &str) -> Chart {
    let slower = |series: &Series| {
        let mut points = Vec::new();
        for (medium, read_ns) in READS_NS {
            for Point { at, value } in &series.points {
                let added_ns = |misses: f64| misses * (read_ns - DRAM_READ_NS);
                let Spread { median, best, worst } = *value;
                let value = Spread {
                    median: added_ns(median),
                    best: added_ns(best),
                    worst: added_ns(worst),
                };
                points.push(Point { at: format!("{medium}, {at} B"), value });
            }
        }
        Series { name: series.name.clone(), points }
    };
    Chart {
        title: title.into(),
        x: "medium, bytes of a node".into(),
        y: "ns more an insertion".into(),
        shape: Shape::LogBars,
        series: misses.series.iter().map(slower).collect(),
    }
}

fn note_reads(finding: &mut Finding, kept: &Sheet) {
    let [(_, stt_ns), (_, pcm_ns)] = READS_NS;
    let added = |kind| {
        let misses = kept.spread(name(kind), 4096).map_or(0.0, |misses| misses.median);
        misses * (pcm_ns - DRAM_READ_NS)
    };
    finding.note(&format!(
        "Slower reads are modelled, not measured: misses times what a line takes longer to be read than from DRAM ({DRAM_READ_NS} ns), which is {stt_ns} ns on STT-RAM and {pcm_ns} ns on PCM (Coburn, section 2.3.2; table 1 of the NV-Tree's paper has 15, 5–30 and 50–70 ns). With 4 KiB nodes and flushes that keep their line that is on PCM {:.0} ns an insertion of the published NV-Tree, {:.0} of the LCB+-Tree, {:.0} of CDDS as published. For this cache it is the most that there can be: misses of stores are waited for too, none overlaps another, and all that the process uses lies on that medium.",
        added(Kind::NvtreePaperAdaptive),
        added(Kind::Lcb),
        added(Kind::CddsPaper)
    ));
}

/// How many percent fewer the published NV-Tree has, in nodes of 512 B and of 4 KiB.
fn fewer(sheet: &Sheet, rival: Kind) -> Option<String> {
    let fewer = |size: u32| {
        let ratio = sheet.ratio(name(Kind::NvtreePaperAdaptive), name(rival), size)?;
        Some(format!("{:.0} %", (1.0 - ratio.median) * 100.0))
    };
    let both = fewer(512).zip(fewer(4096));
    both.map(|(small, large)| format!("{small} (512 B), {large} (4 KiB)"))
}

pub(super) fn misses(context: &mut Context<'_>) -> Result<Finding, Error> {
    let mut finding = Finding::new("nvtree-6", TITLE, "NV-Tree, figures 1b, 6a and 6b");
    let keys = context.pick(20_000, 1_000_000);
    let last_cache = context.pick(LAST_CACHES[0], LAST_CACHES[1]);
    let sizes: &[u32] = context.pick(&[512, 4096], &NODE_SIZES);
    let (mut loads, mut misses) = (Sheet::default(), Sheet::default());
    for &node_size in sizes {
        for kind in KINDS.into_iter().filter(|kind| has_node_size(*kind, node_size)) {
            context.trial(&format!("{node_size} B: {}", name(kind)))?;
            let simulated = simulate(context, kind, (keys, node_size), last_cache)?;
            loads.push(name(kind), node_size, simulated.loads);
            misses.push(name(kind), node_size, simulated.misses);
        }
    }
    let labels = Labels { title: "Loads (6a)", x: "bytes of a node", y: "loads an insertion" };
    finding.charts.push(loads.chart(Shape::LogBars, labels));
    let labels = Labels {
        title: "Misses of a small last cache, flushes unknown (1b)",
        x: "bytes of a node",
        y: "misses an insertion",
    };
    finding.charts.push(misses.chart(Shape::LogBars, labels));
    with_flushes(context, &mut finding)?;
    for (sheet, what, rival, document) in [
        (&loads, "loads", Kind::Lcb, "44–90 %"),
        (&loads, "loads", Kind::CddsPaper, "52–92 %"),
        (&misses, "misses", Kind::Lcb, "–"),
        (&misses, "misses", Kind::CddsPaper, "–"),
    ] {
        let what = format!("fewer {what} than {}, share", name(rival));
        finding.claim(&what, document, fewer(sheet, rival));
    }
    let paper = Kind::NvtreePaperAdaptive;
    let less = loads.ratio(name(paper), name(Kind::Lcb), 4096).map_or(0.0, |ratio| ratio.median);
    finding.sentence = format!(
        "With 4 KiB nodes the published NV-Tree loads {:.0} % less than the LCB+-Tree; the paper says up to 90 %.",
        (1.0 - less) * 100.0
    );
    finding.note(&format!(
        "The last cache that callgrind simulates has {} KiB, {keys} entries about {} KiB.",
        last_cache >> 10,
        (keys * 35) >> 10
    ));
    finding.note("Callgrind knows no flushes, so its misses are those that remain when a flush keeps its line: the premise of figure 10b.");
    Ok(finding)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Coburn's PCM reads a line in 67 ns, its STT-RAM in 29, its DRAM in 25.
    #[test]
    fn a_miss_adds_what_its_medium_takes_longer_to_be_read_than_dram() {
        let mut misses = Sheet::default();
        misses.push("tree", 512, 10.0);
        misses.push("tree", 4096, 0.5);
        let labels = Labels { title: "misses", x: "", y: "" };
        let chart = slower_reads(&misses.chart(Shape::LogBars, labels), "reads");
        let points = chart.series.iter().flat_map(|series| &series.points);
        let points: Vec<(&str, f64)> =
            points.map(|point| (&point.at[..], point.value.median)).collect();
        let expected = [
            ("STT-RAM, 512 B", 40.0),
            ("STT-RAM, 4096 B", 2.0),
            ("PCM, 512 B", 420.0),
            ("PCM, 4096 B", 21.0),
        ];
        assert_eq!(points, expected);
    }
}
