//! What is done to a tree.

use super::model::Op;
use crate::subject::Script;

fn fill(keys: std::ops::Range<u8>, len: usize) -> Op {
    Op::Write(keys.map(|key| (key, Some(len))).collect())
}

fn drain(keys: std::ops::Range<u8>) -> Op {
    Op::Write(keys.map(|key| (key, None)).collect())
}

/// What the sequences begin with.
pub(super) fn starts() -> Vec<Vec<Op>> {
    vec![
        vec![],
        vec![fill(0..3, 8)],
        vec![fill(0..4, 8), Op::Save(0), fill(2..6, 8)],
        vec![fill(0..12, 8), drain(1..8)],
        vec![fill(0..8, 8), Op::Save(0), drain(2..6), Op::Save(1), Op::Single(1)],
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
        Op::Single(0),
        Op::Single(6),
        Op::Abort(vec![(1, Some(9)), (2, Some(80)), (8, Some(3)), (0, None)]),
        Op::Save(0),
        Op::Forget(0),
        Op::Recover,
        Op::Collect,
    ]
}

/// Making a tree, and openings in the middle of things.
pub(super) fn all() -> Vec<Script<Op>> {
    let mut list = vec![Script::new("making", 0, vec![fill(0..1, 5)])];
    // A node that a named version keeps must not claim what its successor has given up since: a
    // record of a chunk of its own, where then smaller ones lie.
    let put = |key, len| Op::Write(vec![(key, Some(len))]);
    let ops = vec![Op::Recover, put(3, 3000), put(4, 20), put(3, 20), put(5, 600)];
    let leads = vec![(vec![Op::Save(0)], None)];
    list.push(Script { leads, ..Script::new("kept-node", 1, ops) });
    for start in 1..5 {
        for (flight, op) in [fill(0..12, 30), drain(0..9), fill(5..8, 9)].into_iter().enumerate() {
            let after = [
                vec![Op::Recover, fill(3..9, 30)],
                vec![fill(0..2, 33), Op::Collect, Op::Save(1), drain(0..12)],
                vec![Op::Single(0), Op::Abort(vec![(4, Some(4)), (5, Some(5))]), fill(1..2, 9)],
            ];
            for (which, ops) in after.into_iter().enumerate() {
                let name = format!("in-flight-{start}-{flight}-{which}");
                let leads = vec![(vec![op.clone()], Some("torture.shelf.commit"))];
                list.push(Script { leads, ..Script::new(name, start, ops) });
            }
        }
    }
    list
}
