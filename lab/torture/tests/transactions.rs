//! Crashes of optimistic transactions: batches, and what is made in place before its commit.
#![allow(clippy::unwrap_used, clippy::panic)]

use tembo_torture::{Effort, Model, Mutation, Outcome, Structure, Target, Twist, explore};

const STARTS: [u8; 3] = [1, 2, 3];

fn look(structure: Structure, name: &str, images: u64, mutation: Option<&Mutation>) -> Outcome {
    let target = Target { structure, model: Model::Flush };
    let effort = Effort { workload: Some(name), ..Effort::of(1, images) };
    explore(target, &effort, mutation)
}

fn survives(structure: Structure) {
    let names = STARTS.iter().flat_map(|start| {
        let open = (0..5).map(move |which| format!("transactions-{start}-{which}"));
        open.chain((0..3).map(move |which| format!("transactions-in-flight-{start}-{which}")))
    });
    for name in names {
        let outcome = look(structure, &name, 400, None);
        assert!(outcome.images > 100, "{name}: {} images", outcome.images);
        if let Some(violation) = outcome.violation {
            panic!("{name}: {}\n{}", violation.what, violation.replay);
        }
    }
}

#[test]
fn over_the_nv_tree_they_are_there_or_not() {
    survives(Structure::Kv);
}

#[test]
fn over_the_b_tree_they_are_there_or_not() {
    survives(Structure::KvCdds);
}

#[test]
fn over_the_hash_index_they_are_there_or_not() {
    survives(Structure::KvHash);
}

#[test]
fn each_step_of_a_commit_is_missed() {
    for step in ["kv.commit.entries", "kv.commit.publish"] {
        let mutation = Mutation { step: step.to_owned(), twist: Twist::Dropped };
        let found = STARTS.iter().any(|start| {
            (0..5).any(|which| {
                let name = format!("transactions-{start}-{which}");
                look(Structure::Kv, &name, 3000, Some(&mutation)).violation.is_some()
            })
        });
        assert!(found, "{step} is not missed");
    }
}
