//! The sequential model: what a store holds, and what an operation makes of it.

use std::collections::BTreeMap;
use std::ops::Bound;

use tembo_kv::{
    Change, Direction, Durability, Error, Event, Keyspace, Progress, Retention, Snapshot, Store,
};

use super::op::{Op, Write, key, value, wins};
use super::optimistic;
use super::prepared::{self, Ids, is_held, is_refusal, refuses};
use crate::judge::{expect, text};

pub(crate) type Map = BTreeMap<Vec<u8>, Vec<u8>>;
pub(crate) type Spaces = BTreeMap<String, Map>;

/// Everything that a client can see.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct State {
    pub(crate) spaces: Spaces,
    /// With what was prepared in that version.
    pub(crate) saved: BTreeMap<String, (u64, Spaces, Ids)>,
    pub(crate) prepared: Ids,
    pub(crate) past: Past,
}

/// What can be known of the past.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Past {
    /// What there was at each version of the window at which that changed; `None`: there is no window.
    /// Nothing, if the window begins in what was rolled back, or between two rollbacks.
    pub(crate) window: Option<Vec<(u64, Spaces)>>,
    /// How many versions it is to have; 0: it does not move.
    pub(crate) count: u64,
    pub(crate) rolled_back: Option<(u64, u64)>,
}

/// More versions than there will be, those that openings skip included.
const KEPT: u64 = 1 << 40;

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

    /// What `op` makes of it, done when `visible` is the visible version.
    pub(crate) fn after(&self, op: &Op, serial: u64, visible: u64) -> State {
        let mut state = self.clone();
        let spaces = || self.spaces.clone();
        if self.refuses(op) {
            return state;
        }
        match op {
            Op::Keyspace(name) => {
                state.spaces.entry((*name).into()).or_default();
            }
            Op::Put(n, len) => state.write(&[(*n, Some(*len))], serial),
            Op::Single(n) => state.write(&[(*n, None)], serial),
            Op::Tx(writes) => state.write(writes, serial),
            Op::Large(writes) => state.write(writes, serial),
            Op::TakenBack([first, _, last]) => {
                state.write(first, serial);
                state.write(last, serial);
            }
            Op::Together(all) => {
                for (index, writes) in all.iter().enumerate() {
                    if wins(all, index, &self.prepared) {
                        state.write(writes, serial + 2 * index as u64);
                    }
                }
            }
            Op::Clear(writes) => {
                state.spaces.entry("x".into()).and_modify(Map::clear);
                state.write(writes, serial);
            }
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
                    state
                        .past
                        .window
                        .iter_mut()
                        .for_each(|past| past.retain(|then| then.0 <= *version));
                    state.saved.retain(|_, (other, ..)| *other <= *version);
                }
            }
            Op::Prepare(id) => {
                if self.spaces.contains_key("x") && prepared::can_prepare(&self.prepared, id) {
                    state.prepared.insert((*id).into());
                }
            }
            Op::CommitPrepared(id) => {
                if state.prepared.remove(*id) {
                    state.write(&prepared::writes(id), prepared::serial(id));
                }
            }
            Op::DropPrepared(id) => drop(state.prepared.remove(*id)),
            Op::Retain => {
                (state.past.window, state.past.count) = (Some(vec![(visible, spaces())]), 0);
            }
            Op::Keep => {
                state.past.window.get_or_insert_with(|| vec![(visible, spaces())]);
                state.past.count = KEPT;
            }
            Op::Forget => (state.past.window, state.past.count) = (None, 0),
            Op::Abort(_) | Op::AbortedClear(_) | Op::LargeDropped(_) => {}
            Op::Step | Op::StepElsewhere | Op::Maintain => {}
        }
        state
    }

    /// Whether a prepared transaction holds what `op` changes.
    fn refuses(&self, op: &Op) -> bool {
        let ids = &self.prepared;
        match op {
            Op::Put(n, _) | Op::Single(n) => is_held(ids, None, *n),
            Op::Tx(writes) | Op::Abort(writes) | Op::Large(writes) => refuses(ids, writes),
            Op::TakenBack(all) => all.iter().any(|writes| refuses(ids, writes)),
            Op::Clear(_) | Op::AbortedClear(_) => !ids.is_empty(),
            _ => false,
        }
    }

    /// Notes the version of what was done; only the store knows it.
    fn note(&mut self, store: &Store) -> Result<(), String> {
        let rolled_back = store.rolled_back();
        expect(self.past.rolled_back.is_none() || rolled_back.is_some(), "rollbacks are known")?;
        self.past.rolled_back = rolled_back;
        let Some(window) = &mut self.past.window else { return Ok(()) };
        let is_void = |oldest| rolled_back.is_some_and(|(from, to)| from < oldest && oldest <= to);
        if is_void(store.oldest()) {
            window.clear();
        } else if window.last().is_none_or(|last| last.1 != self.spaces) {
            window.push((store.visible(), self.spaces.clone()));
        }
        Ok(())
    }

    /// What the store shows.
    pub(crate) fn of(store: &Store) -> Result<State, String> {
        let mut state = State::default();
        let now = store.snapshot().map_err(text)?;
        state.spaces = spaces(&now)?;
        state.prepared = prepared::ids(store.prepared())?;
        expect(
            state.prepared == prepared::ids(now.prepared().map_err(text)?)?,
            "what is prepared",
        )?;
        for (name, version) in store.snapshots() {
            let snapshot = store.snapshot_at(version).map_err(text)?;
            let ids = prepared::ids(snapshot.prepared().map_err(text)?)?;
            state.saved.insert(name, (version, spaces(&snapshot)?, ids));
        }
        state.past = Past::of(store)?;
        Ok(state)
    }
}

impl Past {
    /// What the store knows: its changes, and what is read at their versions.
    fn of(store: &Store) -> Result<Past, String> {
        let rolled_back = store.rolled_back();
        let count = match store.retention() {
            Retention::Nothing => return Ok(Past { window: None, count: 0, rolled_back }),
            Retention::Versions(count) => count,
            Retention::Since(_) => 0,
        };
        let oldest = store.oldest();
        let mut changes = match store.changes(oldest) {
            Err(Error::RolledBack { .. }) => {
                return Ok(Past { window: Some(Vec::new()), count, rolled_back });
            }
            changes => changes.map_err(text)?.with_budget(200),
        };
        let mut now = spaces(&store.snapshot_at(oldest).map_err(text)?)?;
        let mut window = vec![(oldest, now.clone())];
        while let Some(Change { version, keyspace, event }) = changes.next().map_err(text)? {
            expect(window.last().is_some_and(|then| then.0 <= version), "changes in order")?;
            let map = now.entry(keyspace.to_string()).or_default();
            match event {
                Event::Created | Event::Cleared => map.clear(),
                Event::Put { key, value } => drop(map.insert(key, value)),
                Event::Removed { key } => drop(map.remove(&key)),
            }
            window.retain(|then| then.0 != version);
            window.push((version, now.clone()));
        }
        for (version, then) in &window {
            let read = spaces(&store.snapshot_at(*version).map_err(text)?)?;
            expect(read == *then, "what was read is what was told")?;
        }
        // Between two rollbacks the process that has seen both knows what happened; another one knows the hull only.
        if rolled_back.is_some_and(|(from, to)| from < oldest && oldest <= to) {
            window.clear();
        }
        window.dedup_by(|after, before| after.1 == before.1);
        Ok(Past { window: Some(window), count, rolled_back })
    }
}

fn spaces(snapshot: &Snapshot) -> Result<Spaces, String> {
    let keyspaces = snapshot.keyspaces().map_err(text)?;
    keyspaces.into_iter().map(|(name, space)| Ok((name, map(snapshot, space)?))).collect()
}

fn map(snapshot: &Snapshot, space: Keyspace) -> Result<Map, String> {
    let list = |direction| {
        let mut list = Vec::new();
        let (from, to) = (Bound::Unbounded, Bound::Unbounded);
        let mut visit = |key: &[u8], value: tembo_kv::Value<'_>| {
            list.push((key.to_vec(), value.to_vec()));
            list.len() < 10_000
        };
        snapshot
            .range_with::<[u8]>(space, (from, to), direction, &mut visit)
            .map(|()| list)
            .map_err(text)
    };
    let (up, mut down) = (list(Direction::Forward)?, list(Direction::Backward)?);
    down.reverse();
    if up != down || !up.is_sorted_by(|a, b| a.0 < b.0) {
        return Err("a range depends on its direction, or is not in order".into());
    }
    for (key, value) in &up {
        if snapshot.get(space, key).map_err(text)?.is_none_or(|found| found != *value) {
            return Err("get and range disagree".into());
        }
    }
    Ok(up.into_iter().collect())
}

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
        let mut next = self.next(op);
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
            Op::Rollback(name) => {
                if let Some((version, _, then)) = self.state.saved.get(*name) {
                    let dropped = store.rollback(*version).map_err(text)?;
                    let is_later = |id: &&String| !then.contains(*id);
                    let expected = self.state.prepared.iter().filter(is_later);
                    let expected: Vec<_> = expected.map(|id| id.as_bytes().to_vec()).collect();
                    expect(dropped == expected, "a rollback says what it drops")?;
                }
            }
            Op::Retain => {
                let from = store.retain(Retention::Since(store.visible())).map_err(text)?;
                expect(from == store.visible(), "a window begins here")?;
            }
            Op::Keep => drop(store.retain(Retention::Versions(KEPT)).map_err(text)?),
            Op::Forget => drop(store.retain(Retention::Nothing).map_err(text)?),
            Op::Step => drop(store.maintain(1).map_err(text)?),
            Op::StepElsewhere => std::thread::scope(|scope| {
                let step = scope.spawn(|| store.maintain(1).map(drop).map_err(text));
                step.join().map_err(|_| "a panic")?
            })?,
            Op::Maintain => maintain(store)?,
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
            Op::Prepare(id) => {
                let space = space().ok_or("no keyspace")?.1;
                prepared::prepare(store, space, &self.state.prepared, id)?;
            }
            Op::CommitPrepared(id) => prepared::decide(store, &self.state.prepared, id, true)?,
            Op::DropPrepared(id) => prepared::decide(store, &self.state.prepared, id, false)?,
        }
        next.note(store)?;
        self.state = next;
        self.serial += 8;
        Ok(())
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

pub(crate) fn maintain(store: &Store) -> Result<(), String> {
    match store.maintain(10_000).map_err(text)? {
        Progress::Idle => Ok(()),
        Progress::More => Err("recovery does not end".into()),
    }
}
