//! Whether an emulated medium takes the time that it says: the judgement of the figures of slower media.

use std::ops::Range;
use std::path::Path;
use std::time::Instant;

use tembo_pmem::{DomainRequest, Emulation, LINE, Region, RegionOptions};

use super::context::Context;
use crate::finding::{Finding, Shape};
use crate::rival::Medium;
use crate::sheet::{Labels, Sheet};
use crate::{Error, Spread};

pub(super) const TITLE: &str = "Emulated media take the time that they say";

/// Lines of a FLUSH: the least, a record's, and what an insertion of the published CDDS shifts.
const LINES: [u64; 3] = [1, 8, 47];

/// Nanoseconds lost for a line: STT-RAM's and PCM's (NV-Tree, section 6.7.1).
const LINE_NS: [u32; 2] = [50, 180];

/// Bytes of the region, of which the second half is flushed.
const AREA: u64 = 1 << 20;

/// Lines of the FLUSHes that are timed together, each of them once: what a line takes differs with where it lies, and the
/// clock advances in steps.
const BATCH_LINES: u64 = 2_400;
const _: () = assert!(BATCH_LINES * LINE <= AREA / 2);

/// Batches in a round, of which the best counts: a loaded machine only makes others slower.
const BATCHES: u32 = 20;

/// Percent by which what is lost may differ from what was asked for.
const TOLERANCE: f64 = 10.0;

/// Times that the bare medium and the slow one are measured one after the other, so that both meet the same machine.
const PAIRS: u32 = 4;

/// Openings of both media, each with memory and a calibration of its own; the median of what they lose counts.
const OPENINGS: usize = 7;

/// How a FLUSH is done.
#[derive(Clone, Copy)]
enum Way {
    /// All lines, and one fence.
    Together,
    /// A fence behind each line.
    Singly,
}

const WAYS: [(Way, &str); 2] = [(Way::Together, "one fence"), (Way::Singly, "a fence a line")];

pub(super) fn run(context: &mut Context<'_>) -> Result<Finding, Error> {
    let mut finding = Finding::new("medium", TITLE, "NV-Tree, figure 10a");
    let folder = context.folder(Medium::Memory)?;
    let (mut sheet, mut worst) = (Sheet::default(), 0.0_f64);
    for line_ns in LINE_NS {
        let openings: Vec<[Region; 2]> =
            (0..OPENINGS).map(|_| open(folder.path(), line_ns)).collect::<Result<_, _>>()?;
        for (way, name) in WAYS {
            for lines in LINES {
                let noun = if lines == 1 { "line" } else { "lines" };
                context.trial(&format!("{line_ns} ns a line, {lines} {noun}, {name}"))?;
                let asked = (u64::from(line_ns) * lines) as f64;
                let lost: Vec<f64> = openings
                    .iter()
                    .map(|media| lost_ns(media, lines, way))
                    .collect::<Result<_, _>>()?;
                for lost in &lost {
                    sheet.push(&format!("{line_ns} ns a line, {name}"), lines, lost / asked);
                }
                let Some(Spread { median, best, worst: least }) = Spread::of(lost) else {
                    continue;
                };
                let off = off(median, asked);
                worst = if off.abs() > worst.abs() { off } else { worst };
                let what = format!("{lines} {noun} at {line_ns} ns, {name}");
                let aim = format!("aim: {asked:.0} ns within {TOLERANCE:.0} %");
                let ours = format!("{median:.0} ns ({off:+.1} %; {least:.0} to {best:.0})");
                finding.claim(&what, &aim, Some(ours));
            }
        }
    }
    let labels = Labels { title: "Time lost to time asked for", x: "lines", y: "ratio" };
    finding.charts.push(sheet.chart(Shape::Bars, labels));
    let verdict = if worst.abs() <= TOLERANCE { "within" } else { "NOT within" };
    finding.sentence = format!(
        "What is lost differs from what was asked for by {worst:+.1} % at most, {verdict} {TOLERANCE:.0} %."
    );
    let openings = format!(
        "A figure is the median of {OPENINGS} openings of both media, with the least and the most."
    );
    finding.note(&openings);
    finding.note("An opening: the best of many batches of FLUSHes with the delay, less the best of as many without, both behind a fence that waits. The FLUSHes of a batch have different lines.");
    Ok(finding)
}

/// The bare medium, and one whose lines lose so many nanoseconds. Only their mappings keep the files.
fn open(folder: &Path, line_ns: u32) -> Result<[Region; 2], Error> {
    let media = [region(folder, 0)?, region(folder, line_ns)?];
    for line_ns in [0, line_ns] {
        std::fs::remove_file(folder.join(line_ns.to_string()))?;
    }
    Ok(media)
}

/// A region in a folder whose lines lose so many nanoseconds; its fences wait.
fn region(folder: &Path, line_ns: u32) -> Result<Region, Error> {
    let emulation = Emulation { waits: true, line_ns, ..Emulation::default() };
    let (domain, emulation) = (DomainRequest::Flush, Some(emulation));
    let options = RegionOptions { domain, emulation, size_max: AREA, ..RegionOptions::default() };
    let path = folder.join(line_ns.to_string());
    let region = Region::create(&path, AREA, &options, |_| Ok::<(), tembo_pmem::Error>(()))?;
    region.prefault(AREA / 2, AREA / 2);
    Ok(region)
}

/// Nanoseconds that a FLUSH loses on the second medium and not on the first, which loses none.
fn lost_ns(media: &[Region; 2], lines: u64, way: Way) -> Result<f64, Error> {
    let mut best = [f64::INFINITY; 2];
    for _ in 0..PAIRS {
        for (best, region) in best.iter_mut().zip(media) {
            *best = best.min(flush_ns(region, lines, way)?);
        }
    }
    Ok(best[1] - best[0])
}

/// Percent by which more was lost than asked for.
fn off(lost: f64, asked: f64) -> f64 {
    (lost / asked - 1.0) * 100.0
}

/// What a FLUSH takes, of lines that are written before each, in the best of many batches.
fn flush_ns(region: &Region, lines: u64, way: Way) -> Result<f64, Error> {
    let (mut best, count) = (f64::INFINITY, BATCH_LINES / lines);
    for _ in 0..BATCHES {
        let start = Instant::now();
        for first in (0..count).map(|nth| nth * lines) {
            flush(region, first..first + lines, way, first)?;
        }
        best = best.min(start.elapsed().as_nanos() as f64 / count as f64);
    }
    Ok(best)
}

/// A FLUSH of lines of the area that a value is stored into.
fn flush(region: &Region, lines: Range<u64>, way: Way, value: u64) -> Result<(), Error> {
    for line in lines {
        let offset = AREA / 2 + line * LINE;
        region.store(&region.words(offset, 1)?[0], value);
        // ORDER: none: what is measured is a FLUSH.
        region.flush("bench.medium.flush", offset, LINE);
        if let Way::Singly = way {
            // ORDER: as above.
            region.fence("bench.medium.line_fence");
        }
    }
    if let Way::Together = way {
        // ORDER: as above.
        region.fence("bench.medium.fence");
    }
    Ok(())
}
