//! Explores a structure's workloads with several threads, and the crashes of recoveries from the
//! crashes.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use tembo_sim::{Bounds, Cache, Explorer, Random, Wrong};

use crate::judge::{Judge, quietly};
use crate::recording::{Recording, Start, digest, region};
use crate::subject::{Script, Subject};
use crate::{Effort, Outcome, Target, Violation, workload};
use crate::{command, seen::Seen};

/// Threads that explore.
const THREADS: usize = 2;

/// One image in so many, chosen by what it reads, is judged completely.
const SAMPLE: u64 = 16;

/// How often a recovery from a crash may itself crash.
const DEPTH_MAX: usize = 2;

/// An exploration under way.
pub(crate) struct Campaign<'c, S: Subject> {
    subject: &'c S,
    target: Target,
    effort: &'c Effort<'c>,
    cache: Cache,
    bounds: Bounds,
    /// One new image in so many is recovered under observation.
    keep: u64,
    starts: Vec<Start<S::State>>,
    seen: Seen,
    images: AtomicU64,
    stop: AtomicBool,
    steps: Mutex<BTreeSet<&'static str>>,
    violation: Mutex<Option<Violation>>,
}

/// An image to recover from.
struct Kept {
    read: u64,
    image: Vec<u8>,
    shown: u64,
}

impl<'c, S: Subject> Campaign<'c, S> {
    /// Nothing is explored yet. One image in `keep` is recovered under observation.
    pub(crate) fn new(
        subject: &'c S,
        target: Target,
        effort: &'c Effort<'c>,
        keep: u64,
    ) -> Result<Campaign<'c, S>, String> {
        let cache = command::cache(target.model);
        Ok(Campaign {
            subject,
            target,
            effort,
            cache,
            bounds: bounds(effort),
            keep,
            starts: starts(subject)?,
            seen: Seen::new(),
            images: AtomicU64::new(0),
            stop: AtomicBool::new(false),
            steps: Mutex::default(),
            violation: Mutex::default(),
        })
    }

    /// Explores until something is wrong, or enough was seen.
    pub(crate) fn run(self) -> Outcome {
        let started = Instant::now();
        match self.effort.workload {
            Some(name) => self.replay(name),
            None => self.explore_all(),
        }
        Outcome {
            target: self.target,
            images: self.images.into_inner(),
            distinct: self.seen.count(),
            elapsed: started.elapsed(),
            steps: self.steps.into_inner().unwrap_or_else(PoisonError::into_inner),
            violation: self.violation.into_inner().unwrap_or_else(PoisonError::into_inner),
        }
    }

    fn explore_all(&self) {
        let scripts = Mutex::new(workload::all(self.subject, self.effort.seed));
        std::thread::scope(|scope| {
            for _ in 0..THREADS {
                scope.spawn(|| {
                    while !self.stop.load(Ordering::Relaxed) {
                        let next = lock(&scripts).next();
                        let Some(script) = next else { break };
                        self.explore_script(&script, &[]);
                    }
                });
            }
        });
    }

    /// Explores the one workload, and on its images the path that the name has.
    fn replay(&self, name: &str) {
        let (name, path) = name.split_once('+').unwrap_or((name, ""));
        let path: Vec<u64> =
            path.split('+').filter_map(|part| u64::from_str_radix(part, 16).ok()).collect();
        match workload::named(self.subject, name) {
            Some(script) => self.explore_script(&script, &path),
            None => self.violated(name, format!("there is no workload {name}")),
        }
    }

    /// `way`: the only images to recover from, one a level; empty: any.
    fn explore_script(&self, script: &Script<S::Op>, way: &[u64]) {
        let Some(start) = self.starts.get(script.start) else { return };
        let recording = quietly(|| {
            let start = start.clone().lead(self.subject, script)?;
            Recording::of(self.subject, &start, &script.ops, script.first, self.cache)
        });
        let Some(recording) = self.recorded(&script.name, recording) else { return };
        let keep = if script.recovers_each { 1 } else { self.keep };
        if let Some(what) = self.explore(&script.name, &recording, (0, keep), way) {
            let shrunk = self.shrink(script);
            self.violated(&script.name, what + &shrunk);
        }
    }

    fn recorded(
        &self,
        name: &str,
        recording: Result<Recording<S>, String>,
    ) -> Option<Recording<S>> {
        match recording {
            Ok(recording) => {
                let names = recording.history.events.iter().filter_map(|event| event.name());
                lock(&self.steps).extend(names);
                Some(recording)
            }
            Err(what) => {
                self.violated(name, format!("without a crash: {what}"));
                None
            }
        }
    }

    /// Explores a recording, then the recoveries from one image in `keep`; what was wrong with it.
    fn explore(
        &self,
        name: &str,
        recording: &Recording<S>,
        (depth, keep): (usize, u64),
        way: &[u64],
    ) -> Option<String> {
        let kept: Mutex<Vec<Kept>> = Mutex::default();
        let keeps = |read: u64| match way.first() {
            Some(&wanted) => read == wanted,
            None => read.is_multiple_of(keep),
        };
        let judged = |read: u64, image: Option<&[u8]>, shown: u64| {
            let is_new = self.seen.insert(read) || way.first() == Some(&read);
            if is_new
                && depth < DEPTH_MAX
                && let Some(image) = image
                && shown != crate::recording::ABSENT
                && keeps(read)
            {
                lock(&kept).push(Kept { read, image: image.to_vec(), shown });
            }
            let images = self.images.fetch_add(1, Ordering::Relaxed) + 1;
            let enough = images.is_multiple_of(1024) && !(self.effort.progress)(images);
            if enough || images >= self.effort.images_max {
                self.stop.store(true, Ordering::Relaxed);
            }
            !self.stop.load(Ordering::Relaxed)
        };
        let oracle = Judge { subject: self.subject, recording, sample: SAMPLE, judged: &judged };
        let explored =
            Explorer::new(&recording.history, self.cache, &oracle).explore(None, self.bounds);
        if let Err(wrong) = explored {
            return Some(describe(self.subject, recording, &wrong));
        }
        for kept in kept.into_inner().unwrap_or_else(PoisonError::into_inner) {
            if self.stop.load(Ordering::Relaxed) {
                break;
            }
            self.recover(name, recording, &kept, depth, way.get(1..).unwrap_or_default());
        }
        None
    }

    /// Opens an image under observation, and explores the crashes of that.
    fn recover(
        &self,
        name: &str,
        recording: &Recording<S>,
        kept: &Kept,
        depth: usize,
        way: &[u64],
    ) {
        let name = format!("{name}+{:016x}", kept.read);
        let states = recording.operations.iter().flat_map(|op| [&op.before, &op.after]);
        let state = states.flatten().find(|state| digest(Some(*state)) == kept.shown);
        let start = Start { image: kept.image.clone(), state: state.cloned() };
        let mut random = Random::new(kept.read);
        let mut ops: Vec<S::Op> =
            (0..random.below(3)).map(|_| self.subject.random_op(&mut random)).collect();
        ops.extend(self.subject.recovery());
        let again = quietly(|| Recording::of(self.subject, &start, &ops, 0, self.cache));
        let Some(again) = self.recorded(&name, again) else { return };
        if let Some(what) = self.explore(&name, &again, (depth + 1, self.keep), way) {
            self.violated(&name, what);
        }
    }

    /// Leaves out operations while what is left is still wrong; what is left, as text.
    fn shrink(&self, script: &Script<S::Op>) -> String {
        let mut ops = script.ops.clone();
        if !script.name.starts_with("random.") {
            return String::new();
        }
        for at in (0..ops.len()).rev() {
            let mut fewer = ops.clone();
            fewer.remove(at);
            if self.wrong_with(script.start, &fewer).is_some() {
                ops = fewer;
            }
        }
        format!("\nthese suffice: {ops:?}, after start {}", script.start)
    }

    /// What is wrong with these operations after a start.
    pub(crate) fn wrong_with(&self, start: usize, ops: &[S::Op]) -> Option<String> {
        let judged = |_: u64, _: Option<&[u8]>, _: u64| true;
        let recording =
            quietly(|| Recording::of(self.subject, &self.starts[start], ops, 0, self.cache));
        let recording = match recording {
            Ok(recording) => recording,
            Err(what) => return Some(what),
        };
        let (subject, recording) = (self.subject, &recording);
        let oracle = Judge { subject, recording, sample: SAMPLE, judged: &judged };
        let bounds = Bounds { all: 24, corners: 8, chance: 8, seed: self.effort.seed };
        let explored = Explorer::new(&recording.history, self.cache, &oracle).explore(None, bounds);
        explored.err().map(|wrong| describe(subject, recording, &wrong))
    }

    fn violated(&self, workload: &str, what: String) {
        let replay = command::replay(self.target, self.effort, workload, None);
        let violation = Violation { what, workload: workload.to_owned(), replay };
        lock(&self.violation).get_or_insert(violation);
        self.stop.store(true, Ordering::Relaxed);
    }
}

/// What every script of a structure can begin with.
pub(crate) fn starts<S: Subject>(subject: &S) -> Result<Vec<Start<S::State>>, String> {
    let nothing = Start::nothing(subject);
    let start = |ops: Vec<S::Op>| {
        if ops.is_empty() {
            return Ok(nothing.clone());
        }
        let made = Recording::of(subject, &nothing, &ops, usize::MAX, Cache::Flush)?;
        Ok(Start { image: made.end, state: made.state })
    };
    subject.starts().into_iter().map(start).collect()
}

/// The more images in all, the more of each crash.
fn bounds(effort: &Effort<'_>) -> Bounds {
    let (all, corners, chance) = match effort.images_max {
        0..200_000 => (24, 8, 8),
        200_000..2_000_000 => (128, 32, 32),
        _ => (1024, 64, 128),
    };
    Bounds { all, corners, chance, seed: effort.seed }
}

/// What is wrong, and with which image.
pub(crate) fn describe<S: Subject>(subject: &S, recording: &Recording<S>, wrong: &Wrong) -> String {
    let crash = recording.history.crashes[wrong.crash];
    let operation = &recording.operations[crash.operation];
    let shown = quietly(|| match subject.open(region(subject, &wrong.image, None)?)? {
        Some(mut live) => subject.show(&mut live).map(|state| format!("{state:?}")),
        None => Ok("nothing".to_owned()),
    });
    let place = if crash.after { "after" } else { "in" };
    let event = recording.history.events.get(crash.at);
    format!(
        "a crash {place} {}, before step {} ({}):\n{}\nthe image shows {}",
        operation.what,
        crash.at,
        event.map_or("the end".to_owned(), |event| format!("{:?}", event.step)),
        wrong.what,
        shown.unwrap_or_else(|what| what),
    )
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
