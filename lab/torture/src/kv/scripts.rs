//! What is done to a store: what all short sequences are made of, and sequences with a reason.

use super::op::{At, Op, Span};
use crate::subject::Script;

fn tx(keys: std::ops::Range<u8>, len: usize) -> Op {
    Op::Tx(keys.map(|key| (key, Some(len))).collect())
}

fn x() -> Op {
    Op::Keyspace("x")
}

/// What the sequences begin with.
pub(super) fn starts() -> Vec<Vec<Op>> {
    let save = Op::Save;
    vec![
        vec![],
        vec![x(), tx(0..3, 20)],
        vec![x(), tx(0..6, 20), save("s"), tx(4..9, 20), Op::Single(1), Op::Maintain],
        vec![x(), tx(0..4, 20), save("s"), tx(2..7, 20), save("t"), Op::Put(8, 9)],
        vec![x(), tx(0..10, 20), Op::Tx((1..9).map(|key| (key, None)).collect()), save("t")],
        // A node that a snapshot keeps must not claim what its successor has given up since.
        vec![x(), tx(0..3, 9), save("s")],
        vec![x(), tx(0..6, 20), save("s"), Op::Prepare("p"), Op::Prepare("r"), save("t")],
    ]
}

/// One of each kind.
pub(super) fn alphabet() -> Vec<Op> {
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
        Op::Prepare("q"),
        Op::CommitPrepared("p"),
        Op::DropPrepared("p"),
        Op::Save("s"),
        Op::Drop("s"),
        Op::Rollback("s"),
        Op::Retain,
        Op::Keep,
        Op::Forget,
        Op::Step,
        Op::Maintain,
        Op::RemoveRange(Span(0, 9)),
        Op::RangeBetween(vec![(1, Some(9))], Span(0, 5), vec![(2, Some(4))], true),
        Op::Apply(At::Above(1), false, vec![(0, Some(7)), (4, None)]),
    ]
}

/// Making a store, histories that once found something, and openings in the middle of things.
pub(super) fn all() -> Vec<Script<Op>> {
    let mut list = vec![Script::new("making", 0, vec![x(), Op::Put(1, 5)])];
    // A record of a chunk of its own, where then smaller ones lie.
    let ops = vec![Op::Maintain, Op::Put(3, 3000), Op::Put(4, 20), Op::Put(3, 20), Op::Put(5, 600)];
    list.push(Script::new("kept-node", 5, ops));
    // Values that fill their objects: written, aborted, kept by a snapshot, and given back with it.
    let block = |key| Op::Put(key, 512);
    let aborted = Op::Abort(vec![(2, Some(512)), (1, Some(640))]);
    let ops = vec![tx(0..4, 512), block(1), aborted, Op::Save("b"), block(1), Op::Single(2)];
    let after = vec![Op::Maintain, Op::Drop("b"), tx(0..3, 20), block(5), Op::Maintain];
    list.push(Script::new("block", 2, [ops, after].concat()));
    // What was aborted since a commit is noted by the next.
    let aborted = Op::Abort(vec![(1, Some(9)), (6, Some(9)), (2, None)]);
    list.push(Script::new("abort-between", 1, vec![Op::Put(0, 9), aborted, Op::Put(2, 7)]));
    let crash = Some("kv.commit.word");
    for start in 1..5 {
        // After marking by one thread and a scrub by another: records of sizes of their own, in the space of a void root.
        let sizes = [1900, 1700, 1500, 1200, 1000, 850].into_iter().zip(3..);
        let large = Op::Tx(sizes.map(|(len, key)| (key, Some(len))).collect());
        let name = format!("void-root-{start}");
        let leads = vec![(vec![tx(0..12, 30)], crash)];
        let ops = vec![Op::StepElsewhere, Op::Step, large];
        list.push(Script { leads, ..Script::new(name, start, ops) });
        // Opened while a transaction is in flight, one that changes the root among them.
        let flights =
            [tx(0..12, 30), Op::Clear(vec![(2, Some(4))]), Op::Tx(vec![(0, None), (1, None)])];
        for (flight, op) in flights.into_iter().enumerate() {
            let put = || Op::Put(1, 33);
            let after = [
                vec![Op::Maintain, put(), tx(3..9, 30)],
                vec![put(), Op::Maintain, tx(3..9, 30)],
                vec![put(), Op::Step, tx(3..12, 30), Op::Step, Op::Put(2, 130), Op::Maintain],
                vec![Op::Single(0), Op::Abort(vec![(4, Some(4))]), put()],
            ];
            for (which, ops) in after.into_iter().enumerate() {
                let name = format!("in-flight-{start}-{flight}-{which}");
                let leads = vec![(vec![op.clone()], crash)];
                list.push(Script { leads, ..Script::new(name, start, ops) });
            }
        }
    }
    // Many removals, collected by another thread than the one that then uses the space.
    let removals = Op::Tx((0..11).map(|key| (key, None)).collect());
    let sizes = [30, 60, 100, 200, 400, 30, 30, 60].into_iter().zip(3..);
    let again = || Op::Tx(sizes.clone().map(|(len, key)| (key, Some(len))).collect());
    for (number, steps) in (1..4).enumerate() {
        let mut ops = vec![tx(0..12, 30), Op::Maintain, removals.clone()];
        ops.extend((0..steps).map(|_| Op::StepElsewhere));
        ops.extend([Op::Put(12, 5), again(), Op::Maintain, again()]);
        list.push(Script::new(format!("collected-{number}"), 1, ops));
    }
    list.extend(windows());
    list.extend(compactions());
    list.extend(transactions());
    list.extend(prepared());
    list.extend(ranges());
    list.push(ranges_in_the_next_life());
    list.extend(applied());
    // The table of dead intervals is nearly full when the process ends.
    for count in [62, 64, 66] {
        let aborts = (0..count).flat_map(|_| [Op::Abort(vec![(1, Some(9))]), Op::Put(2, 7)]);
        let leads = vec![(aborts.collect(), None)];
        let ops = vec![Op::Abort(vec![(1, Some(9))]), Op::Put(2, 7), Op::Maintain];
        list.push(Script { leads, ..Script::new(format!("aborts-{count}"), 1, ops) });
    }
    list
}

/// Compactions: of what is scattered, beside snapshots and windows, of a pool that is then cut, and after a crash in one.
fn compactions() -> Vec<Script<Op>> {
    let scattered = || {
        let large = Op::Tx((0..12).map(|key| (key, Some(900))).collect());
        let removed = Op::Tx((0..12).filter(|key| key % 4 != 1).map(|key| (key, None)).collect());
        vec![large, removed, tx(0..3, 40)]
    };
    let after = || vec![Op::Put(3, 130), tx(2..9, 300), Op::Maintain, Op::Single(4)];
    let mut list = Vec::new();
    for start in [1, 2, 4, 6] {
        let ops = [scattered(), vec![Op::Compact], after()].concat();
        list.push(Script::new(format!("compacted-{start}"), start, ops));
        let ops = [scattered(), vec![Op::Cut], after(), vec![Op::Cut, Op::Put(0, 9)]].concat();
        list.push(Script::new(format!("cut-{start}"), start, ops));
    }
    let kept = [vec![Op::Keep], scattered(), vec![Op::Compact, Op::Forget, Op::Cut], after()];
    list.push(Script::new("compacted-window", 1, kept.concat()));
    // Opened in the middle of a compaction.
    let leads = vec![([scattered(), vec![Op::Compact]].concat(), Some("kv.commit.word"))];
    let ops = [vec![Op::Cut], after()].concat();
    list.push(Script { leads, ..Script::new("compacting", 1, ops) });
    list
}

/// Each range changes the catalogue, in which only its own version needs what the next one ends.
fn ranges_in_the_next_life() -> Script<Op> {
    let spans = [(8, 8), (11, 11), (7, 3), (2, 4), (10, 3), (3, 4)];
    let mut ops: Vec<Op> = spans.iter().map(|&(a, b)| Op::RemoveRange(Span(a, b))).collect();
    ops.push(Op::Save("s"));
    Script::new("ranges-next-life", 1, ops)
}

/// Windows that move, become others or are given up, and rollbacks inside of them.
fn windows() -> Vec<Script<Op>> {
    let mut list = Vec::new();
    // From each kind to each other, and to itself.
    let (keep, retain, forget) = (Op::Keep, Op::Retain, Op::Forget);
    let kinds = [&keep, &retain, &keep, &forget, &retain, &forget, &keep, &keep, &retain, &retain];
    let ops = kinds.into_iter().flat_map(|kind| [kind.clone(), Op::Put(3, 5)]).collect();
    list.push(Script::new("window-kinds", 1, ops));
    // A window that moves, or is given up: then what it kept is overwritten.
    for (number, end) in [Op::Retain, Op::Forget].into_iter().enumerate() {
        let puts = |len| (0..9).map(move |_| Op::Put(3, len));
        let mut ops = vec![Op::Retain];
        ops.extend(puts(5));
        ops.extend([Op::Single(3), end]);
        ops.extend(puts(6));
        ops.extend([Op::Maintain, Op::Single(3), Op::Put(3, 40), Op::Maintain]);
        list.push(Script::new(format!("window-{number}"), 1, ops));
    }
    // A follower of what was rolled back gets an error, before and after the scrub.
    let back = vec![
        Op::Retain,
        Op::Put(1, 5),
        Op::Save("s"),
        Op::Put(2, 5),
        Op::Rollback("s"),
        Op::Put(4, 5),
        Op::Maintain,
        Op::Put(5, 5),
    ];
    list.push(Script::new("window-rollback", 2, back));
    list
}

/// Optimistic transactions: batches, and what is too large for memory.
fn transactions() -> Vec<Script<Op>> {
    let put = |key, len| (key, Some(len));
    let batch = || {
        let all =
            [vec![put(0, 9), put(13, 5)], vec![put(1, 30), (2, None)], vec![put(5, 7), put(0, 3)]];
        Op::Together(all.into_iter().chain([vec![put(14, 40)]]).collect())
    };
    let large = |from: u8, len| Op::Large((from..from + 6).map(|key| put(key, len)).collect());
    let dropped = || Op::LargeDropped((3..9).map(|key| put(key, 20)).collect());
    let taken_back = || {
        let first = vec![put(0, 20), put(7, 20), (1, None), put(8, 20)];
        let back = vec![put(0, 30), put(9, 20), (7, None), put(10, 20), put(11, 20)];
        Op::TakenBack([first, back, vec![put(9, 7), put(1, 5)]])
    };
    let mut list = Vec::new();
    for start in 1..4 {
        let all = [
            vec![batch(), Op::Put(0, 5), batch()],
            vec![large(0, 20), batch(), large(4, 60)],
            vec![dropped(), large(2, 20), Op::Maintain, batch()],
            vec![taken_back(), Op::Put(9, 5), Op::Maintain, taken_back()],
            vec![dropped(), taken_back(), dropped(), Op::Put(1, 5)],
        ];
        for (which, ops) in all.into_iter().enumerate() {
            list.push(Script::new(format!("transactions-{start}-{which}"), start, ops));
        }
        for (which, op) in [batch(), large(0, 20), taken_back()].into_iter().enumerate() {
            let leads = vec![(vec![op], Some("kv.commit.word"))];
            let ops = vec![Op::Put(1, 33), batch(), Op::Maintain, large(3, 30)];
            let name = format!("transactions-in-flight-{start}-{which}");
            list.push(Script { leads, ..Script::new(name, start, ops) });
        }
    }
    list
}

/// Transactions that are prepared and decided, with a crash before, between and in it.
fn prepared() -> Vec<Script<Op>> {
    let (prepare, commit, discard) = (Op::Prepare, Op::CommitPrepared, Op::DropPrepared);
    let mut list = Vec::new();
    for start in 1..4 {
        let all = [
            vec![prepare("p"), Op::Put(5, 9), commit("p"), Op::Put(1, 5), Op::Maintain],
            vec![prepare("q"), prepare("r"), commit("q"), Op::Maintain, discard("r"), tx(0..9, 9)],
            vec![prepare("s"), Op::Save("s"), commit("s"), Op::Rollback("s"), discard("s")],
            vec![
                Op::Save("t"),
                prepare("p"),
                Op::Keep,
                commit("p"),
                Op::Rollback("t"),
                prepare("s"),
            ],
        ];
        for (which, ops) in all.into_iter().enumerate() {
            list.push(Script::new(format!("prepared-{start}-{which}"), start, ops));
        }
        // In flight when the process ends, and then opened again and again.
        for (which, id) in ["p", "q", "r"].into_iter().enumerate() {
            for crash in [Some("kv.commit.word"), None] {
                let name = |what: &str| format!("{what}-{start}-{which}-{}", crash.is_some());
                let after =
                    || vec![Op::Step, commit(id), Op::Put(1, 33), Op::Maintain, prepare(id)];
                let leads = vec![(vec![prepare(id)], crash)];
                list.push(Script { leads, ..Script::new(name("preparing"), start, after()) });
                for decision in [commit(id), discard(id)] {
                    let leads = vec![(vec![prepare(id)], None), (vec![decision.clone()], crash)];
                    let name = format!("{}-{decision:?}", name("deciding"));
                    list.push(Script { leads, ..Script::new(name, start, after()) });
                }
            }
        }
    }
    list
}

/// Ranges that are removed, and erased while other things happen.
fn ranges() -> Vec<Script<Op>> {
    let put = |key, len| (key, Some(len));
    let (remove, save) = (|from, to| Op::RemoveRange(Span(from, to)), Op::Save);
    let between = |commits| {
        Op::RangeBetween(vec![put(3, 9)], Span(0, 8), vec![put(1, 30), (2, None)], commits)
    };
    let elsewhere = || Op::RangeElsewhere(vec![put(0, 9)], Span(2, 9), vec![put(5, 20)]);
    let taken_back =
        || Op::RangeTakenBack(vec![put(0, 9), (3, None)], Span(0, 0), vec![put(4, 20)]);
    let many = || Op::Tx((0..100).map(|key| put(key, 3)).collect());
    let (prepare, commit) = (Op::Prepare, Op::CommitPrepared);
    let mut list = Vec::new();
    for start in 1..4 {
        let all = [
            vec![remove(0, 9), Op::Put(3, 9), Op::Maintain, Op::Single(3), Op::Maintain],
            vec![between(true), remove(0, 0), Op::Put(1, 9), Op::Step, Op::Put(2, 9), Op::Maintain],
            vec![between(false), elsewhere(), Op::StepElsewhere, taken_back(), Op::Maintain],
            vec![
                save("s"),
                remove(0, 5),
                save("t"),
                Op::Put(1, 3),
                Op::Maintain,
                Op::Rollback("t"),
            ],
            vec![Op::Keep, remove(0, 0), Op::Clear(vec![put(1, 3)]), remove(0, 3), Op::Maintain],
            // A transaction that is prepared while what it writes waits to be erased.
            vec![remove(0, 0), prepare("q"), Op::Maintain, remove(1, 3), commit("q"), Op::Maintain],
        ];
        for (which, ops) in all.into_iter().enumerate() {
            list.push(Script::new(format!("ranges-{start}-{which}"), start, ops));
        }
        for (which, op) in [remove(0, 9), between(true), elsewhere()].into_iter().enumerate() {
            let leads = vec![(vec![op], Some("kv.commit.word"))];
            let ops = vec![remove(0, 5), Op::Put(1, 33), Op::Maintain, remove(0, 0)];
            let name = format!("ranges-in-flight-{start}-{which}");
            list.push(Script { leads, ..Script::new(name, start, ops) });
        }
    }
    // More than is erased at a time; the process ends between.
    let ops = vec![many(), remove(3, 95), Op::Step, Op::Put(50, 3), Op::Step, Op::Maintain];
    list.push(Script { first: 2, ..Script::new("ranges-many", 1, ops) });
    let leads = vec![(vec![many(), remove(3, 95), Op::Step], None)];
    let ops = vec![Op::Put(50, 3), Op::Step, Op::Step, Op::Step, Op::Maintain];
    list.push(Script { leads, ..Script::new("ranges-opened", 1, ops) });
    list
}

/// Changes that are made at given versions, with own ones between.
fn applied() -> Vec<Script<Op>> {
    let put = |key, len| (key, Some(len));
    let apply = |skipped, clears| {
        Op::Apply(At::Above(skipped), clears, vec![put(1, 9), (2, None), put(5, 60)])
    };
    let mut list =
        vec![Script::new("applied-first", 0, vec![apply(0, false), x(), apply(5, true)])];
    for start in 1..4 {
        let ops = vec![Op::Keep, apply(0, false), Op::Put(0, 5), apply(3, true), Op::Maintain];
        list.push(Script::new(format!("applied-{start}"), start, ops));
        let leads = vec![(vec![apply(2, false)], Some("kv.commit.word"))];
        let ops = vec![apply(0, false), Op::Step, apply(0, true), Op::Maintain, Op::Put(1, 3)];
        list.push(Script { leads, ..Script::new(format!("applied-again-{start}"), start, ops) });
    }
    list
}
