//! Thesis, chapter 6: where and when media are written. Figures 6.1 to 6.5.
//!
//! The thesis watched every store with a changed valgrind; here the waist reports each store to an
//! observer, as it does to the simulator.

use std::sync::{Arc, Mutex, PoisonError};

use tembo_pmem::{Observer, Stored};

use super::context::Context;
use super::index::name;
use crate::contender::Size;
use crate::drive::Driven;
use crate::finding::{Finding, Shape};
use crate::keys::Keys;
use crate::sheet::{Labels, Sheet};
use crate::{Error, Kind, Operation};

pub(super) const TITLE: &str = "Where and when media are written";
pub(super) const TITLE_LOGGING: &str = "Bytes written: versions against a log";

/// Words stored, by the granule that they lie in.
pub(crate) struct Wear {
    granule: u64,
    counts: Mutex<Vec<u64>>,
}

impl Wear {
    fn new(granule: u64) -> Arc<Wear> {
        Arc::new(Wear { granule, counts: Mutex::default() })
    }

    /// Takes what was counted.
    fn take(&self) -> Vec<u64> {
        std::mem::take(&mut self.counts.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Observer for Wear {
    fn load(&self, _: u64, _: u64) {}

    fn store(&self, stored: Stored<'_>, perform: &mut dyn FnMut()) {
        perform();
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        let words = (stored.offset..stored.offset + stored.len()).step_by(8);
        for granule in words.map(|offset| (offset / self.granule) as usize) {
            if granule >= counts.len() {
                counts.resize(granule + 1, 0);
            }
            counts[granule] += 1;
        }
    }

    fn flush(&self, _: &'static str, _: u64, _: u64) {}

    fn fence(&self, _: &'static str) {}

    fn sync(&self) {}

    fn resize(&self, _: u64) {}
}

/// The B+-Tree stands for STX's, which the thesis measured.
const KINDS: [Kind; 4] = [Kind::Cdds, Kind::CddsPaper, Kind::Bplus, Kind::Nvtree];

const NODE_SIZE: u32 = 512;

/// A page of memory.
const PAGE: u64 = 4096;

fn watched(kind: Kind, keys: u64, wear: &Arc<Wear>) -> Result<Box<dyn Driven>, Error> {
    let contender = kind.in_memory(Size::new(keys, NODE_SIZE), Some(wear.clone()))?;
    // What making it has written is no part of the figures.
    wear.take();
    Ok(contender)
}

pub(super) fn by_place_and_time(context: &mut Context<'_>) -> Result<Finding, Error> {
    let mut finding = Finding::new("thesis-6", TITLE, "Thesis, figures 6.1 to 6.4");
    by_node(context, &mut finding)?;
    by_page(context, &mut finding)?;
    by_time(context, &mut finding)?;
    finding.note("Words stored are counted at the waist, before any cache. Time is counted in operations, not in cycles, so that a run is like every other. The published CDDS copies nodes and persists a version for each operation: the page of its cell is the hottest, which no even wear of nodes helps. Allocators keep nothing on media here, so all of it is trees.");
    Ok(finding)
}

/// Figures 6.1 and 6.2: a thousand keys.
fn by_node(context: &mut Context<'_>, finding: &mut Finding) -> Result<(), Error> {
    let mut sheet = Sheet::default();
    let keys = Keys { count: 1000, seed: context.seed() };
    let plan = keys.shuffled(0);
    for kind in KINDS {
        context.trial(&format!("by node: {}", name(kind)))?;
        let wear = Wear::new(NODE_SIZE.into());
        watched(kind, keys.count, &wear)?.trial(Operation::Insert, &plan)?;
        let nodes: Vec<u64> = wear.take().into_iter().filter(|words| *words > 0).collect();
        for (place, words) in nodes.iter().enumerate() {
            sheet.push(name(kind), place + 1, *words as f64);
        }
        let document = match kind {
            Kind::CddsPaper => "93",
            Kind::Bplus => "47",
            _ => "–",
        };
        let what = format!("nodes written for 1000 keys, {}", name(kind));
        finding.claim(&what, document, Some(nodes.len().to_string()));
    }
    let labels = Labels {
        title: "Writes to each node, 1000 keys (6.1, 6.2)",
        x: "nodes in the order of their addresses",
        y: "words written",
    };
    finding.charts.push(sheet.chart(Shape::Heat, labels));
    Ok(())
}

/// Words written to each page that was written to, and to those without a word that every operation stores.
struct Pages {
    all: Vec<u64>,
    spread: Vec<u64>,
}

impl Pages {
    /// Of `words`, each with how often it was stored in so many operations.
    fn of(words: &[u64], operations: u64) -> Pages {
        let (mut all, mut spread) = (Vec::new(), Vec::new());
        for page in words.chunks((PAGE / 8) as usize) {
            let written: u64 = page.iter().sum();
            if written > 0 {
                all.push(written);
                if page.iter().all(|stored| *stored < operations) {
                    spread.push(written);
                }
            }
        }
        all.sort_unstable();
        spread.sort_unstable();
        Pages { all, spread }
    }
}

/// Least, greatest and mean of sorted figures; `None` if there are none.
fn extent(sorted: &[u64]) -> Option<(u64, u64, f64)> {
    let (least, greatest) = (sorted.first()?, sorted.last()?);
    Some((*least, *greatest, sorted.iter().sum::<u64>() as f64 / sorted.len() as f64))
}

/// Figure 6.3: a hundred thousand keys.
fn by_page(context: &mut Context<'_>, finding: &mut Finding) -> Result<(), Error> {
    let mut sheet = Sheet::default();
    let keys = Keys { count: 100_000, seed: context.seed() };
    let plan = keys.shuffled(0);
    let mut most = Vec::new();
    for kind in KINDS {
        context.trial(&format!("by page: {}", name(kind)))?;
        let wear = Wear::new(8);
        watched(kind, keys.count, &wear)?.trial(Operation::Insert, &plan)?;
        let pages = Pages::of(&wear.take(), keys.count);
        let Some((least, greatest, mean)) = extent(&pages.all) else { continue };
        for percent in (0..=100).step_by(5) {
            let place = (pages.all.len() - 1) * percent / 100;
            sheet.push(name(kind), percent, pages.all[place] as f64);
        }
        most.push((kind, greatest as f64 / mean));
        let document = if kind == Kind::Bplus { "36 to 16,817" } else { "–" };
        let here = format!("{least} to {greatest}, mean {mean:.0}");
        finding.claim(&format!("writes to a page, {}", name(kind)), document, Some(here));
        let document = if [Kind::Cdds, Kind::CddsPaper].contains(&kind) { "even" } else { "–" };
        let here = extent(&pages.spread).map(|(least, greatest, mean)| {
            format!("{:.1}× ({least} to {greatest}, mean {mean:.0})", greatest as f64 / mean)
        });
        let what = format!(
            "hottest page to the mean, without one that has a word stored by every operation, {}",
            name(kind)
        );
        finding.claim(&what, document, here);
    }
    let labels = Labels {
        title: "Writes to each page, 100,000 keys (6.3)",
        x: "% of the pages, from the least written on",
        y: "words written to a page",
    };
    finding.charts.push(sheet.chart(Shape::LogLines, labels));
    let of = |kind| most.iter().find(|(other, _)| *other == kind).map_or(0.0, |(_, ratio)| *ratio);
    finding.sentence = format!(
        "The hottest page gets {:.1} times the mean with the published CDDS, {:.1} with the CDDS here, {:.1} with the B+-Tree, {:.1} with the NV-Tree here.",
        of(Kind::CddsPaper),
        of(Kind::Cdds),
        of(Kind::Bplus),
        of(Kind::Nvtree)
    );
    finding.note("How even pages are written is the hottest page to the mean of all that were written to. A page with a word that every operation stores is left out of that row, for it holds the cell of the version, which the thesis does not count.");
    Ok(())
}

/// Figure 6.4.
fn by_time(context: &mut Context<'_>, finding: &mut Finding) -> Result<(), Error> {
    const BINS: usize = 100;
    let keys = Keys { count: 5_000, seed: context.seed() };
    let plan = keys.shuffled(0);
    context.trial("by time")?;
    let wear = Wear::new(PAGE);
    let mut tree = watched(Kind::CddsPaper, keys.count, &wear)?;
    let (mut sheet, mut used) = (Sheet::default(), tree.used_bytes());
    for (bin, piece) in plan.chunks(plan.len() / BINS).enumerate() {
        tree.trial(Operation::Insert, piece)?;
        sheet.push("words written", bin, wear.take().iter().sum::<u64>() as f64);
        let now = tree.used_bytes();
        sheet.push("words allocated", bin, now.saturating_sub(used) as f64 / 8.0);
        used = now;
    }
    let labels = Labels {
        title: "Writes and allocations over time, CDDS as published (6.4)",
        x: "time, 50 insertions a step",
        y: "words",
    };
    finding.charts.push(sheet.chart(Shape::Lines, labels));
    Ok(())
}

pub(super) fn against_log(context: &mut Context<'_>) -> Result<Finding, Error> {
    let mut finding = Finding::new("thesis-6.5", TITLE_LOGGING, "Thesis, figure 6.5");
    let count = 10_000;
    let keys = Keys { count, seed: context.seed() };
    let mut sheet = Sheet::default();
    for value_size in [16_u64, 64, 256, 1024, 4096] {
        for (series, kind) in
            [("versions: CDDS here", Kind::Cdds), ("versions: NV-Tree here", Kind::Nvtree)]
        {
            context.trial(&format!("{value_size} B: {series}"))?;
            let wear = Wear::new(PAGE);
            let mut tree = watched(kind, 4 * count * value_size.div_ceil(1024), &wear)?;
            tree.insert_records(&keys.shuffled(0), value_size as usize)?;
            sheet.push(
                series,
                value_size,
                wear.take().iter().sum::<u64>() as f64 * 8.0 / count as f64,
            );
        }
        let record = (8 + value_size) as f64;
        // A number stands for the value, which is written once beside the tree.
        let published = bytes_an_insertion(Kind::CddsPaper, keys)?;
        sheet.push(PUBLISHED, value_size, published + value_size as f64);
        // One copy in the tree and one in the log, with its head of 9 bytes, and the tree's own stores.
        let tree = bytes_an_insertion(Kind::Bplus, keys)?;
        sheet.push(LOGGED, value_size, tree + 2.0 * record + 9.0);
    }
    over_time(context, &mut finding, keys)?;
    let labels =
        Labels { title: "Bytes written for an insertion", x: "bytes of a value", y: "bytes" };
    finding.charts.push(sheet.chart(Shape::LogBars, labels));
    for size in [16, 256, 4096] {
        for (series, document) in [(PUBLISHED, "fewer"), ("versions: CDDS here", "–")] {
            let here = sheet.ratio(series, LOGGED, size);
            let here = here.map(|ratio| format!("{:.2} of the log's", ratio.median));
            finding.claim(&format!("{series}, bytes written, values of {size} B"), document, here);
        }
    }
    let part = |series, size: u64| sheet.ratio(series, LOGGED, size).map_or(0.0, |r| r.median);
    finding.sentence = format!(
        "Of what a tree with a log writes, CDDS as published writes {:.2} with values of 4 KiB and {:.2} with 16 bytes; the CDDS here {:.2} and {:.2}.",
        part(PUBLISHED, 4096),
        part(PUBLISHED, 16),
        part("versions: CDDS here", 4096),
        part("versions: CDDS here", 16)
    );
    finding.note("The log's side is counted, not run: the record once in memory and once in the log, and the words that a B+-Tree of 512 B nodes stores. The published CDDS keeps numbers: a value is counted once beside it.");
    Ok(finding)
}

const PUBLISHED: &str = "versions: CDDS as published";
const LOGGED: &str = "a B+-Tree and a log";

/// Bytes that a tree of numbers stores for an insertion.
fn bytes_an_insertion(kind: Kind, keys: Keys) -> Result<f64, Error> {
    let wear = Wear::new(PAGE);
    watched(kind, keys.count, &wear)?.trial(Operation::Insert, &keys.shuffled(0))?;
    Ok(wear.take().iter().sum::<u64>() as f64 * 8.0 / keys.count as f64)
}

/// Figure 6.5 as it is plotted: over time. A log that has doubled since it was compacted is written anew,
/// with what is in the tree.
fn over_time(context: &mut Context<'_>, finding: &mut Finding, keys: Keys) -> Result<(), Error> {
    const BINS: usize = 50;
    const VALUE_SIZE: f64 = 256.0;
    /// Bytes of a log that is compacted for the first time.
    const COMPACTED_MIN: f64 = 128.0 * 1024.0;
    let mut sheet = Sheet::default();
    let plan = keys.shuffled(0);
    for (series, kind) in [(PUBLISHED, Kind::CddsPaper), (LOGGED, Kind::Bplus)] {
        context.trial(&format!("over time: {series}"))?;
        let wear = Wear::new(PAGE);
        let mut tree = watched(kind, keys.count, &wear)?;
        let (mut log, mut compacted, mut data) = (0.0, COMPACTED_MIN / 2.0, 0.0);
        for (bin, piece) in plan.chunks(plan.len() / BINS).enumerate() {
            tree.trial(Operation::Insert, piece)?;
            let values = piece.len() as f64 * VALUE_SIZE;
            let mut bytes = wear.take().iter().sum::<u64>() as f64 * 8.0 + values;
            if kind == Kind::Bplus {
                let records = piece.len() as f64 * (8.0 + VALUE_SIZE + 9.0);
                (log, data) = (log + records, data + records);
                bytes += records;
                if log >= 2.0 * compacted {
                    // All records that are in the tree.
                    (log, compacted) = (data, data);
                    bytes += data;
                }
            }
            sheet.push(series, bin, bytes / 1024.0);
        }
    }
    let labels = Labels {
        title: "Bytes written over time, values of 256 B (6.5)",
        x: "time, 200 insertions a step",
        y: "KiB a step",
    };
    finding.charts.push(sheet.chart(Shape::Lines, labels));
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn a_page_with_a_word_that_every_operation_stores_is_left_out() {
        let words = (PAGE / 8) as usize;
        let mut stored = vec![0_u64; 4 * words];
        // Two pages of nodes, one that nothing is written to, and that of a cell.
        stored[0] = 9;
        stored[words - 1] = 9;
        stored[words] = 6;
        stored[3 * words] = 10;
        stored[3 * words + 1] = 1;
        let pages = Pages::of(&stored, 10);
        assert_eq!(pages.all, [6, 11, 18]);
        assert_eq!(pages.spread, [6, 18]);
        assert_eq!(extent(&pages.spread), Some((6, 18, 12.0)));
        assert_eq!(extent(&[]), None);
    }
    /// What the page says of hottest pages: none is so by a word of its own, or by one node.
    #[test]
    fn the_hottest_page_of_the_trees_of_versions_has_no_hot_word() {
        let keys = Keys { count: 20_000, seed: 1 };
        for kind in [Kind::Cdds, Kind::CddsPaper] {
            let wear = Wear::new(8);
            let mut tree = watched(kind, keys.count, &wear).unwrap();
            tree.trial(Operation::Insert, &keys.shuffled(0)).unwrap();
            let words = wear.take();
            let pages = words.chunks((PAGE / 8) as usize);
            let pages = pages.filter(|page| page.iter().all(|stored| *stored < keys.count));
            let hottest = pages.max_by_key(|page| page.iter().sum::<u64>()).unwrap();
            let sum: u64 = hottest.iter().sum();
            let nodes = hottest.chunks(NODE_SIZE as usize / 8).map(|node| node.iter().sum::<u64>());
            let (word, node) = (*hottest.iter().max().unwrap(), nodes.max().unwrap());
            assert!(word * 50 < sum && node * 3 < sum, "{kind:?}: {word} and {node} of {sum}");
        }
    }
}
