//! An operation on a store.

use tembo_sim::Random;

use super::prepared::{IDS, Ids, refuses};

/// A change of one key: `Some` length of a value, or a removal.
pub(crate) type Write = (u8, Option<usize>);

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Op {
    Keyspace(&'static str),
    Put(u8, usize),
    /// By `Store::remove`: in place if it can be.
    Single(u8),
    Tx(Vec<Write>),
    Abort(Vec<Write>),
    /// Clears the first keyspace, then writes.
    Clear(Vec<Write>),
    AbortedClear(Vec<Write>),
    /// Optimistic transactions that are committed together. One that writes what another before it
    /// does is refused.
    Together(Vec<Vec<Write>>),
    /// A transaction that outgrows memory, committed by another thread.
    Large(Vec<Write>),
    /// One that is dropped.
    LargeDropped(Vec<Write>),
    /// One that goes back to a savepoint behind its first writes, and then writes the last.
    TakenBack([Vec<Write>; 3]),
    /// A transaction that waits for its decision: see `prepared.rs`.
    Prepare(&'static str),
    CommitPrepared(&'static str),
    DropPrepared(&'static str),
    Save(&'static str),
    Drop(&'static str),
    Rollback(&'static str),
    /// Keeps everything from here on, and gives up what is older.
    Retain,
    /// Keeps so many versions that none is given up.
    Keep,
    /// Gives up the window.
    Forget,
    /// A step of background work.
    Step,
    /// The same, by another thread.
    StepElsewhere,
    /// Background work until nothing is left.
    Maintain,
}

/// Keys of several shapes: heads that are equal, a prefix of another, the empty key.
pub(crate) fn key(n: u8) -> Vec<u8> {
    match n {
        255 => Vec::new(),
        n if n % 3 == 2 => format!("common-prefix-{:02}", n).into_bytes(),
        n => vec![b'a' + n / 3, b'-', n],
    }
}

/// Whether no transaction before it that wins writes what it writes, and no prepared one holds that.
pub(crate) fn wins(all: &[Vec<Write>], index: usize, ids: &Ids) -> bool {
    let writes_like = |other: usize| {
        all[other].iter().any(|(key, _)| all[index].iter().any(|(mine, _)| mine == key))
    };
    !refuses(ids, &all[index])
        && (0..index).all(|other| !wins(all, other, ids) || !writes_like(other))
}

pub(crate) fn value(serial: u64, len: usize) -> Vec<u8> {
    (0..len).map(|i| (serial as usize * 31 + i) as u8).collect()
}

pub(crate) fn random_op(random: &mut Random) -> Op {
    let keys = 12;
    let writes = |random: &mut Random, most: usize| -> Vec<Write> {
        let count = 1 + random.below(most);
        (0..count)
            .map(|_| {
                let len = [3, 20, 60, 150][random.below(4)];
                (random.below(keys) as u8, (random.below(3) > 0).then_some(len))
            })
            .collect()
    };
    match random.below(30) {
        0..=7 => Op::Put(random.below(keys) as u8, [0, 5, 40, 130][random.below(4)]),
        8..=10 => Op::Single(random.below(keys) as u8),
        11..=14 => Op::Tx(writes(random, 5)),
        15..=16 => Op::Abort(writes(random, 4)),
        17 => Op::Clear(writes(random, 2)),
        18 => Op::AbortedClear(writes(random, 2)),
        19 => Op::Save(["s", "t"][random.below(2)]),
        20 => Op::Drop(["s", "t"][random.below(2)]),
        21 => Op::Rollback(["s", "t"][random.below(2)]),
        22 => Op::Maintain,
        23 => [Op::Retain, Op::Large(writes(random, 6))][random.below(2)].clone(),
        24 => [Op::Forget, Op::Keep][random.below(2)].clone(),
        25..=26 => Op::Prepare(IDS[random.below(4)]),
        27 => Op::CommitPrepared(IDS[random.below(4)]),
        28 => [Op::CommitPrepared("p"), Op::DropPrepared(IDS[random.below(4)])][random.below(2)]
            .clone(),
        _ => Op::Step,
    }
}
