//! The one entrance.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tembo_index::IndexKind;
use tembo_sim::{Random, Redundancy};

use crate::campaign::Campaign;
use crate::command;
use crate::devices::Devices;
use crate::fs::Files;
use crate::heap::Heaps;
use crate::kv::{Kv, Replicated};
use crate::pool::Pools;
use crate::proof::Proof;
use crate::region;
use crate::server::Served;
use crate::shared::Shared;
use crate::stack;
use crate::stores::TwoStores;
use crate::subject::Subject;
use crate::toys::Toys;
use crate::tree::{Keys, Tree};
use crate::{
    Effort, Model, Mutation, Outcome, STEPS, Step, StepKind, Structure, Target, Twist, Violation,
};

const CDDS: Tree = Tree { kind: IndexKind::Cdds, keys: Keys::Short };
const NVTREE: Tree = Tree { kind: IndexKind::Nvtree, keys: Keys::Short };
const HASH: Tree = Tree { kind: IndexKind::Hash, keys: Keys::Short };
const KV: Kv = Kv(IndexKind::Nvtree);
const FILES: Files = Files(IndexKind::Nvtree);
const KV_CDDS: Kv = Kv(IndexKind::Cdds);
const KV_HASH: Kv = Kv(IndexKind::Hash);
const ARRAY: Devices = Devices(IndexKind::Nvtree);
const ARRAY_CDDS: Devices = Devices(IndexKind::Cdds);

/// The whole stack is only looked at.
const NOT_BROKEN_HERE: &str =
    "the steps of what lies in a pool are broken in flush, and those of the disk in region";

/// Explores a structure on a medium; with a mutation, until that is found.
pub fn explore(target: Target, effort: &Effort<'_>, mutation: Option<&Mutation>) -> Outcome {
    let explored = match target.structure {
        Structure::Region if target.model == Model::Logged => Ok(region::explore(effort, mutation)),
        Structure::Kv | Structure::Fs | Structure::Heap
            if target.model == Model::Logged && mutation.is_some() =>
        {
            Err(NOT_BROKEN_HERE.to_owned())
        }
        Structure::Kv if target.model == Model::Logged => Ok(stack::explore(&KV, target, effort)),
        Structure::Fs if target.model == Model::Logged => {
            Ok(stack::explore(&FILES, target, effort))
        }
        Structure::Heap if target.model == Model::Logged => {
            Ok(stack::explore(&Heaps, target, effort))
        }
        Structure::Pool => explore_one(&Pools, target, effort, mutation, 61),
        Structure::Log => explore_one(&Toys, target, effort, mutation, 61),
        Structure::Heap => explore_one(&Heaps, target, effort, mutation, 61),
        Structure::Cdds => explore_tree(&CDDS, target, effort, mutation),
        Structure::Nvtree => explore_tree(&NVTREE, target, effort, mutation),
        Structure::Hash => explore_tree(&HASH, target, effort, mutation),
        Structure::Kv => explore_one(&KV, target, effort, mutation, 4099),
        Structure::KvCdds => explore_one(&KV_CDDS, target, effort, mutation, 4099),
        Structure::KvHash => explore_one(&KV_HASH, target, effort, mutation, 4099),
        Structure::Replica => explore_one(&Replicated, target, effort, mutation, 4099),
        Structure::Shared => explore_one(&Shared, target, effort, mutation, 4099),
        Structure::Stores => explore_one(&TwoStores, target, effort, mutation, 4099),
        Structure::Array => explore_one(&ARRAY, target, effort, mutation, 4099),
        Structure::ArrayCdds => explore_one(&ARRAY_CDDS, target, effort, mutation, 4099),
        Structure::Server => explore_one(&Served, target, effort, mutation, 4099),
        Structure::Fs => explore_one(&FILES, target, effort, mutation, 4099),
        Structure::Region => Err("the region is explored on a disk: logged".to_owned()),
    };
    explored.unwrap_or_else(|what| failed(target, what))
}

/// Explores one sequence of operations, each given by a number of which chance makes it.
///
/// # Errors
/// What is wrong.
pub fn explore_sequence(target: Target, ops: &[u32]) -> Result<(), String> {
    match target.structure {
        Structure::Pool => sequence(&Pools, target, ops),
        Structure::Log => sequence(&Toys, target, ops),
        Structure::Heap => sequence(&Heaps, target, ops),
        Structure::Cdds => sequence(&CDDS, target, ops),
        Structure::Nvtree => sequence(&NVTREE, target, ops),
        Structure::Hash => sequence(&HASH, target, ops),
        Structure::Kv => sequence(&KV, target, ops),
        Structure::KvCdds => sequence(&KV_CDDS, target, ops),
        Structure::KvHash => sequence(&KV_HASH, target, ops),
        Structure::Replica => sequence(&Replicated, target, ops),
        Structure::Shared => sequence(&Shared, target, ops),
        Structure::Stores => sequence(&TwoStores, target, ops),
        Structure::Array => sequence(&ARRAY, target, ops),
        Structure::ArrayCdds => sequence(&ARRAY_CDDS, target, ops),
        Structure::Server => sequence(&Served, target, ops),
        Structure::Fs => sequence(&FILES, target, ops),
        Structure::Region => Ok(()),
    }
}

/// Every mutation that a structure's workloads are to find.
pub fn mutations(structure: Structure) -> Vec<Mutation> {
    let first = match structure {
        Structure::Region => return region::mutations(),
        Structure::Shared => {
            return vec![Mutation { step: SWEEP.to_owned(), twist: Twist::Dropped }];
        }
        // The steps of what lies below are broken there: of a store over the hash index in `kv` and `hash`.
        Structure::KvHash
        | Structure::Stores
        | Structure::Array
        | Structure::ArrayCdds
        | Structure::Server
        | Structure::Fs => return Vec::new(),
        Structure::Kv | Structure::KvCdds | Structure::Replica => "kv",
        Structure::Log => "pool",
        // It has the steps of the leaves, and no others.
        Structure::Hash => "nvtree",
        Structure::Heap => "heap",
        Structure::Pool | Structure::Cdds | Structure::Nvtree => structure.name(),
    };
    let twists = |step: &Step| -> &'static [Twist] {
        match step.kind {
            StepKind::Flush | StepKind::Fence | StepKind::Commit => &[Twist::Dropped],
            StepKind::CommitAfter => &[Twist::Dropped, Twist::Early],
            StepKind::Disk => &[],
        }
    };
    // Roots that have versions, and can be void, are only in one kind of index.
    let needs_roots = |step: &Step| step.name == "kv.scrub.roots";
    // A merge carries records only under a shorter prefix: scattered keys of a small tree have none in common.
    let needs_prefixes = |step: &Step| step.name == "nvtree.merge.record.fence";
    // Those of the pool's log are reached by what uses it.
    let is_of_log = |step: &Step| step.name.starts_with("pool.log.");
    // A replica raises the limit, commits and forgets what is dead for versions that it is given, some of them again.
    let is_of_replica = |step: &Step| {
        ["kv.limit.", "kv.commit.", "kv.dead."].iter().any(|prefix| step.name.starts_with(prefix))
    };
    let needs_replica = |step: &Step| step.name.starts_with("kv.dead.forget.");
    // And those of its words and new objects by the heap.
    let is_of_words = |step: &Step| WORDS.contains(&step.name);
    // Only a store gives back what a collection has unlinked.
    let needs_store = |step: &Step| step.name == "nvtree.collect.fence";
    let is_of = |step: &&Step| {
        if is_of_words(step) {
            return structure == Structure::Heap;
        }
        if needs_store(step) {
            return structure == Structure::Kv;
        }
        step.name.split('.').next() == Some(first)
            && is_of_log(step) == (structure == Structure::Log)
            && step.name != SWEEP
            && !OF_THREADS.contains(&step.name)
            && (structure != Structure::Hash || !needs_prefixes(step))
            && needs_roots(step) == (structure == Structure::KvCdds)
            && (structure != Structure::Replica || is_of_replica(step))
            && (structure == Structure::Replica || !needs_replica(step))
    };
    let steps = STEPS.iter().filter(|step| step.kind != StepKind::Disk).filter(is_of);
    steps
        .flat_map(|step| {
            let mutation = |&twist: &Twist| Mutation { step: step.name.to_owned(), twist };
            twists(step).iter().map(mutation)
        })
        .collect()
}

/// What must not matter: commit stores of which the source does not say what they come after, come
/// early.
pub fn harmless(structure: Structure) -> Vec<Mutation> {
    let all = mutations(structure).into_iter().filter(|mutation| {
        let kind = STEPS.iter().find(|step| step.name == mutation.step).map(|step| step.kind);
        kind == Some(StepKind::Commit)
    });
    all.map(|mutation| Mutation { twist: Twist::Early, ..mutation }).collect()
}

/// Tries several mutations, each passed to `each` when it is done.
pub fn prove(
    target: Target,
    effort: &Effort<'_>,
    mutations: &[Mutation],
    each: &(dyn Fn(&Mutation, &Outcome) + Sync),
) {
    let proved = match target.structure {
        Structure::Region if target.model == Model::Logged => {
            let one = |mutation: &Mutation| region::explore(effort, Some(mutation));
            by_two(mutations, &one, each);
            Ok(())
        }
        Structure::Kv | Structure::Fs | Structure::Heap if target.model == Model::Logged => {
            Err(NOT_BROKEN_HERE.to_owned())
        }
        Structure::Pool => prove_one(&Pools, target, effort, mutations, each),
        Structure::Log => prove_one(&Toys, target, effort, mutations, each),
        Structure::Heap => prove_one(&Heaps, target, effort, mutations, each),
        Structure::Cdds => prove_one(&CDDS, target, effort, mutations, each),
        Structure::Nvtree => prove_one(&NVTREE, target, effort, mutations, each),
        Structure::Hash => prove_one(&HASH, target, effort, mutations, each),
        Structure::Kv => prove_one(&KV, target, effort, mutations, each),
        Structure::KvCdds => prove_one(&KV_CDDS, target, effort, mutations, each),
        Structure::Replica => prove_one(&Replicated, target, effort, mutations, each),
        Structure::Shared => prove_one(&Shared, target, effort, mutations, each),
        Structure::Region
        | Structure::KvHash
        | Structure::Stores
        | Structure::Array
        | Structure::ArrayCdds
        | Structure::Server
        | Structure::Fs => Err(NOT_BROKEN_HERE.to_owned()),
    };
    if let (Err(what), Some(first)) = (proved, mutations.first()) {
        each(first, &failed(target, what));
    }
}

/// What the structure's workloads do in vain.
///
/// # Errors
/// A workload does not even work without a crash.
pub fn redundancy(target: Target, effort: &Effort<'_>) -> Result<Redundancy, String> {
    match target.structure {
        Structure::Pool => Ok(Proof::new(&Pools, target, effort)?.redundancy()),
        Structure::Log => Ok(Proof::new(&Toys, target, effort)?.redundancy()),
        Structure::Heap => Ok(Proof::new(&Heaps, target, effort)?.redundancy()),
        Structure::Cdds => Ok(Proof::new(&CDDS, target, effort)?.redundancy()),
        Structure::Nvtree => Ok(Proof::new(&NVTREE, target, effort)?.redundancy()),
        Structure::Hash => Ok(Proof::new(&HASH, target, effort)?.redundancy()),
        Structure::Kv => Ok(Proof::new(&KV, target, effort)?.redundancy()),
        Structure::KvCdds => Ok(Proof::new(&KV_CDDS, target, effort)?.redundancy()),
        Structure::KvHash => Ok(Proof::new(&KV_HASH, target, effort)?.redundancy()),
        Structure::Array => Ok(Proof::new(&ARRAY, target, effort)?.redundancy()),
        Structure::ArrayCdds => Ok(Proof::new(&ARRAY_CDDS, target, effort)?.redundancy()),
        Structure::Replica => Ok(Proof::new(&Replicated, target, effort)?.redundancy()),
        _ => Ok(Redundancy::default()),
    }
}

fn sequence<S: Subject>(subject: &S, target: Target, ops: &[u32]) -> Result<(), String> {
    let op = |&number: &u32| subject.random_op(&mut Random::new(number.into()));
    let ops: Vec<S::Op> = ops.iter().map(op).collect();
    let effort = Effort::of(1, u64::MAX);
    Campaign::new(subject, target, &effort, u64::MAX)?.wrong_with(1, &ops).map_or(Ok(()), Err)
}

fn explore_one<S: Subject>(
    subject: &S,
    target: Target,
    effort: &Effort<'_>,
    mutation: Option<&Mutation>,
    keep: u64,
) -> Result<Outcome, String> {
    match mutation {
        None => Ok(Campaign::new(subject, target, effort, keep)?.run()),
        Some(mutation) => Ok(Proof::new(subject, target, effort)?.explore(mutation, effort)),
    }
}

/// The steps that only matter where several threads change a tree: their schedules miss them.
pub const OF_THREADS: [&str; 2] = ["nvtree.erase.fence", "kv.writer.fence"];

/// The step of the pool's log that only matters where what is swept becomes another's, which does without the log.
const SWEEP: &str = "pool.log.sweep.fence";

/// The steps of the pool's log that only a heap takes.
const WORDS: [&str; 5] = [
    "pool.log.contents.fence",
    "pool.log.extent",
    "pool.log.seal.fence",
    "pool.log.settle.fence",
    "pool.log.void.fence",
];

/// What the names of workloads begin with that have the longest keys.
const LONGEST: &str = "longest.";
/// Of so many images one is of a tree whose keys are as long as they may be.
const LONGEST_SHARE: u64 = 50;

/// Explores a tree: most images with short keys, some with the longest.
fn explore_tree(
    tree: &Tree,
    target: Target,
    effort: &Effort<'_>,
    mutation: Option<&Mutation>,
) -> Result<Outcome, String> {
    let longest = Tree { keys: Keys::Longest, ..*tree };
    let named = effort.workload.map(|name| name.strip_prefix(LONGEST).ok_or(name));
    let share = match named {
        Some(Ok(name)) => Effort { workload: Some(name), ..*effort },
        None if mutation.is_none() => {
            Effort { images_max: effort.images_max / LONGEST_SHARE, ..*effort }
        }
        _ => return explore_one(tree, target, effort, mutation, 251),
    };
    let mut first = explore_one(&longest, target, &share, mutation, 251)?;
    if let Some(violation) = &mut first.violation {
        violation.workload.insert_str(0, LONGEST);
        violation.replay = command::replay(target, effort, &violation.workload, mutation);
    }
    if first.violation.is_some() || named.is_some() {
        return Ok(first);
    }
    let rest = explore_one(tree, target, effort, None, 251)?;
    Ok(Outcome {
        images: first.images + rest.images,
        distinct: first.distinct + rest.distinct,
        elapsed: first.elapsed + rest.elapsed,
        steps: &first.steps | &rest.steps,
        ..rest
    })
}

fn prove_one<S: Subject>(
    subject: &S,
    target: Target,
    effort: &Effort<'_>,
    mutations: &[Mutation],
    each: &(dyn Fn(&Mutation, &Outcome) + Sync),
) -> Result<(), String> {
    let proof = Proof::new(subject, target, effort)?;
    by_two(mutations, &|mutation| proof.explore(mutation, effort), each);
    Ok(())
}

/// Two threads share the mutations.
fn by_two(
    mutations: &[Mutation],
    explore: &(dyn Fn(&Mutation) -> Outcome + Sync),
    each: &(dyn Fn(&Mutation, &Outcome) + Sync),
) {
    let next = AtomicUsize::new(0);
    let work = || {
        while let Some(mutation) = mutations.get(next.fetch_add(1, Ordering::Relaxed)) {
            each(mutation, &explore(mutation));
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(work);
        scope.spawn(work);
    });
}

fn failed(target: Target, what: String) -> Outcome {
    let violation = Violation { what, workload: String::new(), replay: String::new() };
    Outcome {
        target,
        images: 0,
        distinct: 0,
        elapsed: Duration::ZERO,
        steps: BTreeSet::new(),
        violation: Some(violation),
    }
}
