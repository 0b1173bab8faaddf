//! An operation on a store.

use std::cmp::Ordering;
use std::ops::{Bound, RangeBounds};

use tembo_sim::Random;

/// A change of one key: `Some` length of a value, or a removal.
pub(crate) type Write = (u8, Option<usize>);

/// The keys of a range: from one, up to the other, in the order of their bytes; all keys, if they are the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span(pub(crate) u8, pub(crate) u8);

/// At which version changes of another store are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum At {
    /// So many versions are skipped.
    Above(u64),
    Version(u64),
}

/// The ids of transactions that are prepared.
pub(crate) const IDS: [&str; 4] = ["p", "q", "r", "s"];

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
    /// A large transaction that is dropped.
    LargeDropped(Vec<Write>),
    /// A transaction that goes back to a savepoint behind its first writes, and then writes the last.
    TakenBack([Vec<Write>; 3]),
    /// A transaction that waits for its decision: see `prepared.rs`.
    Prepare(&'static str),
    CommitPrepared(&'static str),
    DropPrepared(&'static str),
    /// Removes a range.
    RemoveRange(Span),
    /// Writes, removes a range, and writes again; an exclusive writer, which commits or not.
    RangeBetween(Vec<Write>, Span, Vec<Write>, bool),
    /// The same, by an optimistic transaction, which another thread commits.
    RangeElsewhere(Vec<Write>, Span, Vec<Write>),
    /// The first of these and the last: between them it goes back to a savepoint.
    RangeTakenBack(Vec<Write>, Span, Vec<Write>),
    /// Changes of another store, at a version of its: clears the first keyspace or not, and writes.
    Apply(At, bool, Vec<Write>),
    Save(&'static str),
    Drop(&'static str),
    Rollback(&'static str),
    /// Keeps everything from here on, and gives up what is older.
    Retain,
    /// Keeps so many versions that none is given up.
    Keep,
    /// Gives up the window.
    Forget,
    /// Writes all anew, close together.
    Compact,
    /// The same, then closes the store, whose pool gives its free end back, and opens it again.
    Cut,
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

impl At {
    pub(crate) fn version(self, visible: u64) -> u64 {
        match self {
            At::Above(skipped) => visible + 1 + skipped,
            At::Version(version) => version,
        }
    }
}

impl Span {
    pub(crate) fn bounds(self) -> (Bound<Vec<u8>>, Bound<Vec<u8>>) {
        let (a, b) = (key(self.0), key(self.1));
        match a.cmp(&b) {
            Ordering::Less => (Bound::Included(a), Bound::Excluded(b)),
            Ordering::Equal => (Bound::Unbounded, Bound::Unbounded),
            Ordering::Greater => (Bound::Included(b), Bound::Excluded(a)),
        }
    }

    pub(crate) fn contains(self, key: &[u8]) -> bool {
        let (from, to) = self.bounds();
        let bounds = (from.as_ref().map(Vec::as_slice), to.as_ref().map(Vec::as_slice));
        RangeBounds::<[u8]>::contains(&bounds, key)
    }
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
    let span = |random: &mut Random| Span(random.below(keys) as u8, random.below(keys) as u8);
    match random.below(34) {
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
        29..=30 => Op::RemoveRange(span(random)),
        31 => {
            let (before, range) = (writes(random, 2), span(random));
            Op::RangeBetween(before, range, writes(random, 2), random.below(4) > 0)
        }
        32 => {
            let at = At::Above(random.below(3) as u64);
            Op::Apply(at, random.below(8) == 0, writes(random, 5))
        }
        _ => Op::Step,
    }
}
