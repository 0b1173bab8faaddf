//! The regression guard that noise cannot fool: instructions, fences and lines of the hot paths.
//!
//! Cases run in one process under callgrind: it begins to count where `counted` begins and writes down
//! what it has where `guarded` ends. The store is volatile, so that what is counted is the same code on every machine: no flush
//! instruction, and no wider vectors than valgrind knows. Counts are kept in the repository; they change
//! with the code and with the pinned compiler only.

use std::collections::BTreeMap;
use std::fs;
use std::ops::Bound;
use std::path::Path;
use std::process::{Command, Stdio};

use serde::{Deserialize, Serialize};
use tembo_index::IndexKind;
use tembo_kv::{Direction, Durability, Keyspace, Options, Progress, Store};
use tembo_pmem::Counters;

use crate::contender::Size;
use crate::keys::Keys;
use crate::rival::failed;
use crate::{Error, Kind};

/// Keys in the store before a case.
const LOADED: u64 = 20_000;

/// Operations of a case.
const OPERATIONS: u64 = 1_000;

/// Entries that a range visits.
const RANGE: u64 = 100;

/// What an operation costs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Count {
    /// Instructions an operation; `None`: there was no valgrind.
    pub instructions: Option<f64>,
    /// Fences an operation.
    pub fences: f64,
    /// Lines flushed an operation.
    pub lines: f64,
}

/// Costs by case.
pub type Counts = BTreeMap<String, Count>;

/// How much a count may differ: instructions by inlining that follows changes elsewhere.
const INSTRUCTIONS_TOLERANCE: f64 = 0.05;
const LINES_TOLERANCE: f64 = 0.005;

impl Change {
    /// Whether less is spent than was, which is no reason to stop.
    pub fn is_better(&self) -> bool {
        self.stored.zip(self.counted).is_some_and(|(stored, counted)| counted < stored)
    }
}

/// A count that is not what is stored.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// The case.
    pub case: String,
    /// Instructions, fences or lines.
    pub what: &'static str,
    /// As stored; `None`: the case is not known.
    pub stored: Option<f64>,
    /// As counted; `None`: the case is gone.
    pub counted: Option<f64>,
}

/// What differs by more than the tolerance, for the better too. Instructions are compared where both
/// have them.
pub fn changes(stored: &Counts, counted: &Counts) -> Vec<Change> {
    let mut changes = Vec::new();
    let names: std::collections::BTreeSet<&String> = stored.keys().chain(counted.keys()).collect();
    for case in names {
        let (stored, counted) = (stored.get(case), counted.get(case));
        let mut compare = |what, tolerance: f64, of: fn(&Count) -> Option<f64>| {
            let (stored, counted) = (stored.and_then(of), counted.and_then(of));
            let same = match (stored, counted) {
                (Some(stored), Some(counted)) => {
                    (stored - counted).abs() <= tolerance * stored.max(1.0)
                }
                (None, None) => true,
                // Without valgrind on one side instructions say nothing.
                _ => what == "instructions",
            };
            if !same {
                changes.push(Change { case: case.clone(), what, stored, counted });
            }
        };
        compare("instructions", INSTRUCTIONS_TOLERANCE, |count| count.instructions);
        compare("fences", LINES_TOLERANCE, |count| Some(count.fences));
        compare("lines", LINES_TOLERANCE, |count| Some(count.lines));
    }
    changes
}

/// Callgrind finds both by their names, in full: patterns that begin alike are not names apart. They are
/// two, for it takes one order a function.
pub(crate) const CALLGRIND: [&str; 3] = [
    "--tool=callgrind",
    "--zero-before=tembo_bench::guard::counted",
    "--dump-after=tembo_bench::guard::guarded",
];

#[inline(never)]
pub(crate) fn guarded(work: &mut dyn FnMut() -> Result<(), Error>) -> Result<(), Error> {
    let done = counted(work);
    // So that the call above does not become a jump.
    std::hint::black_box(&done);
    done
}

#[inline(never)]
fn counted(work: &mut dyn FnMut() -> Result<(), Error>) -> Result<(), Error> {
    let done = work();
    std::hint::black_box(&done);
    done
}

/// Runs every case in this process.
///
/// # Errors
/// Those of the store.
pub fn run() -> Result<Counts, Error> {
    let mut counts = Counts::new();
    for index in IndexKind::ALL {
        let mut cases = Cases::new(index)?;
        // In the order in which callgrind numbers its dumps, which is that of `names`.
        for case in CASES {
            let before = Counters::thread();
            let plan = cases.plan(case);
            guarded(&mut || cases.run(case, &plan))?;
            let cost = Counters::thread() - before;
            let each = |count: u64| count as f64 / OPERATIONS as f64;
            let (fences, lines) = (each(cost.fences), each(cost.lines));
            let count = Count { instructions: None, fences, lines };
            counts.insert(name(index, case), count);
        }
    }
    Ok(counts)
}

/// Inserts keys into a bare tree in memory, to be counted: callgrind has no room for a file's reservation.
///
/// # Errors
/// Those of the tree.
pub fn insert(kind: Kind, keys: u64, node_size: u32) -> Result<(), Error> {
    let mut contender = kind.in_memory(Size::new(keys, node_size), None)?;
    let plan = Keys { count: keys, seed: 1 }.shuffled(0);
    guarded(&mut || contender.inserts(&plan))
}

fn name(index: IndexKind, case: Case) -> String {
    format!("{} {case:?}", index.name())
}

/// An operation of the store, [`OPERATIONS`] times.
#[derive(Clone, Copy, Debug)]
enum Case {
    Get,
    GetMissing,
    Range,
    Update,
    Insert,
    Remove,
    PutRecord,
    Group,
}

const CASES: [Case; 8] = [
    Case::Get,
    Case::GetMissing,
    Case::Range,
    Case::Update,
    Case::Insert,
    Case::Remove,
    Case::PutRecord,
    Case::Group,
];

/// Puts of a group.
const GROUP: usize = 16;

struct Cases {
    store: Store,
    keyspace: Keyspace,
    keys: Keys,
}

impl Cases {
    fn new(index: IndexKind) -> Result<Cases, Error> {
        // Nothing in the background, and nothing random: a run is like the one before.
        let options =
            Options::new().index(index).background(false).size(64 << 20).size_max(64 << 20);
        let store = Store::volatile(&options)?;
        while store.maintain(64)? == Progress::More {}
        let keyspace = store.keyspace("guard")?;
        let cases = Cases { store, keyspace, keys: Keys { count: LOADED, seed: 1 } };
        for key in cases.keys.shuffled(0) {
            cases.put(key, &key.to_le_bytes())?;
        }
        Ok(cases)
    }

    fn put(&self, key: u64, value: &[u8]) -> Result<(), Error> {
        self.store.put(self.keyspace, &key.to_be_bytes(), value, Durability::Strict)?;
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

    fn run(&mut self, case: Case, plan: &[u64]) -> Result<(), Error> {
        let (store, keyspace) = (&self.store, self.keyspace);
        if let Case::Group = case {
            for keys in plan.chunks(GROUP) {
                let mut group = store.exclusive()?;
                for key in keys {
                    group.put(keyspace, &key.to_be_bytes(), &key.to_le_bytes())?;
                }
                group.commit(Durability::Strict)?;
            }
            return Ok(());
        }
        let record = [7; 1024];
        for &key in plan {
            let bytes = key.to_be_bytes();
            match case {
                Case::Get | Case::GetMissing => {
                    store.get_with(keyspace, &bytes, |value| value.map(|value| value.len()))?;
                }
                Case::Range => {
                    let mut count = 0;
                    let mut visit = |_: &[u8], _: tembo_kv::Value<'_>| {
                        count += 1;
                        count < RANGE
                    };
                    let (from, to) = (Bound::Included(&bytes[..]), Bound::Unbounded);
                    store.snapshot()?.range_with::<[u8]>(
                        keyspace,
                        (from, to),
                        Direction::Forward,
                        &mut visit,
                    )?;
                }
                Case::Remove => {
                    store.remove(keyspace, &bytes, Durability::Strict)?;
                }
                Case::PutRecord => self.put(key, &record)?,
                _ => self.put(key, &(!key).to_le_bytes())?,
            }
        }
        Ok(())
    }
}

/// Runs `program words...`, which is to call [`run()`] and print its counts as `read` reads them, under
/// callgrind; without instructions if there is no valgrind.
///
/// # Errors
/// [`Error::Rival`] if callgrind or the program fails.
pub fn count(
    program: &Path,
    words: &[&str],
    read: &dyn Fn(&[u8]) -> Option<Counts>,
) -> Result<(Counts, bool), Error> {
    let error = failed("callgrind");
    let folder = tempfile::tempdir().map_err(|source| error(Box::new(source)))?;
    let out = folder.path().join("out");
    let mut command = Command::new("valgrind");
    command.args(CALLGRIND);
    command.arg(format!("--callgrind-out-file={}", out.display())).arg(program).args(words);
    let has_valgrind = Command::new("valgrind")
        .arg("--version")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success());
    if !has_valgrind {
        return Ok((run()?, false));
    }
    let output = command.output().map_err(|source| error(Box::new(source)))?;
    let Some(mut counts) = read(&output.stdout).filter(|_| output.status.success()) else {
        return Err(error(String::from_utf8_lossy(&output.stderr).into()));
    };
    let names = IndexKind::ALL.into_iter().flat_map(|index| CASES.map(|case| name(index, case)));
    for (number, name) in names.enumerate() {
        let dump = out.with_extension((number + 1).to_string());
        let text = fs::read_to_string(&dump).map_err(|source| error(Box::new(source)))?;
        let total = text.lines().rev().find_map(|line| line.strip_prefix("totals: "));
        let total = total.and_then(|total| total.trim().parse::<f64>().ok());
        if let (Some(count), Some(total)) = (counts.get_mut(&name), total) {
            count.instructions = Some((total / OPERATIONS as f64).round());
        }
    }
    Ok((counts, true))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn more_and_less_are_changes_and_noise_is_not() {
        let count = Count { instructions: Some(1000.0), fences: 1.0, lines: 1.4 };
        let stored = Counts::from([("a".into(), count), ("b".into(), count)]);
        let mut counted = stored.clone();
        counted.get_mut("a").unwrap().instructions = Some(1020.0);
        assert_eq!(changes(&stored, &counted), []);
        counted.get_mut("a").unwrap().instructions = None;
        assert_eq!(changes(&stored, &counted), []);
        counted.get_mut("a").unwrap().instructions = Some(1060.0);
        counted.get_mut("b").unwrap().fences = 1.01;
        let changed = changes(&stored, &counted);
        let names: Vec<_> = changed.iter().map(|change| (&change.case[..], change.what)).collect();
        assert_eq!(names, [("a", "instructions"), ("b", "fences")]);
        counted.remove("a");
        assert!(changes(&stored, &counted).iter().any(|change| change.counted.is_none()));
    }

    /// A guard whose counts change from run to run would be no guard.
    #[test]
    fn two_runs_count_the_same() {
        assert_eq!(run().unwrap(), run().unwrap());
    }
}
