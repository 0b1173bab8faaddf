//! The core workloads of YCSB, A to F.

use crate::distribution::{Chooser, Distribution, Drawn};
use crate::keys::{Keys, Random};

/// Longest scan; lengths are uniform from 1 on.
const SCAN_LEN_MAX: u64 = 100;

/// A core workload. The thesis calls A "SessionStore" and D "StatusUpdates".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Workload {
    /// Half reads, half updates, zipfian.
    A,
    /// 95 of 100 read, the rest update, zipfian.
    B,
    /// Reads only, zipfian.
    C,
    /// 95 of 100 read the latest, the rest insert.
    D,
    /// 95 of 100 scan, the rest insert, zipfian.
    E,
    /// Half reads, half read, modify and write, zipfian.
    F,
}

/// What one operation does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Act {
    Read,
    Update,
    Insert,
    Scan { len: usize },
    ReadModifyWrite,
}

impl Workload {
    pub(crate) const ALL: [Workload; 6] =
        [Workload::A, Workload::B, Workload::C, Workload::D, Workload::E, Workload::F];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Workload::A => "A: 50 % update",
            Workload::B => "B: 5 % update",
            Workload::C => "C: read only",
            Workload::D => "D: read latest, 5 % insert",
            Workload::E => "E: scan, 5 % insert",
            Workload::F => "F: read-modify-write",
        }
    }

    fn distribution(self) -> Distribution {
        if self == Workload::D { Distribution::Latest } else { Distribution::Zipfian }
    }

    fn act(self, random: &mut Random) -> Act {
        let draw = random.below(100);
        match self {
            Workload::A if draw < 50 => Act::Update,
            Workload::B if draw < 5 => Act::Update,
            Workload::D | Workload::E if draw < 5 => Act::Insert,
            Workload::E => Act::Scan { len: 1 + random.below(SCAN_LEN_MAX) as usize },
            Workload::F if draw < 50 => Act::ReadModifyWrite,
            _ => Act::Read,
        }
    }
}

/// The operations of one of several clients: each inserts keys of its own, and reads the latest of
/// those, so that every read must find something.
pub(crate) struct Stream {
    workload: Workload,
    chooser: Chooser,
    random: Random,
    keys: Keys,
    client: u64,
    clients: u64,
    inserted: u64,
    /// Where the numbers of its insertions begin.
    first: u64,
}

impl Stream {
    /// Over `keys`, which are loaded; the client is below `clients`.
    pub(crate) fn new(workload: Workload, keys: Keys, client: u64, clients: u64) -> Stream {
        let chooser = Chooser::new(workload.distribution(), keys.count);
        let random = Random::new(keys.key(u64::MAX - client));
        Stream { workload, chooser, random, keys, client, clients, inserted: 0, first: 0 }
    }

    /// The same with other keys to insert, from that number on: those of another stream that has been
    /// before it are there already.
    pub(crate) fn from(self, first: u64) -> Stream {
        Stream { first, ..self }
    }

    fn own(&self, nth: u64) -> u64 {
        self.first + self.keys.count + nth * self.clients + self.client
    }

    /// The next operation, and the number of its record: those below the count are loaded, others were inserted.
    pub(crate) fn numbered(&mut self) -> (Act, u64) {
        let act = self.workload.act(&mut self.random);
        if act == Act::Insert {
            self.inserted += 1;
            return (act, self.own(self.inserted - 1));
        }
        let number = match self.chooser.draw(&mut self.random, self.inserted) {
            Drawn::Loaded(number) => number,
            Drawn::Inserted { back } => self.own(self.inserted - 1 - back),
        };
        (act, number)
    }
}

impl Iterator for Stream {
    type Item = (Act, u64);

    fn next(&mut self) -> Option<(Act, u64)> {
        let (act, number) = self.numbered();
        Some((act, self.keys.key(number)))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn shares_are_those_of_ycsb() {
        let keys = Keys { count: 1000, seed: 1 };
        for (workload, wanted, percent) in [
            (Workload::A, Act::Update, 50),
            (Workload::B, Act::Update, 5),
            (Workload::C, Act::Read, 100),
            (Workload::D, Act::Insert, 5),
            (Workload::E, Act::Insert, 5),
            (Workload::F, Act::ReadModifyWrite, 50),
        ] {
            let acts = Stream::new(workload, keys, 0, 1).take(20_000);
            let share = acts.filter(|(act, _)| *act == wanted).count() / 200;
            assert!(share.abs_diff(percent) <= 1, "{workload:?}: {share}");
        }
    }

    #[test]
    fn clients_insert_different_keys_and_read_what_is_there() {
        let keys = Keys { count: 100, seed: 1 };
        let loaded: HashSet<u64> = (0..100).map(|n| keys.key(n)).collect();
        let mut all = HashSet::new();
        for client in 0..3 {
            let mut own = HashSet::new();
            for (act, key) in Stream::new(Workload::D, keys, client, 3).take(5_000) {
                match act {
                    Act::Insert => assert!(all.insert(key) && own.insert(key)),
                    _ => assert!(loaded.contains(&key) || own.contains(&key)),
                }
            }
        }
    }
}
