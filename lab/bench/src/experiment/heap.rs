//! Coburn's thesis, tables 4.1 and 5.1: what the basic operations of a heap take.

use std::hint::black_box;

use tembo_heap::{
    Access, Atomic, Base, Checkpointed, Error as HeapError, Heap, Layer as AnyLayer, Persist, Ptr,
    Safe, Weak,
};
use tembo_pmem::Counters;

use super::context::{Context, rotated};
use crate::Error;
use crate::clock::Stopwatch;
use crate::finding::{Finding, Shape, times};
use crate::heap_bed::{HeapBed, HeapMedium};
use crate::rival::Medium;
use crate::sheet::{Labels, Sheet};

pub(super) const TITLE: &str = "Basic operations of a heap: latency";

/// Objects that are operated on, one after another.
const OBJECTS: usize = 1024;

/// Operations in a transaction, where what a transaction itself takes is to be divided.
const MANY: usize = 64;

#[derive(Persist)]
struct Item<'h> {
    value: u64,
    link: Option<Ptr<'h, Item<'h>>>,
    weak: Option<Weak<'h, Item<'h>>>,
}

impl Item<'_> {
    fn new(value: u64) -> Self {
        Item { value, link: None, weak: None }
    }
}

/// What a program pays for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Layer {
    Base,
    Safe,
    /// Transactions that run alone.
    Tx,
    /// Transactions side by side.
    Ctx,
}

impl Layer {
    const ALL: [Layer; 4] = [Layer::Base, Layer::Safe, Layer::Tx, Layer::Ctx];

    fn name(self) -> &'static str {
        match self {
            Layer::Base => "BASE",
            Layer::Safe => "SAFE",
            Layer::Tx => "TX",
            Layer::Ctx => "C-TX",
        }
    }

    /// Whether it has what a row is about.
    fn has(self, row: Row) -> bool {
        let checkpoints = matches!(self, Layer::Base | Layer::Safe);
        match row {
            Row::Weak => self != Layer::Base,
            Row::Nothing => !checkpoints,
            _ => true,
        }
    }
}

/// What is done with an object.
type Each<'e, 'h, A> =
    dyn FnMut(&mut Access<'h, A>, &Ptr<'h, Item<'h>>) -> Result<(), HeapError> + 'e;

/// How a program uses a heap: what is done in one section happens together, and is durable when that returns.
trait Use<'h> {
    type Access: AnyLayer;

    fn section(
        &mut self,
        items: &[Ptr<'h, Item<'h>>],
        each: &mut Each<'_, 'h, Self::Access>,
    ) -> Result<(), HeapError>;

    /// An object that nothing refers to any more.
    fn free(
        heap: &mut Access<'h, Self::Access>,
        object: Ptr<'h, Item<'h>>,
    ) -> Result<(), HeapError>;
}

/// Sections are transactions.
struct Transactions<'h> {
    heap: Heap<'h>,
    is_alone: bool,
}

impl<'h> Use<'h> for Transactions<'h> {
    type Access = Atomic;

    fn section(
        &mut self,
        items: &[Ptr<'h, Item<'h>>],
        each: &mut Each<'_, 'h, Atomic>,
    ) -> Result<(), HeapError> {
        let mut all =
            |tx: &mut Access<'h, Atomic>| items.iter().try_for_each(|item| each(tx, item));
        if self.is_alone { self.heap.exclusive(all) } else { self.heap.atomic(&mut all) }
    }

    fn free(_heap: &mut Access<'h, Atomic>, _object: Ptr<'h, Item<'h>>) -> Result<(), HeapError> {
        Ok(())
    }
}

/// A section ends with a checkpoint.
struct Session<'s, 'h, A: AnyLayer>(&'s mut Access<'h, A>);

impl<'h, A: AnyLayer + Checkpointed> Session<'_, 'h, A> {
    fn all(
        &mut self,
        items: &[Ptr<'h, Item<'h>>],
        each: &mut Each<'_, 'h, A>,
    ) -> Result<(), HeapError> {
        items.iter().try_for_each(|item| each(self.0, item))?;
        self.0.checkpoint()
    }
}

impl<'h> Use<'h> for Session<'_, 'h, Base> {
    type Access = Base;

    fn section(
        &mut self,
        items: &[Ptr<'h, Item<'h>>],
        each: &mut Each<'_, 'h, Base>,
    ) -> Result<(), HeapError> {
        self.all(items, each)
    }

    fn free(heap: &mut Access<'h, Base>, object: Ptr<'h, Item<'h>>) -> Result<(), HeapError> {
        heap.free(object)
    }
}

impl<'h> Use<'h> for Session<'_, 'h, Safe> {
    type Access = Safe;

    fn section(
        &mut self,
        items: &[Ptr<'h, Item<'h>>],
        each: &mut Each<'_, 'h, Safe>,
    ) -> Result<(), HeapError> {
        self.all(items, each)
    }

    fn free(_heap: &mut Access<'h, Safe>, _object: Ptr<'h, Item<'h>>) -> Result<(), HeapError> {
        Ok(())
    }
}

/// A row of the tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Row {
    New,
    FromProgram,
    FromHeap,
    Weak,
    Nothing,
    Read,
    Write,
}

impl Row {
    const ALL: [Row; 7] =
        [Row::New, Row::FromProgram, Row::FromHeap, Row::Weak, Row::Nothing, Row::Read, Row::Write];

    fn name(self) -> &'static str {
        match self {
            Row::New => "new/delete",
            Row::FromProgram => "V-to-NV",
            Row::FromHeap => "NV-to-NV",
            Row::Weak => "weak",
            Row::Nothing => "empty tx",
            Row::Read => "open for read",
            Row::Write => "open for write",
        }
    }

    /// Microseconds by the thesis, table 5.1, for BASE and SAFE, without durability.
    fn document_below(self) -> [&'static str; 2] {
        match self {
            Row::New => ["< 0.1", "< 0.1"],
            Row::FromProgram | Row::FromHeap => ["0.03", "0.05"],
            Row::Weak => ["–", "0.05"],
            Row::Nothing | Row::Read | Row::Write => ["–", "–"],
        }
    }

    /// Microseconds by the thesis: table 5.1 for TX, table 4.1 for C-TX on a volatile medium, DRAM, STT-RAM and PCM.
    fn document(self) -> (&'static str, [&'static str; 4]) {
        match self {
            Row::New => ("< 0.1", ["< 0.1", "< 0.1", "0.75", "2.16"]),
            Row::FromProgram => ("0.11", ["0.08", "0.13", "0.13", "0.13"]),
            Row::FromHeap => ("0.17", ["0.13", "0.25", "0.72", "1.68"]),
            Row::Weak => ("0.20", ["0.15", "0.25", "0.78", "1.84"]),
            Row::Nothing => ("0.05", ["0.05", "0.05", "0.05", "0.05"]),
            Row::Read => ("0.17", ["0.21", "0.26", "0.26", "0.26"]),
            Row::Write => ("1.68", ["1.00", "1.99", "5.55", "12.67"]),
        }
    }
}

/// What the operations work on.
struct Bed<'h> {
    items: Vec<Ptr<'h, Item<'h>>>,
    target: Ptr<'h, Item<'h>>,
    /// A weak pointer, in a layer that has them.
    weak: Option<Weak<'h, Item<'h>>>,
}

impl<'h> Bed<'h> {
    fn new(heap: &mut Access<'h, impl AnyLayer>) -> Result<Bed<'h>, HeapError> {
        // All are linked, as in a program: an object that nothing refers to is in a list of its own.
        let kept = heap.alloc_slice::<Ptr<'h, Item<'h>>>(OBJECTS as u64 + 1)?;
        let root = heap.alloc((kept.clone(), 0_u64))?;
        heap.set_root(&root)?;
        let mut items = Vec::new();
        for index in 0..=OBJECTS as u64 {
            let item = heap.alloc(Item::new(index))?;
            heap.set_cell(&kept, index, item.clone())?;
            items.push(item);
        }
        let target = items.remove(0);
        Ok(Bed { items, target, weak: None })
    }

    /// A row's operation on `items`, together.
    fn operate<U: Use<'h>>(
        &self,
        row: Row,
        heap: &mut U,
        items: &[Ptr<'h, Item<'h>>],
    ) -> Result<(), HeapError> {
        match row {
            Row::New => {
                heap.section(items, &mut |tx, item| {
                    let made = tx.alloc(Item::new(7))?;
                    tx.set(item, Item::LINK, Some(made))
                })?;
                heap.section(items, &mut |tx, item| {
                    let made = tx.get(item, Item::LINK)?;
                    tx.set(item, Item::LINK, None)?;
                    made.map_or(Ok(()), |made| U::free(tx, made))
                })
            }
            Row::FromProgram => {
                for item in items {
                    let mut held = Some(item.clone());
                    black_box(&held);
                    held = None;
                    black_box(&held);
                }
                Ok(())
            }
            Row::FromHeap => {
                let target = &self.target;
                heap.section(items, &mut |tx, item| {
                    tx.set(item, Item::LINK, Some(target.clone()))
                })?;
                heap.section(items, &mut |tx, item| tx.set(item, Item::LINK, None))
            }
            Row::Weak => {
                let weak = &self.weak;
                heap.section(items, &mut |tx, item| tx.set(item, Item::WEAK, weak.clone()))?;
                heap.section(items, &mut |tx, item| tx.set(item, Item::WEAK, None))
            }
            Row::Nothing => heap.section(&[], &mut |_, _| Ok(())),
            Row::Read => heap.section(items, &mut |tx, item| {
                black_box(tx.get(item, Item::VALUE)?);
                Ok(())
            }),
            Row::Write => heap.section(items, &mut |tx, item| {
                let value = tx.get(item, Item::VALUE)?;
                tx.set(item, Item::VALUE, value + 1)
            }),
        }
    }
}

/// What an operation takes.
struct Taken {
    us: f64,
    counters: Counters,
}

/// As many operations as `passes` over all objects, `together` at a time in one section.
fn taken<'h>(
    bed: &Bed<'h>,
    row: Row,
    heap: &mut impl Use<'h>,
    (together, passes): (usize, usize),
) -> Result<Taken, HeapError> {
    let before = Counters::thread();
    let start = Stopwatch::start();
    for _ in 0..passes {
        for items in bed.items.chunks(together) {
            bed.operate(row, heap, items)?;
        }
    }
    let us = start.elapsed().cpu.as_secs_f64() * 1e6 / (passes * OBJECTS) as f64;
    Ok(Taken { us, counters: Counters::thread() - before })
}

/// What one row takes in one layer, in a section of its own and in one with others.
type Visit<'v> = dyn FnMut(Row, Taken, Taken) + 'v;

fn rows<'h>(
    bed: &Bed<'h>,
    layer: Layer,
    heap: &mut impl Use<'h>,
    (passes, visit): (usize, &mut Visit<'_>),
) -> Result<(), HeapError> {
    for row in Row::ALL.into_iter().filter(|row| layer.has(*row)) {
        // Once without a figure: types get their numbers, and memory its pages.
        taken(bed, row, heap, (MANY, 1))?;
        let alone = taken(bed, row, heap, (1, passes))?;
        visit(row, alone, taken(bed, row, heap, (MANY, passes))?);
    }
    Ok(())
}

/// Measures all rows in one layer, on a heap of its own.
fn in_layer(
    bed: &HeapBed,
    layer: Layer,
    (passes, visit): (usize, &mut Visit<'_>),
) -> Result<(), HeapError> {
    match layer {
        Layer::Base => bed.base(|heap| {
            let bed = Bed::new(heap)?;
            heap.checkpoint()?;
            rows(&bed, layer, &mut Session(heap), (passes, visit))
        }),
        Layer::Safe => bed.enter(|heap| {
            let bed = heap.atomic(with_weak)?;
            heap.safe(|heap| rows(&bed, layer, &mut Session(heap), (passes, visit)))
        }),
        Layer::Tx | Layer::Ctx => bed.enter(|heap| {
            let bed = heap.atomic(with_weak)?;
            let is_alone = layer == Layer::Tx;
            rows(&bed, layer, &mut Transactions { heap, is_alone }, (passes, visit))
        }),
    }
}

fn with_weak<'h>(heap: &mut Access<'h, Atomic>) -> Result<Bed<'h>, HeapError> {
    let bed = Bed::new(heap)?;
    let weak = heap.downgrade(&bed.target)?;
    Ok(Bed { weak: Some(weak), ..bed })
}

/// The figures of each medium, by row and layer.
#[derive(Default)]
struct Sheets {
    alone: [Sheet; HeapMedium::ALL.len()],
    together: [Sheet; HeapMedium::ALL.len()],
    /// Fences of an operation that is alone in its transaction.
    fences: Sheet,
    lines: Sheet,
}

pub(super) fn latency(context: &mut Context<'_>) -> Result<Finding, Error> {
    let mut finding = Finding::new("nvheaps-4.1", TITLE, "Coburn, tables 4.1 and 5.1");
    let mut sheets = Sheets::default();
    let passes = context.pick(4, 64);
    for round in 0..context.rounds() {
        for medium in rotated(&HeapMedium::ALL, round) {
            let what = format!("round {}: {}", round + 1, medium.name());
            context.trial(&what)?;
            for layer in rotated(&Layer::ALL, round) {
                let folder = context.folder(Medium::Memory)?;
                let bed = HeapBed::new(folder.path(), medium, 64 << 20)?;
                let (at, name) = (medium as usize, layer.name());
                in_layer(
                    &bed,
                    layer,
                    (passes, &mut |row, alone, together| {
                        sheets.alone[at].push(name, row.name(), alone.us);
                        sheets.together[at].push(name, row.name(), together.us);
                        if medium == HeapMedium::Dram {
                            let each = |count: u64| count as f64 / (passes * OBJECTS) as f64;
                            sheets.fences.push(name, row.name(), each(alone.counters.fences));
                            sheets.lines.push(name, row.name(), each(alone.counters.lines));
                        }
                    }),
                )?;
            }
        }
    }
    judge(&mut finding, &sheets);
    Ok(finding)
}

const NOTES: [&str; 5] = [
    "Each figure is of whole transactions, with their commits, where the thesis leaves out what opening and a transaction take: here a change is kept in memory until the commit, so that without it there would be nothing to time. Beside it stands the share of an operation when 64 of them, on objects of their own, are in one transaction. A pointer is assigned in one transaction and emptied in another; new/delete links a new object in one, and unlinks it in another, which frees it. Open for write is a read and a change of one word.",
    "Times are CPU time of the thread, which waits for nothing but flushes: what else runs on the machine is no part of them.",
    "In BASE and SAFE a checkpoint stands where a transaction does, one after each operation or one after 64. The thesis's figures of these layers have no durability at all.",
    "DRAM is a tmpfs with real flush instructions. STT-RAM and PCM lose 50 and 180 ns for each line more behind a fence that waits (experiment medium judges that); the thesis delays epochs by its own model, so that absolute times of these columns are not comparable. Reads are as fast as the memory's.",
    "Fences and lines are counted on DRAM, each operation in a transaction of its own, both of its transactions where there are two.",
];

/// A figure of the thesis with its unit; where it has none, nothing is claimed.
fn microseconds(document: &str) -> String {
    if document == "–" { document.into() } else { format!("{document} µs") }
}

fn judge(finding: &mut Finding, sheets: &Sheets) {
    let here = |medium: usize, layer: Layer, row: Row| {
        let of = |sheet: &Sheet| sheet.spread(layer.name(), row.name());
        let (alone, together) = (of(&sheets.alone[medium])?, of(&sheets.together[medium])?);
        Some(format!(
            "{:.2} µs ({:.2}–{:.2}); {:.2} µs of {MANY} together",
            alone.median, alone.worst, alone.best, together.median
        ))
    };
    for row in Row::ALL {
        let (tx, ctx) = row.document();
        let dram = HeapMedium::Dram as usize;
        let [base, safe] = row.document_below();
        for (layer, document) in [(Layer::Base, base), (Layer::Safe, safe), (Layer::Tx, tx)] {
            if layer.has(row) {
                let what = format!("{}, {} on DRAM", row.name(), layer.name());
                finding.claim(&what, &microseconds(document), here(dram, layer, row));
            }
        }
        for (medium, document) in HeapMedium::ALL.iter().zip(ctx) {
            let what = format!("{}, C-TX on {}", row.name(), medium.name());
            let here = here(*medium as usize, Layer::Ctx, row);
            finding.claim(&what, &microseconds(document), here);
        }
        let of = |sheet: &Sheet| sheet.spread(Layer::Ctx.name(), row.name()).map(|of| of.median);
        if let (Some(fences), Some(lines)) = (of(&sheets.fences), of(&sheets.lines)) {
            let what = format!("{}, C-TX: fences and lines", row.name());
            finding.claim(&what, "–", Some(format!("{fences:.2} and {lines:.2}")));
        }
    }
    for (medium, sheet) in HeapMedium::ALL.iter().zip(&sheets.alone) {
        let labels = Labels {
            title: "",
            x: "operation",
            y: "µs, each in a transaction, or before a checkpoint, of its own",
        };
        let mut chart = sheet.chart(Shape::LogBars, labels);
        chart.title = medium.name().into();
        finding.charts.push(chart);
    }
    let labels = Labels {
        title: "DRAM, 64 together",
        x: "operation",
        y: "µs, 64 of them in a transaction, or before a checkpoint",
    };
    let together = &sheets.together[HeapMedium::Dram as usize];
    finding.charts.push(together.chart(Shape::LogBars, labels));
    let write = |medium: HeapMedium| {
        let spread = sheets.alone[medium as usize].spread(Layer::Ctx.name(), Row::Write.name());
        spread.map_or(0.0, |spread| spread.median)
    };
    let slower = sheets.alone[HeapMedium::Pcm as usize].ratio_to(
        &sheets.alone[HeapMedium::Dram as usize],
        Layer::Ctx.name(),
        Row::Write.name(),
    );
    let slower = times(slower).unwrap_or_default();
    finding.claim("open for write, C-TX: PCM to DRAM", "6.4×", Some(slower));
    finding.sentence = format!(
        "A transaction that changes one object takes {:.2} µs on DRAM and {:.2} µs on PCM, commit and durability included; the thesis has 2.04 and 12.72 for its beginning, its log and its end.",
        write(HeapMedium::Dram),
        write(HeapMedium::Pcm)
    );
    for note in NOTES {
        finding.note(note);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    /// Fences of each operation in a layer, alone in its section and with others.
    fn fences(layer: Layer) -> Vec<(Row, f64, f64)> {
        let bed = HeapBed::volatile(64 << 20).unwrap();
        let (mut all, each) = (Vec::new(), |taken: Taken| taken.counters.fences as f64);
        in_layer(
            &bed,
            layer,
            (2, &mut |row, alone, together| {
                let count = (2 * OBJECTS) as f64;
                all.push((row, each(alone) / count, each(together) / count));
            }),
        )
        .unwrap();
        all
    }

    #[test]
    fn basic_operations_cost_the_fences_that_are_stated() {
        for layer in Layer::ALL {
            for (row, alone, together) in fences(layer) {
                let (expected, shared) = match row {
                    Row::FromProgram | Row::Nothing | Row::Read => (0.0, true),
                    Row::Write => (1.0, true),
                    // One section assigns, another empties.
                    Row::FromHeap | Row::Weak => (2.0, true),
                    // What goes is settled by a second fence.
                    Row::New => (3.0, false),
                };
                assert_eq!(alone, expected, "{row:?} {layer:?}");
                // 64 words, with the counts of what they refer to, may need an extent of the log.
                let most = 1.5 * expected / MANY as f64;
                assert!(!shared || together <= most, "{row:?} {layer:?}: {together}");
            }
        }
    }
}
