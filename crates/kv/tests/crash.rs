//! The adversary: every image that a crash could leave of a store, in the `flush` model; and the
//! proof that no flush, fence or commit store of the index and the store can be left out.
//!
//! `TEMBO_CRASH_ROUNDS=n` looks n times as far, `TEMBO_CRASH_FULL=1` asks all of every image, and
//! `TEMBO_CRASH_STEP=name` proves the steps of that name only. A failure names its operations and
//! its crash point; all seeds are fixed.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]

#[path = "crash/history.rs"]
mod history;
#[path = "crash/images.rs"]
mod images;
#[path = "crash/judge.rs"]
mod judge;
#[path = "crash/model.rs"]
mod model;
#[path = "crash/proof.rs"]
mod proof;
#[path = "crash/random.rs"]
mod random;
#[path = "crash/recorder.rs"]
mod recorder;

use std::collections::HashSet;

use tembo_pmem::{Region, RegionOptions};
use tembo_pool::{Geometry, Pool};

use history::{Bounds, History, Judged};
use images::Broken;
use judge::Effort;
use model::{Op, State};
use random::Random;

const SIZE: u64 = 256 << 10;

fn rounds() -> usize {
    std::env::var("TEMBO_CRASH_ROUNDS").ok().and_then(|n| n.parse().ok()).unwrap_or(1)
}

/// A pool without a store.
fn bare() -> Vec<u8> {
    let options = RegionOptions { size_max: SIZE, ..RegionOptions::default() };
    let region = Region::volatile(SIZE, &options).unwrap();
    Pool::format(&region, Geometry::TINY).unwrap();
    region.bytes(0, SIZE).unwrap().to_vec()
}

/// Makes a store first.
fn prefill_from(ops: &[Op], first: usize) -> History {
    History::record(&bare(), &State { absent: true, ..State::default() }, ops, first)
}

fn prefill(ops: &[Op]) -> History {
    prefill_from(ops, usize::MAX)
}

fn bounds(images: usize, sample: usize) -> Bounds {
    let sample = if std::env::var_os("TEMBO_CRASH_FULL").is_some() { 1 } else { sample };
    Bounds { images, effort: Effort { steps: 20, again: true }, sample }
}

fn starts() -> Vec<History> {
    let x = || Op::Keyspace("x");
    let tx = |keys: std::ops::Range<u8>| Op::Tx(keys.map(|k| (k, Some(20))).collect());
    vec![
        prefill(&[x(), tx(0..3)]),
        prefill(&[x(), tx(0..6), Op::Save("s"), tx(4..9), Op::Single(1), Op::Maintain]),
        prefill(&[x(), tx(0..4), Op::Save("s"), tx(2..7), Op::Save("t"), Op::Put(8, 9)]),
        prefill(&[x(), tx(0..10), Op::Tx((1..9).map(|k| (k, None)).collect()), Op::Save("t")]),
    ]
}

fn alphabet() -> Vec<Op> {
    vec![
        Op::Put(0, 10),
        Op::Put(3, 60),
        Op::Put(5, 5),
        Op::Single(0),
        Op::Single(6),
        Op::Tx(vec![(1, Some(9)), (2, Some(80)), (1, Some(12)), (0, None)]),
        Op::Tx(vec![(7, Some(9)), (7, None), (4, None), (3, None)]),
        Op::Abort(vec![(1, Some(9)), (2, Some(80)), (8, Some(3)), (0, None)]),
        Op::Clear(vec![(2, Some(4))]),
        Op::AbortedClear(vec![(2, Some(4))]),
        Op::Save("s"),
        Op::Drop("s"),
        Op::Rollback("s"),
        Op::Step,
        Op::Maintain,
    ]
}

fn must(result: Result<usize, history::Violation>) -> usize {
    result.unwrap_or_else(|violation| panic!("{}", violation.what))
}

#[test]
fn of_making_a_store() {
    let mut seen = HashSet::new();
    let history = prefill_from(&[Op::Keyspace("x"), Op::Put(1, 5)], 0);
    let images = must(history.explore(None, bounds(300, 4), &mut seen, |_| {}));
    println!("{images} images of making a store");
    assert!(images > 100);
}

#[test]
fn of_every_short_sequence() {
    let mut images = 0;
    let mut seen = HashSet::new();
    for start in starts() {
        for (i, first) in alphabet().iter().enumerate() {
            let ops = [first.clone()];
            let history = History::record(&start.end, &start.state, &ops, usize::from(i > 0));
            images += must(history.explore(None, bounds(64, 8), &mut seen, |_| {}));
            for second in alphabet() {
                let ops = [first.clone(), second];
                let history = History::record(&start.end, &start.state, &ops, 2);
                images += must(history.explore(None, bounds(16, 8), &mut seen, |_| {}));
            }
        }
    }
    println!("{images} images of short sequences");
}

/// Runs of random operations; from some of their images on, again.
#[test]
fn of_long_sequences_and_of_recovery() {
    let (mut images, mut deep) = (0, 0);
    for seed in 0..8 * rounds() as u64 {
        let mut random = Random(seed * 7919 + 11);
        let all = starts();
        let start = &all[random.below(all.len())];
        let ops: Vec<Op> = (0..25).map(|_| model::random_op(&mut random)).collect();
        let history = History::record(&start.end, &start.state, &ops, 0);
        let mut kept = Vec::new();
        let mut number = 0;
        let keep = |judged: Judged| {
            number += 1;
            if number % 97 == 0 {
                kept.push(judged);
            }
        };
        images += must(history.explore(None, bounds(32, 8), &mut HashSet::new(), keep));
        for Judged { image, state } in kept {
            let mut ops = vec![Op::Maintain; random.below(2)];
            ops.extend((0..random.below(3)).map(|_| model::random_op(&mut random)));
            ops.push(Op::Maintain);
            let history = History::record(&image, &state, &ops, 0);
            deep += must(history.explore(None, bounds(8, 8), &mut HashSet::new(), |_| {}));
        }
    }
    println!("{images} images of long sequences, {deep} of crashes after crashes");
}

/// What the proof looks at: opening, recovering and changing of every kind.
fn proof_histories() -> Vec<History> {
    let all = starts();
    let mut list = vec![prefill_from(&[Op::Keyspace("x"), Op::Put(1, 5)], 0)];
    // A node that a snapshot keeps must not claim what its successor has given up since: a record
    // of a chunk of its own, where then smaller ones lie.
    let kept = prefill(&[
        Op::Keyspace("x"),
        Op::Tx(vec![(0, Some(9)), (1, Some(9)), (2, Some(9))]),
        Op::Save("s"),
    ]);
    let ops = [Op::Maintain, Op::Put(3, 3000), Op::Put(4, 20), Op::Put(3, 20), Op::Put(5, 600)];
    list.push(History::record(&kept.end, &kept.state, &ops, 0));
    let tx = |keys: std::ops::Range<u8>| Op::Tx(keys.map(|k| (k, Some(30))).collect());
    // Between a survey and its scrub: records of sizes of their own, in the space of a void root.
    for start in &all {
        let history = History::record(&start.end, &start.state, &[tx(0..12)], 0);
        let left = history.left_before("kv.commit.word");
        let sizes = [1900, 1700, 1500, 1200, 1000, 850].into_iter().zip(3..);
        let large = Op::Tx(sizes.map(|(len, k)| (k, Some(len))).collect());
        list.push(History::record(&left, &start.state, &[Op::Step, large], 0));
    }
    for start in &all {
        for op in alphabet() {
            list.push(History::record(&start.end, &start.state, &[op], 0));
        }
    }
    // Opened while a transaction is in flight, one that changes the root among them.
    for start in &all {
        for op in [tx(0..12), Op::Clear(vec![(2, Some(4))]), Op::Tx(vec![(0, None), (1, None)])] {
            let history = History::record(&start.end, &start.state, &[op], 0);
            let left = history.left_before("kv.commit.word");
            let put = || Op::Put(1, 33);
            for ops in [
                vec![Op::Maintain, put(), tx(3..9)],
                vec![put(), Op::Maintain, tx(3..9)],
                vec![put(), Op::Step, tx(3..12), Op::Step, Op::Put(2, 130), Op::Maintain],
                vec![Op::Single(0), Op::Abort(vec![(4, Some(4))]), put()],
            ] {
                list.push(History::record(&left, &start.state, &ops, 0));
            }
        }
    }
    let mut random = Random(4711);
    for _ in 0..30 {
        let start = &all[random.below(all.len())];
        let ops: Vec<Op> = (0..25).map(|_| model::random_op(&mut random)).collect();
        list.push(History::record(&start.end, &start.state, &ops, 0));
    }
    list
}

/// Looks for a violation with a step broken, first in one image of each crash, then in many; the
/// images judged in vain, and what was found.
fn miss(histories: &[History], name: &str, broken: Broken) -> (usize, Option<String>) {
    let mut images = 0;
    for most in [0, 16 * rounds()] {
        for history in histories.iter().filter(|history| history.names().contains(name)) {
            match history.explore(Some(broken), bounds(most, 1), &mut HashSet::new(), |_| {}) {
                Ok(count) => images += count,
                Err(violation) => return (images, Some(violation.what)),
            }
        }
    }
    (images, None)
}

/// Steps that need not be missed, and why they stay.
const NOT_MISSED: &[(Broken, &str)] = &[
    (
        Broken::Without("kv.dead.forget.flush"),
        "an interval still noted is harmless, and its slot's next user stores to the same line; but \
         the table must get room",
    ),
    (
        Broken::Without("kv.dead.forget.fence"),
        "as above; but lines are fenced in the section that reserved them",
    ),
    (
        Broken::Early("cdds.entry.start"),
        "an entry that is not whole is not committed, and so void; a second line of defence",
    ),
];

/// Nothing in the sources may be left out: the adversary finds what is missing then.
#[test]
fn no_flush_fence_or_commit_store_can_be_left_out() {
    let histories = proof_histories();
    let reached: HashSet<&'static str> = histories.iter().flat_map(History::names).collect();
    let mut survivors = Vec::new();
    let steps = proof::steps();
    assert!(steps.len() > 40, "{steps:?}");
    let only = std::env::var("TEMBO_CRASH_STEP").ok();
    for step in steps.into_iter().filter(|s| only.as_ref().is_none_or(|o| s.name.contains(o))) {
        let Some(&name) = reached.get(step.name.as_str()) else {
            survivors.push(format!("{} was never done", step.name));
            continue;
        };
        let mut all = vec![Broken::Without(name)];
        all.extend(step.last_in_line.then_some(Broken::Early(name)));
        for broken in all {
            if NOT_MISSED.iter().any(|(other, _)| *other == broken) && rounds() == 1 {
                continue;
            }
            let started = std::time::Instant::now();
            let (images, found) = miss(&histories, name, broken);
            println!("{broken:?} after {images} images, {:?}", started.elapsed());
            if only.is_some() {
                println!("{}", found.as_deref().unwrap_or("nothing"));
            }
            if found.is_none() {
                survivors.push(format!("{broken:?} ({images} images)"));
            }
        }
    }
    survivors.retain(|what| !NOT_MISSED.iter().any(|(b, _)| what.starts_with(&format!("{b:?}"))));
    assert!(survivors.is_empty(), "not missed: {survivors:#?}");
}

/// The table of dead intervals is full, or nearly, when the process ends.
#[test]
fn of_a_full_table_of_dead_intervals() {
    let start = &starts()[0];
    for count in 56..72 {
        let ops: Vec<Op> = (0..count)
            .flat_map(|_| [Op::Abort(vec![(1, Some(9)), (4, None)]), Op::Put(2, 7)])
            .collect();
        let history = History::record(&start.end, &start.state, &ops, usize::MAX);
        let effort = Effort { steps: 5, again: true };
        if let Err(what) = judge::judge(&history.end, &[history.state], effort) {
            panic!("after {count} aborts: {what}");
        }
    }
}
