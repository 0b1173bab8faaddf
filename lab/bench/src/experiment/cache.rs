//! NV-Tree, figures 1b and 6: loads and misses of the last cache, by callgrind's simulation, for a guest
//! has no counters.

use std::fs;
use std::process::Command;

use super::context::Context;
use super::index::{NODE_SIZES, has_node_size, name};
use crate::finding::{Finding, Shape};
use crate::guard;
use crate::rival::{Medium, failed};
use crate::sheet::{Labels, Sheet};
use crate::{Error, Kind};

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
        title: "Misses of a small last cache (1b, 6b)",
        x: "bytes of a node",
        y: "misses an insertion",
    };
    finding.charts.push(misses.chart(Shape::LogBars, labels));
    let paper = Kind::NvtreePaperAdaptive;
    for (sheet, what, rival, document) in [
        (&loads, "loads", Kind::Lcb, "44–90 %"),
        (&loads, "loads", Kind::CddsPaper, "52–92 %"),
        (&misses, "misses", Kind::Lcb, "24–83 %"),
        (&misses, "misses", Kind::CddsPaper, "39–90 %"),
    ] {
        let fewer = |size: u32| {
            let ratio = sheet.ratio(name(paper), name(rival), size)?;
            Some(format!("{:.0} %", (1.0 - ratio.median) * 100.0))
        };
        let here = fewer(512)
            .zip(fewer(4096))
            .map(|(small, large)| format!("{small} (512 B), {large} (4 KiB)"));
        finding.claim(&format!("fewer {what} than {}", name(rival)), document, here);
    }
    let fewer = loads.ratio(name(paper), name(Kind::Lcb), 4096).map_or(0.0, |ratio| ratio.median);
    finding.sentence = format!(
        "With 4 KiB nodes the published NV-Tree loads {:.0} % less than the LCB+-Tree; the paper says up to 90 %.",
        (1.0 - fewer) * 100.0
    );
    finding.note(&format!(
        "The last cache that is simulated has {} KiB, {keys} entries about {} KiB.",
        last_cache >> 10,
        (keys * 35) >> 10
    ));
    finding.note("The simulation knows no flushes, so the misses are those that remain when a flush keeps its line: the premise of figure 10b, not of 6b, where clflush throws lines out of the cache.");
    Ok(finding)
}
