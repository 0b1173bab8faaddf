//! The proof that no step can be missed: with it broken, something is found.

use std::collections::BTreeSet;
use std::time::Instant;

use tembo_sim::{Bounds, Broken, Cache, Explorer, Redundancy};

use crate::campaign::{describe, starts};
use crate::judge::{Judge, quietly};
use crate::recording::Recording;
use crate::subject::Subject;
use crate::{Effort, Mutation, Outcome, Target, Twist, Violation, command, workload};

/// Some workloads of a structure, carried out once, to be explored with every mutation.
pub(crate) struct Proof<'p, S: Subject> {
    subject: &'p S,
    target: Target,
    cache: Cache,
    recordings: Vec<(String, Recording<S>)>,
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
        let mut recordings = Vec::new();
        for script in workload::some(subject, effort.seed) {
            let start = starts.get(script.start).ok_or("no such start")?.clone();
            let recording = quietly(|| {
                let start = start.lead(subject, &script)?;
                Recording::of(subject, &start, &script.ops, script.first, cache)
            });
            recordings.push((script.name.clone(), recording?));
        }
        Ok(Proof { subject, target, cache, recordings })
    }

    /// The steps that the workloads do.
    pub(crate) fn steps(&self) -> BTreeSet<&'static str> {
        let events = self.recordings.iter().flat_map(|(_, recording)| &recording.history.events);
        events.filter_map(|event| event.name()).collect()
    }

    /// What the workloads do in vain.
    pub(crate) fn redundancy(&self) -> Redundancy {
        let mut found = Redundancy::default();
        for (_, recording) in &self.recordings {
            found.add(&recording.history.events);
        }
        found
    }

    /// Looks for a violation with a step broken: first at few images of each crash, then at many.
    /// No images: the mutation changes nothing anywhere.
    pub(crate) fn explore(&self, mutation: &Mutation, effort: &Effort<'_>) -> Outcome {
        let started = Instant::now();
        let broken = match mutation.twist {
            Twist::Early => Broken::Early(&mutation.step),
            Twist::Dropped | Twist::Misplaced => Broken::Dropped(&mutation.step),
        };
        let mut outcome = Outcome {
            target: self.target,
            images: 0,
            distinct: 0,
            elapsed: started.elapsed(),
            steps: self.steps(),
            violation: None,
        };
        let few = Bounds { all: 1, corners: 2, chance: 0, seed: effort.seed };
        let many = Bounds { all: 64, corners: 64, chance: 16, seed: effort.seed };
        let reached =
            self.recordings.iter().filter(|(_, recording)| recording.reaches(&mutation.step));
        let reached: Vec<_> = reached.collect();
        'looked: for bounds in [few, many] {
            for (name, recording) in &reached {
                if effort.workload.is_some_and(|wanted| wanted != name) {
                    continue;
                }
                outcome.violation = self.violation(recording, broken, bounds, &mut outcome.images);
                if let Some(violation) = &mut outcome.violation {
                    violation.replay = command::replay(self.target, effort, name, Some(mutation));
                    violation.workload.clone_from(name);
                    break 'looked;
                }
                if outcome.images >= effort.images_max {
                    break 'looked;
                }
            }
        }
        outcome.distinct = outcome.images;
        outcome.elapsed = started.elapsed();
        outcome
    }

    fn violation(
        &self,
        recording: &Recording<S>,
        broken: Broken<'_>,
        bounds: Bounds,
        images: &mut u64,
    ) -> Option<Violation> {
        let count = std::sync::atomic::AtomicU64::new(0);
        let judged = |_: u64, _: Option<&[u8]>, _: u64| {
            count.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            true
        };
        let oracle = Judge { subject: self.subject, recording, sample: 1, judged: &judged };
        let explored =
            Explorer::new(&recording.history, self.cache, &oracle).explore(Some(broken), bounds);
        *images += count.into_inner() + u64::from(explored.is_err());
        let wrong = explored.err()?;
        let what = describe(self.subject, recording, &wrong);
        Some(Violation { what, workload: String::new(), replay: String::new() })
    }
}
