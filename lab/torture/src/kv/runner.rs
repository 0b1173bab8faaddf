//! An operation is done to a store, and what it returns is compared.

use tembo_kv::{Durability, Error, Progress, Retention, Store};

use super::model::{KEPT, State};
use super::op::{Op, Span, Write, key, value};
use super::optimistic;
use super::prepared::{self, is_held, is_refusal, refuses_range};
use super::{apply, ranges};
use crate::judge::{expect, text};

/// A store and what it should hold.
pub(crate) struct Runner<'s> {
    pub(crate) store: &'s Store,
    pub(crate) state: State,
    pub(crate) serial: u64,
}

impl Runner<'_> {
    pub(crate) fn next(&self, op: &Op) -> State {
        self.state.after(op, self.serial, self.store.visible())
    }

    /// Does `op`, and compares what it returns.
    pub(crate) fn run(&mut self, op: &Op) -> Result<(), String> {
        if self.is_unordered(op) {
            return ranges::unordered(self.store);
        }
        let mut next = self.next(op);
        let parts = self.state.parts(op, self.serial);
        let store = self.store;
        let before = self.state.spaces.get("x");
        let space = || store.keyspaces().into_iter().find(|(name, _)| name == "x");
        match op {
            Op::Keyspace(name) => drop(store.keyspace(name).map_err(text)?),
            Op::Save(name) => drop(store.save_snapshot(name).map_err(text)?),
            Op::Drop(name) => {
                let dropped = store.drop_snapshot(name).map_err(text)?;
                expect(dropped == self.state.saved.contains_key(*name), "a snapshot was there")?;
            }
            Op::Rollback(name) => self.roll_back(name)?,
            Op::Retain => {
                let from = store.retain(Retention::Since(store.visible())).map_err(text)?;
                expect(from == store.visible(), "a window begins here")?;
            }
            Op::Keep => drop(store.retain(Retention::Versions(KEPT)).map_err(text)?),
            Op::Forget => drop(store.retain(Retention::Nothing).map_err(text)?),
            Op::Compact => compact(store, !self.state.prepared.is_empty())?,
            // Opened again.
            Op::Cut => {}
            Op::Step => drop(store.maintain(1).map_err(text)?),
            Op::StepElsewhere => std::thread::scope(|scope| {
                let step = scope.spawn(|| store.maintain(1).map(drop).map_err(text));
                step.join().map_err(|_| "a panic")?
            })?,
            Op::Maintain => maintain(store)?,
            Op::Apply(..) => apply::run(store, &self.state, op, self.serial)?,
            _ if before.is_none() => {}
            Op::Single(n) => {
                let space = space().ok_or("no keyspace")?.1;
                let removed = store.remove(space, &key(*n), Durability::Strict);
                if self.state.refuses(op) {
                    return expect(is_refusal(&removed), "a held key is not removed");
                }
                let existed = removed.map_err(text)?;
                expect(before.is_some_and(|map| map.contains_key(&key(*n))) == existed, "existed")?;
            }
            Op::Put(n, len) => self.transact(&[(*n, Some(*len))], false, true)?,
            Op::Tx(writes) => self.transact(writes, false, true)?,
            Op::Abort(writes) => self.transact(writes, false, false)?,
            Op::Clear(writes) => self.transact(writes, true, true)?,
            Op::AbortedClear(writes) => self.transact(writes, true, false)?,
            Op::Together(_) | Op::Large(_) | Op::LargeDropped(_) | Op::TakenBack(_) => {
                optimistic::run(store, &self.state.prepared, op, self.serial)?;
            }
            Op::RemoveRange(range)
            | Op::RangeBetween(_, range, ..)
            | Op::RangeElsewhere(_, range, _)
            | Op::RangeTakenBack(_, range, _) => {
                self.remove_range(op, *range)?;
            }
            Op::Prepare(id) => {
                let space = space().ok_or("no keyspace")?.1;
                prepared::prepare(store, space, &self.state.prepared, id)?;
            }
            Op::CommitPrepared(id) => prepared::decide(store, &self.state.prepared, id, true)?,
            Op::DropPrepared(id) => prepared::decide(store, &self.state.prepared, id, false)?,
        }
        next.note(store, parts)?;
        self.state = next;
        self.serial += 8;
        Ok(())
    }

    fn roll_back(&self, name: &str) -> Result<(), String> {
        let Some((version, _, then)) = self.state.saved.get(name) else { return Ok(()) };
        let dropped = self.store.rollback(*version).map_err(text)?;
        let expected = self.state.prepared.iter().filter(|&id| !then.contains(id));
        let expected: Vec<_> = expected.map(|id| id.as_bytes().to_vec()).collect();
        expect(dropped == expected, "a rollback says what it drops")
    }

    /// In a store whose keys have no order all of these are refused, and nothing is changed.
    fn is_unordered(&self, op: &Op) -> bool {
        let removes_range = matches!(
            op,
            Op::RemoveRange(_)
                | Op::RangeBetween(..)
                | Op::RangeElsewhere(..)
                | Op::RangeTakenBack(..)
        );
        removes_range && !self.store.is_ordered()
    }

    fn remove_range(&self, op: &Op, range: Span) -> Result<(), String> {
        let spaces = self.store.keyspaces();
        let space = spaces.iter().find(|(name, _)| name == "x").ok_or("no keyspace")?.1;
        if refuses_range(&self.state.prepared, range) {
            return ranges::refused(self.store, space, range);
        }
        match self.state.refuses(op) {
            true => Ok(()),
            false => ranges::run(self.store, (space, &self.state.spaces["x"]), op, self.serial),
        }
    }

    fn transact(&self, writes: &[Write], clear: bool, commit: bool) -> Result<(), String> {
        let spaces = self.store.keyspaces();
        let space = spaces.iter().find(|(name, _)| name == "x").ok_or("no keyspace")?.1;
        let mut map = self.state.spaces["x"].clone();
        let mut tx = self.store.exclusive().map_err(text)?;
        let ids = &self.state.prepared;
        if clear && !ids.is_empty() {
            return expect(is_refusal(&tx.clear(space)), "what is held is not cleared");
        }
        if clear {
            tx.clear(space).map_err(text)?;
            map.clear();
        }
        for (index, &(n, len)) in writes.iter().enumerate() {
            let held = is_held(ids, None, n);
            let key = key(n);
            if held {
                return expect(is_refusal(&tx.put(space, &key, b"x")), "a held key is not put");
            }
            let existed = match len {
                Some(len) => {
                    let value = value(self.serial + index as u64, len);
                    let put = tx.put(space, &key, &value).map_err(text)?;
                    expect(put == map.insert(key.clone(), value).is_some(), "put says")?;
                    put
                }
                None => {
                    let removed = tx.remove(space, &key).map_err(text)?;
                    expect(removed == map.remove(&key).is_some(), "remove says")?;
                    removed
                }
            };
            let _ = existed;
            let found = tx.get(space, &key).map_err(text)?;
            let found = found.map(|found| found.to_vec());
            expect(found.as_ref() == map.get(&key), "a transaction sees its writes")?;
        }
        if commit {
            tx.commit(Durability::Strict).map_err(text)?;
        }
        Ok(())
    }
}

/// Compacts a store, which may not do if transactions are prepared.
pub(crate) fn compact(store: &Store, is_held: bool) -> Result<(), String> {
    match store.compact() {
        // What is visible has no room twice.
        Err(Error::Full(_)) => Ok(()),
        compacted if is_held => expect(is_refusal(&compacted), "what is held is not compacted"),
        compacted => compacted.map_err(text),
    }
}

pub(crate) fn maintain(store: &Store) -> Result<(), String> {
    match store.maintain(10_000).map_err(text)? {
        Progress::Idle => Ok(()),
        Progress::More => Err("recovery does not end".into()),
    }
}
