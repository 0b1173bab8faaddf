//! The sequential model of a tree with two named versions.

use std::collections::BTreeMap;

use tembo_sim::Random;

/// Keys and values.
pub(crate) type Map = BTreeMap<Vec<u8>, Vec<u8>>;

/// A change of one key: `Some` length of a value, or a removal.
pub(crate) type Write = (u8, Option<usize>);

/// Names of versions: how many.
pub(crate) const NAMES: usize = 2;

/// Something that is done to a tree.
#[derive(Clone, Debug)]
pub(crate) enum Op {
    /// Writes in one group.
    Write(Vec<Write>),
    /// Writes that are not committed.
    Abort(Vec<Write>),
    /// A removal that commits itself, if it can be; else a group.
    Single(u8),
    /// Names the visible version.
    Save(usize),
    /// Forgets a name.
    Forget(usize),
    /// Survey, sweep, scrub.
    Recover,
    /// Logical collection, leaf after leaf.
    Collect,
}

/// All that can be read.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct State {
    pub(crate) map: Map,
    pub(crate) saved: BTreeMap<usize, Map>,
}

/// Keys of several shapes: heads that are equal, a prefix of another.
pub(crate) fn key(n: u8) -> Vec<u8> {
    match n % 3 {
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
    /// What `op` makes of it.
    pub(crate) fn after(&self, op: &Op, serial: u64) -> State {
        let mut state = self.clone();
        match op {
            Op::Write(writes) => {
                for (index, &(n, len)) in writes.iter().enumerate() {
                    match len {
                        Some(len) => {
                            state.map.insert(key(n), value(serial + index as u64, len));
                        }
                        None => {
                            state.map.remove(&key(n));
                        }
                    }
                }
            }
            Op::Single(n) => {
                state.map.remove(&key(*n));
            }
            Op::Save(name) => {
                state.saved.insert(*name, state.map.clone());
            }
            Op::Forget(name) => {
                state.saved.remove(name);
            }
            Op::Abort(_) | Op::Recover | Op::Collect => {}
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
    match random.below(20) {
        0..=6 => Op::Write(vec![(random.below(keys) as u8, Some([0, 7, 40][random.below(3)]))]),
        7..=9 => Op::Write(writes(random, 5)),
        10..=12 => Op::Single(random.below(keys) as u8),
        13..=14 => Op::Abort(writes(random, 4)),
        15 => Op::Save(random.below(NAMES)),
        16 => Op::Forget(random.below(NAMES)),
        17..=18 => Op::Recover,
        _ => Op::Collect,
    }
}
