//! Erasing what a range tombstone covers: in the background, some entries at a time, each batch a commit of its own.

use std::ops::{Bound, RangeBounds};

use tembo_index::{Direction, VersionedIndex};

use crate::commit::Uncommitted;
use crate::error::InKeyspace;
use crate::ledger::{Ledger, publish, reclaim, release_tombstones};
use crate::shared::Shared;
use crate::tombstones::Tombstone;
use crate::{Error, Keyspace, Progress};

/// Entries that one batch looks at while it holds the writer's lock.
const BATCH: usize = 64;

/// Erases one batch. Returns Idle if no tombstone covers any entry.
///
/// Durability point: visible when it returns; a batch that is lost is erased again.
pub(crate) fn erase_batch(shared: &Shared, ledger: &mut Ledger) -> Result<Progress, Error> {
    if ledger.writable().is_err() {
        return Ok(Progress::Idle);
    }
    if shared.tombstones.has_any() && release_tombstones(shared) {
        // This gives back what only the versions of those tombstones saw.
        reclaim(shared, ledger);
        return Ok(Progress::More);
    }
    if !shared.tombstones.has_any() {
        ledger.features.retract_ranges(shared)?;
        return Ok(Progress::Idle);
    }
    let list = shared.tombstones.load();
    let Some(tombstone) = list.iter().find(|tombstone| tombstone.is_pending()) else {
        return Ok(Progress::Idle);
    };
    let mut changes = Uncommitted::begin(shared);
    let done = erase_some(shared, ledger, &mut changes, tombstone).and_then(|next| {
        // A batch without a covered entry commits nothing.
        let Some(version) = changes.last() else { return Ok(next) };
        publish(shared, ledger, version, std::slice::from_mut(&mut changes)).map(|()| next)
    });
    match done {
        Ok(next) => {
            // Not before the commit: what is not committed is erased again.
            ledger.erased_to = next.map(|next| (tombstone.version, next));
            Ok(Progress::More)
        }
        Err(error) => {
            changes.abort(shared, ledger);
            match error {
                // The batch is tried again when there is room.
                Error::Full(_) => Ok(Progress::Idle),
                error => Err(error),
            }
        }
    }
}

/// Erases some entries. Returns the key from which to go on; `None`: there are no more, and the tombstone has ended.
fn erase_some(
    shared: &Shared,
    ledger: &mut Ledger,
    changes: &mut Uncommitted,
    tombstone: &Tombstone,
) -> Result<Option<Vec<u8>>, Error> {
    // If the keyspace was cleared, its tree is given back as a whole.
    let Some(keyspace) = ledger.trees.keyspace_of(tombstone.cell) else {
        changes.end_tombstone(shared, ledger, tombstone)?;
        return Ok(None);
    };
    let (covered, next) = covered(shared, ledger, changes, (keyspace, tombstone))?;
    for key in covered {
        changes.erase(shared, ledger, keyspace, &key)?;
    }
    if next.is_none() {
        changes.end_tombstone(shared, ledger, tombstone)?;
    }
    Ok(next)
}

/// Keys whose entries are covered, and the key from which to go on.
type Covered = (Vec<Vec<u8>>, Option<Vec<u8>>);

fn covered(
    shared: &Shared,
    ledger: &Ledger,
    changes: &Uncommitted,
    (keyspace, tombstone): (Keyspace, &Tombstone),
) -> Result<Covered, Error> {
    let view = changes.view(shared);
    let tree = ledger.trees.tree(keyspace, view.version)?;
    let index = tree.index();
    let (from, to) = tombstone.range.bounds();
    let from = match &ledger.erased_to {
        Some((version, key)) if *version == tombstone.version => Bound::Included(&key[..]),
        _ => from,
    };
    let mut keys: Vec<Vec<u8>> = Vec::new();
    let found = index.range(from, to, Direction::Forward, view, &mut |key, _| {
        keys.push(key.to_vec());
        keys.len() <= BATCH
    });
    let next = match found.in_keyspace(tree.name()) {
        Ok(()) if keys.len() > BATCH => keys.pop(),
        Ok(()) => None,
        // A corrupt record is erased like any other. If its key is corrupt, the walk cannot go on.
        Err(Error::Corrupt { key, .. })
            if (from, to).contains(&key[..]) && keys.last().is_none_or(|last| *last < key) =>
        {
            let next = [&key[..], &[0]].concat();
            keys.push(key);
            Some(next)
        }
        Err(error) => return Err(error),
    };
    let mut covered = Vec::with_capacity(keys.len());
    for key in keys {
        if index.changed(&key, tombstone.version, view)?.is_none() {
            covered.push(key);
        }
    }
    Ok((covered, next))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Durability, IndexKind, Options, Store};

    const KEYS: u64 = 300;

    /// What is left of a range if its erasure fails at each commit, but for each `made`th.
    fn left_after(index: IndexKind, made: usize) -> usize {
        let options = Options::new().index(index).background(false);
        let store = Store::volatile(&options).unwrap();
        let space = store.keyspace("x").unwrap();
        for key in 0..KEYS {
            store.put(space, &key.to_be_bytes(), b"value", Durability::Buffered).unwrap();
        }
        while store.maintain(16).unwrap() == Progress::More {}
        store.remove_range::<[u8]>(space, .., Durability::Strict).unwrap();
        for attempt in 0.. {
            let mut writing = store.handle().lock().unwrap();
            let (shared, ledger) = writing.parts();
            let list = shared.tombstones.load();
            let Some(tombstone) = list.iter().find(|one| one.is_pending()) else { break };
            if attempt % made == 0 {
                erase_batch(shared, ledger).unwrap();
            } else {
                // As if the disk were full at the commit.
                let mut changes = Uncommitted::begin(shared);
                erase_some(shared, ledger, &mut changes, tombstone).map(drop).unwrap();
                changes.abort(shared, ledger);
            }
            drop(writing);
            while store.report().recovering {
                store.maintain(1).unwrap();
            }
        }
        while store.maintain(16).unwrap() == Progress::More {}
        assert_eq!(store.check().unwrap().leaked, 0);
        store.range::<[u8]>(space, ..).unwrap().count()
    }

    #[test]
    fn what_is_not_committed_is_erased_again() {
        for (index, made) in IndexKind::ORDERED.into_iter().flat_map(|it| [(it, 2), (it, 3)]) {
            assert_eq!(left_after(index, made), 0, "{index:?} {made}");
        }
    }
}
