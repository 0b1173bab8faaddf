//! The table of dead intervals: versions that never happened.

use tembo_index::DeadInterval;

use super::format::{DEAD_COUNT, DeadSlot, KIND_ALL};
use super::root::Root;
use crate::Error;

/// Slots of the table that only an open takes.
const KEPT_FOR_OPENING: usize = DEAD_COUNT / 2;

/// The dead intervals of a store.
pub(crate) struct DeadTable<'r>(pub(crate) &'r Root);

impl DeadTable<'_> {
    pub(crate) fn intervals(&self) -> Result<Vec<DeadInterval>, Error> {
        let slots = &self.0.media()?.dead;
        Ok(slots.iter().filter_map(interval).collect())
    }

    /// Whether there is room for one interval more, which no opening notes.
    pub(crate) fn has_room(&self) -> Result<bool, Error> {
        let slots = &self.0.media()?.dead;
        Ok(slots.iter().filter(|slot| is_empty(slot)).count() > KEPT_FOR_OPENING)
    }

    /// Notes a dead interval. Durable when it returns; false if the table is full.
    pub(crate) fn note(&self, dead: DeadInterval) -> Result<bool, Error> {
        let (region, media) = (self.0.region(), self.0.media()?);
        let slots = &media.dead;
        // An open, whose intervals reach up to the limit, cannot make room in the table, so some slots are kept for it.
        let kept = if dead.to == media.version_limit.load() { 0 } else { KEPT_FOR_OPENING };
        let same = slots.iter().find(|slot| {
            interval(slot).is_some_and(|old| old.from == dead.from && old.lane == dead.lane)
        });
        let slot = match same {
            Some(slot) if slot.to.load() >= dead.to => return Ok(true),
            Some(slot) => slot,
            None => match slots.iter().filter(|slot| is_empty(slot)).nth(kept) {
                Some(slot) => slot,
                None => return Ok(false),
            },
        };
        region.store(&slot.from, dead.from);
        region.store(&slot.to, dead.to);
        // ORDER: after from and to: same line, store order.
        region.commit("kv.dead.note", &slot.kind, dead.lane.map_or(KIND_ALL, |l| u64::from(l) + 1));
        // ORDER: the interval is durable before a later commit of the lane could make its stamps look committed.
        region.flush("kv.dead.note.flush", region.offset_of(&slot.from), 32);
        // ORDER: as above.
        region.fence("kv.dead.note.fence");
        Ok(true)
    }

    /// Forgets intervals whose stamps have been scrubbed, with the scrub fenced. Durable when it returns.
    pub(crate) fn forget(&self, scrubbed: &[DeadInterval]) -> Result<(), Error> {
        let region = self.0.region();
        for slot in &self.0.media()?.dead {
            if interval(slot).is_some_and(|dead| scrubbed.contains(&dead)) {
                // ORDER: after the scrub, which was fenced: nothing carries their stamps any more.
                region.commit("kv.dead.forget", &slot.kind, 0);
                // ORDER: forgotten before a version of the interval is given to the store again, and committed: what a
                // replica has to make anew would be void after a crash.
                region.flush("kv.dead.forget.flush", region.offset_of(&slot.kind), 8);
            }
        }
        // ORDER: as above.
        region.fence_flushed("kv.dead.forget.fence");
        Ok(())
    }
}

fn is_empty(slot: &DeadSlot) -> bool {
    slot.kind.load() == 0
}

fn interval(slot: &DeadSlot) -> Option<DeadInterval> {
    let lane = match slot.kind.load() {
        0 => return None,
        KIND_ALL => None,
        kind => Some((kind - 1) as u8),
    };
    Some(DeadInterval { from: slot.from.load(), to: slot.to.load(), lane })
}
