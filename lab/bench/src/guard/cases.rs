//! The cases that are counted: operations of a store that was filled before.

use std::ops::Bound;

use tembo_index::IndexKind;
use tembo_kv::{Direction, Durability, Keyspace, Options, Progress, Store};
use tembo_pmem::Counters;

use super::callgrind::guarded;
use super::count::{Count, Counts};
use crate::Error;
use crate::keys::Keys;

/// Keys in the store before a case.
pub(super) const LOADED: u64 = 20_000;

/// Operations of a case.
pub(super) const OPERATIONS: u64 = 1_000;

/// Entries that a range visits.
const RANGE: u64 = 100;

/// Puts of a group, and keys that are looked for together.
const GROUP: usize = 16;

/// Bytes of the value of a string.
const STRING_VALUE: usize = 100;

/// The content of the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Entries {
    /// Keys and values of eight bytes.
    Words,
    /// Keys of 16 to 32 bytes with values of a hundred.
    Strings,
}

/// An operation of the store, [`OPERATIONS`] times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Case {
    Get,
    GetMissing,
    Range,
    Update,
    Insert,
    Remove,
    PutRecord,
    Group,
    GetMany,
}

impl Entries {
    const ALL: [Entries; 2] = [Entries::Words, Entries::Strings];

    /// Those of an index, in their order: what one leaves is what the next finds.
    fn cases(self, index: IndexKind) -> impl Iterator<Item = Case> {
        use Case::{Get, GetMany, GetMissing, Group, Insert, PutRecord, Range, Remove, Update};
        let cases: &[Case] = match self {
            Entries::Words => {
                &[Get, GetMissing, Range, Update, Insert, Remove, PutRecord, Group, GetMany]
            }
            Entries::Strings => &[Get, GetMissing, Range, Update, Insert, Remove, GetMany],
        };
        cases.iter().copied().filter(move |&case| index.is_ordered() || case != Range)
    }
}

fn name(index: IndexKind, entries: Entries, case: Case) -> String {
    match entries {
        Entries::Words => format!("{} {case:?}", index.name()),
        Entries::Strings => format!("{} strings {case:?}", index.name()),
    }
}

/// All cases, in their order, which is that of the dumps.
fn all() -> impl Iterator<Item = (IndexKind, Entries)> {
    IndexKind::ALL.into_iter().flat_map(|index| Entries::ALL.map(|entries| (index, entries)))
}

/// The names of all cases, in their order.
pub(super) fn names() -> impl Iterator<Item = String> {
    all().flat_map(|(index, entries)| {
        entries.cases(index).map(move |case| name(index, entries, case))
    })
}

/// Runs every case in this process.
///
/// # Errors
/// Those of the store.
pub fn run() -> Result<Counts, Error> {
    let mut counts = Counts::new();
    for (index, entries) in all() {
        let mut cases = Cases::new(index, entries)?;
        for case in entries.cases(index) {
            let count = cases.count(case)?;
            counts.insert(name(index, entries, case), count);
        }
    }
    Ok(counts)
}

/// A key of 16 to 32 bytes: its number, which no other key begins with, and some more.
fn string(number: u64) -> Vec<u8> {
    const REST: &[u8; 16] = b"abcdefghijklmnop";
    let rest = &REST[..number as usize % (REST.len() + 1)];
    [format!("{number:016x}").as_bytes(), rest].concat()
}

/// A store, and what is done with it.
pub(super) struct Cases {
    store: Store,
    keyspace: Keyspace,
    keys: Keys,
    entries: Entries,
}

impl Cases {
    /// A store with as many entries.
    ///
    /// # Errors
    /// Those of the store.
    pub(super) fn new(index: IndexKind, entries: Entries) -> Result<Cases, Error> {
        // Nothing in the background, and nothing random: a run is like the one before.
        let options =
            Options::new().index(index).background(false).size(64 << 20).size_max(64 << 20);
        let store = Store::volatile(&options)?;
        while store.maintain(64)? == Progress::More {}
        let keyspace = store.keyspace("guard")?;
        let cases = Cases { store, keyspace, keys: Keys { count: LOADED, seed: 1 }, entries };
        for key in cases.keys.shuffled(0) {
            match entries {
                Entries::Words => cases.put(key, &key.to_le_bytes())?,
                Entries::Strings => cases.put_string(&string(key), &[1; STRING_VALUE])?,
            }
        }
        Ok(cases)
    }

    /// Counts a case.
    ///
    /// # Errors
    /// Those of the store.
    pub(super) fn count(&mut self, case: Case) -> Result<Count, Error> {
        let before = Counters::thread();
        let plan = self.plan(case);
        match self.entries {
            Entries::Words => guarded(&mut || self.run_words(case, &plan))?,
            Entries::Strings => {
                let plan: Vec<Vec<u8>> = plan.iter().map(|&key| string(key)).collect();
                guarded(&mut || self.run_strings(case, &plan))?;
            }
        }
        let cost = Counters::thread() - before;
        let each = |count: u64| count as f64 / OPERATIONS as f64;
        Ok(Count { instructions: None, fences: each(cost.fences), lines: each(cost.lines) })
    }

    fn put(&self, key: u64, value: &[u8]) -> Result<(), Error> {
        self.store.put(self.keyspace, &key.to_be_bytes(), value, Durability::Strict)?;
        Ok(())
    }

    fn put_string(&self, key: &[u8], value: &[u8]) -> Result<(), Error> {
        self.store.put(self.keyspace, key, value, Durability::Strict)?;
        Ok(())
    }

    /// The keys of a case: those that are there, or others.
    fn plan(&self, case: Case) -> Vec<u64> {
        let salt = case as u64 + 1;
        let mut plan = match case {
            Case::GetMissing | Case::Insert => self.keys.missing(salt),
            _ => self.keys.shuffled(salt),
        };
        plan.truncate(OPERATIONS as usize);
        plan
    }

    fn scan(&self, from: &[u8]) -> Result<(), Error> {
        let mut count = 0;
        let mut visit = |_: &[u8], _: tembo_kv::Value<'_>| {
            count += 1;
            count < RANGE
        };
        let (from, to) = (Bound::Included(from), Bound::Unbounded);
        self.store.snapshot()?.range_with::<[u8]>(
            self.keyspace,
            (from, to),
            Direction::Forward,
            &mut visit,
        )?;
        Ok(())
    }

    fn get_many<K: AsRef<[u8]>>(&self, keys: &[K]) -> Result<(), Error> {
        for keys in keys.chunks(GROUP) {
            let mut len = 0;
            self.store.get_many_with(self.keyspace, keys, |value| {
                len += value.map_or(0, |value| value.len());
            })?;
            std::hint::black_box(len);
        }
        Ok(())
    }

    fn run_words(&self, case: Case, plan: &[u64]) -> Result<(), Error> {
        let (store, keyspace) = (&self.store, self.keyspace);
        match case {
            Case::Group => {
                for keys in plan.chunks(GROUP) {
                    let mut group = store.exclusive()?;
                    for key in keys {
                        group.put(keyspace, &key.to_be_bytes(), &key.to_le_bytes())?;
                    }
                    group.commit(Durability::Strict)?;
                }
                return Ok(());
            }
            Case::GetMany => {
                let keys: Vec<[u8; 8]> = plan.iter().map(|key| key.to_be_bytes()).collect();
                return self.get_many(&keys);
            }
            _ => {}
        }
        let record = [7; 1024];
        for &key in plan {
            let bytes = key.to_be_bytes();
            match case {
                Case::Get | Case::GetMissing => {
                    store.get_with(keyspace, &bytes, |value| value.map(|value| value.len()))?;
                }
                Case::Range => self.scan(&bytes)?,
                Case::Remove => {
                    store.remove(keyspace, &bytes, Durability::Strict)?;
                }
                Case::PutRecord => self.put(key, &record)?,
                _ => self.put(key, &(!key).to_le_bytes())?,
            }
        }
        Ok(())
    }

    fn run_strings(&self, case: Case, plan: &[Vec<u8>]) -> Result<(), Error> {
        let (store, keyspace) = (&self.store, self.keyspace);
        if case == Case::GetMany {
            return self.get_many(plan);
        }
        let value = [2; STRING_VALUE];
        for key in plan {
            match case {
                Case::Get | Case::GetMissing => {
                    store.get_with(keyspace, key, |value| value.map(|value| value.len()))?;
                }
                Case::Range => self.scan(key)?,
                Case::Remove => {
                    store.remove(keyspace, key, Durability::Strict)?;
                }
                _ => self.put_string(key, &value)?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    /// A guard whose counts change from run to run would be no guard.
    #[test]
    fn two_runs_count_the_same() {
        let counts = run().unwrap();
        assert_eq!(counts, run().unwrap());
        let mut all: Vec<String> = names().collect();
        all.sort();
        assert!(all.iter().eq(counts.keys()));
    }

    #[test]
    fn strings_have_16_to_32_bytes_and_none_begins_with_another() {
        let mut strings: Vec<_> =
            Keys { count: 500, seed: 1 }.shuffled(0).into_iter().map(string).collect();
        strings.sort_unstable();
        assert!(strings.windows(2).all(|pair| !pair[1].starts_with(&pair[0])));
        let lens = || strings.iter().map(Vec::len);
        assert_eq!((lens().min(), lens().max()), (Some(16), Some(32)));
    }
}
