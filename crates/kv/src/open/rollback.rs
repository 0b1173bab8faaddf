//! Rollback: one dead interval is noted, and the writer's volatile state is made again as of the older version.

use tembo_index::{DeadInterval, View};

use crate::ledger::{Ledger, forget_after, kill, make_room, next_version};
use crate::media::SNAPSHOT_COUNT;
use crate::shared::Shared;
use crate::version::PinKind;
use crate::write::Engine;
use crate::{Error, prepared};

/// Names that a store can have.
const NAME_COUNT_MAX: u64 = SNAPSHOT_COUNT as u64;

/// Takes back everything after `version`. Returns the ids of prepared transactions that it drops. Synced when it returns.
///
/// # Errors
/// [`Error::NotRetained`], [`Error::VersionInUse`], [`Error::WouldDeadlock`], [`Error::ReadOnly`], [`Error::Full`]: nothing has
/// changed. [`Error::NotDurable`]: it is rolled back; the ids of what it dropped are not returned. Damage that it finds on its
/// way: the store takes no more writes until it is opened again, and is rolled back then.
pub(crate) fn roll_back(engine: &Engine, version: u64) -> Result<Vec<Vec<u8>>, Error> {
    engine.shared.check_writable()?;
    let (mut writing, versions) = (engine.lock()?, &engine.shared.versions);
    // A marking counts and marks what the rollback would change; a hint is of a tree that it
    // replaces.
    while writing.machine.is_unlocked() {
        let is_foreign = writing.is_marked_by_another();
        drop(writing);
        if is_foreign {
            engine.shared.settle_others()?;
        }
        std::thread::yield_now();
        writing = engine.lock()?;
    }
    let (shared, ledger) = writing.parts();
    ledger.sound()?;
    // No snapshot begins between the test and the end of the rollback, and no version is named.
    let _gate = versions.begin_rollback();
    let _closed = versions.pins.close_slots();
    let named_after: Vec<u64> = shared
        .names
        .all()
        .into_iter()
        .map(|(_, named)| named)
        .filter(|&named| named > version)
        .collect();
    if !versions.pins.pin_retained(version, PinKind::Marking) {
        return Err(Error::NotRetained { version });
    }
    let tombstones = shared.tombstones.load();
    let names_at = |pin| {
        let ranges = tombstones.iter().filter(|one| one.version == pin).count();
        named_after.iter().filter(|&&named| named == pin).count() + ranges
    };
    let in_use = versions.pins.above(version).into_iter().find(|&(pin, n)| n > names_at(pin));
    let rolled_back = match in_use {
        Some((version, _)) => Err(Error::VersionInUse { version }),
        None => roll(shared, ledger, version),
    };
    versions.pins.unpin(version, PinKind::Marking);
    rolled_back
}

fn roll(shared: &Shared, ledger: &mut Ledger, version: u64) -> Result<Vec<Vec<u8>>, Error> {
    let pins = &shared.versions.pins;
    make_room(shared, ledger)?;
    // Behind the dead interval there is no way back: so there is room for all that follows it.
    let section = shared.region().reserve(NAME_COUNT_MAX)?;
    // The version that is visible from here on is not void itself, so that a name it is given
    // can be distinguished from those of void versions, which the next open forgets after a crash here.
    let visible = next_version(shared, ledger)?;
    kill(shared, ledger, DeadInterval { from: version, to: visible - 1, lane: None })?;
    pins.with_past(|past, _| past.rolled_back(version, visible - 1));
    // From here on there is no way back: an error leaves the store to the next open.
    ledger.is_broken = true;
    pins.publish(visible);
    forget_after(ledger, version);
    let tombstones = shared.tombstones.load();
    shared.tombstones.change(|list| list.retain(|one| one.version <= version));
    shared.tombstones.change(|list| {
        // A tombstone whose entries were erased later covers them again.
        let again = list.iter_mut().filter(|one| one.until > version);
        again.for_each(|one| one.until = u64::MAX);
    });
    ledger.erased_to = None;
    let void = tombstones.iter().filter(|one| one.version > version);
    void.for_each(|one| pins.unpin(one.version, PinKind::Tombstone));
    // A name that was given to an earlier version meanwhile stays.
    shared.names.forget_between(&shared.root, pins, (version, visible - 1))?;
    drop(section);
    let dead = shared.forest.dead();
    let view = View { version: visible, dead: &dead };
    ledger.trees.roll_back(&shared.indexes, &shared.catalogue, view)?;
    // A promotion is taken back too, as the next open would find it.
    ledger.is_replica |= shared.catalogue.is_replica(view)?;
    let dropped = shared.held.replace(prepared::load(&shared.catalogue, view, &ledger.trees)?);
    // The trees are published even if they are the same: a reader without a pin asks after its copy whether they were
    // published anew. What has died is given back later.
    shared.published.store(ledger.trees.known(), visible);
    pins.forget_trees();
    ledger.is_broken = false;
    // Followers are notified of it, as of any version that becomes durable.
    shared.versions.sync(shared.region())?;
    Ok(dropped)
}
