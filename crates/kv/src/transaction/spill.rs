//! A transaction that has outgrown memory: its writes go where they belong, under the writer's lock.
//!
//! It takes the lock between its calls too, whichever threads they come from (`Inner::lock`). Its changes
//! are stamped with a version of their own and fenced, batch by batch, by the thread that has made them;
//! one store of the commit word makes them happen, and a dead interval, if it is dropped, makes that they
//! have not. Snapshots are older and see nothing of them. After a savepoint its changes have another
//! version, so that going back is a dead interval too; all of them become visible with the last.

use std::sync::Arc;

use tembo_index::{DeadIntervals, Index, Place, View};

use super::{SavedPlace, Transaction};
use crate::inner::Inner;
use crate::uncommitted::{Point, Uncommitted};
use crate::validation::Meanwhile;
use crate::writer::WriterState;
use crate::{Durability, Error, Keyspace};

/// What the one writer has done.
pub(super) struct Spilled {
    pub(super) changes: Uncommitted,
    /// The last version of others.
    pub(super) before: u64,
}

impl Spilled {
    pub(super) fn index(&self, inner: &Inner, keyspace: Keyspace) -> Result<Arc<Index>, Error> {
        Ok(inner.lock_taken().tree(keyspace, inner)?.index.clone())
    }

    pub(super) fn take_back(&mut self, inner: &Inner, point: &Point) -> Result<(), Error> {
        self.changes.take_back(inner, &mut inner.lock_taken(), point)
    }

    pub(super) fn abort(mut self, inner: &Inner) {
        let mut state = inner.lock_taken();
        self.changes.abort(inner, &mut state);
        inner.give_back(state);
    }
}

impl Transaction<'_> {
    /// Makes in place what was written so far. On an error it is written as before.
    pub(super) fn spill(&mut self) -> Result<(), Error> {
        let mut state = match &self.spilled {
            Some(_) => self.inner.lock_taken(),
            None => self.inner.lock_to_write(),
        };
        state.sound()?;
        let dead = state.dead.clone();
        let before = match &self.spilled {
            Some(spilled) => spilled.before,
            None => self.inner.clock.last(),
        };
        let meanwhile = self.meanwhile(before, &dead);
        self.inner.validate_writes(&mut state, &self.writes, meanwhile)?;
        let changes = match &mut self.spilled {
            Some(spilled) => &mut spilled.changes,
            none => {
                // Nobody commits before this transaction does: better to learn at once that it cannot.
                if let Some(reads) = &self.reads {
                    self.inner.validate_reads(&state, reads, meanwhile)?;
                }
                state.is_taken = true;
                &mut none
                    .insert(Spilled { changes: Uncommitted::begin(self.inner), before })
                    .changes
            }
        };
        let mut points = Vec::new();
        let mut done = Ok(());
        let apply = |changes: &mut Uncommitted, state: &mut WriterState, from_to| {
            self.writes.each_between(from_to, |keyspace, op| {
                changes.apply(self.inner, state, (keyspace, Place::default()), op).map(drop)
            })
        };
        let mut from = 0;
        for saved in &self.saved {
            let SavedPlace::Memory(to) = saved.place else { continue };
            done = done.and_then(|()| apply(changes, &mut state, (from, to)));
            points.push(changes.point(self.inner));
            from = to;
        }
        done = done.and_then(|()| apply(changes, &mut state, (from, self.writes.len())));
        // ORDER: what this thread has flushed is durable before the commit, which another may make.
        self.inner.region().fence_flushed("kv.spill.entries");
        done?;
        let mut points = points.into_iter();
        for saved in &mut self.saved {
            if let SavedPlace::Memory(_) = saved.place
                && let Some(point) = points.next()
            {
                saved.place = SavedPlace::Pool(point);
            }
        }
        self.writes.clear();
        Ok(())
    }

    pub(super) fn commit_in_place(mut self, durability: Durability) -> Result<u64, Error> {
        if !self.writes.is_empty() {
            self.spill()?;
        }
        let inner = self.inner;
        let mut state = inner.lock_taken();
        let Some(spilled) = &self.spilled else { return Ok(self.version()) };
        if let Some(reads) = &self.reads {
            let dead = state.dead.clone();
            inner.validate_reads(&state, reads, self.meanwhile(spilled.before, &dead))?;
        }
        let last = spilled.changes.last();
        if let Some(last) = last {
            inner.commit_word(&mut state, last)?;
        }
        let Some(mut spilled) = self.spilled.take() else { return Ok(self.version()) };
        if let Some(last) = last {
            inner.publish(&mut state, last, std::slice::from_mut(&mut spilled.changes));
        }
        inner.give_back(state);
        let version = last.unwrap_or_else(|| self.version());
        drop(self);
        inner.make_version_durable(durability, version)?;
        Ok(version)
    }

    /// What others have committed before this transaction became the one writer.
    fn meanwhile<'d>(&self, before: u64, dead: &'d DeadIntervals) -> Meanwhile<'d> {
        Meanwhile { since: self.version(), now: View { version: before, dead } }
    }
}
