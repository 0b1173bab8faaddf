//! The whole stack: a store and what lies over it, or a heap, over a `logged` region, on a disk that loses power.
//!
//! The region alone is shown to keep exactly what some fence had made of it, and the store alone to
//! survive any image that keeps its fences; here the two are tried together, on a sample. A sequence
//! of operations by chance is carried out once, each synced before the next, and the disk is
//! remembered before each of its steps. At each of these points the process is killed, and the power is
//! lost in several ways. What is left is opened and must show the state before or after the
//! operation that was under way.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use tembo_pmem::{DomainRequest, RegionOptions, SyncPolicy};
use tembo_pool::{Geometry, PoolOptions};
use tembo_sim::{Chooser, Point, Random, Rest, SimDisk};

use crate::judge::{expect, quietly};
use crate::seen::Seen;
use crate::stacked::{Found, Stacked};
use crate::{Effort, Outcome, Target, Violation, command};

const POOL: &str = "/disk/pool";

/// A pool that has to grow.
const SIZE: (u64, u64) = (128 << 10, 1 << 20);
/// About the smallest in which a scrub finds room. The region's own workloads go around smaller ones.
const LOG_SIZE: u64 = 1 << 20;
const OPERATIONS: u64 = 40;
/// Power losses at each point of which chance says what they leave, beside all old and all new.
const BY_CHANCE: usize = 3;
/// Of one image in so many, the store goes on.
const GO_ON: u64 = 16;
const STEPS: u64 = 10;

/// Explores the stack: one sequence after another.
pub(crate) fn explore<S: Stacked>(subject: &S, target: Target, effort: &Effort<'_>) -> Outcome {
    let began = Instant::now();
    let (seen, mut images, mut steps) = (Seen::new(), 0, BTreeSet::new());
    let mut violation = None;
    for seed in effort.seed.. {
        let name = format!("random.{seed}");
        if effort.workload.is_some_and(|wanted| wanted != name) {
            if seed - effort.seed > effort.images_max {
                break;
            }
            continue;
        }
        let tried = quietly(|| {
            let sequence = Sequence::run(subject, seed)?;
            steps.extend(sequence.disk.steps());
            sequence.crash(effort, &seen, &mut images)
        });
        match tried {
            Ok(true) if effort.workload.is_none() => {}
            Ok(_) => break,
            Err(what) => {
                let replay = command::replay(target, effort, &name, None);
                violation = Some(Violation { what, workload: name, replay });
                break;
            }
        }
    }
    let (distinct, elapsed) = (seen.count(), began.elapsed());
    Outcome { target, images, distinct, elapsed, steps, violation }
}

fn options(disk: &SimDisk) -> PoolOptions {
    let region = RegionOptions {
        domain: DomainRequest::Logged,
        sync: SyncPolicy::Always,
        size_max: SIZE.1,
        log_size: LOG_SIZE,
        disk: Arc::new(disk.clone()),
        background: false,
        ..RegionOptions::default()
    };
    PoolOptions { size: SIZE.0, geometry: Geometry::TINY, region, ..PoolOptions::default() }
}

/// What was done, and what the store showed after each operation.
struct Sequence<'s, S: Stacked> {
    subject: &'s S,
    seed: u64,
    disk: SimDisk,
    points: Vec<Point>,
    /// `None`: there was nothing yet. The operation with number n led from one to the next.
    states: Vec<Option<S::State>>,
    operations: Vec<String>,
}

impl<'s, S: Stacked> Sequence<'s, S> {
    fn run(subject: &'s S, seed: u64) -> Result<Sequence<'s, S>, String> {
        let disk = SimDisk::default();
        let mut random = Random::new(seed);
        disk.record();
        let mut live = subject.create_at(Path::new(POOL), &options(&disk))?;
        let mut state = subject.empty();
        let mut states = vec![None, Some(state.clone())];
        let mut operations = vec!["making".to_owned()];
        for number in 0..OPERATIONS {
            disk.mark(states.len() as u64 - 1);
            // Now and then the process is another.
            let op = match subject.first_op() {
                Some(first) if number == 0 => first,
                _ => subject.random_op(&mut random),
            };
            if number > 0 && random.below(8) == 0 {
                match random.below(2) {
                    0 => drop(live),
                    // Checkpoints.
                    _ => Stacked::close(subject, live)?,
                }
                let found = subject.open_at(Path::new(POOL), &options(&disk))?;
                let Found::Live(again) = found else { return Err("it is there no more".into()) };
                live = again;
            }
            let done = subject.run(&mut live, &state, &op, number * 8 + 1);
            state = done.map_err(|what| format!("{op:?}: {what}"))?;
            subject.sync(&live)?;
            states.push(Some(state.clone()));
            operations.push(format!("{op:?}"));
        }
        disk.mark(states.len() as u64 - 1);
        states.push(Some(state));
        operations.push("nothing more".to_owned());
        drop(live);
        let points = disk.points();
        Ok(Sequence { subject, seed, disk, points, states, operations })
    }

    /// Whether to go on with another.
    fn crash(&self, effort: &Effort<'_>, seen: &Seen, images: &mut u64) -> Result<bool, String> {
        let mut random = Random::new(self.seed ^ 0x5eed);
        for (number, point) in self.points.iter().enumerate() {
            if *images >= effort.images_max || !(effort.progress)(*images) {
                return Ok(false);
            }
            let rests = (0..BY_CHANCE).map(|_| Rest::Random(Random::new(random.number())));
            let rests = [Rest::Old, Rest::New].into_iter().chain(rests);
            let disks = rests.map(|rest| point.snapshot.after_power_loss(Chooser::new(rest)));
            for disk in disks.chain([point.snapshot.after_kill()]) {
                let judged = self.judge(&disk, point.mark as usize);
                judged.map_err(|what| {
                    let operation = &self.operations[point.mark as usize];
                    format!("before {} ({number}), in {operation}: {what}", point.step)
                })?;
                *images += 1;
                seen.insert(disk.read_hash());
            }
        }
        Ok(true)
    }

    /// Opens what is left: it shows what was there before or after the operation, is sound, and now
    /// and then goes on.
    fn judge(&self, disk: &SimDisk, operation: usize) -> Result<(), String> {
        let (before, after) = (&self.states[operation], &self.states[operation + 1]);
        let mut live = match self.subject.open_at(Path::new(POOL), &options(disk))? {
            Found::Live(live) => live,
            Found::Nothing => return expect(before.is_none(), "there is no pool any more"),
            Found::Pool => {
                return expect(before.is_none(), "what was in the pool is there no more");
            }
        };
        let shown = self.subject.show(&mut live)?;
        let is_shown = |state: &Option<S::State>| state.as_ref() == Some(&shown);
        if !is_shown(before) && !is_shown(after) {
            return Err(format!("it shows {shown:?}\nand should {before:?}\nor {after:?}"));
        }
        self.subject.settle(&mut live)?;
        let is_same = self.subject.show(&mut live)? == shown;
        expect(is_same, "recovery has changed what is there")?;
        expect(self.subject.leaked(&live)? == 0, "something has leaked")?;
        self.subject.check_over(&mut live)?;
        if disk.read_hash().is_multiple_of(GO_ON) {
            go_on(self.subject, live, disk, shown)?;
        }
        Ok(())
    }
}

/// The store works on, and keeps what it did over a kill.
fn go_on<S: Stacked>(
    subject: &S,
    mut live: S::Live,
    disk: &SimDisk,
    mut state: S::State,
) -> Result<(), String> {
    let mut random = Random::new(disk.read_hash());
    for step in 0..STEPS {
        let op = subject.random_op(&mut random);
        let done = subject.run(&mut live, &state, &op, 10_000 + 8 * step);
        state = done.map_err(|what| format!("going on, {op:?}: {what}"))?;
    }
    subject.sync(&live)?;
    drop(live);
    let Found::Live(mut again) = subject.open_at(Path::new(POOL), &options(disk))? else {
        return Err("having gone on, there is nothing".into());
    };
    expect(subject.show(&mut again)? == state, "having gone on, it shows something else")
}
