//! What is done to a tree.

use super::model::{LONGEST, Op, REACH};
use crate::subject::Script;

fn fill(keys: std::ops::Range<u8>, len: usize) -> Op {
    Op::Write(keys.map(|key| (key, Some(len))).collect())
}

fn drain(keys: std::ops::Range<u8>) -> Op {
    Op::Write(keys.map(|key| (key, None)).collect())
}

fn put(key: u8, len: usize) -> Op {
    Op::Single((key, Some(len)))
}

fn remove(key: u8) -> Op {
    Op::Single((key, None))
}

/// What the sequences begin with.
pub(super) fn starts() -> Vec<Vec<Op>> {
    vec![
        vec![],
        vec![fill(0..3, 8)],
        vec![fill(0..4, 8), Op::Save(0), fill(2..6, 8)],
        vec![fill(0..12, 8), drain(1..8)],
        vec![fill(0..8, 8), Op::Save(0), drain(2..6), Op::Save(1), remove(1)],
        // Keys with more versions than a leaf has room for.
        vec![fill(0..2, 8), Op::Save(0), fill(0..2, 20), Op::Save(1), fill(0..2, 8)],
    ]
}

/// One of each kind.
pub(super) fn alphabet() -> Vec<Op> {
    vec![
        Op::Write(vec![(0, Some(8))]),
        Op::Write(vec![(3, Some(60))]),
        Op::Write(vec![(9, Some(5))]),
        Op::Write(vec![(1, Some(9)), (2, Some(80)), (1, Some(12)), (0, None)]),
        Op::Write(vec![(7, Some(9)), (7, None), (4, None), (3, None)]),
        remove(0),
        remove(6),
        put(0, 8),
        put(5, 60),
        Op::Abort(vec![(1, Some(9)), (2, Some(80)), (8, Some(3)), (0, None)]),
        Op::Save(0),
        Op::Forget(0),
        Op::Rollback(0),
        Op::Pass(REACH),
        Op::Prepare,
        Op::Recover,
        Op::Collect,
    ]
}

/// Making a tree, and openings in the middle of things.
pub(super) fn all() -> Vec<Script<Op>> {
    let mut list = vec![Script::new("making", 0, vec![fill(0..1, 5)])];
    // A node that a named version keeps must not claim what its successor has given up since: a
    // record of a chunk of its own, where then smaller ones lie.
    let write = |key, len| Op::Write(vec![(key, Some(len))]);
    let ops = vec![Op::Recover, write(3, 3000), write(4, 20), write(3, 20), write(5, 600)];
    let leads = vec![(vec![Op::Save(0)], None)];
    list.push(Script { leads, ..Script::new("kept-node", 1, ops) });
    // A merge that makes records for what it carries over.
    let writes = vec![(3, None), (13, Some(5)), (5, Some(0)), (10, Some(60)), (9, Some(150))];
    let ops = vec![Op::Rollback(0), write(5, 7), put(8, 0), Op::Write(writes), Op::Save(0)];
    list.push(Script::new("carried-record", 4, [ops, vec![Op::Collect]].concat()));
    // Values that fill their objects: put, overwritten, in groups and alone, split, carried to where they have records.
    let block = |key| put(key, 512);
    let writes = vec![(3, None), (13, Some(5)), (5, Some(512)), (10, Some(640)), (9, Some(150))];
    let ops = vec![block(1), block(4), block(1), put(4, 600), Op::Recover, Op::Write(writes)];
    list.push(Script::new("block", 1, [ops, vec![block(7), remove(4), Op::Collect]].concat()));
    let writes = vec![(3, None), (13, Some(512)), (5, Some(512)), (10, Some(60)), (9, Some(150))];
    let ops = vec![Op::Rollback(0), write(5, 512), block(8), Op::Write(writes), Op::Save(0)];
    list.push(Script::new("carried-block", 4, [ops, vec![Op::Collect]].concat()));
    // A version that was taken back has ended what then only the history knows.
    let ops = vec![Op::Pass(3 * REACH), put(0, 7), Op::Save(1), write(3, 20), Op::Rollback(1)];
    list.push(Script::new("newest-in-history", 4, ops));
    // Leaves that a hint knows go, and others take their space.
    let ops = vec![Op::Prepare, Op::Collect, fill(8..12, 20), Op::Prepare, fill(0..12, 30)];
    list.push(Script::new("hint", 3, ops));
    // A base changes under copies of what is in the history.
    let writes = |a, b, c| Op::Write(vec![a, b, c]);
    let ops = vec![
        writes((11, Some(5)), (4, None), (6, Some(5))),
        Op::Pass(3 * REACH),
        Op::Rollback(1),
        writes((4, None), (1, Some(60)), (5, Some(0))),
        Op::Pass(3 * REACH),
        put(0, 7),
    ];
    list.push(Script::new("copy-in-history", 5, ops));
    for start in 1..5 {
        for (flight, op) in [fill(0..12, 30), drain(0..9), fill(5..8, 9)].into_iter().enumerate() {
            let after = [
                vec![Op::Recover, fill(3..9, 30)],
                vec![fill(0..2, 33), Op::Collect, Op::Save(1), drain(0..12)],
                vec![remove(0), Op::Abort(vec![(4, Some(4)), (5, Some(5))]), fill(1..2, 9)],
            ];
            for (which, ops) in after.into_iter().enumerate() {
                let name = format!("in-flight-{start}-{flight}-{which}");
                let leads = vec![(vec![op.clone()], Some("torture.harness.commit"))];
                list.push(Script { leads, ..Script::new(name, start, ops) });
            }
        }
    }
    list
}

/// What sequences on the longest keys begin with: more than a leaf has room for.
pub(super) fn starts_with_longest() -> Vec<Vec<Op>> {
    vec![vec![], vec![fill(LONGEST..LONGEST + 8, 8)]]
}

/// A split, a merge, and a reopening, where low keys are the longest.
pub(super) fn all_with_longest() -> Vec<Script<Op>> {
    let split = vec![put(LONGEST + 8, 8), put(LONGEST + 9, 0), put(0, 8)];
    let merge = vec![drain(LONGEST + 1..LONGEST + 7), Op::Collect, put(LONGEST + 3, 8)];
    vec![Script::new("split", 1, split), Script::new("merge", 1, merge)]
}
