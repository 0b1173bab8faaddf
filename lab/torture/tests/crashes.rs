//! A bounded exploration of every structure, and the proof that no step of pool, index and store can
//! be missed. `TEMBO_CRASH_IMAGES=n` looks at n images of each structure; `TEMBO_SEQUENCES` is a factor for the
//! number of sequences by chance, `TEMBO_SEQUENCE_SEED` where chance begins.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]

use std::collections::BTreeSet;
use std::sync::Mutex;

use tembo_torture::{
    Effort, Model, Mutation, OF_THREADS, Outcome, STEPS, Structure, Target, explore,
    explore_sequence, harmless, mutations, prove,
};

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

fn images(usually: u64) -> u64 {
    number("TEMBO_CRASH_IMAGES").unwrap_or(usually)
}

fn survives(structure: Structure, model: Model, usually: u64) {
    let target = Target { structure, model };
    let outcome = explore(target, &Effort::of(1, images(usually)), None);
    let name = structure.name();
    println!("{name}, {}: {} images, {} distinct", model.name(), outcome.images, outcome.distinct);
    if let Some(violation) = outcome.violation {
        panic!("{}: {}\n{}", violation.workload, violation.what, violation.replay);
    }
    // Where nothing is ever cached most crashes are in the middle of what is not read yet.
    let distinct = if model == Model::Flush { usually / 20 } else { 30 };
    assert!(outcome.images >= usually && outcome.distinct >= distinct);
    assert!(outcome.steps.len() > 10);
}

#[test]
fn the_pool_survives() {
    survives(Structure::Pool, Model::Flush, 40_000);
    survives(Structure::Pool, Model::Eadr, 10_000);
}

#[test]
fn the_pools_log_survives() {
    survives(Structure::Log, Model::Flush, 40_000);
    survives(Structure::Log, Model::Eadr, 10_000);
}

#[test]
fn the_heap_survives() {
    survives(Structure::Heap, Model::Flush, 40_000);
    survives(Structure::Heap, Model::Eadr, 10_000);
    survives(Structure::Heap, Model::Logged, 3_000);
}

#[test]
fn a_store_and_a_heap_in_one_pool_survive() {
    survives(Structure::Shared, Model::Flush, 20_000);
    survives(Structure::Shared, Model::Eadr, 5_000);
}

#[test]
fn the_file_system_survives() {
    survives(Structure::Fs, Model::Flush, 10_000);
    survives(Structure::Fs, Model::Eadr, 4_000);
    survives(Structure::Fs, Model::Logged, 3_000);
}

#[test]
fn two_stores_in_one_pool_survive() {
    survives(Structure::Stores, Model::Flush, 5_000);
    survives(Structure::Stores, Model::Eadr, 4_000);
}

#[test]
fn a_replica_survives() {
    survives(Structure::Replica, Model::Flush, 10_000);
    survives(Structure::Replica, Model::Eadr, 2_000);
}

#[test]
fn the_tree_survives() {
    survives(Structure::Cdds, Model::Flush, 40_000);
    survives(Structure::Cdds, Model::Eadr, 10_000);
}

#[test]
fn the_nv_tree_survives() {
    survives(Structure::Nvtree, Model::Flush, 40_000);
    survives(Structure::Nvtree, Model::Eadr, 10_000);
}

/// After a recovery a leaf's side-car can lack keys of which only the history knows: to remove one is no removal of nothing.
#[test]
fn a_removal_finds_a_key_that_only_the_history_has() {
    let workloads = [(Structure::Nvtree, "random.41"), (Structure::Hash, "random.22")];
    for (structure, workload) in workloads {
        let target = Target { structure, model: Model::Eadr };
        let effort = Effort { workload: Some(workload), ..Effort::of(14, 20_000) };
        let violation = explore(target, &effort, None).violation;
        assert!(violation.is_none(), "{}", violation.unwrap().what);
    }
}

#[test]
fn the_hash_index_survives() {
    survives(Structure::Hash, Model::Flush, 20_000);
    survives(Structure::Hash, Model::Eadr, 5_000);
}

#[test]
fn the_store_survives() {
    survives(Structure::Kv, Model::Flush, 40_000);
    survives(Structure::Kv, Model::Eadr, 10_000);
}

#[test]
fn the_store_over_the_b_tree_survives() {
    survives(Structure::KvCdds, Model::Flush, 20_000);
    survives(Structure::KvCdds, Model::Eadr, 5_000);
}

#[test]
fn the_store_over_the_hash_index_survives() {
    survives(Structure::KvHash, Model::Flush, 20_000);
    survives(Structure::KvHash, Model::Eadr, 5_000);
}

/// An entry of the catalogue that no retained version needs can name a record whose space was given to others.
#[test]
fn an_open_reads_of_the_catalogue_what_a_retained_version_needs() {
    let target = Target { structure: Structure::KvCdds, model: Model::Flush };
    let effort = Effort { workload: Some("void-root-4"), ..Effort::of(1, 50_000) };
    let violation = explore(target, &effort, None).violation;
    assert!(violation.is_none(), "{}", violation.unwrap().what);
}

/// A torn group of the log had, in the place of the frontier, an older one with its checksum: CRC-32C did not see it.
#[test]
fn a_torn_group_with_an_older_frontier_is_not_believed() {
    let target = Target { structure: Structure::Fs, model: Model::Logged };
    let effort = Effort { workload: Some("random.34"), ..Effort::of(14, 2_000) };
    let violation = explore(target, &effort, None).violation;
    assert!(violation.is_none(), "{}", violation.unwrap().what);
}

#[test]
fn devices_survive() {
    survives(Structure::Array, Model::Flush, 6_000);
    survives(Structure::Array, Model::Eadr, 2_000);
    survives(Structure::ArrayCdds, Model::Flush, 4_000);
}

#[test]
fn the_server_survives() {
    survives(Structure::Server, Model::Flush, 10_000);
    survives(Structure::Server, Model::Eadr, 2_000);
}

#[test]
fn the_store_survives_on_a_disk_that_loses_power() {
    survives(Structure::Kv, Model::Logged, 10_000);
}

/// Without any one of its steps, or with a commit store too early, something is found.
fn misses_every_step(structure: Structure) {
    let target = Target { structure, model: Model::Flush };
    let all = mutations(structure);
    assert!(!all.is_empty());
    let (survived, tried) = (Mutex::new(Vec::new()), Mutex::new(Vec::new()));
    prove(target, &Effort::of(1, 60_000), &all, &|mutation, outcome| {
        tried.lock().unwrap().push(mutation.clone());
        if outcome.violation.is_none() {
            survived.lock().unwrap().push((mutation.clone(), outcome.images));
        }
    });
    let (survived, tried) = (survived.into_inner().unwrap(), tried.into_inner().unwrap());
    assert!(all.iter().all(|mutation| tried.contains(mutation)), "tried only {tried:#?}");
    assert!(survived.is_empty(), "not missed: {survived:#?}");
}

#[test]
fn no_step_of_the_pool_can_be_missed() {
    misses_every_step(Structure::Pool);
}

#[test]
fn no_step_of_the_pools_log_can_be_missed() {
    misses_every_step(Structure::Log);
}

#[test]
fn no_step_between_a_heap_and_a_store_can_be_missed() {
    misses_every_step(Structure::Shared);
}

#[test]
fn no_step_of_the_heap_can_be_missed() {
    misses_every_step(Structure::Heap);
}

#[test]
fn no_step_of_the_tree_can_be_missed() {
    misses_every_step(Structure::Cdds);
}

#[test]
fn no_step_of_the_nv_tree_can_be_missed() {
    misses_every_step(Structure::Nvtree);
}

#[test]
fn no_step_of_the_hash_index_can_be_missed() {
    misses_every_step(Structure::Hash);
}

#[test]
fn no_step_of_the_store_can_be_missed() {
    misses_every_step(Structure::Kv);
    misses_every_step(Structure::KvCdds);
}

#[test]
fn no_step_of_a_replica_can_be_missed() {
    misses_every_step(Structure::Replica);
}

/// A commit store that comes after nothing may be early; else its `ORDER:` is to say so.
#[test]
fn what_comes_after_nothing_may_come_early() {
    for structure in [Structure::Pool, Structure::Cdds, Structure::Nvtree, Structure::Kv] {
        let target = Target { structure, model: Model::Flush };
        let all = harmless(structure);
        assert!(!all.is_empty());
        let each = |mutation: &Mutation, outcome: &Outcome| {
            let what = outcome.violation.as_ref().map(|violation| &violation.what);
            assert!(what.is_none(), "{}: {}", mutation.step, what.unwrap());
        };
        prove(target, &Effort::of(1, 1500), &all, &each);
    }
}

#[test]
fn every_named_step_above_the_waist_is_tried() {
    let tried: BTreeSet<String> =
        Structure::ALL.into_iter().flat_map(mutations).map(|mutation| mutation.step).collect();
    let above = STEPS.iter().filter(|step| ["pool", "index", "kv"].contains(&step.room));
    let is_tried = |name: &&str| tried.contains(*name) || OF_THREADS.contains(name);
    let missing: Vec<&str> = above.map(|step| step.name).filter(|name| !is_tried(name)).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

/// Sequences by chance, which shrink when one of them is wrong.
mod sequences {
    use super::*;
    use proptest::prelude::*;
    use proptest::test_runner::RngSeed;

    proptest! {
        #![proptest_config(ProptestConfig {
            cases: 200 * number("TEMBO_SEQUENCES").unwrap_or(1) as u32,
            rng_seed: RngSeed::Fixed(number("TEMBO_SEQUENCE_SEED").unwrap_or(1)),
            failure_persistence: None,
            ..ProptestConfig::default()
        })]

        #[test]
        fn of_any_operations_survive(
            structure in prop::sample::select(vec![
                Structure::Pool,
                Structure::Log,
                Structure::Heap,
                Structure::Cdds,
                Structure::Nvtree,
                Structure::Hash,
                Structure::Kv,
                Structure::KvCdds,
                Structure::KvHash,
                Structure::Replica,
                Structure::Shared,
                Structure::Stores,
                Structure::Array,
                Structure::ArrayCdds,
                Structure::Server,
                Structure::Fs,
            ]),
            ops in prop::collection::vec(any::<u32>(), 1..12),
        ) {
            let target = Target { structure, model: Model::Flush };
            prop_assert_eq!(explore_sequence(target, &ops), Ok(()));
        }
    }
}
