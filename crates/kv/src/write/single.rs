//! Changes of a single key, which need no transaction.
//!
//! A change whose index can do it in place commits by itself, with the one fence of the index. All that
//! the store does beside it is cheap: a [write slot](super::slots), which no other thread wants; no allocation;
//! versions and trees are at hand. The retained versions are asked for only now and then, since an entry that is not
//! needed stays so: an older answer costs only the few slots of elements that a newer one could have freed. Unlinked objects
//! are given back by the dozen. Where no write slot is open, the writer does the same.

use tembo_index::{DeadIntervals, Op, Retired, Stamp, VersionedIndex, View, Writer};

use super::engine::Engine;
use super::slots::{Entered, SlotState};
use crate::error::InKeyspace;
use crate::ledger::{
    Ledger, allow_next, draw_owed, give_back_now, look_behind, publish_single, reclaim, retire,
};
use crate::media::LANE;
use crate::shared::Shared;
use crate::version::Versions;
use crate::{Error, Keyspace};

/// Changes for which one answer about retained versions is used.
const RETAINED_USES: u32 = 16;

static NOTHING_DEAD: DeadIntervals = DeadIntervals::NONE;

/// Makes a change in a write slot. Returns whether the key was there before. `None`: the change needs the writer's lock;
/// nothing has changed.
#[inline]
pub(crate) fn change_in_slot(
    engine: &Engine,
    mut slot: Entered<'_>,
    keyspace: Keyspace,
    op: Op<'_>,
) -> Option<bool> {
    let versions = &engine.shared.versions;
    let state = &mut *slot.state;
    let last = versions.clock.last();
    if state.is_full() || !engine.slots.allow(last) {
        return None;
    }
    if state.changes.is_multiple_of(RETAINED_USES) {
        renew(&engine.shared, state);
    }
    state.changes += 1;
    let known = state.known.find(keyspace)?;
    let place = known.index.prefetch_single(op);
    let before = state.unlinked.len();
    let ticket = match slot.number {
        Some(slot) => versions.clock.ticket_of(versions.pins.visible.below(slot), last),
        None => versions.clock.ticket(),
    };
    let mut writer = Writer {
        stamp: Stamp::single(last, LANE),
        // While there are dead intervals, the slots are barred.
        dead: &NOTHING_DEAD,
        retained: &state.retained,
        retired: &mut state.unlinked,
    };
    let applied = known.index.apply_single_at(place, op, &ticket, &mut writer);
    let drawn = ticket.drawn();
    drop(ticket);
    if state.unlinked.len() > before {
        state.unlinked_bytes += end(versions, &mut state.unlinked[before..], drawn);
    }
    // A change that changes nothing reports what other threads have done, which may still be in flight.
    versions.land(slot.number, if drawn != 0 { drawn } else { versions.clock.last() });
    let Some(existed) = applied.ok().flatten() else {
        // The change may have written a record and given it up.
        engine.shared.region().hand_over();
        return None;
    };
    state.tally.count(keyspace, op, existed, drawn);
    Some(existed)
}

/// Brings the state of a slot up to date.
#[cold]
fn renew(shared: &Shared, state: &mut SlotState) {
    if state.known.is_empty() {
        shared.published.renew(&mut state.known);
    }
    shared.versions.pins.renew(&mut state.retained);
}

/// Sets for objects that were unlinked in a slot until when a reader may see them. Versions that others have drawn
/// and made visible meanwhile do not say which readers came before it was unlinked; the change's own does,
/// or else the next. Returns their bytes.
#[cold]
fn end(versions: &Versions, unlinked: &mut [Retired], drawn: u64) -> u64 {
    let end = if drawn != 0 { drawn } else { versions.clock.last() + 1 };
    unlinked.iter_mut().for_each(|retired| retired.end = end);
    unlinked.iter().map(|retired| retired.object.size()).sum()
}

/// Makes a change by the writer with one fence, if the ledger is sound. `None`: the index cannot make it in place.
pub(crate) fn change_alone(
    shared: &Shared,
    ledger: &mut Ledger,
    keyspace: Keyspace,
    op: Op<'_>,
) -> Result<Option<bool>, Error> {
    let mut tried = try_alone(shared, ledger, keyspace, op);
    if matches!(tried, Err(Error::Full(_))) && may_give_back(shared, ledger) {
        retire(shared, ledger);
        draw_owed(shared, ledger)?;
        reclaim(shared, ledger);
        give_back_now(shared, ledger);
        ledger.retained_uses = 0;
        tried = try_alone(shared, ledger, keyspace, op);
    }
    if tried.is_err() {
        // Objects may have been unlinked to make room, even if the change was refused then.
        retire(shared, ledger);
    }
    tried
}

/// Whether something may be given back.
fn may_give_back(shared: &Shared, ledger: &Ledger) -> bool {
    ledger.retired.len() + ledger.unlinked.len() > 0 || shared.private.has_given_up()
}

fn try_alone(
    shared: &Shared,
    ledger: &mut Ledger,
    keyspace: Keyspace,
    op: Op<'_>,
) -> Result<Option<bool>, Error> {
    let clock = &shared.versions.clock;
    if !shared.held.is_empty() {
        let (Op::Put { key, .. } | Op::Remove { key }) = op;
        shared.check_held(keyspace, key, None)?;
    }
    allow_next(shared, ledger)?;
    if ledger.retained_uses == 0 {
        look_behind(shared, ledger);
        shared.versions.pins.renew(&mut ledger.retained);
        ledger.retained_uses = RETAINED_USES;
    }
    ledger.retained_uses -= 1;
    let before = clock.last();
    let Ledger { trees, dead, retained, unlinked, tally, .. } = ledger;
    let tree = trees.tree(keyspace, before)?;
    let (Op::Put { key, .. } | Op::Remove { key }) = op;
    let view = View { version: before, dead };
    let was_seen = shared.sees(tree.index(), key, view).in_keyspace(tree.name())?;
    let stamp = Stamp::single(before, LANE);
    let mut writer = Writer { stamp, dead, retained, retired: unlinked };
    let applied = tree.index().apply_single(op, &clock.ticket(), &mut writer);
    let Some(existed) = applied.in_keyspace(tree.name())? else { return Ok(None) };
    let version = clock.last();
    tally.count(keyspace, op, existed, version);
    publish_single(shared, ledger, (version > before).then_some(version));
    Ok(Some(existed && was_seen))
}
