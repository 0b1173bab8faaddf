//! The steps of the background, each taken with the writer's lock held: see [`Machine`](crate::background::Machine).

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;

use tembo_index::{Index, Retired, VersionedIndex, Writer};
use tembo_pool::{Object, Sweep};

use super::space::{leave_to_sweep, reclaim};
use super::state::{Ledger, allow_next};
use super::window::note_void;
use crate::background::{Collection, Found, Marking, Scrubbing};
use crate::media::{DeadTable, grouped};
use crate::shared::Shared;
use crate::trees::retained_trees;
use crate::version::PinKind;
use crate::{Error, Progress};

/// Batches that are collected between two versions of a replica.
const BATCHES_BELOW: usize = 4;

/// Marking and scrub from begin to end, while the caller holds the writer's lock.
///
/// # Errors
/// [`Error::TooManyAborts`] if a step is under way without the lock, or another tenant of the pool has not settled.
pub(crate) fn recover_now(shared: &Shared, ledger: &mut Ledger) -> Result<(), Error> {
    if ledger.machine.is_unlocked() {
        return Err(Error::TooManyAborts);
    }
    if ledger.machine.scrubbing().is_none() {
        let (mut sweep, marking) = begin_marking(shared, ledger)?;
        let found = mark_all(shared, &mut sweep, &marking);
        end_marking(shared, ledger, (&marking, sweep), found)?;
    }
    while let Some(scrubbing) = ledger.machine.scrubbing() {
        let is_complete = scrubbing.is_complete();
        scrub_batch(shared, ledger)?;
        if is_complete && ledger.machine.scrubbing().is_some() {
            return Err(Error::TooManyAborts);
        }
    }
    Ok(())
}

/// Owed → Marking, with a sweep over all tenants of the pool. A store that is only read needs no sweep: if other tenants
/// cannot be opened, because their kind is unknown, it is marked alone.
pub(crate) fn begin_marking(
    shared: &Shared,
    ledger: &mut Ledger,
) -> Result<(Option<Sweep>, Marking), Error> {
    // The writer's lock lets no other sweep begin meanwhile.
    let has_old_limit = shared.pool().usage().recovering;
    // Those that are not open are kept open until the sweep has begun.
    let sweep = match shared.forest.pool().open_tenants() {
        Err(_) if shared.region().is_read_only() => None,
        tenants => {
            let _tenants = tenants?;
            Some(shared.pool().begin_sweep_by(shared.tenant.id)?)
        }
    };
    Ok((sweep, note_marking(shared, ledger, has_old_limit)?))
}

/// Owed or Done → Marking: notes what is to be marked.
fn note_marking(
    shared: &Shared,
    ledger: &mut Ledger,
    has_old_limit: bool,
) -> Result<Marking, Error> {
    reclaim(shared, ledger);
    let (retained, dead) = (shared.versions.pins.retained(), shared.forest.dead());
    leave_to_sweep(ledger, &retained);
    let mut trees = ledger.trees.by_cells();
    trees.extend(shared.private.all());
    for (_, _, entry) in retained_trees(&shared.catalogue, &retained, &dead)? {
        if let Entry::Vacant(vacant) = trees.entry(entry.cell.get()) {
            vacant.insert(shared.indexes.open(&entry)?);
        }
    }
    scrub_roots(shared, &trees)?;
    // What the marking frees must not be held for needed.
    shared.forest.set_retained(retained.clone());
    // The marking is a reader of the visible version.
    shared.versions.pins.pin(retained.visible(), PinKind::Marking);
    ledger.machine.begin_marking(has_old_limit);
    shared.wake.take_swept();
    ledger.trees.iter_mut().for_each(|tree| tree.begin_count());
    Ok(Marking { retained, dead, trees })
}

/// Marks the store, then the other tenants of its pool. Needs no lock.
pub(crate) fn mark_all(
    shared: &Shared,
    sweep: &mut Option<Sweep>,
    marking: &Marking,
) -> Result<Found, Error> {
    let Some(sweep) = sweep else {
        return mark_own(shared, &mut shared.pool().census(), marking);
    };
    let found = mark_own(shared, sweep, marking)?;
    sweep.mark_others(&|| !shared.wake.is_stopped())?;
    Ok(found)
}

/// Marks the store. Needs no lock.
pub(crate) fn mark_own(
    shared: &Shared,
    marker: &mut dyn tembo_pool::Marker,
    marking: &Marking,
) -> Result<Found, Error> {
    marker.mark(shared.root.object())?;
    marking.run(marker, shared.catalogue.tree(), &shared.forest, &shared.wake)
}

/// Owed or Done → Marking, on behalf of another tenant's sweep, which may have the limit of one that was not finished. It is over when the
/// returned life ends.
pub(crate) fn begin_foreign(
    shared: &Shared,
    ledger: &mut Ledger,
    has_old_limit: bool,
) -> Result<(Marking, Arc<()>), Error> {
    let marking = note_marking(shared, ledger, has_old_limit)?;
    let life = Arc::new(());
    ledger.foreign = Some((Arc::downgrade(&life), marking.retained.clone()));
    Ok((marking, life))
}

/// The marking by another tenant is this ledger's own from here on.
pub(crate) fn take_foreign(ledger: &mut Ledger) {
    ledger.foreign = None;
}

/// Marking → Owed, if it was on behalf of a sweep that was given up.
pub(crate) fn end_foreign(shared: &Shared, ledger: &mut Ledger) {
    if ledger.foreign.as_ref().is_some_and(|(life, _)| life.strong_count() == 0)
        && let Some((_, retained)) = ledger.foreign.take()
    {
        shared.versions.pins.unpin(retained.visible(), PinKind::Marking);
        ledger.machine.fail_marking();
    }
}

/// Done → Owed, if a sweep for which the store has done its part was not finished, as where its driver was closed: no space below
/// its limit is given to anyone before one is.
pub(crate) fn take_over(shared: &Shared, ledger: &mut Ledger) {
    if ledger.machine.is_done()
        && shared.wake.take_swept()
        && !shared.region().is_read_only()
        && shared.pool().usage().recovering
    {
        ledger.machine.owe();
    }
}

/// Takes back the roots of dead versions, so that the sweep need not keep them.
fn scrub_roots(shared: &Shared, trees: &BTreeMap<u64, Arc<Index>>) -> Result<(), Error> {
    let (dead, retained) = (shared.forest.dead(), shared.versions.pins.retained());
    let mut writer = Writer {
        stamp: grouped(shared.versions.clock.last()),
        dead: &dead,
        retained: &retained,
        retired: &mut Vec::new(),
    };
    let _section = shared.region().reserve(trees.len() as u64 + 1)?;
    shared.catalogue.tree().scrub_root(&mut writer)?;
    trees.values().try_for_each(|tree| tree.scrub_root(&mut writer))?;
    // ORDER: no cell names a dead root when the space of dead roots is given back.
    shared.region().fence_flushed("kv.scrub.roots");
    Ok(())
}

/// Marking → Scrubbing, or back to Owed.
pub(crate) fn end_marking(
    shared: &Shared,
    ledger: &mut Ledger,
    (marking, sweep): (&Marking, Option<Sweep>),
    found: Result<Found, Error>,
) -> Result<(), Error> {
    shared.versions.pins.unpin(marking.retained.visible(), PinKind::Marking);
    ledger.machine.fail_marking();
    let found = found?;
    for tree in ledger.trees.iter_mut() {
        tree.end_count(found.counts.get(&tree.known.cell).copied());
    }
    ledger.machine.begin_scrubbing(marking.scrubbing(found, sweep));
    Ok(())
}

/// Some nodes of Scrubbing; with the last, Scrubbing → Done or Owed.
pub(crate) fn scrub_batch(shared: &Shared, ledger: &mut Ledger) -> Result<(), Error> {
    let (dead, retained) = (shared.forest.dead(), shared.versions.pins.retained());
    let Some(scrubbing) = ledger.machine.scrubbing() else { return Ok(()) };
    let mut retired = Vec::new();
    let mut writer = Writer {
        stamp: grouped(shared.versions.clock.last()),
        dead: &dead,
        retained: &retained,
        retired: &mut retired,
    };
    let _relief = shared.pool().relief();
    let section = shared.region().reserve(Scrubbing::LINES)?;
    let scrubbed = scrubbing.batch(shared.catalogue.tree(), &mut writer);
    // ORDER: scrubbed, by whichever thread, before the intervals are forgotten.
    shared.region().fence_flushed("kv.scrub.batch");
    drop(section);
    let is_complete = scrubbing.is_complete();
    ledger.retired.extend(&mut retired);
    scrubbed?;
    if is_complete { end_scrub(shared, ledger) } else { Ok(()) }
}

fn end_scrub(shared: &Shared, ledger: &mut Ledger) -> Result<(), Error> {
    let Ledger { machine, retired, unlinked, .. } = ledger;
    let Some(scrubbing) = machine.scrubbing() else { return Ok(()) };
    let has_swept = scrubbing.sweep(|| {
        let unlinked = unlinked.iter().map(|retired| retired.object);
        retired.objects().chain(unlinked).collect::<Vec<Object>>()
    })?;
    if !has_swept {
        return Ok(());
    }
    let intervals = scrubbing.intervals().to_vec();
    if !intervals.is_empty() {
        note_void(shared, &intervals)?;
        let _section = shared.region().reserve(intervals.len() as u64)?;
        DeadTable(&shared.root).forget(&intervals)?;
        if ledger.pending_dead.is_some_and(|dead| intervals.contains(&dead)) {
            ledger.pending_dead = None;
        }
        ledger.dead = Arc::new(ledger.intervals(&shared.root)?);
        shared.forest.forget_dead(ledger.dead.clone());
    }
    ledger.machine.end_scrubbing(!shared.forest.dead().intervals().is_empty());
    reclaim(shared, ledger);
    Ok(())
}

/// Done → Collecting, or the next leaves of it, or its end. Idle: nothing is to be collected.
pub(crate) fn collect_batch(shared: &Shared, ledger: &mut Ledger) -> Result<Progress, Error> {
    // It may draw a version, which a replica is given: see `collect_below`.
    if ledger.is_replica { Ok(Progress::Idle) } else { collect_next(shared, ledger) }
}

/// In a replica, collects some leaves in the versions below the one that it is given next, if there are any.
pub(crate) fn collect_below(
    shared: &Shared,
    ledger: &mut Ledger,
    version: u64,
) -> Result<(), Error> {
    for _ in 0..BATCHES_BELOW {
        let has_gap = shared.versions.clock.last() + 1 < version;
        if !has_gap || collect_next(shared, ledger)? == Progress::Idle {
            break;
        }
    }
    Ok(())
}

fn collect_next(shared: &Shared, ledger: &mut Ledger) -> Result<Progress, Error> {
    if !ledger.machine.is_done() || ledger.is_broken {
        return Ok(Progress::Idle);
    }
    let begin = |ledger: &mut Ledger| {
        let node_size = shared.pool().geometry().node_size.into();
        let retained = shared.versions.pins.retained();
        ledger.trees.begin_collection(node_size, &retained).map(Collection::begin)
    };
    let Some(collection) = ledger.machine.take_collection().or_else(|| begin(ledger)) else {
        return Ok(Progress::Idle);
    };
    // A tree that was cleared meanwhile is given back as a whole.
    let Some(tree) = ledger.trees.by_cell(collection.cell()) else { return Ok(Progress::More) };
    let index = tree.index().clone();
    let next = match collect_some(shared, ledger, &index, collection) {
        // There is not even room to make room: the collection is over.
        Err(Error::Full(_)) => None,
        collected => collected?,
    };
    ledger.machine.collected(next);
    Ok(Progress::More)
}

fn collect_some(
    shared: &Shared,
    ledger: &mut Ledger,
    index: &Index,
    collection: Collection,
) -> Result<Option<Collection>, Error> {
    allow_next(shared, ledger)?;
    let versions = &shared.versions;
    let (dead, retained) = (shared.forest.dead(), versions.pins.retained());
    shared.forest.set_retained(retained.clone());
    let _relief = shared.pool().relief();
    let mut retired = Vec::new();
    let mut writer = Writer {
        stamp: grouped(versions.clock.last()),
        dead: &dead,
        retained: &retained,
        retired: &mut retired,
    };
    let next = collection.batch(index, &mut writer);
    let owes_version = std::mem::take(&mut ledger.owes_version);
    if !retired.is_empty() || owes_version {
        // A version in which nothing else happens: a reader from it on sees nothing of this.
        versions.pins.publish(versions.clock.draw());
    }
    ledger.retired.extend(&mut retired);
    reclaim(shared, ledger);
    next
}

/// Draws the version that is owed since objects were unlinked beside the write slots.
///
/// # Errors
/// Those of the pool.
pub(crate) fn draw_owed(shared: &Shared, ledger: &mut Ledger) -> Result<(), Error> {
    if ledger.owes_version && !ledger.is_replica && !ledger.is_broken {
        allow_next(shared, ledger)?;
        ledger.owes_version = false;
        shared.versions.pins.publish(shared.versions.clock.draw());
    }
    Ok(())
}

/// WritingHint → Done, or Owed.
pub(crate) fn end_hint(ledger: &mut Ledger, retired: &mut Vec<Retired>) {
    ledger.machine.end_hint();
    ledger.retired.extend(retired);
}
