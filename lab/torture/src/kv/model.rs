//! The sequential model: what a store holds, and what an operation makes of it.

use std::collections::BTreeMap;

use tembo_kv::Store;

use super::op::{Op, Span, Write, key, value};
use super::optimistic::wins;
use super::past::{Map, Past, Spaces, spaces};
use super::prepared::{self, Ids, is_held, refuses, refuses_range};
use crate::judge::{expect, text};

/// Where changes of another store note their version.
pub(crate) const VERSION_KEY: &[u8] = b"version";

/// Everything that a client can see.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct State {
    pub(crate) spaces: Spaces,
    /// With what was prepared in that version.
    pub(crate) saved: BTreeMap<String, (u64, Spaces, Ids)>,
    pub(crate) prepared: Ids,
    pub(crate) past: Past,
}

/// More versions than there will be, those that openings skip included.
pub(super) const KEPT: u64 = 1 << 40;

impl State {
    fn write(&mut self, writes: &[Write], serial: u64) {
        let Some(map) = self.spaces.get_mut("x") else { return };
        for (index, &(n, len)) in writes.iter().enumerate() {
            match len {
                Some(len) => map.insert(key(n), value(serial + index as u64, len)),
                None => map.remove(&key(n)),
            };
        }
    }

    fn prepare(&mut self, id: &str) {
        if self.spaces.contains_key("x") && prepared::can_prepare(&self.prepared, id) {
            self.prepared.insert(id.into());
        }
    }

    fn commit_prepared(&mut self, id: &str) {
        if self.prepared.remove(id) {
            self.write(&prepared::writes(id), prepared::serial(id));
        }
    }

    fn remove(&mut self, range: Span) {
        if let Some(map) = self.spaces.get_mut("x") {
            map.retain(|key, _| !range.contains(key));
        }
    }

    /// What `op` makes of it, done when `visible` is the visible version.
    pub(crate) fn after(&self, op: &Op, serial: u64, visible: u64) -> State {
        let mut state = self.clone();
        if self.refuses(op) {
            return state;
        }
        let spaces = || self.spaces.clone();
        match op {
            Op::Save(name) => {
                let prepared = state.prepared.clone();
                state.saved.insert((*name).into(), (visible, state.spaces.clone(), prepared));
            }
            Op::Drop(name) => {
                state.saved.remove(*name);
            }
            Op::Rollback(name) => {
                if let Some((version, spaces, prepared)) = self.saved.get(*name) {
                    state.spaces = spaces.clone();
                    state.prepared = prepared.clone();
                    let windows = state.past.window.iter_mut();
                    windows.for_each(|past| past.retain(|then| then.0 <= *version));
                    state.saved.retain(|_, (other, ..)| *other <= *version);
                }
            }
            Op::Retain => {
                (state.past.window, state.past.count) = (Some(vec![(visible, spaces())]), 0);
            }
            Op::Keep => {
                state.past.window.get_or_insert_with(|| vec![(visible, spaces())]);
                state.past.count = KEPT;
            }
            Op::Forget => (state.past.window, state.past.count) = (None, 0),
            _ => state.change(op, serial, visible),
        }
        state
    }

    /// Does what changes keys, or is to.
    fn change(&mut self, op: &Op, serial: u64, visible: u64) {
        match op {
            Op::Keyspace(name) => drop(self.spaces.entry((*name).into()).or_default()),
            Op::Put(n, len) => self.write(&[(*n, Some(*len))], serial),
            Op::Single(n) => self.write(&[(*n, None)], serial),
            Op::Tx(writes) | Op::Large(writes) => self.write(writes, serial),
            Op::TakenBack([first, _, last]) => {
                self.write(first, serial);
                self.write(last, serial);
            }
            Op::Together(all) => {
                let ids = self.prepared.clone();
                for (index, writes) in all.iter().enumerate().filter(|(i, _)| wins(all, *i, &ids)) {
                    self.write(writes, serial + 2 * index as u64);
                }
            }
            Op::Clear(writes) => {
                self.spaces.entry("x".into()).and_modify(Map::clear);
                self.write(writes, serial);
            }
            Op::Prepare(id) => self.prepare(id),
            Op::CommitPrepared(id) => self.commit_prepared(id),
            Op::DropPrepared(id) => drop(self.prepared.remove(*id)),
            Op::RemoveRange(range) => self.remove(*range),
            Op::RangeBetween(..) | Op::RangeElsewhere(..) => {
                let last = self.parts(op, serial).pop();
                self.spaces = last.unwrap_or_else(|| self.spaces.clone());
            }
            Op::RangeTakenBack(first, _, last) => {
                self.write(first, serial);
                self.write(last, serial);
            }
            Op::Apply(at, clears, writes) => {
                let map = self.spaces.entry("x".into()).or_default();
                if *clears {
                    map.clear();
                }
                map.insert(VERSION_KEY.to_vec(), at.version(visible).to_le_bytes().to_vec());
                self.write(writes, serial);
            }
            _ => {}
        }
    }

    /// What is in the keyspaces at each version that a removal of a range between writes makes.
    pub(super) fn parts(&self, op: &Op, serial: u64) -> Vec<Spaces> {
        let (Op::RangeBetween(before, range, after, true)
        | Op::RangeElsewhere(before, range, after)) = op
        else {
            return Vec::new();
        };
        if self.refuses(op) || !self.spaces.contains_key("x") {
            return Vec::new();
        }
        let mut state = self.clone();
        let mut parts = Vec::new();
        if !before.is_empty() {
            state.write(before, serial);
            parts.push(state.spaces.clone());
        }
        state.remove(*range);
        parts.push(state.spaces.clone());
        if !after.is_empty() {
            state.write(after, serial + 4);
            parts.push(state.spaces);
        }
        parts
    }

    /// Whether a prepared transaction holds what `op` changes.
    pub(super) fn refuses(&self, op: &Op) -> bool {
        let ids = &self.prepared;
        match op {
            Op::Put(n, _) | Op::Single(n) => is_held(ids, None, *n),
            Op::Tx(writes) | Op::Abort(writes) | Op::Large(writes) => refuses(ids, writes),
            Op::TakenBack(all) => all.iter().any(|writes| refuses(ids, writes)),
            Op::Clear(_) | Op::AbortedClear(_) | Op::Apply(_, true, _) => !ids.is_empty(),
            Op::Apply(_, false, writes) => refuses(ids, writes),
            Op::RemoveRange(range) => refuses_range(ids, *range),
            Op::RangeBetween(before, range, after, _)
            | Op::RangeElsewhere(before, range, after)
            | Op::RangeTakenBack(before, range, after) => {
                refuses(ids, before) || refuses_range(ids, *range) || refuses(ids, after)
            }
            _ => false,
        }
    }

    /// Notes the version of what was done, in these parts, each at a version of its own; only the store knows it.
    pub(super) fn note(&mut self, store: &Store, parts: Vec<Spaces>) -> Result<(), String> {
        let rolled_back = store.rolled_back();
        expect(self.past.rolled_back.is_none() || rolled_back.is_some(), "rollbacks are known")?;
        self.past.rolled_back = rolled_back;
        let Some(window) = &mut self.past.window else { return Ok(()) };
        let is_void = |oldest| rolled_back.is_some_and(|(from, to)| from < oldest && oldest <= to);
        if is_void(store.oldest()) {
            window.clear();
            return Ok(());
        }
        let parts = if parts.is_empty() { vec![self.spaces.clone()] } else { parts };
        let count = parts.len() as u64;
        for (part, version) in parts.into_iter().zip(store.visible() + 1 - count..) {
            if window.last().is_none_or(|last| last.1 != part) {
                window.push((version, part));
            }
        }
        Ok(())
    }

    /// What the store shows.
    pub(crate) fn of(store: &Store) -> Result<State, String> {
        let mut state = State::default();
        let now = store.snapshot().map_err(text)?;
        state.spaces = spaces(store, &now)?;
        state.prepared = prepared::ids(store.prepared())?;
        expect(
            state.prepared == prepared::ids(now.prepared().map_err(text)?)?,
            "what is prepared",
        )?;
        for (name, version) in store.snapshots() {
            let snapshot = store.snapshot_at(version).map_err(text)?;
            let ids = prepared::ids(snapshot.prepared().map_err(text)?)?;
            state.saved.insert(name, (version, spaces(store, &snapshot)?, ids));
        }
        state.past = Past::of(store)?;
        Ok(state)
    }
}
