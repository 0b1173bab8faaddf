//! How benchmarks are filled, done and timed.

use std::sync::Barrier;
use std::time::Duration;

use tembo_pmem::Counters;

use super::memory::{Program, Store};
use crate::Error;
use crate::clock::Stopwatch;
use crate::keys::{Random, scramble};

/// How much is done.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Extent {
    pub(crate) threads: u32,
    /// Works of all threads together.
    pub(crate) works: u64,
    pub(crate) seed: u64,
}

/// What was found.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Measured {
    /// By CPU time if one thread has worked, by wall time if there were more.
    pub(crate) per_second: f64,
    /// By wall time.
    pub(crate) per_wall_second: f64,
    /// Made of all answers: the same over all stores, if one thread has worked.
    pub(crate) answers: u64,
    /// Fences of a work, and lines flushed, where they are counted.
    pub(crate) fences: f64,
    pub(crate) lines: f64,
    /// Bytes that are taken when it is filled.
    pub(crate) bytes: u64,
}

/// What one thread has done.
struct Done {
    time: Duration,
    wall: Duration,
    answers: u64,
    counters: Counters,
}

/// Fills a store, and lets threads work on it.
pub(crate) fn measured<const D: usize, const L: usize, P: Program<D, L>, S: Store<D, L>>(
    program: &P,
    store: &S,
    extent: Extent,
    bytes: &dyn Fn() -> Result<u64, Error>,
) -> Result<Measured, Error> {
    let mut answers = 0_u64;
    for number in 0..program.filling() {
        let answer = store.atomic(&mut program.fill(number))?;
        answers = answers.wrapping_mul(31).wrapping_add(answer);
    }
    let bytes = bytes()?;
    store.filled()?;
    let barrier = Barrier::new(extent.threads as usize);
    let each = extent.works / u64::from(extent.threads);
    let one = |thread: u32| {
        let mut random = Random::new(scramble(extent.seed ^ scramble(thread.into())));
        let mut answers = answers;
        barrier.wait();
        let (before, start) = (Counters::thread(), Stopwatch::start());
        for number in 0..each {
            let answer = store.atomic(&mut program.work(number, &mut random))?;
            answers = answers.wrapping_mul(31).wrapping_add(answer);
        }
        let elapsed = start.elapsed();
        // One thread waits for nothing: what others take of a loaded machine is not its time.
        let time = if extent.threads == 1 { elapsed.cpu } else { elapsed.wall };
        let wall = elapsed.wall;
        Ok::<Done, Error>(Done { time, wall, answers, counters: Counters::thread() - before })
    };
    let done: Vec<Done> = std::thread::scope(|scope| {
        let threads: Vec<_> = (1..extent.threads).map(|n| scope.spawn(move || one(n))).collect();
        let mut all = vec![one(0)?];
        for thread in threads {
            all.push(thread.join().map_err(|_| Error::Panicked)??);
        }
        Ok::<Vec<Done>, Error>(all)
    })?;
    let works = (each * u64::from(extent.threads)) as f64;
    let longest = |of: fn(&Done) -> Duration| done.iter().map(of).max().unwrap_or_default();
    let sum = |of: fn(&Done) -> u64| done.iter().map(of).fold(0, u64::wrapping_add);
    Ok(Measured {
        per_second: works / longest(|done| done.time).as_secs_f64(),
        per_wall_second: works / longest(|done| done.wall).as_secs_f64(),
        answers: sum(|done| done.answers),
        fences: sum(|done| done.counters.fences) as f64 / works,
        lines: sum(|done| done.counters.lines) as f64 / works,
        bytes,
    })
}
