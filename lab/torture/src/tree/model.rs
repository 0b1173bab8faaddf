//! The sequential model of a tree with two named versions.

use std::collections::BTreeMap;

use tembo_index::KEY_SIZE_MAX;
use tembo_sim::Random;

/// Keys and values.
pub(crate) type Map = BTreeMap<Vec<u8>, Vec<u8>>;

/// A change of one key: `Some` length of a value, or a removal.
pub(crate) type Write = (u8, Option<usize>);

/// Versions that an element of an NV-Tree can be from its base.
pub(crate) const REACH: u64 = 1 << 26;

/// Keys from this number on are as long as keys may be.
pub(crate) const LONGEST: u8 = 200;

/// Names of versions: how many.
pub(crate) const NAMES: usize = 2;

/// Something that is done to a tree.
#[derive(Clone, Debug)]
pub(crate) enum Op {
    /// Writes in one group.
    Write(Vec<Write>),
    /// Writes that are not committed.
    Abort(Vec<Write>),
    /// A write that commits itself, if it can; else a group.
    Single(Write),
    /// Names the visible version.
    Save(usize),
    /// Forgets a name.
    Forget(usize),
    /// Takes back what came after a named version.
    Rollback(usize),
    /// So many versions go by, in which other trees are changed.
    Pass(u64),
    /// Writes down what an opening need not look for, unless that stands there.
    Prepare,
    /// Mark, sweep, scrub.
    Recover,
    /// Logical collection, leaf after leaf.
    Collect,
}

/// All that can be read.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct State {
    pub(crate) map: Map,
    /// Names, their versions, and what was there then.
    pub(crate) saved: BTreeMap<usize, (u64, Map)>,
    /// Whether an opening is prepared; a collection may take that back.
    pub(crate) prepared: bool,
}

/// Keys of several shapes: heads that are equal, a prefix of another, more than a header has room for.
pub(crate) fn key(n: u8) -> Vec<u8> {
    if n >= LONGEST {
        // All but the last byte is what they have in common; some end before.
        let mut key = vec![b'c'; KEY_SIZE_MAX - usize::from(n % 2)];
        key.pop();
        key.push(n);
        return key;
    }
    match n % 3 {
        2 if n % 2 == 1 => format!("common-prefix-of-more-than-a-line/{n:02}").into_bytes(),
        2 => format!("common-prefix-{n:02}").into_bytes(),
        1 => vec![b'a' + n / 3, b'-'],
        _ => vec![b'a' + n / 3, b'-', n],
    }
}

/// A value of that length, other for each number.
pub(crate) fn value(serial: u64, len: usize) -> Vec<u8> {
    (0..len).map(|at| (serial as usize * 31 + at) as u8).collect()
}

impl State {
    fn write(&mut self, writes: &[Write], serial: u64) {
        for (index, &(n, len)) in writes.iter().enumerate() {
            match len {
                Some(len) => self.map.insert(key(n), value(serial + index as u64, len)),
                None => self.map.remove(&key(n)),
            };
        }
    }

    /// What `op` makes of it, done when `visible` is the visible version.
    pub(crate) fn after(&self, op: &Op, serial: u64, visible: u64) -> State {
        let mut state = self.clone();
        match op {
            Op::Write(writes) => state.write(writes, serial),
            Op::Single(write) => state.write(&[*write], serial),
            Op::Save(name) => {
                state.saved.insert(*name, (visible, state.map.clone()));
            }
            Op::Forget(name) => {
                state.saved.remove(name);
            }
            Op::Rollback(name) => {
                if let Some((version, map)) = self.saved.get(name) {
                    state.map = map.clone();
                    state.saved.retain(|_, (other, _)| *other <= *version);
                }
            }
            Op::Abort(_) | Op::Recover | Op::Collect | Op::Pass(_) | Op::Prepare => {}
        }
        state
    }
}

/// Any operation.
pub(crate) fn random_op(random: &mut Random) -> Op {
    let keys = 14;
    let writes = |random: &mut Random, most: usize| -> Vec<Write> {
        let count = 1 + random.below(most);
        (0..count)
            .map(|_| {
                let len = [0, 5, 20, 60, 150][random.below(5)];
                (random.below(keys) as u8, (random.below(3) > 0).then_some(len))
            })
            .collect()
    };
    let one = |random: &mut Random| -> Write {
        (random.below(keys) as u8, Some([0, 7, 40][random.below(3)]))
    };
    match random.below(29) {
        0..=5 => Op::Write(vec![one(random)]),
        6..=8 => Op::Write(writes(random, 5)),
        9..=12 => Op::Single(one(random)),
        13..=15 => Op::Single((random.below(keys) as u8, None)),
        16..=17 => Op::Abort(writes(random, 4)),
        18..=19 => Op::Save(random.below(NAMES)),
        20 => Op::Forget(random.below(NAMES)),
        21 => Op::Rollback(random.below(NAMES)),
        22 => Op::Pass([REACH / 2, REACH, REACH * 3][random.below(3)]),
        23..=24 => Op::Recover,
        25 => Op::Prepare,
        _ => Op::Collect,
    }
}

/// Any operation, on few keys of the greatest length and some others.
pub(crate) fn random_op_on_longest(random: &mut Random) -> Op {
    let key = |random: &mut Random| match random.below(3) {
        0 => random.below(6) as u8,
        _ => LONGEST + random.below(10) as u8,
    };
    let write = |random: &mut Random| -> Write {
        (key(random), (random.below(3) > 0).then_some([0, 5, 60][random.below(3)]))
    };
    match random.below(10) {
        0..=3 => Op::Write((0..1 + random.below(3)).map(|_| write(random)).collect()),
        4..=6 => Op::Single(write(random)),
        7 => Op::Recover,
        8 => Op::Prepare,
        _ => Op::Collect,
    }
}
