//! What is measured.

use serde::Serialize;

use crate::keys::{Keys, Zipf};

/// Entries that a scan visits.
pub(crate) const SCAN_LEN: usize = 100;

/// So many keys for each scan.
const KEYS_PER_SCAN: usize = 20;

/// Skew of the zipfian operations: YCSB's.
pub(crate) const THETA: f64 = 0.99;

/// An operation that contenders alternate in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Operation {
    /// All keys in random order, into an empty structure.
    Insert,
    /// All keys in random order.
    Lookup,
    /// As many keys that are not there.
    MissingLookup,
    /// All keys in random order, with another value each.
    Update,
    /// The hundred entries from a random key on.
    Scan,
    /// Keys by Zipf's law.
    ZipfLookup,
    /// Keys by Zipf's law, with another value each time.
    ZipfUpdate,
    /// Half of the keys in random order.
    Remove,
    /// Ascending keys, into an empty structure.
    SequentialInsert,
}

impl Operation {
    /// In the order of a round.
    pub const ALL: [Operation; 9] = [
        Operation::Insert,
        Operation::Lookup,
        Operation::MissingLookup,
        Operation::Update,
        Operation::Scan,
        Operation::ZipfLookup,
        Operation::ZipfUpdate,
        Operation::Remove,
        Operation::SequentialInsert,
    ];

    /// For tables.
    pub fn name(self) -> &'static str {
        match self {
            Operation::Insert => "insert",
            Operation::Lookup => "lookup",
            Operation::MissingLookup => "missing lookup",
            Operation::Update => "update",
            Operation::Scan => "scan of 100",
            Operation::ZipfLookup => "zipfian lookup",
            Operation::ZipfUpdate => "zipfian update",
            Operation::Remove => "remove",
            Operation::SequentialInsert => "sequential insert",
        }
    }

    /// In one word, as it is written in JSON.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Operation::Insert => "insert",
            Operation::Lookup => "lookup",
            Operation::MissingLookup => "missing-lookup",
            Operation::Update => "update",
            Operation::Scan => "scan",
            Operation::ZipfLookup => "zipf-lookup",
            Operation::ZipfUpdate => "zipf-update",
            Operation::Remove => "remove",
            Operation::SequentialInsert => "sequential-insert",
        }
    }

    /// The operation of that word.
    pub(crate) fn of_word(word: &str) -> Option<Operation> {
        Operation::ALL.into_iter().find(|operation| operation.word() == word)
    }

    /// Whether it begins with an empty structure.
    pub(crate) fn is_fresh(self) -> bool {
        matches!(self, Operation::Insert | Operation::SequentialInsert)
    }

    /// Whether it changes anything, and so can be held against the one-line persist.
    pub(crate) fn is_write(self) -> bool {
        use Operation::{Insert, Remove, SequentialInsert, Update, ZipfUpdate};
        matches!(self, Insert | Update | ZipfUpdate | Remove | SequentialInsert)
    }

    /// The keys that it is done with, in a round, in their order.
    pub(crate) fn plan(self, keys: Keys, zipf: &Zipf, round: u32) -> Vec<u64> {
        let salt = u64::from(round) << 8 | self as u64;
        match self {
            Operation::MissingLookup => keys.missing(salt),
            Operation::ZipfLookup | Operation::ZipfUpdate => keys.zipfian(zipf, salt),
            Operation::SequentialInsert => (0..keys.count).collect(),
            Operation::Insert | Operation::Lookup | Operation::Update => keys.shuffled(salt),
            Operation::Scan => first(keys.shuffled(salt), KEYS_PER_SCAN),
            Operation::Remove => first(keys.shuffled(salt), 2),
        }
    }

    /// Right answers to a plan: one for each key, or the entries that its scans visit.
    pub(crate) fn expected(self, keys: Keys, plan: &[u64]) -> u64 {
        if self != Operation::Scan {
            return plan.len() as u64;
        }
        let last = keys.last(SCAN_LEN);
        let visited = |key: &u64| match last.partition_point(|other| other < key) {
            0 => SCAN_LEN.min(keys.count as usize),
            before => last.len() - before,
        };
        plan.iter().map(|key| visited(key) as u64).sum()
    }
}

/// One of `per` keys, and at least one.
fn first(mut keys: Vec<u64>, per: usize) -> Vec<u64> {
    keys.truncate((keys.len() / per).max(1));
    keys
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Against a sorted list, also with fewer keys than a scan visits.
    #[test]
    fn scans_are_expected_to_visit_what_follows_their_keys() {
        for count in [1, 50, 100, 101, 1000] {
            let keys = Keys { count, seed: 3 };
            let mut sorted = keys.shuffled(0);
            sorted.sort_unstable();
            let all = keys.shuffled(1);
            let after = |key: &u64| sorted.iter().filter(|other| *other >= key).count();
            let visited: usize = all.iter().map(|key| after(key).min(SCAN_LEN)).sum();
            assert_eq!(Operation::Scan.expected(keys, &all), visited as u64);
        }
    }
}
