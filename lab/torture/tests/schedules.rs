//! Threads on one tree, or one store, under schedules chosen by `shuttle`: what they return, and what a crash leaves.
//!
//! Shuttle runs its threads by turns on one thread of the system. A thread can lose its turn before each
//! step of the waist and wherever it waits for another.
//!
//! `TEMBO_SCHEDULES` is a factor for the number of plans, `TEMBO_SCHEDULE_SEED` where chance begins; a failure
//! prints the seed of its plan.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout)]

mod schedules {
    pub(crate) mod turns;
}

use std::collections::HashSet;
use std::time::Instant;

use schedules::turns::performances;
use tembo_sim::Bounds;
use tembo_torture::OF_THREADS;
use tembo_torture::threads::{Call, Cast, Execution, Plan, Sight};

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().unwrap())
}

fn bounds(seed: u64) -> Bounds {
    Bounds { all: 40, corners: 12, chance: 4, seed }
}

/// Every schedule of so many plans as it went, one in four as crashes leave it.
fn hold(cast: Cast, plans: u64) {
    let begin = Instant::now();
    let first = number("TEMBO_SCHEDULE_SEED", 1);
    let (mut schedules, mut images, mut overlapping) = (HashSet::new(), 0, 0);
    for seed in first..first + plans * number("TEMBO_SCHEDULES", 1) {
        let plan = Plan::random(cast, seed);
        println!("seed {seed}: {plan:?}");
        for (index, execution) in performances(&plan, seed).into_iter().enumerate() {
            let holds = |execution: &Execution| {
                execution.judge()?;
                if index % 4 == seed as usize % 4 { execution.crash(bounds(seed)) } else { Ok(0) }
            };
            let execution = execution.unwrap_or_else(|what| panic!("seed {seed}: {what}"));
            images += holds(&execution).unwrap_or_else(|what| {
                panic!("seed {seed}, schedule {index}, {:?}: {what}", plan.threads)
            });
            schedules.insert((seed, execution.schedule()));
            overlapping += u64::from(execution.overlaps());
        }
    }
    let found = schedules.len() as u64;
    println!(
        "{cast:?}: {found} schedules, {overlapping} overlap, {images} images, {:?}",
        begin.elapsed()
    );
    assert!(
        found > 4 * plans && overlapping > 4 * plans && images > 50 * plans,
        "{found} {images}"
    );
}

#[test]
fn writers_of_a_tree_that_was_just_opened() {
    hold(Cast::Opening, 600);
}

#[test]
fn writers_of_a_tree() {
    hold(Cast::Writers, 600);
}

#[test]
fn a_store() {
    hold(Cast::Store, 40);
}

/// Every schedule of a few of a plan, one in some as crashes leave it.
fn hold_plan(plan: &Plan) {
    for seed in 0..40 * number("TEMBO_SCHEDULES", 1) {
        for (index, execution) in performances(plan, seed).into_iter().enumerate() {
            let execution = execution.unwrap_or_else(|what| panic!("seed {seed}: {what}"));
            let crash = if index == 0 { execution.crash(bounds(seed)) } else { Ok(0) };
            let holds = execution.judge().and(crash);
            holds.unwrap_or_else(|what| panic!("seed {seed}, schedule {index}: {what}"));
        }
    }
}

#[test]
fn lanes_of_a_store_make_visible_what_is_fenced() {
    // Keys of two leaves, so that neither waits for the other's lock, and a thread that reads both.
    let put = |key| vec![Call::Put(key, 8), Call::Put(key, 8)];
    let look = vec![Call::View(0, 118), Call::View(118, 0)];
    hold_plan(&Plan { cast: Cast::Store, keys: 60, threads: vec![put(0), put(118), look] });
}

/// A reader that has found the element of its key copies the record when another thread may have put the key again, and given the
/// space of that record to another key.
#[test]
fn a_read_without_a_pin_copies_what_its_key_has() {
    // A group gives back what was unlinked. The first read of a thread takes a pin, and learns of the trees.
    let group = || Call::Group(vec![(6, 8)]);
    let write = vec![
        Call::Put(0, 40),
        Call::Put(0, 40),
        group(),
        Call::Put(4, 40),
        Call::Put(0, 40),
        group(),
        Call::Put(4, 40),
        Call::Put(2, 40),
    ];
    let read = vec![Call::Get(0); 8];
    hold_plan(&Plan { cast: Cast::Store, keys: 4, threads: vec![write, read] });
}

#[test]
fn a_remove_that_finds_nothing_is_followed_by_a_read_that_finds_nothing() {
    // While something of before the removal is under way.
    let threads = vec![
        vec![Call::Put(118, 8), Call::Put(118, 8)],
        vec![Call::Remove(0)],
        vec![Call::Remove(0), Call::Get(0)],
    ];
    hold_plan(&Plan { cast: Cast::Store, keys: 60, threads });
}

#[test]
fn transactions_that_come_at_a_time_commit_together_and_as_if_in_a_row() {
    let transact =
        |read, writes: [u8; 2]| vec![Call::Transact(read, writes.map(|key| (key, 8)).to_vec())];
    // The last meets the third, and the first: of those two each reads what the other writes.
    let threads =
        vec![transact(5, [0, 2]), transact(4, [4, 6]), transact(8, [8, 10]), transact(2, [5, 8])];
    let plan = Plan { cast: Cast::Store, keys: 6, threads };
    let (mut together, mut refused, mut images) = (0, 0, 0);
    for seed in 0..20 * number("TEMBO_SCHEDULES", 1) {
        for (index, execution) in performances(&plan, seed).into_iter().enumerate() {
            let execution = execution.unwrap_or_else(|what| panic!("seed {seed}: {what}"));
            let crash = if index == 0 { execution.crash(bounds(seed)) } else { Ok(0) };
            let holds = execution.judge().and(crash);
            images += holds.unwrap_or_else(|what| panic!("seed {seed}, schedule {index}: {what}"));
            let committed = 4 - execution.refused();
            together += u64::from(execution.count("kv.commit.word") < committed);
            refused += execution.refused();
        }
    }
    println!("{together} schedules with a batch, {refused} transactions refused, {images} images");
    assert!(together > 20 && refused > 20 && images > 200, "{together} {refused} {images}");
}

/// Leaves are merged by a thread that does not keep changes and reads of the same leaves out.
#[test]
fn a_collection_goes_on_beside_changes_of_its_leaves() {
    let plan = collecting();
    let (mut merged, mut overlapping, mut images) = (0, 0, 0);
    for seed in 0..40 * number("TEMBO_SCHEDULES", 1) {
        for (index, execution) in performances(&plan, seed).into_iter().enumerate() {
            let execution = execution.unwrap_or_else(|what| panic!("seed {seed}: {what}"));
            let merges = execution.count("nvtree.merge.link");
            let has_overlap = merges > 0 && execution.overlaps();
            let crash = if has_overlap { execution.crash(bounds(seed)) } else { Ok(0) };
            let holds = execution.judge().and(crash);
            images += holds.unwrap_or_else(|what| panic!("seed {seed}, schedule {index}: {what}"));
            (merged, overlapping) = (merged + merges, overlapping + u64::from(has_overlap));
        }
    }
    println!(
        "{merged} leaves merged; {overlapping} schedules in which others went on, {images} images"
    );
    assert!(merged > 100 && overlapping > 50 && images > 1000, "{merged} {overlapping} {images}");
}

/// A thread that removes keys of all leaves, one that changes keys of the leaves that go, and the background.
fn collecting() -> Plan {
    let remove = (0..9).map(|n| Call::Remove(4 * n)).collect();
    let change = vec![
        Call::Put(6, 8),
        Call::Put(46, 8),
        Call::View(6, 30),
        Call::Put(21, 8),
        Call::Put(52, 8),
        Call::Remove(30),
        Call::Put(34, 40),
    ];
    Plan { cast: Cast::Store, keys: 30, threads: vec![remove, change, vec![Call::Step; 12]] }
}

/// The fence behind a collected leaf, and that of a writer which gives the slots back. The second covers collections that the
/// writer itself has made, and none beside the slots; with it no schedule of these is caught.
const COLLECTED: [&str; 2] = ["nvtree.collect.fence", "kv.writer.fence"];

/// A change in a leaf that has taken in another one counts only if the link is durable before it.
#[test]
fn a_link_that_is_not_fenced_before_its_leaf_is_unlocked_is_caught() {
    // In a few schedules the image is damaged instead.
    let is_lost = |what: &String| what.contains("no order of the calls explains it");
    let what = (0..60).find_map(|seed| {
        performances(&collecting(), seed).into_iter().find_map(|execution| {
            let mut execution = execution.unwrap();
            execution.crash(bounds(1)).unwrap();
            let is_planted = execution.leave_out(&COLLECTED);
            is_planted.then(|| execution.crash(bounds(1)).err()).flatten().filter(is_lost)
        })
    });
    assert!(what.is_some(), "no call was lost");
}

/// What a split has left behind is merged away by another thread, after the last change of the thread that has split.
#[test]
fn what_a_split_leaves_behind_does_not_count_after_a_merge() {
    for last in LAST {
        let (mut merged, mut images) = (0, 0);
        for seed in 0..40 * number("TEMBO_SCHEDULES", 1) {
            for (index, execution) in performances(&splitting(last()), seed).into_iter().enumerate()
            {
                let execution = execution.unwrap_or_else(|what| panic!("seed {seed}: {what}"));
                if execution.count("nvtree.merge.link") == 0 {
                    continue;
                }
                let holds = execution.judge().and(execution.crash(bounds(seed)));
                images +=
                    holds.unwrap_or_else(|what| panic!("seed {seed}, schedule {index}: {what}"));
                merged += 1;
            }
        }
        println!("{:?}: {merged} schedules with a merge, {images} images", last());
        assert!(merged > 20 && images > 1000, "{merged} {images}");
    }
}

/// Another thread unlinks the leaf to which elements have moved only if they are durably erased where they were.
#[test]
fn what_is_erased_and_not_fenced_before_its_leaf_is_unlocked_is_caught() {
    for (step, last) in OF_THREADS.into_iter().zip(LAST) {
        let what = (0..40).find_map(|seed| {
            performances(&splitting(last()), seed).into_iter().find_map(|execution| {
                let mut execution = execution.unwrap();
                let is_planted = execution.leave_out(&[step]);
                is_planted.then(|| execution.crash(bounds(1)).err()).flatten()
            })
        });
        assert!(what.unwrap().contains("versions that have been, each once"));
    }
}

/// A split by a change that commits by itself, and one by a group that is taken back.
const LAST: [fn() -> Call; 2] = [|| Call::Put(4, 40), || Call::Abort(vec![(4, 40)])];

/// A thread that fills a leaf with keys that have records, and splits it with its last call; one that removes the keys that
/// have moved, and the background.
fn splitting(last: Call) -> Plan {
    let mut put = [24, 22, 18, 16, 12, 10, 6].map(|n| Call::Put(n, 40)).to_vec();
    put.push(last);
    // Enough removals for a collection.
    let mut remove = [12, 16, 18, 22, 24].map(Call::Remove).to_vec();
    remove.extend([24, 22, 18].into_iter().flat_map(|n| [Call::Put(n, 8), Call::Remove(n)]));
    Plan { cast: Cast::Store, keys: 1, threads: vec![put, remove, vec![Call::Step; 10]] }
}

#[test]
fn one_writer_of_groups_and_readers() {
    hold(Cast::Groups(Sight::Visible), 40);
}

/// What is wrong first, of the schedules of a few plans, with a bug planted.
fn missed(plans: &[Plan], plant: impl Fn(&mut Execution) -> bool) -> Option<String> {
    for (seed, plan) in plans.iter().enumerate() {
        for execution in performances(plan, seed as u64) {
            let mut execution = execution.unwrap();
            execution.judge().unwrap();
            if !plant(&mut execution) {
                continue;
            }
            if let Err(what) = execution.crash(bounds(1)) {
                return Some(what);
            }
        }
    }
    None
}

#[test]
fn a_fence_is_missed_though_another_thread_fences() {
    // The other's fence comes last: it guarantees nothing but its own.
    let put = |key| vec![Call::Put(key, 8)];
    let plan = Plan { cast: Cast::Writers, keys: 4, threads: vec![put(1), put(3)] };
    let plans = [plan];
    assert_eq!(missed(&plans, |_| true), None);
    let what = missed(&plans, |execution| execution.leave_out(&["nvtree.fast.fence"]));
    assert!(what.unwrap().contains("no order of the calls explains it"));
}

#[test]
fn a_reader_that_sees_what_is_not_fenced_is_caught() {
    let plans = |sight| {
        let threads = vec![vec![Call::Group(vec![(1, 8), (5, 8)])], vec![Call::Get(1)]];
        [Plan { cast: Cast::Groups(sight), keys: 4, threads }]
    };
    assert_eq!(missed(&plans(Sight::Visible), |_| true), None);
    let what = missed(&plans(Sight::Newest), |_| true);
    assert!(what.unwrap().contains("no order of the calls explains it"));
}

#[test]
fn what_depends_on_what_is_not_durable_is_caught() {
    // The second thread writes down what it has read of the first.
    let threads =
        vec![vec![Call::Group(vec![(1, 8)])], vec![Call::Get(1), Call::Put(3, 8), Call::Get(3)]];
    let plans = [Plan { cast: Cast::Writers, keys: 4, threads }];
    assert!(missed(&plans, |_| true).unwrap().contains("no order of the calls explains it"));
}

#[test]
fn one_seed_is_one_schedule() {
    let plan = Plan::random(Cast::Writers, 7);
    let of = || -> Vec<u64> {
        performances(&plan, 7).into_iter().map(|one| one.unwrap().schedule()).collect()
    };
    assert_eq!(of(), of());
}
