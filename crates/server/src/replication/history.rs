//! Versions of histories, and where a store goes on for a replica that holds one.
//!
//! Each store has versions of its own, and its *history* has a name in each run of a server (see `histories`). A replica notes in the commit of
//! each change that it takes over which version of its primary's history it holds with it. So a version of a
//! primary is also a version of each of its replicas: the one that first noted it. After a failover the other
//! replicas of the old primary go on with the new one from there, as long as that version is retained.
//!
//! Changes are puts and removals of whole values. So a replica may be given changes a second time, from an earlier version
//! on: it is right again at the version where they end.

use tembo_kv::{Changes, Error, Keyspace, Snapshot, Store};

use crate::replication::format::{Content, KEYSPACE, PLACE_KEY, Place};
use crate::replication::histories::Histories;
use crate::replication::mark::Mark;

/// Where a replica begins.
pub(crate) struct Beginning {
    /// Everything that happens after `version`.
    pub(crate) changes: Changes,
    pub(crate) version: u64,
    /// All of that version, if the replica does not hold it.
    pub(crate) snapshot: Option<Snapshot>,
}

/// Attempts to get the changes after a snapshot, between which a version of the background may come.
const ATTEMPTS: usize = 16;

/// Goes on behind one of the versions that a replica holds, or begins anew. No transaction may be open.
///
/// # Errors
/// Those of the store.
pub(crate) fn begin(
    store: &Store,
    histories: &Histories,
    held: &[Mark],
) -> Result<Beginning, Error> {
    for mark in held {
        let version = match histories.version(mark) {
            Some(version) => version,
            None => own_version(store, mark)?,
        };
        // What is forgotten or was rolled back begins anew.
        if let Some(version) = version
            && let Ok(changes) = store.changes(version)
        {
            return Ok(Beginning { changes, version, snapshot: None });
        }
    }
    let mut last = Error::WouldDeadlock;
    for _ in 0..ATTEMPTS {
        let snapshot = store.snapshot()?;
        let version = snapshot.version();
        match store.changes(version) {
            Ok(changes) => return Ok(Beginning { changes, version, snapshot: Some(snapshot) }),
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// The store's own record.
///
/// # Errors
/// Those of the store.
pub(crate) fn place_of(store: &Store) -> Result<Place, Error> {
    let known = store.keyspaces().into_iter().find(|(name, _)| name == KEYSPACE);
    let Some((_, space)) = known else { return Ok(Place::default()) };
    let value = store.get(space, PLACE_KEY)?;
    // One of a later version is as none: then everything is asked for.
    Ok(value.and_then(|value| Place::decode(&value).ok()).unwrap_or_default())
}

/// The place as it was at a version, if that is retained.
fn place_at(store: &Store, space: Keyspace, version: u64) -> Option<Place> {
    let snapshot = store.snapshot_at(version).ok()?;
    let value = snapshot.get(space, PLACE_KEY).ok()??;
    Place::decode(&value.to_vec()).ok()
}

/// The version of this store that held a version of another history, and nothing after it.
fn own_version(store: &Store, mark: &Mark) -> Result<Option<u64>, Error> {
    let known = store.keyspaces().into_iter().find(|(name, _)| name == KEYSPACE);
    let Some((_, space)) = known else { return Ok(None) };
    let (oldest, visible) = (store.oldest(), store.visible());
    let Some(last) = place_at(store, space, visible) else { return Ok(None) };
    if last.source != mark.id || last.content != Content::Whole || last.version < mark.version {
        return Ok(None);
    }
    // Versions of the history at which this store was, by its own versions: they only rise.
    let held = |version: u64| {
        let place = place_at(store, space, version);
        place.filter(|place| place.source == mark.id && place.content == Content::Whole)
    };
    let is_after = |version: u64, bound: u64| held(version).is_some_and(|at| at.version > bound);
    let first = |bound: u64| {
        let (mut low, mut high) = (oldest, visible + 1);
        while low < high {
            let middle = low + (high - low) / 2;
            if is_after(middle, bound) {
                high = middle;
            } else {
                low = middle + 1;
            }
        }
        low
    };
    let behind = first(mark.version);
    let Some(found) = behind.checked_sub(1).filter(|before| *before >= oldest).and_then(held)
    else {
        return Ok(None);
    };
    if found.version == 0 {
        return Ok(None);
    }
    // The first that held it: own writes after a promotion come behind that one. Where that was before all that is
    // retained, own writes may have come already, unless it was a replica then.
    let version = first(found.version - 1);
    let is_first = |place: &Place| version > oldest || place.primary.is_some();
    let held = held(version).filter(|place| place.version == found.version && is_first(place));
    Ok(held.map(|_| version))
}
