//! Every version of every key that was acknowledged: what the state was at each version.

use std::collections::HashMap;

use super::database::{Key, Value};
use super::record::{ABSENT, Action, History};

/// A version of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Write {
    pub(super) version: u64,
    pub(super) value: Value,
    /// The transaction.
    pub(super) writer: usize,
}

/// What a transaction has written so far, in order.
#[derive(Default)]
pub(super) struct WriteSet {
    writes: Vec<(Key, Value)>,
    savepoints: Vec<usize>,
}

impl WriteSet {
    /// Takes note of a write, a savepoint or a way back; of reads not.
    pub(super) fn note(&mut self, action: Action) {
        match action {
            Action::Put { key, value } => self.writes.push((key, value)),
            Action::Remove { key } => self.writes.push((key, ABSENT)),
            Action::Savepoint => self.savepoints.push(self.writes.len()),
            Action::RollBack { savepoint } => {
                self.writes.truncate(self.savepoints[savepoint as usize]);
                self.savepoints.truncate(savepoint as usize + 1);
            }
            Action::Get { .. } | Action::Range { .. } | Action::Entry { .. } => {}
        }
    }

    /// What it has written to that key, if anything.
    pub(super) fn get(&self, key: Key) -> Option<Value> {
        self.writes.iter().rev().find(|write| write.0 == key).map(|write| write.1)
    }

    /// Key and value of all that counts, in the order of the keys.
    pub(super) fn sorted(&self) -> Vec<(Key, Value)> {
        let mut all: Vec<(Key, Value)> = self.writes.iter().rev().copied().collect();
        // Stable: the last write of each key stays first.
        all.sort_by_key(|write| write.0);
        all.dedup_by_key(|write| write.0);
        all
    }

    /// The writes of a whole transaction.
    pub(super) fn of(actions: &[Action]) -> Vec<(Key, Value)> {
        let mut set = WriteSet::default();
        actions.iter().for_each(|&action| set.note(action));
        set.sorted()
    }
}

/// The versions of all keys. To remove what is not there is no write.
pub(super) struct Versions {
    /// Where the versions of each key begin.
    starts: Vec<u32>,
    writes: Vec<Write>,
    /// Whether any write of each transaction is among these.
    is_writer: Vec<bool>,
    /// The last version in which a key was removed that was not there.
    idle: HashMap<Key, u64>,
}

impl Versions {
    /// The versions that acknowledged transactions have written.
    pub(super) fn of(history: &History) -> Versions {
        let mut writes: Vec<(Key, Write)> = Vec::new();
        for (writer, transaction) in history.transactions.iter().enumerate() {
            let Some(version) = transaction.version() else { continue };
            let set = WriteSet::of(history.actions(writer)).into_iter();
            writes.extend(set.map(|(key, value)| (key, Write { version, value, writer })));
        }
        writes.sort_unstable_by_key(|(key, write)| (*key, write.version, write.writer));
        let (mut there, mut idle) = (None, HashMap::new());
        writes.retain(|(key, write)| {
            let is_effect = write.value != ABSENT || there == Some(*key);
            if !is_effect {
                idle.insert(*key, write.version);
            }
            there = (write.value != ABSENT).then_some(*key);
            is_effect
        });
        let mut is_writer = vec![false; history.transactions.len()];
        let key_count = writes.last().map_or(0, |(key, _)| *key as usize + 1);
        let mut starts = vec![0; key_count + 1];
        for (key, write) in &writes {
            starts[*key as usize + 1] += 1;
            is_writer[write.writer] = true;
        }
        for key in 0..key_count {
            starts[key + 1] += starts[key];
        }
        let writes = writes.into_iter().map(|(_, write)| write).collect();
        Versions { starts, writes, is_writer, idle }
    }

    /// Whether the transaction was acknowledged and has changed anything.
    pub(super) fn is_writer(&self, transaction: usize) -> bool {
        self.is_writer[transaction]
    }

    /// Whether the key was removed after `version`, by a transaction that may not have known that it was there.
    pub(super) fn is_removed_after(&self, key: Key, version: u64) -> bool {
        self.idle.get(&key).is_some_and(|&removed| removed > version)
    }

    /// No key is as great.
    pub(super) fn key_end(&self) -> Key {
        (self.starts.len() - 1) as Key
    }

    /// All versions of that key, in order.
    pub(super) fn of_key(&self, key: Key) -> &[Write] {
        match self.starts.get(key as usize..key as usize + 2) {
            Some(&[start, end]) => &self.writes[start as usize..end as usize],
            _ => &[],
        }
    }

    /// The one that holds at `version`.
    pub(super) fn at(&self, key: Key, version: u64) -> Option<Write> {
        let all = self.of_key(key);
        let after = all.partition_point(|write| write.version <= version);
        after.checked_sub(1).map(|at| all[at])
    }

    /// The next one after `version`.
    pub(super) fn after(&self, key: Key, version: u64) -> Option<Write> {
        let all = self.of_key(key);
        all.get(all.partition_point(|write| write.version <= version)).copied()
    }

    /// The value that holds at `version`.
    pub(super) fn value_at(&self, key: Key, version: u64) -> Value {
        self.at(key, version).map_or(ABSENT, |write| write.value)
    }

    /// The writer of that value, of the transactions that were acknowledged.
    pub(super) fn writer_of(&self, key: Key, value: Value) -> Option<Write> {
        self.of_key(key).iter().find(|write| write.value == value).copied()
    }
}
