//! The region on a disk that loses power: creation, opening, redo log, checkpoint, growth, records
//! beside the log.
//!
//! A *workload* is a script for processes on one pool. It is carried out once, and the disk is
//! remembered before each of its steps; at each of these points the process is killed, and the power
//! is lost in as many ways as there are, or as can be tried. What is left is opened, again with a
//! crash before each step of that, and must hold a state that was promised: exactly that of some
//! fence, at or after the last one that was synced.

mod behind;
mod explorer;
mod judge;
mod life;
mod model;
mod trial;
mod workload;

use std::time::Instant;

use tembo_sim::{Random, Slip};

use crate::judge::quietly;
use crate::{
    Effort, Model, Mutation, Outcome, STEPS, StepKind, Structure, Target, Twist, Violation, command,
};
use explorer::{Explorer, Stop};
use workload::Workload;

const TARGET: Target = Target { structure: Structure::Region, model: Model::Logged };

/// Syncs that come too late, and the step that they come behind.
const LATE: &[(&str, &str)] = &[
    ("close.header_sync", "close.truncate"),
    ("create.sync_before_link", "open.sync_dir"),
    ("grow.sync_before_size", "grow.size_sync"),
    ("log.sync_before_bypass", "log.sync"),
    ("log.sync_before_checkpoint", "pool.checkpoint_sync"),
    ("log.sync_before_rename", "log.sync_dir"),
    ("log.sync_dir", "open.generation_sync"),
    ("log.vouch_sync", "log.trim_sync"),
    ("pool.checkpoint_sync", "log.trim_sync"),
    ("pool.extent_sync", "log.sync"),
    ("pool.hole_sync", "log.sync"),
];

/// The name under which [`behind`] is found.
const BEHIND: &str = "behind";

/// Workloads among which one is looked for by name.
const NAMED_MAX: usize = 100_000;

/// Explores the region, with the program as wrong as `mutation` says.
pub(crate) fn explore(effort: &Effort<'_>, mutation: Option<&Mutation>) -> Outcome {
    let began = Instant::now();
    let slip = mutation.and_then(slip);
    let mut explorer = Explorer::new(effort);
    let mut violation = None;
    if effort.workload.is_none_or(|name| name == BEHIND)
        && let Err(what) = quietly(|| behind::look_behind(slip.as_ref()))
    {
        violation = Some(described(effort, BEHIND, mutation, what));
    }
    let mut random = Random::new(effort.seed);
    let by_chance = (0..).map(|number| workload::random(&mut random, number));
    let all = workload::named().into_iter().chain(workload::sequences()).chain(by_chance);
    // What is broken is mostly found at the first look.
    let first = if mutation.is_some() { workload::named() } else { Vec::new() };
    let looks = first.len();
    let all = first.into_iter().chain(all).enumerate();
    let wanted = |(_, workload): &(usize, Workload)| {
        effort.workload.is_none_or(|name| name == workload.name)
    };
    // One that is asked for by name may be any of chance's first ones.
    let all = all.take(if effort.workload.is_some() { NAMED_MAX } else { usize::MAX });
    for (look, workload) in all.filter(wanted) {
        explorer.is_narrow = look < looks;
        if violation.is_some() {
            break;
        }
        match trial::try_out(&mut explorer, &workload, slip.as_ref()) {
            Ok(()) => {}
            Err(Stop::Enough) => break,
            Err(Stop::Wrong(what)) => {
                violation = Some(described(effort, &workload.name, mutation, what));
                break;
            }
        }
    }
    Outcome {
        target: TARGET,
        images: explorer.images,
        distinct: explorer.seen.len() as u64,
        elapsed: began.elapsed(),
        steps: explorer.steps,
        violation,
    }
}

fn slip(mutation: &Mutation) -> Option<Slip> {
    let step = mutation.step.clone();
    match mutation.twist {
        Twist::Dropped => Some(Slip::Dropped { step }),
        Twist::Misplaced => {
            let (_, until) = LATE.iter().find(|(late, _)| *late == step)?;
            Some(Slip::Late { step, until: (*until).to_owned() })
        }
        Twist::Early => None,
    }
}

/// Every step of a disk left out, and the syncs that come too late.
pub(crate) fn mutations() -> Vec<Mutation> {
    let mutation = |step: &str, twist| Mutation { step: step.to_owned(), twist };
    let steps = STEPS.iter().filter(|step| step.kind == StepKind::Disk);
    let dropped = steps.map(|step| mutation(step.name, Twist::Dropped));
    dropped.chain(LATE.iter().map(|(step, _)| mutation(step, Twist::Misplaced))).collect()
}

fn described(
    effort: &Effort<'_>,
    workload: &str,
    mutation: Option<&Mutation>,
    what: String,
) -> Violation {
    let replay = command::replay(TARGET, effort, workload, mutation);
    Violation { what, workload: workload.to_owned(), replay }
}
