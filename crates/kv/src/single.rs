//! Changes and reads of a single key, which need no transaction and no snapshot.
//!
//! A change whose index can do it in place commits by itself, with the one fence of the index. All that
//! the store does beside it is cheap: a [lane](crate::lanes), which nobody else wants; no allocation;
//! versions and trees are at hand. What is retained is asked for only now and then, since what was not
//! needed stays so: an older answer costs but the few slots that it could have freed. What is unlinked is
//! given back by the dozen. Where there are no lanes, or not now, the one writer does the same.

use std::sync::PoisonError;
use std::sync::atomic::Ordering;

use tembo_index::{DeadIntervals, Op, Retired, Stamp, Value, VersionedIndex, View, Writer};

use crate::inner::{Current, Inner};
use crate::lanes::{Entered, LaneState, Refused};
use crate::ledger::LANE;
use crate::reading::Reading;
use crate::removals::hash;
use crate::writer::WriterState;
use crate::{Durability, Error, Exclusive, Keyspace};

/// Changes for which one answer about what is retained is good.
const RETAINED_USES: u32 = 16;

/// Unlinked objects that wait for each other.
const UNLINKED_MAX: usize = 32;

/// Attempts to find a lane open before a change goes by the writer's lock.
const ATTEMPTS: usize = 4;

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
        let lane = self.lanes.reenter().or_else(|| self.enter_lane());
        let existed = match lane.and_then(|lane| self.change_in_lane(lane, keyspace, op)) {
            Some(existed) => existed,
            None => self.change_by_lock(keyspace, op)?,
        };
        self.make_durable(durability)?;
        Ok(existed)
    }

    #[inline(never)]
    fn change_by_lock(&self, keyspace: Keyspace, op: Op<'_>) -> Result<bool, Error> {
        let mut state = self.lock_to_write();
        state.sound()?;
        if let Some(existed) = self.change_alone(&mut state, keyspace, op)? {
            return Ok(existed);
        }
        let mut tx = Exclusive::of(self, state);
        let existed = tx.change(keyspace, op)?;
        tx.commit(Durability::Buffered)?;
        Ok(existed)
    }

    /// A lane for the thread; `None`: it has to go by the writer's lock.
    #[inline(never)]
    fn enter_lane(&self) -> Option<Entered<'_>> {
        for _ in 0..ATTEMPTS {
            match self.lanes.enter(&self.pins.visible) {
                Ok(lane) => return Some(lane),
                Err(Refused::ForNow) if self.lanes.open_soon() => {}
                Err(Refused::ForNow) => drop(self.wait_for_writer()),
                Err(Refused::Barred) => return None,
            }
        }
        None
    }

    /// `None`: it has to go by the writer's lock, and nothing has changed.
    #[inline]
    fn change_in_lane(
        &self,
        mut lane: Entered<'_>,
        keyspace: Keyspace,
        op: Op<'_>,
    ) -> Option<bool> {
        let state = &mut *lane.state;
        let last = self.clock.last();
        if state.is_full() || !self.lanes.allow(last) {
            return None;
        }
        if state.changes.is_multiple_of(RETAINED_USES) {
            self.renew(state);
        }
        state.changes += 1;
        let known = state.known.trees.get(keyspace.id as usize)?;
        if known.incarnation != keyspace.incarnation {
            return None;
        }
        let before = state.unlinked.len();
        let turn = match lane.number {
            Some(lane) => self.clock.turn_of(self.pins.visible.below(lane)),
            None => self.clock.turn(),
        };
        let mut writer = Writer {
            stamp: Stamp::single(last, LANE),
            // While there are some, the lanes are barred.
            dead: &NOTHING_DEAD,
            retained: &state.retained,
            retired: &mut state.unlinked,
        };
        let applied = known.index.apply_single(op, &turn, &mut writer);
        let drawn = turn.drawn();
        drop(turn);
        if state.unlinked.len() > before {
            state.unlinked_bytes += self.end(&mut state.unlinked[before..], drawn);
        }
        // What changes nothing tells what others have done: it may be in flight.
        self.land(lane.number, if drawn != 0 { drawn } else { self.clock.last() });
        let existed = applied.ok()??;
        state.count(keyspace, op, existed, drawn);
        Some(existed)
    }

    /// Brings up to date what a lane knows.
    #[cold]
    fn renew(&self, state: &mut LaneState) {
        if state.known.told == 0 {
            self.learn(&mut state.known);
            state.sums.resize(state.known.trees.len(), Default::default());
        }
        self.pins.renew(&mut state.retained);
    }

    #[cold]
    fn learn(&self, known: &mut Current) {
        known.clone_from(&self.current.read().unwrap_or_else(PoisonError::into_inner));
    }

    /// Says of what was unlinked in a lane until when somebody may see it. Versions that others have drawn
    /// and made visible meanwhile do not tell who came before it was unlinked; the change's own does,
    /// or else the next. Returns their bytes.
    #[cold]
    fn end(&self, unlinked: &mut [Retired], drawn: u64) -> u64 {
        let end = if drawn != 0 { drawn } else { self.clock.last() + 1 };
        unlinked.iter_mut().for_each(|retired| retired.end = end);
        unlinked.iter().map(|retired| retired.object.size()).sum()
    }

    /// With one fence, of a sound state; `None`: not possible.
    pub(crate) fn change_alone(
        &self,
        state: &mut WriterState,
        keyspace: Keyspace,
        op: Op<'_>,
    ) -> Result<Option<bool>, Error> {
        let mut tried = self.try_alone(state, keyspace, op);
        if matches!(tried, Err(Error::Full(_))) && state.retired.len() + state.unlinked.len() > 0 {
            self.retire(state);
            self.reclaim(state);
            state.retained_uses = 0;
            tried = self.try_alone(state, keyspace, op);
        }
        if tried.is_err() {
            // To make room something may have been unlinked before the change was refused.
            self.retire(state);
        }
        tried
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
        let Some(existed) = tree.index.apply_single(op, &self.clock.turn(), &mut writer)? else {
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
    #[inline(always)]
    pub(crate) fn begin_reading(&self) -> Option<Reading<'_>> {
        let mut reading = self.pins.read_visible()?;
        if self.forest.has_dead() {
            return None;
        }
        if reading.known.told != self.told.load(Ordering::Acquire) {
            self.learn(&mut reading.known);
        }
        // Trees of a version that is not visible yet may be others.
        (reading.known.since <= reading.version).then_some(reading)
    }
}

impl LaneState {
    #[inline]
    fn count(&mut self, keyspace: Keyspace, op: Op<'_>, existed: bool, version: u64) {
        match op {
            Op::Put { .. } => self.sums[keyspace.id as usize].delta += i64::from(!existed),
            Op::Remove { key } if existed => self.count_gone(keyspace, key, version),
            Op::Remove { .. } => {}
        }
    }

    #[inline(never)]
    fn count_gone(&mut self, keyspace: Keyspace, key: &[u8], version: u64) {
        let sum = &mut self.sums[keyspace.id as usize];
        sum.delta -= 1;
        sum.removed += 1;
        self.gone.push((hash(keyspace, key), version));
    }
}

impl Reading<'_> {
    /// The value under `key`.
    #[inline]
    pub(crate) fn get(&self, keyspace: Keyspace, key: &[u8]) -> Result<Option<Value<'_>>, Error> {
        let known = self.known.trees.get(keyspace.id as usize);
        let known = known
            .filter(|known| known.incarnation == keyspace.incarnation)
            .ok_or(Error::NoSuchKeyspace { version: self.version })?;
        Ok(known.index.get(key, View { version: self.version, dead: &NOTHING_DEAD })?)
    }
}
