//! A store in memory on which the checkers are proven: right, or wrong in one way.
//!
//! It works as a real one does. Commits run one after the other through the same steps (validate, draw a
//! version, apply key by key, fence, publish), and between two steps others run; readers take no part in
//! that order.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::yield_now;

use super::database::{Database, Failure, Isolation, Key, Registers, Transact, Value};
use super::record::ABSENT;

/// The fault of a toy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Whether another transaction wrote the same keys is not checked.
    ValidationSkipped,
    /// Whether ranges that were read have changed is not checked.
    PhantomCheckSkipped,
    /// Others see a commit before it is durable.
    VisibleBeforeDurable,
    /// A snapshot is taken at the last version drawn, not at the last one published.
    SnapshotTooNew,
    /// A snapshot is taken one version early.
    SnapshotTooOld,
    /// A commit is published when half of it is applied.
    HalfVisible,
    /// Reads do not see the transaction's own writes.
    OwnWritesMissing,
    /// A single put is acknowledged before it is there.
    AcknowledgedEarly,
}

impl Fault {
    /// All of them.
    pub const ALL: [Fault; 8] = [
        Fault::ValidationSkipped,
        Fault::PhantomCheckSkipped,
        Fault::VisibleBeforeDurable,
        Fault::SnapshotTooNew,
        Fault::SnapshotTooOld,
        Fault::HalfVisible,
        Fault::OwnWritesMissing,
        Fault::AcknowledgedEarly,
    ];
}

/// The store.
#[derive(Debug, Default)]
pub struct Toy {
    fault: Option<Fault>,
    /// Held through a commit.
    committing: Mutex<()>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Versions and values of each key, in order.
    keys: BTreeMap<Key, Vec<(u64, Value)>>,
    last: u64,
    visible: u64,
    durable: u64,
    /// The last snapshot of a reader that was answered.
    seen: u64,
    crashed: bool,
    /// A write that was acknowledged and is not there yet.
    owed: Option<(Key, Value)>,
}

impl State {
    fn read(&self, key: Key, version: u64) -> Value {
        let versions = self.keys.get(&key).map_or(&[][..], Vec::as_slice);
        versions.iter().rev().find(|one| one.0 <= version).map_or(ABSENT, |one| one.1)
    }

    /// The newest version of a key.
    fn newest(&self, key: Key) -> u64 {
        self.keys.get(&key).and_then(|versions| versions.last()).map_or(0, |one| one.0)
    }

    fn pay(&mut self) {
        if let Some((key, value)) = self.owed.take() {
            self.set(key, value);
        }
    }

    /// Puts one key in a version of its own.
    fn set(&mut self, key: Key, value: Value) {
        self.last += 1;
        self.keys.entry(key).or_default().push((self.last, value));
        (self.visible, self.durable) = (self.last, self.last);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Lets others see what they should not, also where one processor serves them all.
fn be_seen() {
    (0..5).for_each(|_| yield_now());
}

impl Toy {
    /// An empty store with that fault.
    pub fn new(fault: Option<Fault>) -> Toy {
        Toy { fault, ..Toy::default() }
    }

    /// The process ends: what was not durable is lost, and no call is answered any more. Returns
    /// what is there then.
    pub fn crash(&self) -> Vec<(Key, Value)> {
        let mut state = lock(&self.state);
        state.crashed = true;
        let read = |&key: &Key| (key, state.read(key, state.durable));
        state.keys.keys().map(read).filter(|entry| entry.1 != ABSENT).collect()
    }

    /// Whether a crash at this moment loses what an answered reader has seen.
    pub fn can_lose(&self) -> bool {
        let state = lock(&self.state);
        state.seen > state.durable
    }

    fn state(&self) -> Result<MutexGuard<'_, State>, Failure> {
        let state = lock(&self.state);
        if state.crashed { Err(Failure::Crashed) } else { Ok(state) }
    }

    fn change(&self, key: Key, value: Value) -> Result<bool, Failure> {
        let _committing = lock(&self.committing);
        let mut state = self.state()?;
        state.pay();
        let existed = state.read(key, state.visible) != ABSENT;
        if self.fault == Some(Fault::AcknowledgedEarly) {
            state.owed = Some((key, value));
        } else {
            state.set(key, value);
        }
        Ok(existed)
    }
}

impl Database for Toy {
    type Transaction<'d> = ToyTransaction<'d>;

    fn begin(&self, isolation: Isolation) -> Result<ToyTransaction<'_>, Failure> {
        let state = self.state()?;
        let snapshot = match self.fault {
            Some(Fault::SnapshotTooNew) => state.last,
            Some(Fault::SnapshotTooOld) => state.visible.saturating_sub(1),
            _ => state.visible,
        };
        let (writes, read) = (BTreeMap::new(), Vec::new());
        Ok(ToyTransaction { toy: self, isolation, snapshot, writes, read })
    }
}

impl Registers for Toy {
    fn get(&self, key: Key) -> Result<Value, Failure> {
        let state = self.state()?;
        Ok(state.read(key, state.visible))
    }

    fn put(&self, key: Key, value: Value) -> Result<bool, Failure> {
        self.change(key, value)
    }

    fn remove(&self, key: Key) -> Result<bool, Failure> {
        self.change(key, ABSENT)
    }
}

/// What a transaction of a [`Toy`] has written.
type Writes = BTreeMap<Key, Value>;

/// A transaction of a [`Toy`].
pub struct ToyTransaction<'d> {
    toy: &'d Toy,
    isolation: Isolation,
    snapshot: u64,
    writes: Writes,
    /// Ranges that were read; a single key from itself to itself.
    read: Vec<(Key, Key)>,
}

impl ToyTransaction<'_> {
    /// The first key that another transaction has written since the snapshot, of those that count.
    fn conflict(&self, state: &State) -> Option<(Key, u64)> {
        let fault = self.toy.fault;
        if fault == Some(Fault::ValidationSkipped) {
            return None;
        }
        let changed = |key: Key| {
            let newest = state.newest(key);
            (newest > self.snapshot).then_some((key, newest))
        };
        let written = self.writes.keys().find_map(|&key| changed(key));
        if written.is_some() || self.isolation == Isolation::Snapshot {
            return written;
        }
        let counts =
            |range: &&(Key, Key)| range.0 == range.1 || fault != Some(Fault::PhantomCheckSkipped);
        let keys = |&(from, to): &(Key, Key)| state.keys.range(from..=to).map(|(&key, _)| key);
        self.read.iter().filter(counts).flat_map(keys).find_map(changed)
    }
}

impl Transact for ToyTransaction<'_> {
    type Savepoint = Writes;

    fn version(&self) -> u64 {
        self.snapshot
    }

    fn get(&mut self, key: Key) -> Result<Value, Failure> {
        let state = self.toy.state()?;
        self.read.push((key, key));
        let own = self.writes.get(&key).filter(|_| self.toy.fault != Some(Fault::OwnWritesMissing));
        Ok(own.copied().unwrap_or_else(|| state.read(key, self.snapshot)))
    }

    fn range(
        &mut self,
        from: Key,
        to: Key,
        backwards: bool,
        limit: usize,
    ) -> Result<Vec<(Key, Value)>, Failure> {
        let state = self.toy.state()?;
        self.read.push((from, to));
        let stored = state.keys.range(from..=to);
        let mut merged: BTreeMap<Key, Value> =
            stored.map(|(&key, _)| (key, state.read(key, self.snapshot))).collect();
        merged.extend(self.writes.range(from..=to));
        let there = merged.into_iter().filter(|entry| entry.1 != ABSENT);
        if backwards {
            return Ok(there.rev().take(limit).collect());
        }
        Ok(there.take(limit).collect())
    }

    fn put(&mut self, key: Key, value: Value) -> Result<(), Failure> {
        self.writes.insert(key, value);
        Ok(())
    }

    fn remove(&mut self, key: Key) -> Result<(), Failure> {
        self.put(key, ABSENT)
    }

    fn savepoint(&mut self) -> Writes {
        self.writes.clone()
    }

    fn roll_back(&mut self, savepoint: &Writes) -> Result<(), Failure> {
        self.writes = savepoint.clone();
        Ok(())
    }

    fn commit(self) -> Result<u64, Failure> {
        let fault = self.toy.fault;
        if self.writes.is_empty() {
            // Nothing above `durable` leaves the process: the one before has to end.
            let _committing =
                (fault != Some(Fault::VisibleBeforeDurable)).then(|| lock(&self.toy.committing));
            let mut state = self.toy.state()?;
            state.seen = state.seen.max(self.snapshot);
            return Ok(self.snapshot);
        }
        let _committing = lock(&self.toy.committing);
        let version = {
            let mut state = self.toy.state()?;
            if let Some((key, version)) = self.conflict(&state) {
                return Err(Failure::Conflict { key, version });
            }
            state.last += 1;
            state.last
        };
        let half = self.writes.len() / 2;
        for (at, (&key, &value)) in self.writes.iter().enumerate() {
            yield_now();
            let mut state = self.toy.state()?;
            // To remove what is not there is no write.
            if value != ABSENT || state.read(key, version) != ABSENT {
                state.keys.entry(key).or_default().push((version, value));
            }
            if fault == Some(Fault::HalfVisible) && at == half {
                state.visible = version;
                drop(state);
                be_seen();
            }
        }
        if fault == Some(Fault::VisibleBeforeDurable) {
            self.toy.state()?.visible = version;
            be_seen();
        }
        yield_now();
        self.toy.state()?.durable = version;
        yield_now();
        self.toy.state()?.visible = version;
        Ok(version)
    }
}
