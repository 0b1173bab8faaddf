//! The record of a history: 16 bytes for an operation, some 100 for a transaction.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

use super::database::{Failure, Key, Transact, Value};

/// Stands for no value.
pub const ABSENT: Value = 0;

/// Orders what threads call and what returns to them: of two numbers the smaller was drawn earlier.
#[derive(Debug, Default)]
pub struct Clock(AtomicU64);

impl Clock {
    /// The time.
    pub fn tick(&self) -> u64 {
        // Sequentially consistent, so that no operation of the store moves across it.
        self.0.fetch_add(1, Ordering::SeqCst)
    }
}

/// One thing that a transaction did, and the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Read one key.
    Get {
        /// The key.
        key: Key,
        /// What was there.
        value: Value,
    },
    /// Put one key.
    Put {
        /// The key.
        key: Key,
        /// What it put.
        value: Value,
    },
    /// Removed one key.
    Remove {
        /// The key.
        key: Key,
    },
    /// Read all keys from `from` to `to`, both included: the entries that follow, and no others.
    Range {
        /// The least key.
        from: Key,
        /// The greatest key.
        to: Key,
        /// How many entries follow.
        count: u32,
        /// Whether they were read from the greatest key down.
        backwards: bool,
    },
    /// An entry of the range before it.
    Entry {
        /// The key.
        key: Key,
        /// What was there.
        value: Value,
    },
    /// Noted where it is: savepoints are numbered from 0 in each transaction.
    Savepoint,
    /// Forgot what it wrote since that savepoint, and the savepoints after it.
    RollBack {
        /// Its number.
        savepoint: u32,
    },
}

/// How a transaction ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Acknowledged in that version.
    Committed {
        /// Its own; its snapshot's if it wrote nothing.
        version: u64,
    },
    /// Refused, since another transaction had written that key in that version.
    Conflict {
        /// The key.
        key: Key,
        /// The version.
        version: u64,
    },
    /// Dropped without a commit.
    Dropped,
    /// The store crashed before the commit returned.
    Unknown,
}

/// A transaction that has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transaction {
    /// The number of its thread.
    pub thread: u16,
    /// When its begin was called, and when it returned.
    pub began: (u64, u64),
    /// When its end was called, and when it returned.
    pub ended: (u64, u64),
    /// The version of its snapshot.
    pub snapshot: u64,
    /// How it ended.
    pub outcome: Outcome,
    /// Its part of the history's actions.
    pub actions: Range<usize>,
}

impl Transaction {
    /// Its version, if it was acknowledged.
    pub fn version(&self) -> Option<u64> {
        match self.outcome {
            Outcome::Committed { version } => Some(version),
            Outcome::Conflict { .. } | Outcome::Dropped | Outcome::Unknown => None,
        }
    }
}

/// Everything that the threads did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct History {
    /// The transactions.
    pub transactions: Vec<Transaction>,
    /// The actions of the transactions.
    pub actions: Vec<Action>,
}

impl History {
    /// The history of several threads.
    pub fn of(threads: impl IntoIterator<Item = History>) -> History {
        let mut all = History::default();
        for History { transactions, actions } in threads {
            let base = all.actions.len();
            let moved = transactions.into_iter().map(|mut transaction| {
                transaction.actions.start += base;
                transaction.actions.end += base;
                transaction
            });
            all.transactions.extend(moved);
            all.actions.extend(actions);
        }
        all
    }

    /// As it was at some moment between these two times: a transaction that had returned by the first has
    /// ended, and one whose commit was called after the second has not.
    #[must_use]
    pub fn until(mut self, (first, second): (u64, u64)) -> History {
        for transaction in &mut self.transactions {
            let (called, returned) = transaction.ended;
            if returned > first && transaction.version().is_some() {
                let is_called = called < second;
                transaction.outcome = if is_called { Outcome::Unknown } else { Outcome::Dropped };
            }
        }
        self
    }

    /// What that transaction did.
    pub fn actions(&self, transaction: usize) -> &[Action] {
        &self.actions[self.transactions[transaction].actions.clone()]
    }

    /// Reads, writes and ranges.
    pub fn operation_count(&self) -> u64 {
        let is_operation = |action: &&Action| {
            !matches!(action, Action::Entry { .. } | Action::Savepoint | Action::RollBack { .. })
        };
        self.actions.iter().filter(is_operation).count() as u64
    }
}

/// Writes down what one thread does.
pub struct Recorder<'c> {
    clock: &'c Clock,
    thread: u16,
    history: History,
}

/// A transaction of which everything is written down.
pub struct Recorded<'r, 'c, T: Transact> {
    transaction: T,
    recorder: &'r mut Recorder<'c>,
    began: (u64, u64),
    start: usize,
    savepoints: Vec<T::Savepoint>,
}

impl<'c> Recorder<'c> {
    /// A recorder of that thread.
    pub fn new(clock: &'c Clock, thread: u16) -> Recorder<'c> {
        Recorder { clock, thread, history: History::default() }
    }

    /// Begins a transaction with `begin`.
    pub fn begin<T: Transact>(
        &mut self,
        begin: impl FnOnce() -> Result<T, Failure>,
    ) -> Result<Recorded<'_, 'c, T>, Failure> {
        let called = self.clock.tick();
        let transaction = begin()?;
        let began = (called, self.clock.tick());
        let start = self.history.actions.len();
        Ok(Recorded { transaction, recorder: self, began, start, savepoints: Vec::new() })
    }

    /// The recorded history.
    pub fn finish(self) -> History {
        self.history
    }
}

impl<T: Transact> Recorded<'_, '_, T> {
    fn note(&mut self, action: Action) {
        self.recorder.history.actions.push(action);
    }

    /// As [`Transact::get`].
    pub fn get(&mut self, key: Key) -> Result<Value, Failure> {
        let value = self.transaction.get(key)?;
        self.note(Action::Get { key, value });
        Ok(value)
    }

    /// As [`Transact::range`]. One that `limit` has cut short has read as far as its last key.
    pub fn range(
        &mut self,
        from: Key,
        to: Key,
        backwards: bool,
        limit: usize,
    ) -> Result<Vec<(Key, Value)>, Failure> {
        let entries = self.transaction.range(from, to, backwards, limit)?;
        let last = entries.last().filter(|_| entries.len() == limit).map(|&(key, _)| key);
        let (from, to) = match (last, backwards) {
            (None, _) => (from, to),
            (Some(last), false) => (from, last),
            (Some(last), true) => (last, to),
        };
        self.note(Action::Range { from, to, count: entries.len() as u32, backwards });
        for &(key, value) in &entries {
            self.note(Action::Entry { key, value });
        }
        Ok(entries)
    }

    /// As [`Transact::put`].
    pub fn put(&mut self, key: Key, value: Value) -> Result<(), Failure> {
        self.transaction.put(key, value)?;
        self.note(Action::Put { key, value });
        Ok(())
    }

    /// As [`Transact::remove`].
    pub fn remove(&mut self, key: Key) -> Result<(), Failure> {
        self.transaction.remove(key)?;
        self.note(Action::Remove { key });
        Ok(())
    }

    /// As [`Transact::savepoint`]; its number.
    pub fn savepoint(&mut self) -> usize {
        let savepoint = self.transaction.savepoint();
        self.savepoints.push(savepoint);
        self.note(Action::Savepoint);
        self.savepoints.len() - 1
    }

    /// As [`Transact::roll_back`]. Savepoints after it are none any more.
    pub fn roll_back(&mut self, savepoint: usize) -> Result<(), Failure> {
        self.transaction.roll_back(&self.savepoints[savepoint])?;
        self.savepoints.truncate(savepoint + 1);
        self.note(Action::RollBack { savepoint: savepoint as u32 });
        Ok(())
    }

    /// Commits. A conflict is an outcome, no failure.
    pub fn commit(self) -> Result<Outcome, Failure> {
        let Recorded { transaction, recorder, began, start, .. } = self;
        let (snapshot, called) = (transaction.version(), recorder.clock.tick());
        let outcome = match transaction.commit() {
            Ok(version) => Outcome::Committed { version },
            Err(Failure::Conflict { key, version }) => Outcome::Conflict { key, version },
            Err(Failure::Crashed) => Outcome::Unknown,
            Err(broken) => return Err(broken),
        };
        recorder.end(began, called, snapshot, outcome, start);
        Ok(outcome)
    }

    /// Ends it without a commit.
    pub fn abandon(self) {
        let Recorded { transaction, recorder, began, start, .. } = self;
        let (snapshot, called) = (transaction.version(), recorder.clock.tick());
        drop(transaction);
        recorder.end(began, called, snapshot, Outcome::Dropped, start);
    }
}

impl Recorder<'_> {
    fn end(
        &mut self,
        began: (u64, u64),
        called: u64,
        snapshot: u64,
        outcome: Outcome,
        start: usize,
    ) {
        let ended = (called, self.clock.tick());
        let actions = start..self.history.actions.len();
        let thread = self.thread;
        let transaction = Transaction { thread, began, ended, snapshot, outcome, actions };
        self.history.transactions.push(transaction);
    }

    /// Removes the actions of a transaction that ended in a failure.
    pub fn forget_unended(&mut self) {
        let end = self.history.transactions.last().map_or(0, |last| last.actions.end);
        self.history.actions.truncate(end);
    }
}
