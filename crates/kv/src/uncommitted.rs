//! Uncommitted that are made in place, under the writer's lock, and commit together.

use std::sync::Arc;

use tembo_index::{DeadIntervals, Op, Place, Retained, VersionedIndex, View, Writer};

use crate::inner::{Inner, create_tree};
use crate::ledger::Ledger;
use crate::removals::{NOTED_MAX, hash};
use crate::writer::{Tree, WriterState};
use crate::{Error, KEY_SIZE_MAX, Keyspace, VALUE_SIZE_MAX};

/// What has been changed under versions of its own, and is not committed.
pub(crate) struct Uncommitted {
    /// What the next change is stamped with, drawn when it comes.
    version: Option<u64>,
    /// The last version drawn.
    last: Option<u64>,
    /// Whether anything carries a stamp.
    written: bool,
    retained: Arc<Retained>,
    dead: Arc<DeadIntervals>,
    sums: Sums,
    /// Hashes of keys that they remove.
    gone: Vec<u64>,
    /// Trees that were cleared, to be put back by an abort.
    cleared: Vec<(usize, Tree)>,
}

/// What the changes add up to.
#[derive(Clone, Default)]
struct Sums {
    /// What they add to each keyspace's count.
    deltas: Vec<(usize, i64)>,
    /// Keys that they remove from each keyspace.
    removed: Vec<(usize, u64)>,
    /// Objects that they unlink, at the end of the writer's list.
    unlinked: usize,
}

/// A point to which changes can be taken back.
#[derive(Clone)]
pub(crate) struct Point {
    /// The last version before it, whosever.
    version: u64,
    /// The last of the changes' own.
    last: Option<u64>,
    sums: Sums,
    gone: usize,
    cleared: usize,
}

impl Uncommitted {
    /// None yet, by whoever has the writer's lock.
    pub(crate) fn begin(inner: &Inner) -> Uncommitted {
        Uncommitted {
            version: None,
            last: None,
            written: false,
            retained: inner.pins.retained(),
            dead: inner.forest.dead(),
            sums: Sums::default(),
            gone: Vec::new(),
            cleared: Vec::new(),
        }
    }

    /// True while nothing has been changed.
    pub(crate) fn is_empty(&self) -> bool {
        self.last.is_none()
    }

    /// The last version of their own, or the last one before them.
    pub(crate) fn newest(&self, inner: &Inner) -> u64 {
        self.last.unwrap_or_else(|| inner.clock.last())
    }

    /// Everything, the changes included.
    pub(crate) fn view(&self, inner: &Inner) -> View<'_> {
        View { version: self.newest(inner), dead: &self.dead }
    }

    /// What they add to a keyspace's count.
    pub(crate) fn delta(&self, keyspace: Keyspace) -> i64 {
        let id = keyspace.id as usize;
        self.sums.deltas.iter().filter(|(other, _)| *other == id).map(|(_, delta)| delta).sum()
    }

    /// Applies one change; true if the key was there before.
    pub(crate) fn apply(
        &mut self,
        inner: &Inner,
        state: &mut WriterState,
        (keyspace, place): (Keyspace, Place),
        op: Op<'_>,
    ) -> Result<bool, Error> {
        state.tree(keyspace, inner)?;
        let stamp = Ledger::grouped(self.draw(inner, state)?);
        let unlinked = state.unlinked.len();
        let mut writer = Writer {
            stamp,
            dead: &self.dead,
            retained: &self.retained,
            retired: &mut state.unlinked,
        };
        let tree = &state.trees[keyspace.id as usize];
        let applied = tree.index.apply_at(place, op, &mut writer);
        self.sums.unlinked += state.unlinked.len() - unlinked;
        // A refusal has changed nothing, but what was unlinked to make room; damage may have.
        self.written |=
            !matches!(applied, Err(tembo_index::Error::Pool(_))) || state.unlinked.len() > unlinked;
        let existed = applied?;
        match op {
            Op::Put { .. } => self.add(keyspace, i64::from(!existed)),
            Op::Remove { key } => {
                self.add(keyspace, -i64::from(existed));
                if existed && self.gone.len() < NOTED_MAX {
                    self.gone.push(hash(keyspace, key));
                }
            }
        }
        Ok(existed)
    }

    /// Puts an empty tree in the place of the keyspace's.
    pub(crate) fn clear(
        &mut self,
        inner: &Inner,
        state: &mut WriterState,
        keyspace: Keyspace,
    ) -> Result<(), Error> {
        let id = keyspace.id as usize;
        let name = state.tree(keyspace, inner)?.name.clone();
        let stamp = Ledger::grouped(self.draw(inner, state)?);
        let unlinked = state.unlinked.len();
        let mut writer = Writer {
            stamp,
            dead: &self.dead,
            retained: &self.retained,
            retired: &mut state.unlinked,
        };
        let made = create_tree(inner, &name, id as u64, &mut writer);
        self.sums.unlinked += state.unlinked.len() - unlinked;
        let mut tree = made?;
        tree.incarnation = keyspace.incarnation;
        self.written = true;
        let before = std::mem::replace(&mut state.trees[id], tree);
        self.cleared.push((id, before));
        self.sums.deltas.retain(|(other, _)| *other != id);
        Ok(())
    }

    /// The version to be committed; `None`: nothing was changed.
    pub(crate) fn last(&self) -> Option<u64> {
        self.last
    }

    /// Notes which keys are gone, for who is validated after it and before its commit.
    pub(crate) fn note_gone(&mut self, state: &mut WriterState) {
        let Some(version) = self.last else { return };
        self.gone.drain(..).for_each(|hash| state.removals.note(hash, version));
    }

    /// Tells the writer what the changes add up to: their commit is durable, and they are none.
    fn tell(&mut self, inner: &Inner, state: &mut WriterState, version: u64) {
        (self.version, self.last) = (None, None);
        self.gone.drain(..).for_each(|hash| state.removals.note(hash, version));
        for (id, delta) in self.sums.deltas.drain(..) {
            state.trees[id].delta += delta;
        }
        if !self.cleared.is_empty() {
            inner.tell_trees(state, version);
        }
        for (_, tree) in self.cleared.drain(..) {
            state.cleared.push((tree.entry.birth.get(), version));
        }
    }

    /// Calls for a collection, if so much was removed.
    fn note_removed(&mut self, inner: &Inner, state: &mut WriterState) {
        for (id, count) in self.sums.removed.drain(..) {
            inner.note_removed(state, id, count);
        }
    }

    /// Makes all of them void. Of several that are to be committed together, the last is the first to be
    /// given up.
    pub(crate) fn abort(&mut self, inner: &Inner, state: &mut WriterState) {
        let Some(last) = self.last.take() else { return };
        for (id, tree) in self.cleared.drain(..).rev() {
            state.trees[id] = tree;
        }
        self.forget_unlinked(state, 0);
        if self.written {
            inner.abort(state, last);
        }
    }

    /// Where the changes are; those that follow have a version of their own.
    pub(crate) fn point(&mut self, inner: &Inner) -> Point {
        self.version = None;
        let (gone, cleared) = (self.gone.len(), self.cleared.len());
        let sums = self.sums.clone();
        Point { version: self.newest(inner), last: self.last, sums, gone, cleared }
    }

    /// Takes back what was changed after a point. On an error nothing has changed.
    pub(crate) fn take_back(
        &mut self,
        inner: &Inner,
        state: &mut WriterState,
        point: &Point,
    ) -> Result<(), Error> {
        self.version = None;
        let Some(last) = self.last.filter(|&last| last > point.version) else { return Ok(()) };
        // Where nothing is kept, all groups since the last commit are void: one interval holds them.
        let from = match point.last {
            Some(_) => point.version,
            None => inner.ledger.committed(inner.region())?,
        };
        inner.kill_grouped(state, from, last)?;
        self.dead = inner.forest.dead();
        for (id, tree) in self.cleared.drain(point.cleared..).rev() {
            state.trees[id] = tree;
        }
        self.forget_unlinked(state, point.sums.unlinked);
        self.last = point.last;
        self.gone.truncate(point.gone);
        self.sums = point.sums.clone();
        Ok(())
    }

    /// What was unlinked is linked again, but for the first `kept`.
    pub(crate) fn forget_unlinked(&mut self, state: &mut WriterState, kept: usize) {
        let before = state.unlinked.len().saturating_sub(self.sums.unlinked);
        state.unlinked.truncate(before + kept);
        self.sums.unlinked = kept;
    }

    fn draw(&mut self, inner: &Inner, state: &mut WriterState) -> Result<u64, Error> {
        let version = match self.version {
            Some(version) => version,
            None => inner.next_version(state)?,
        };
        (self.version, self.last) = (Some(version), Some(version));
        Ok(version)
    }

    fn add(&mut self, keyspace: Keyspace, delta: i64) {
        let id = keyspace.id as usize;
        let Sums { deltas, removed, .. } = &mut self.sums;
        if delta < 0 {
            match removed.iter_mut().find(|(other, _)| *other == id) {
                Some((_, count)) => *count += 1,
                None => removed.push((id, 1)),
            }
        }
        match deltas.iter_mut().find(|(other, _)| *other == id) {
            _ if delta == 0 => {}
            Some((_, sum)) => *sum += delta,
            None => deltas.push((id, delta)),
        }
    }
}

impl Inner {
    /// Makes visible what is committed by `version`.
    pub(crate) fn publish(&self, state: &mut WriterState, version: u64, all: &mut [Uncommitted]) {
        all.iter_mut().for_each(|changes| changes.tell(self, state, version));
        self.pins.publish(version);
        self.settle(state);
        all.iter_mut().for_each(|changes| changes.note_removed(self, state));
    }
}

/// # Errors
/// [`Error::KeyTooLong`], [`Error::ValueTooLong`].
pub(crate) fn check_sizes(key: &[u8], parts: &[&[u8]]) -> Result<(), Error> {
    let size = parts.iter().map(|part| part.len()).sum();
    if size > VALUE_SIZE_MAX {
        return Err(Error::ValueTooLong { size });
    }
    if key.len() > KEY_SIZE_MAX {
        return Err(Error::KeyTooLong { size: key.len() });
    }
    Ok(())
}
