//! Changes and reads of a single key, which need no transaction and no snapshot.
//!
//! A change whose index can do it in place commits by itself, with the one fence of the index. All that
//! the store does beside it is cheap: one lock, which nobody else wants; no allocation; versions, dead
//! intervals and trees are at hand in the writer's state. What is retained is asked for only now and
//! then, since what was not needed stays so: an older answer costs but the few slots that it could
//! have freed. What is unlinked is given back by the dozen.

use std::sync::PoisonError;
use std::sync::atomic::Ordering;

use tembo_index::{DeadIntervals, Op, Stamp, Value, VersionedIndex, View, Writer};

use crate::inner::Inner;
use crate::ledger::LANE;
use crate::reading::Reading;
use crate::removals::hash;
use crate::writer::WriterState;
use crate::{Durability, Error, Exclusive, Keyspace};

/// Changes for which one answer about what is retained is good.
const RETAINED_USES: u32 = 16;

/// Unlinked objects that wait for each other.
const UNLINKED_MAX: usize = 32;

static NOTHING_DEAD: DeadIntervals = DeadIntervals::NONE;

impl Inner {
    /// Applies a change that is a transaction of its own; true if the key was there before.
    ///
    /// Durability point: as `durability` says, capped by the region's sync policy.
    pub(crate) fn change(
        &self,
        keyspace: Keyspace,
        op: Op<'_>,
        durability: Durability,
    ) -> Result<bool, Error> {
        let mut state = self.lock();
        state.sound()?;
        let existed = match self.change_alone(&mut state, keyspace, op)? {
            Some(existed) => {
                drop(state);
                existed
            }
            None => {
                let mut tx = Exclusive::of(self, state);
                let existed = tx.change(keyspace, op)?;
                tx.commit(Durability::Buffered)?;
                existed
            }
        };
        self.make_durable(durability)?;
        Ok(existed)
    }

    /// With one fence, of a sound state; `None`: not possible.
    pub(crate) fn change_alone(
        &self,
        state: &mut WriterState,
        keyspace: Keyspace,
        op: Op<'_>,
    ) -> Result<Option<bool>, Error> {
        match self.try_alone(state, keyspace, op) {
            Err(Error::Full(_)) if state.retired.len() > 0 => {
                self.reclaim(state);
                state.retained_uses = 0;
                self.try_alone(state, keyspace, op)
            }
            tried => tried,
        }
    }

    fn try_alone(
        &self,
        state: &mut WriterState,
        keyspace: Keyspace,
        op: Op<'_>,
    ) -> Result<Option<bool>, Error> {
        self.allow_next(state)?;
        if state.retained_uses == 0 {
            self.move_window(state);
            self.offer_to_collect(state);
            self.pins.renew(&mut state.retained);
            state.retained_uses = RETAINED_USES;
        }
        state.retained_uses -= 1;
        let WriterState { trees, dead, retained, unlinked, .. } = state;
        let before = self.clock.last();
        let tree = trees
            .get_mut(keyspace.id as usize)
            .filter(|tree| tree.incarnation == keyspace.incarnation)
            .ok_or(Error::NoSuchKeyspace { version: before })?;
        let stamp = Stamp::single(before, LANE);
        let mut writer = Writer { stamp, dead, retained, retired: unlinked };
        let Some(existed) = tree.index.apply_single(op, &self.clock, &mut writer)? else {
            return Ok(None);
        };
        let is_removal = match op {
            Op::Put { .. } => {
                tree.delta += i64::from(!existed);
                false
            }
            Op::Remove { .. } => {
                tree.delta -= i64::from(existed);
                existed
            }
        };
        let version = self.clock.last();
        if version > before {
            self.pins.publish(version);
        }
        if is_removal {
            let (Op::Put { key, .. } | Op::Remove { key }) = op;
            state.removals.note(hash(keyspace, key), version);
            self.note_removed(state, keyspace.id as usize, 1);
        }
        if !state.unlinked.is_empty() {
            self.retire(state);
        }
        Ok(Some(existed))
    }

    fn retire(&self, state: &mut WriterState) {
        state.retired.extend(&mut state.unlinked);
        if state.retired.fresh_count() >= UNLINKED_MAX {
            self.reclaim(state);
        }
    }

    /// Pins the visible version for one read, with the trees of it; `None`: that takes a snapshot.
    pub(crate) fn begin_reading(&self) -> Option<Reading<'_>> {
        let mut reading = self.pins.read_visible()?;
        if self.forest.has_dead() {
            return None;
        }
        if reading.known.told != self.told.load(Ordering::Acquire) {
            let current = self.current.read().unwrap_or_else(PoisonError::into_inner);
            *reading.known = current.clone();
        }
        // Trees of a version that is not visible yet may be others.
        (reading.known.since <= reading.version).then_some(reading)
    }
}

impl Reading<'_> {
    /// The value under `key`.
    pub(crate) fn get(&self, keyspace: Keyspace, key: &[u8]) -> Result<Option<Value<'_>>, Error> {
        let known = self.known.trees.get(keyspace.id as usize);
        let known = known
            .filter(|known| known.incarnation == keyspace.incarnation)
            .ok_or(Error::NoSuchKeyspace { version: self.version })?;
        Ok(known.index.get(key, View { version: self.version, dead: &NOTHING_DEAD })?)
    }
}
