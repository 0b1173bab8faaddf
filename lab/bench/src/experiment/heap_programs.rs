//! Coburn's thesis, figures 4.8 to 4.10 and 5.5: six benchmarks over the layers of a heap, and over other memories.

use std::path::Path;

use tempfile::TempDir;

use super::context::{Context, rotated};
use crate::Error;
use crate::file_system::System;
use crate::finding::{Finding, Shape, times};
use crate::heap_bed::{HeapBed, HeapMedium};
use crate::heap_program::{
    Btree, Extent, HashTable, HeapLayer, KeyedStore, Measured, Program, RbTree, SixDegrees, Sps,
    Ssca, Volatile, measured, with_heap,
};
use crate::rival::{HEAP_SETTINGS, Medium, berkeley_keys, on_pmemobj};
use crate::sheet::{Labels, Sheet};

pub(super) const TITLE: &str = "Six benchmarks over a heap's layers, libpmemobj and Berkeley DB";

/// What a benchmark runs over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Entrant {
    Volatile,
    Heap(HeapLayer),
    Pmemobj,
    Berkeley,
    BerkeleyRamDisk,
}

/// Most works of one that waits for each of them.
const SYNCED_WORKS: u64 = 10_000;

impl Entrant {
    fn all() -> Vec<Entrant> {
        let mut all = vec![Entrant::Volatile];
        all.extend(HeapLayer::ALL.map(Entrant::Heap));
        all.extend([Entrant::Pmemobj, Entrant::Berkeley, Entrant::BerkeleyRamDisk]);
        all
    }

    fn name(self) -> &'static str {
        match self {
            Entrant::Volatile => VOLATILE,
            Entrant::Heap(layer) => layer.name(),
            Entrant::Pmemobj => PMEMOBJ,
            Entrant::Berkeley => BERKELEY,
            Entrant::BerkeleyRamDisk => RAM_DISK,
        }
    }

    /// `None`: not in this build, or not on this machine.
    fn measured<const D: usize, const L: usize, P: Program<D, L>>(
        self,
        folder: TempDir,
        program: &P,
        extent: Extent,
    ) -> Result<Option<Measured>, Error> {
        match self {
            Entrant::Volatile => {
                let memory = Volatile::<D, L>::new(program.form());
                measured(program, &memory, extent, &|| Ok(memory.allocated())).map(Some)
            }
            Entrant::Heap(layer) => {
                let form = program.form();
                let words = form.cells + form.heads + form.objects * (D + L + 8);
                let bed =
                    HeapBed::new(folder.path(), HeapMedium::Dram, (64 << 20) + 32 * words as u64)?;
                with_heap(&bed, layer, program, extent).map(Some)
            }
            Entrant::Pmemobj => on_pmemobj(folder.path(), program, extent),
            Entrant::Berkeley => on_berkeley(folder.path(), program, extent),
            Entrant::BerkeleyRamDisk => {
                let works = extent.works.min(SYNCED_WORKS);
                let disk = match System::RamDisk.open(folder, Path::new("")) {
                    Err(Error::Absent(_)) => return Ok(None),
                    opened => opened?,
                };
                let Some(folder) = disk.directory() else { return Ok(None) };
                on_berkeley(folder, program, Extent { works, ..extent })
            }
        }
    }

    /// Whether it does all works.
    fn is_whole(self) -> bool {
        self != Entrant::BerkeleyRamDisk
    }
}

fn on_berkeley<const D: usize, const L: usize, P: Program<D, L>>(
    folder: &Path,
    program: &P,
    extent: Extent,
) -> Result<Option<Measured>, Error> {
    let Some(file) = berkeley_keys(folder, program.is_hashed())? else { return Ok(None) };
    measured(program, &KeyedStore(&*file), extent, &|| file.size()).map(Some)
}

const VOLATILE: &str = "volatile";
const CTX: &str = "C-TX";
const PMEMOBJ: &str = "libpmemobj";
const BERKELEY: &str = "Berkeley DB";
const RAM_DISK: &str = "Berkeley DB, ext4 on a ram disk";

/// Figures by entrant, at the benchmarks with their threads.
#[derive(Default)]
struct Sheets {
    /// Thousand works a second, by count of threads.
    rates: [Sheet; 2],
    /// The same of one thread, by wall time.
    walls: Sheet,
    fences: Sheet,
    lines: Sheet,
    /// Bytes taken for a byte of payload.
    overhead: Sheet,
    names: Vec<&'static str>,
}

const THREADS: [u32; 2] = [1, 2];

impl Sheets {
    fn program<const D: usize, const L: usize, P: Program<D, L>>(
        &mut self,
        context: &mut Context<'_>,
        program: &P,
        works: u64,
    ) -> Result<(), Error> {
        let name = program.name();
        self.names.push(name);
        for round in 0..context.rounds() {
            for (sheet, threads) in self.rates.iter_mut().zip(THREADS) {
                let extent = Extent { threads, works, seed: context.seed() ^ u64::from(round) };
                let mut answers = Vec::new();
                for entrant in rotated(&Entrant::all(), round) {
                    if threads > 1 && !entrant.is_whole() {
                        continue;
                    }
                    let what = format!("{name}, round {}, {threads} threads", round + 1);
                    context.trial(&format!("{what}: {}", entrant.name()))?;
                    let folder = context.folder(Medium::Memory)?;
                    let Some(found) = entrant.measured(folder, program, extent)? else {
                        continue;
                    };
                    if threads == 1 {
                        self.walls.push(entrant.name(), name, found.per_wall_second / 1e3);
                    }
                    if !entrant.is_whole() {
                        continue;
                    }
                    sheet.push(entrant.name(), name, found.per_second / 1e3);
                    if threads > 1 {
                        continue;
                    }
                    answers.push((entrant.name(), found.answers));
                    let overhead = found.bytes as f64 / program.payload() as f64;
                    self.overhead.push(entrant.name(), name, overhead);
                    if let Entrant::Heap(_) = entrant {
                        self.fences.push(entrant.name(), name, found.fences);
                        self.lines.push(entrant.name(), name, found.lines);
                    }
                }
                agree(name, &answers)?;
            }
        }
        Ok(())
    }
}

/// All have answered the same.
fn agree(operation: &'static str, answers: &[(&'static str, u64)]) -> Result<(), Error> {
    let expected = answers.iter().find(|(name, _)| *name == VOLATILE).map(|(_, answer)| *answer);
    for (contender, found) in answers {
        if let Some(expected) = expected.filter(|expected| expected != found) {
            return Err(Error::Wrong { contender, operation, expected, found: *found });
        }
    }
    Ok(())
}

pub(super) fn programs(context: &mut Context<'_>) -> Result<Finding, Error> {
    let source = "Coburn, figures 4.8, 4.10 and 5.5";
    let mut finding = Finding::new("nvheaps-programs", TITLE, source);
    let mut sheets = Sheets::default();
    let (keys, works) = (context.pick(1 << 14, 1 << 20), context.pick(20_000, 500_000));
    let (vertices, scale) = (context.pick(512, 4096), context.pick(8, 10));
    let graph = SixDegrees { vertices, edges: 2 * vertices };
    let ssca = Ssca { scale, edges: 8 << scale };
    sheets.program(context, &Sps { cells: keys as usize }, works)?;
    sheets.program(context, &graph, works / 20)?;
    sheets.program(context, &Btree { keys }, works)?;
    sheets.program(context, &HashTable { keys }, works)?;
    sheets.program(context, &RbTree { keys }, works)?;
    sheets.program(context, &ssca, context.pick(64, 1 << scale))?;
    judge(&mut finding, &sheets);
    Ok(finding)
}

/// How many times Berkeley DB's throughput a heap on DRAM has, by figure 4.10 over all of its benchmarks.
const BERKELEY_DOCUMENT: &str = "2 to 643×";

/// The same on average.
const BERKELEY_AIM: &str = "aim: at least 32";

fn judge(finding: &mut Finding, sheets: &Sheets) {
    for name in &sheets.names {
        compare(finding, sheets, name);
    }
    let means = sheets.names.iter().map(|name| sheets.walls.ratio(CTX, RAM_DISK, name));
    let means: Option<Vec<f64>> = means.map(|ratio| Some(ratio?.median)).collect();
    let mean = means.map(|means| geometric_mean(&means));
    finding.claim(
        "all six, geometric mean: C-TX to durable Berkeley DB on a ram disk, wall time",
        BERKELEY_AIM,
        mean.map(|mean| format!("{mean:.1}×")),
    );
    draw(finding, sheets);
    finding.sentence = sentence(sheets, mean);
    for note in NOTES {
        finding.note(note);
    }
    if !HEAP_SETTINGS.is_empty() {
        finding.note(&format!("Settings beyond defaults. {}", HEAP_SETTINGS.concat()));
    }
}

/// What one benchmark says.
fn compare(finding: &mut Finding, sheets: &Sheets, name: &'static str) {
    let one = &sheets.rates[0];
    let ratio = |below: &str| one.ratio(CTX, below, name);
    let to_volatile = times(one.ratio(VOLATILE, CTX, name));
    finding.claim(
        &format!("{name}: BASE to C-TX"),
        "11× on average",
        times(one.ratio("BASE", CTX, name)),
    );
    let to_base = times(one.ratio("BASE", CTX, name));
    finding.claim(&format!("{name}: cost of C-TX over BASE"), "aim: at most 3", to_base);
    finding.claim(&format!("{name}: volatile to C-TX"), "–", to_volatile);
    finding.claim(
        &format!("{name}: TX to C-TX"),
        "1.3× on average",
        times(one.ratio("TX", CTX, name)),
    );
    let to_pmemobj = times(ratio(PMEMOBJ));
    finding.claim(&format!("{name}: C-TX to libpmemobj"), "aim: at least 1.5", to_pmemobj);
    finding.claim(
        &format!("{name}: C-TX to durable Berkeley DB on a tmpfs"),
        "–",
        times(ratio(BERKELEY)),
    );
    finding.claim(
        &format!("{name}: C-TX to durable Berkeley DB on a ram disk, wall time"),
        BERKELEY_DOCUMENT,
        times(sheets.walls.ratio(CTX, RAM_DISK, name)),
    );
    let of = |sheet: &Sheet| sheet.spread(CTX, name).map(|spread| spread.median);
    let counts = of(&sheets.fences).zip(of(&sheets.lines));
    let counts = counts.map(|(fences, lines)| format!("{fences:.2} and {lines:.2}"));
    finding.claim(&format!("{name}: fences and lines of C-TX a work"), "–", counts);
    finding.duel(&format!("{name} on a heap"), PMEMOBJ, ratio(PMEMOBJ));
    finding.duel(&format!("{name} on a heap"), BERKELEY, ratio(BERKELEY));
}

fn draw(finding: &mut Finding, sheets: &Sheets) {
    for (sheet, title) in sheets.rates.iter().zip(["One thread", "Two threads"]) {
        let labels = Labels { title, x: "benchmark", y: "thousand works a second" };
        finding.charts.push(sheet.chart(Shape::LogBars, labels));
    }
    let title = "One thread, by wall time";
    let labels = Labels { title, x: "benchmark", y: "thousand works a second" };
    finding.charts.push(sheets.walls.chart(Shape::LogBars, labels));
    let labels =
        Labels { title: "Memory, filled", x: "benchmark", y: "bytes taken for a byte of payload" };
    finding.charts.push(sheets.overhead.chart(Shape::LogBars, labels));
}

fn sentence(sheets: &Sheets, mean: Option<f64>) -> String {
    let one = &sheets.rates[0];
    let range = |below: &str| {
        let all = sheets.names.iter().filter_map(|name| one.ratio(CTX, below, name));
        let medians: Vec<f64> = all.map(|ratio| ratio.median).collect();
        let least = medians.iter().copied().reduce(f64::min)?;
        let most = medians.iter().copied().reduce(f64::max)?;
        Some(format!("{least:.2} to {most:.2} times {below}"))
    };
    let mut ranges: Vec<String> = [PMEMOBJ, BERKELEY].into_iter().filter_map(range).collect();
    ranges
        .extend(mean.map(|mean| format!("by wall time, in the mean, {mean:.1} times {RAM_DISK}")));
    if ranges.is_empty() {
        "libpmemobj and Berkeley DB are not in this build: build with --features rivals-debian."
            .into()
    } else {
        format!("By one thread C-TX does {}.", ranges.join("; "))
    }
}

fn geometric_mean(figures: &[f64]) -> f64 {
    let sum: f64 = figures.iter().map(|figure| figure.ln()).sum();
    (sum / figures.len().max(1) as f64).exp()
}

const NOTES: [&str; 4] = [
    "Each benchmark is written once, over two arrays and objects of one kind; heaps, libpmemobj and memory without durability run it as it is, and all have to give the volatile one's answers (by one thread). Berkeley DB does the same works on its own B-tree (SPS, BTree, RBTree) or hash table (HashTable; a record a vertex in SixDegrees and SSCA), a synced transaction for each: on a tmpfs, where its fsync is free, and, as in the thesis, on a ram disk with a file system (ext4 on a loop device on a file of a tmpfs), with 10,000 works at most. The payload is integers of 8 bytes, and of 4 for an end of an edge.",
    "Where the thesis leaves a choice: a swap of SPS and an insertion or removal is one transaction; arrays lie in objects of 64 entries; nodes of the B-tree have up to 15 keys; trees have no pointers to parents; SixDegrees alternates a search by breadth with an edge inserted or removed, in a graph whose ends are drawn by the product of two numbers; SSCA measures the outer loop of its fourth kernel, as the thesis does, on a graph by R-MAT that the first has built, and leaves out the second and third. The thesis fills 3 MB to 24 GB; this is a small part of it.",
    "By one thread CPU time counts, by two wall time: these need two processors with nothing else to do. BASE and SAFE take a checkpoint after each 64 works, and let one thread in at a time.",
    "The volatile version and libpmemobj have one lock, for readers together or one writer: neither has isolation of its own. TX lets one transaction run at a time; C-TX detects conflicts by objects.",
];
