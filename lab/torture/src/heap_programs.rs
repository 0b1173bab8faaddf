//! Random programs on the structures of a heap, whose process is killed.
//!
//! A program is what a thread does at once: steps on structures of its own (those of the library, and leaves with a weak pointer), money that
//! moves between accounts of all threads, and now and then its number in a map of all threads. It follows from the seed, the thread and its
//! number, so what has to be there after so many programs is known. It is a transaction, alone or beside others, or ends with a checkpoint
//! of the layer SAFE or BASE; some begin with a transaction that is taken back. What each step answers is compared with the standard
//! library's structures at once.
//!
//! A thread reports each program when it is durable, and only then makes the next. Afterwards the [`Audit`] opens what is left:
//! every program that was reported is there, at most one more, and none in part; nothing leaks, and no count is wrong.

mod act;
mod content;
mod model;
mod plan;

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use tembo_heap::{Heap, HeapFile, PoolOptions};
use tembo_pmem::DomainRequest;

use crate::judge::{expect, text};
use crate::pooled::expect_accounted;
use content::Shown;
use model::Model;
use plan::{LANES, Program, is_entered};

/// Threads that a heap has a place for.
pub const THREADS_MAX: u16 = LANES as u16;

/// Programs of a thread between two parts of the collection of cycles, and of a compaction; objects that a part looks into or moves.
const PROGRAMS: u64 = 16;
const BUDGET: usize = 64;

/// Gets each program that is durable: the thread and the program's number. If it returns false, the thread ends.
pub type Report<'a> = dyn Fn(u16, u64) -> bool + Sync + 'a;

/// Opens the heap at `path`, or makes it, with so many bytes at first.
///
/// # Errors
/// Those of the heap, as text.
pub fn open(path: &Path, domain: DomainRequest, size: u64) -> Result<HeapFile, String> {
    let mut options = PoolOptions { size, ..PoolOptions::default() };
    options.region.domain = domain;
    HeapFile::open_or_create(path, &options).map_err(text)
}

/// Runs programs by so many threads, [`THREADS_MAX`] at most, until `report` says no to each. Each thread goes on where the heap says that
/// it was. Meanwhile what an earlier process has left is swept.
///
/// # Errors
/// An answer that is wrong; those of the heap, as text. The other threads end, too.
pub fn serve(file: &HeapFile, threads: u16, seed: u64, report: &Report<'_>) -> Result<(), String> {
    let is_over = AtomicBool::new(false);
    file.enter(|heap| {
        content::root(heap).map_err(text)?;
        let serve = |lane: usize| {
            let served = serve_one(file, heap, (lane, seed), &is_over, report);
            if served.is_err() {
                is_over.store(true, Ordering::Relaxed);
            }
            served
        };
        let serve = &serve;
        std::thread::scope(|scope| {
            let lanes = 0..usize::from(threads.clamp(1, THREADS_MAX));
            let all: Vec<_> = lanes.map(|lane| scope.spawn(move || serve(lane))).collect();
            let swept = heap.sweep().map(drop).map_err(text);
            let ended = all.into_iter().map(|thread| match thread.join() {
                Ok(served) => served,
                Err(panic) => std::panic::resume_unwind(panic),
            });
            // All are joined, whichever fails.
            let ended: Vec<Result<(), String>> = ended.collect();
            ended.into_iter().collect::<Result<(), String>>().and(swept)
        })
    })
}

fn serve_one(
    file: &HeapFile,
    heap: Heap<'_>,
    (lane, seed): (usize, u64),
    is_over: &AtomicBool,
    report: &Report<'_>,
) -> Result<(), String> {
    let mut model = content::look(heap, lane)?;
    while !is_over.load(Ordering::Relaxed) {
        let program = Program::of(seed, lane, model.number + 1);
        let expected = model.apply(&program);
        let answers = act::run(file, heap, &program).map_err(text)?;
        if answers != expected {
            return Err(format!("{answers:?} instead of {expected:?}: {program:?}"));
        }
        if !report(lane as u16, program.number) {
            break;
        }
        if program.number.is_multiple_of(PROGRAMS) {
            heap.collect_cycles(BUDGET).map_err(text)?;
            heap.compact(BUDGET).map_err(text)?;
        }
    }
    Ok(())
}

/// Compares a heap with what its threads have reported.
pub struct Audit {
    seed: u64,
    /// Of each thread, as far as its programs were followed.
    models: Vec<Model>,
}

impl Audit {
    /// Of a heap without programs.
    pub fn new(seed: u64) -> Audit {
        Audit { seed, models: vec![Model::default(); LANES] }
    }

    /// Programs that were found.
    pub fn programs(&self) -> u64 {
        self.models.iter().map(|model| model.number).sum()
    }

    /// Follows the programs to where the heap says that the threads are, and compares. `reported` has, by thread, the number of the last
    /// program that was reported since the last time. What nothing refers to is destroyed and swept, and the heap is checked.
    ///
    /// # Errors
    /// What is wrong with the heap.
    pub fn follow(&mut self, file: &HeapFile, reported: &[Option<u64>]) -> Result<(), String> {
        file.enter(|heap| heap.settle()).map_err(text)?;
        let Some(shown) = file.enter(content::show)? else {
            let is_none = self.programs() == 0 && reported.iter().all(Option::is_none);
            return expect(is_none, "the root is gone");
        };
        for (lane, found) in shown.lanes.iter().enumerate() {
            let reported = reported.get(lane).copied().flatten();
            self.follow_one(lane, found, reported)?;
            let last = (1..=found.number).rev().find(|number| is_entered(*number));
            let entered = shown.entered[lane];
            let what = format!("thread {lane}: {entered:?} is entered, and should be {last:?}");
            expect(entered == last, &what)?;
        }
        shown.check_total()?;
        check(file, &shown)
    }

    fn follow_one(
        &mut self,
        lane: usize,
        found: &Model,
        reported: Option<u64>,
    ) -> Result<(), String> {
        let model = &mut self.models[lane];
        let (number, reported) = (found.number, reported.unwrap_or(model.number));
        if number != reported && number != reported + 1 {
            return Err(format!(
                "thread {lane} has reported program {reported} and can have begun one more, but {number} is there"
            ));
        }
        for number in model.number + 1..=number {
            model.apply(&Program::of(self.seed, lane, number));
        }
        let what = || format!("thread {lane} has {found:?}, and its programs make {model:?}");
        if model == found { Ok(()) } else { Err(what()) }
    }
}

/// A sweep, the collection of cycles, and a compaction change nothing that can be seen; then all objects are reachable, and every byte is accounted for.
fn check(file: &HeapFile, shown: &Shown) -> Result<(), String> {
    let ended = file.enter(|heap| {
        heap.sweep()?;
        while !heap.collect_cycles(BUDGET)? {}
        while !heap.compact(BUDGET)?.is_done {}
        heap.settle()
    });
    ended.map_err(text)?;
    let is_same = file.enter(content::show)?.as_ref() == Some(shown);
    expect(is_same, "a sweep or a compaction has changed what is there")?;
    let found = file.check().map_err(text)?;
    expect_accounted(&found.account, file.pool().region().size())?;
    let lost = (found.account.leaked, found.account.dangling);
    expect(lost == (0, 0), &format!("leaked or dangling objects: {:?}", found.account))?;
    let Some((_, tenant)) = found.tenants.first() else { return Err("no heap".to_owned()) };
    let over: u64 = tenant.counts.iter().skip(2).map(|(_, count)| count).sum();
    expect(over == 0 && tenant.pending == 0, &format!("counts, or the doomed: {tenant:?}"))
}
