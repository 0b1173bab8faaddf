//! The region on a disk that loses power: a bounded exploration, and the proof that no step of the
//! disk can be missed. `TEMBO_CRASH_IMAGES=n` looks at n images.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]

use std::collections::BTreeSet;
use std::sync::Mutex;

use tembo_torture::{
    Effort, Model, STEPS, StepKind, Structure, Target, Twist, explore, mutations, prove,
};

const TARGET: Target = Target { structure: Structure::Region, model: Model::Logged };

#[test]
fn the_region_survives() {
    let images = std::env::var("TEMBO_CRASH_IMAGES").ok().and_then(|n| n.parse().ok());
    let usually = 25_000;
    let outcome = explore(TARGET, &Effort::of(1, images.unwrap_or(usually)), None);
    println!("{} images, {} distinct, {:?}", outcome.images, outcome.distinct, outcome.elapsed);
    if let Some(violation) = outcome.violation {
        panic!("{}: {}\n{}", violation.workload, violation.what, violation.replay);
    }
    assert!(outcome.images >= usually && outcome.distinct > 2_000);
}

/// Without any one of its steps, or with a sync that comes too late, something is found.
#[test]
fn no_step_of_the_disk_can_be_missed() {
    let all = mutations(Structure::Region);
    let survived = Mutex::new(Vec::new());
    prove(TARGET, &Effort::of(1, 120_000), &all, &|mutation, outcome| match &outcome.violation {
        Some(violation) => println!(
            "{} {:?}: {} after {} images",
            mutation.step, mutation.twist, violation.workload, outcome.images
        ),
        None => survived.lock().unwrap().push((mutation.clone(), outcome.images)),
    });
    let survived = survived.into_inner().unwrap();
    assert!(survived.is_empty(), "not missed: {survived:#?}");
    let dropped = all.iter().filter(|mutation| mutation.twist == Twist::Dropped);
    let dropped: BTreeSet<&str> = dropped.map(|mutation| mutation.step.as_str()).collect();
    let of_disks = STEPS.iter().filter(|step| step.kind == StepKind::Disk);
    assert!(of_disks.into_iter().all(|step| dropped.contains(step.name)));
}
