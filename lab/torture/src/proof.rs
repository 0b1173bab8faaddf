//! The proof that no step can be missed: with it broken, something is found.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use tembo_sim::{Bounds, Broken, Cache, Explorer, Recorder, Redundancy};

use crate::campaign::{describe, starts};
use crate::judge::{Judge, quietly};
use crate::recording::{Recording, Start};
use crate::subject::{Script, Subject};
use crate::{Effort, Mutation, Outcome, STEPS, Step, Target, Twist, Violation, command, workload};

/// Images that are looked at before a workload is tried without the step.
const AT_ONCE: u64 = 2000;

/// Some workloads of a structure, carried out once, to be explored with every mutation.
pub(crate) struct Proof<'p, S: Subject> {
    subject: &'p S,
    target: Target,
    cache: Cache,
    workloads: Vec<Workload<S>>,
}

/// A workload that was carried out.
struct Workload<S: Subject> {
    script: Script<S::Op>,
    start: Start<S::State>,
    recording: Recording<S>,
}

impl<'p, S: Subject> Proof<'p, S> {
    /// Carries the workloads out.
    pub(crate) fn new(
        subject: &'p S,
        target: Target,
        effort: &Effort<'_>,
    ) -> Result<Proof<'p, S>, String> {
        let cache = command::cache(target.model);
        let starts = starts(subject)?;
        let mut workloads = Vec::new();
        for script in workload::some(subject, effort.seed) {
            let start = starts.get(script.start).ok_or("no such start")?.clone();
            let (start, recording) = quietly(|| {
                let start = start.lead(subject, &script)?;
                let recording = Recording::of(subject, &start, &script.ops, script.first, cache)?;
                Ok((start, recording))
            })?;
            workloads.push(Workload { script, start, recording });
        }
        Ok(Proof { subject, target, cache, workloads })
    }

    /// The steps that the workloads do.
    pub(crate) fn steps(&self) -> BTreeSet<&'static str> {
        let recordings = self.workloads.iter().map(|workload| &workload.recording);
        let events = recordings.flat_map(|recording| &recording.history.events);
        events.filter_map(|event| event.name()).collect()
    }

    /// What the workloads do in vain.
    pub(crate) fn redundancy(&self) -> Redundancy {
        let mut found = Redundancy::default();
        for workload in &self.workloads {
            found.add(&workload.recording.history.events);
        }
        found
    }

    /// Looks for a violation with a step broken: at few images of each crash, then, if the step
    /// stores something, at what becomes of the workload without it, then at many images.
    pub(crate) fn explore(&self, mutation: &Mutation, effort: &Effort<'_>) -> Outcome {
        let started = Instant::now();
        let broken = match mutation.twist {
            Twist::Early => Broken::Early(&mutation.step),
            Twist::Dropped | Twist::Misplaced => Broken::Dropped(&mutation.step),
        };
        let few = Bounds { all: 1, corners: 2, chance: 0, seed: effort.seed };
        let many = Bounds { all: 64, corners: 64, chance: 16, seed: effort.seed };
        let reached: Vec<&Workload<S>> = self
            .workloads
            .iter()
            .filter(|workload| workload.recording.reaches(&mutation.step))
            .filter(|workload| effort.workload.is_none_or(|name| name == workload.script.name))
            .collect();
        let mut images = 0;
        let mut look = |bounds, images_max: u64| {
            reached.iter().find_map(|&workload| {
                if images >= images_max.min(effort.images_max) {
                    return None;
                }
                let wrong = self.wrong(&workload.recording, broken, bounds, &mut images);
                wrong.map(|what| (workload, what))
            })
        };
        let undone = reached.iter().filter(|_| mutation.twist == Twist::Dropped);
        let found = look(few, AT_ONCE)
            .or_else(|| undone.clone().find_map(|&w| Some((w, self.undone(w, mutation)?))))
            .or_else(|| look(few, u64::MAX))
            .or_else(|| look(many, u64::MAX));
        let violation = found.map(|(workload, what)| {
            let name = &workload.script.name;
            let replay = command::replay(self.target, effort, name, Some(mutation));
            Violation { what, workload: name.clone(), replay }
        });
        let (target, steps, elapsed) = (self.target, self.steps(), started.elapsed());
        Outcome { target, images, distinct: images, elapsed, steps, violation }
    }

    /// What is wrong, without any crash, when the commit stores of that name are not done at all.
    fn undone(&self, workload: &Workload<S>, mutation: &Mutation) -> Option<String> {
        let Workload { script, start, .. } = workload;
        let name = &mutation.step;
        let is_commit = |step: &&Step| step.name == name && step.kind.is_commit();
        STEPS.iter().find(is_commit)?;
        let recorder = Recorder::without(name);
        let run =
            || Recording::by(recorder, self.subject, start, &script.ops, script.first, self.cache);
        quietly(run).err()
    }

    fn wrong(
        &self,
        recording: &Recording<S>,
        broken: Broken<'_>,
        bounds: Bounds,
        images: &mut u64,
    ) -> Option<String> {
        let count = AtomicU64::new(0);
        let judged = |_: u64, _: Option<&[u8]>, _: u64| {
            count.fetch_add(1, Ordering::Relaxed);
            true
        };
        let oracle = Judge { subject: self.subject, recording, sample: 1, judged: &judged };
        let explored =
            Explorer::new(&recording.history, self.cache, &oracle).explore(Some(broken), bounds);
        *images += count.into_inner() + u64::from(explored.is_err());
        Some(describe(self.subject, recording, &explored.err()?))
    }
}
