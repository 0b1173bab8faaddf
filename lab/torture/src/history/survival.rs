//! What a crash leaves of a history.
//!
//! **What it decides.** After the crash everything is read. Of each transaction that was acknowledged all
//! is there, unless a later one has overwritten it. Of those whose commit had not returned each is there
//! whole or not at all; and it *is* there if an acknowledged transaction read what it
//! wrote: a version must not be durable before one that it depends on, and nothing that could still be
//! lost leaves the process.
//!
//! **How.** Values are written once, so each that is found names its writer. *Present* is a
//! transaction whose value is found, or has been read by one that is present or acknowledged, until nothing
//! is added. Then of
//! each key the last acknowledged write is known, and which of those present wrote it later: the ones
//! whose snapshot holds that write, since else the first committer would have won over them. The value
//! found must be of one of these, or, if there are none, the acknowledged one. O(n log n).
//!
//! A removal leaves no value that names it: for a key that is missing, the transactions that may have removed
//! it are looked for, and if that can be only one, it is present like others. (Of one that was acknowledged and removed what
//! no acknowledged transaction had put it is not known whether it came before or after an unknown one.)
//!
//! It judges histories that began with an empty store and end with the crash.

use std::collections::{HashMap, HashSet};

use super::broken::Broken;
use super::database::{Key, Value};
use super::record::{ABSENT, Action, History, Outcome};
use super::versions::{Versions, WriteSet};

/// Whether what is `found` after the crash is what the history allows.
///
/// # Errors
/// The first violation that it finds.
pub fn check_crash(history: &History, found: &[(Key, Value)]) -> Result<(), Broken> {
    let found: HashMap<Key, Value> = found.iter().copied().collect();
    let versions = Versions::of(history);
    let unknown = Unknown::of(history, &versions, &found);
    let mut keys: Vec<Key> = (0..versions.key_end()).collect();
    keys.extend(unknown.writers.keys().map(|(key, _)| key).chain(found.keys()));
    keys.sort_unstable();
    keys.dedup();
    for key in keys {
        let shown = found.get(&key).copied().unwrap_or(ABSENT);
        let last = versions.of_key(key).last();
        let since = last.map_or(0, |write| write.version);
        let later: Vec<(Value, usize)> = unknown
            .present_writes(key)
            .filter(|&(_, writer)| history.transactions[writer].snapshot >= since)
            .collect();
        let is_removed = versions.is_removed_after(key, since)
            || unknown.removers(history, &versions, key).next().is_some();
        if later.iter().any(|&(value, _)| value == shown) || (shown == ABSENT && is_removed) {
            continue;
        }
        if let Some(&(_, writer)) = later.first() {
            return Err(match unknown.readers.get(&writer) {
                Some(&reader) => Broken::LostAfterRead { reader, writer, key, found: shown },
                None => Broken::Torn { writer, key, found: shown },
            });
        }
        match last {
            Some(write) if write.value == shown => {}
            Some(write) => return Err(Broken::Lost { writer: write.writer, key, found: shown }),
            None if shown == ABSENT => {}
            None => return Err(Broken::Foreign { key, found: shown }),
        }
    }
    Ok(())
}

/// The transactions whose end is unknown.
struct Unknown {
    /// The writer of each value.
    writers: HashMap<(Key, Value), usize>,
    /// The writes of each transaction.
    sets: HashMap<usize, Vec<(Key, Value)>>,
    /// Transactions whose writes must be there.
    present: HashSet<usize>,
    /// For some of these, an acknowledged transaction that read one.
    readers: HashMap<usize, usize>,
}

impl Unknown {
    fn of(history: &History, versions: &Versions, found: &HashMap<Key, Value>) -> Unknown {
        let transactions = history.transactions.iter().enumerate();
        let unended = transactions.filter(|(_, one)| one.outcome == Outcome::Unknown);
        let sets: HashMap<usize, Vec<(Key, Value)>> =
            unended.map(|(at, _)| (at, WriteSet::of(history.actions(at)))).collect();
        let mut writers = HashMap::new();
        for (&writer, set) in &sets {
            let puts = set.iter().filter(|write| write.1 != ABSENT);
            writers.extend(puts.map(|&write| (write, writer)));
        }
        let shown = found.iter().filter_map(|(&key, &value)| writers.get(&(key, value)).copied());
        let present = shown.collect();
        let mut unknown = Unknown { writers, sets, present, readers: HashMap::new() };
        unknown.add_removers(history, versions, found);
        unknown.follow_reads(history);
        unknown
    }

    /// Transactions that may have removed the key after its last acknowledged write.
    fn removers<'u>(
        &'u self,
        history: &'u History,
        versions: &Versions,
        key: Key,
    ) -> impl Iterator<Item = usize> + 'u {
        let since = versions.of_key(key).last().map_or(0, |write| write.version);
        let removed = self.sets.iter().filter(move |(_, set)| set.contains(&(key, ABSENT)));
        let removed = removed.map(|(&writer, _)| writer);
        removed.filter(move |&writer| history.transactions[writer].snapshot >= since)
    }

    /// Adds those that alone can have removed what was acknowledged and is missing.
    fn add_removers(
        &mut self,
        history: &History,
        versions: &Versions,
        found: &HashMap<Key, Value>,
    ) {
        for key in 0..versions.key_end() {
            let was_there = versions.of_key(key).last().is_some_and(|write| write.value != ABSENT);
            if was_there && !found.contains_key(&key) {
                let mut removers = self.removers(history, versions, key);
                if let (Some(only), None) = (removers.next(), removers.next()) {
                    drop(removers);
                    self.present.insert(only);
                }
            }
        }
    }

    /// Adds the writers that present transactions have read.
    fn follow_reads(&mut self, history: &History) {
        for (reader, transaction) in history.transactions.iter().enumerate() {
            if transaction.version().is_some() {
                for writer in self.read_by(history, reader) {
                    self.present.insert(writer);
                    self.readers.insert(writer, reader);
                }
            }
        }
        let mut open: Vec<usize> = self.present.iter().copied().collect();
        while let Some(reader) = open.pop() {
            for writer in self.read_by(history, reader) {
                if self.present.insert(writer) {
                    open.push(writer);
                }
            }
        }
    }

    /// Transactions whose writes this reader has read.
    fn read_by(&self, history: &History, reader: usize) -> Vec<usize> {
        let read = history.actions(reader).iter().filter_map(|action| match *action {
            Action::Get { key, value } | Action::Entry { key, value } => Some((key, value)),
            _ => None,
        });
        let writers = read.filter_map(|read| self.writers.get(&read).copied());
        writers.filter(|&writer| writer != reader).collect()
    }

    /// What the present transactions wrote to that key.
    fn present_writes(&self, key: Key) -> impl Iterator<Item = (Value, usize)> + '_ {
        self.present.iter().filter_map(move |&writer| {
            let write = self.sets.get(&writer)?.iter().find(|write| write.0 == key)?;
            Some((write.1, writer))
        })
    }
}
