//! What clones read of other devices: versions that names keep, and clones whose versions the store does not have.

use std::collections::BTreeSet;
use std::ops::Bound;

use tembo_kv::{Direction, Durability, Error as StoreError, Snapshot, Store};

use crate::Error;
use crate::format::{LOST, NEXT_NUMBER, ORIGIN_PREFIX, UNMARKED};
use crate::image::{is_named, origin_in};
use crate::shape::{Shape, Spaces};
use crate::shared::Shared;

/// The devices that a snapshot has, in the order of their names.
///
/// # Errors
/// Damage.
pub(crate) fn shapes_in(
    snapshot: &Snapshot,
    spaces: Spaces,
) -> Result<Vec<(String, Shape)>, Error> {
    let (mut shapes, mut failed) = (Vec::new(), Ok(()));
    let range = (Bound::Excluded(NEXT_NUMBER), Bound::Unbounded);
    let visited = snapshot.range_with::<[u8]>(
        spaces.devices,
        range,
        Direction::Forward,
        &mut |name, value| {
            match Shape::decode(&value) {
                Ok(shape) => shapes.push((String::from_utf8_lossy(name).into_owned(), shape)),
                Err(error) => failed = Err(error),
            }
            failed.is_ok()
        },
    );
    match visited {
        // There were no devices then.
        Err(StoreError::NoSuchKeyspace { .. }) => {}
        visited => visited?,
    }
    failed.map(|()| shapes)
}

/// The devices that are visible.
pub(crate) fn shapes(shared: &Shared) -> Result<Vec<(String, Shape)>, Error> {
    shapes_in(&shared.store.snapshot()?, shared.spaces)
}

/// Names versions for a clone that is about to be made. The names are durable before the clone is, and without a clone the next
/// opening drops them. If the disk is too full to sync them, the commit of the clone does it, or fails.
pub(crate) fn keep(store: &Store, versions: &[&Snapshot]) -> Result<(), Error> {
    for snapshot in versions {
        let version = snapshot.version();
        if is_named(store, version) {
            continue;
        }
        match store.name_snapshot(&format!("{ORIGIN_PREFIX}{version}"), snapshot) {
            Ok(()) | Err(StoreError::NotDurable(_)) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// Drops the names of versions that no clone reads, neither one that there is nor one in a named snapshot. If it fails, for one of
/// these is damaged or there is no room, names stay that are of no use: the next call drops them.
pub(crate) fn drop_unused(shared: &Shared) {
    let _ = try_drop_unused(shared);
}

fn try_drop_unused(shared: &Shared) -> Result<(), Error> {
    let Shared { store, spaces, .. } = shared;
    let is_ours = |(name, _): &(String, u64)| name.starts_with(ORIGIN_PREFIX);
    if !store.snapshots().iter().any(is_ours) {
        return Ok(());
    }
    // No clone is made meanwhile.
    let writer = store.exclusive()?;
    let (ours, named): (Vec<_>, Vec<_>) = store.snapshots().into_iter().partition(is_ours);
    let mut snapshots = vec![store.snapshot()?];
    for (_, version) in named {
        match store.snapshot_at(version) {
            // Another thread has just dropped the name.
            Err(StoreError::NotRetained { .. }) => {}
            snapshot => snapshots.push(snapshot?),
        }
    }
    let mut used = BTreeSet::new();
    for snapshot in &snapshots {
        let origins = shapes_in(snapshot, *spaces)?.into_iter().flat_map(|(_, it)| it.origins);
        let of_here = origins.filter(|origin| [spaces.mark, UNMARKED].contains(&origin.mark));
        used.extend(of_here.map(|origin| origin.version));
    }
    for (name, _) in ours.iter().filter(|(_, version)| !used.contains(version)) {
        store.drop_snapshot(name)?;
    }
    drop(writer);
    Ok(())
}

/// Marks the origins that a release without marks has written: as this store's, if a name keeps their versions, else as lost. A
/// clone that is made later may keep a version of the same number.
pub(crate) fn mark_old(shared: &Shared) -> Result<(), Error> {
    let Shared { store, spaces, .. } = shared;
    let is_old =
        |(_, shape): &(String, Shape)| shape.origins.iter().any(|origin| origin.mark == UNMARKED);
    if !shapes(shared)?.iter().any(is_old) {
        return Ok(());
    }
    let mut writer = store.exclusive()?;
    for (name, mut shape) in shapes(shared)?.into_iter().filter(is_old) {
        for origin in shape.origins.iter_mut().filter(|origin| origin.mark == UNMARKED) {
            origin.mark = if is_named(store, origin.version) { spaces.mark } else { LOST };
        }
        writer.put(spaces.devices, name.as_bytes(), &shape.encode())?;
    }
    writer.commit(Durability::Strict)?;
    Ok(())
}

/// The clones that cannot be read, and a version of which they are that the store does not have.
pub(crate) fn lost(shared: &Shared) -> Result<Vec<(String, u64)>, Error> {
    let mut lost = Vec::new();
    for (name, shape) in shapes(shared)? {
        for origin in &shape.origins {
            match origin_in(&shared.store, shared.spaces, origin) {
                Err(StoreError::NotRetained { version }) => {
                    lost.push((name, version));
                    break;
                }
                found => drop(found?),
            }
        }
    }
    Ok(lost)
}
