//! Validation: whether other transactions have committed changes of keys that a transaction writes or has read, since it
//! began.

use tembo_index::{Direction, Index, Range, VersionedIndex, View};

use super::write_set::WriteSet;
use crate::error::InKeyspace;
use crate::ledger::Ledger;
use crate::read_set::ReadSet;
use crate::shared::Shared;
use crate::tombstones::{KeyRange, TombstoneList, masked_changed, masked_has};
use crate::trees::Directory;
use crate::{Access, Error, Keyspace};

/// The period in which others may have made changes: after one version, as far as a view sees.
#[derive(Clone, Copy)]
pub(crate) struct Meanwhile<'d> {
    /// The version of the transaction's snapshot, which is pinned.
    pub(crate) since: u64,
    pub(crate) now: View<'d>,
}

/// First committer wins: verifies that no other transaction has written these keys meanwhile, and no prepared one holds them.
///
/// # Errors
/// [`Error::Conflict`].
pub(crate) fn validate_writes(
    shared: &Shared,
    ledger: &mut Ledger,
    writes: &WriteSet,
    meanwhile: Meanwhile<'_>,
) -> Result<(), Error> {
    if shared.held.is_empty() && meanwhile.now.version <= meanwhile.since {
        return Ok(());
    }
    let validation = WriteValidation::begin(shared, meanwhile);
    writes.each_key(|keyspace, key| validation.key(ledger, keyspace, key))
}

/// The validation of writes, key by key.
pub(crate) struct WriteValidation<'v> {
    shared: &'v Shared,
    tombstones: TombstoneList,
    meanwhile: Meanwhile<'v>,
}

impl<'v> WriteValidation<'v> {
    pub(crate) fn begin(shared: &'v Shared, meanwhile: Meanwhile<'v>) -> WriteValidation<'v> {
        WriteValidation { shared, tombstones: shared.tombstones.load(), meanwhile }
    }

    /// Verifies that no other transaction has written the key meanwhile, and no prepared one holds it.
    ///
    /// # Errors
    /// [`Error::Conflict`].
    pub(crate) fn key(
        &self,
        ledger: &mut Ledger,
        keyspace: Keyspace,
        key: &[u8],
    ) -> Result<(), Error> {
        let Meanwhile { since, now } = self.meanwhile;
        self.shared.check_held(keyspace, key, None)?;
        if now.version <= since {
            return Ok(());
        }
        let validated = self.unchanged(ledger, keyspace, key);
        named(&ledger.trees, (keyspace, now), validated)
    }

    fn unchanged(&self, ledger: &mut Ledger, keyspace: Keyspace, key: &[u8]) -> Result<(), Error> {
        let Meanwhile { since, now } = self.meanwhile;
        let trees = &mut ledger.trees;
        let index = unchanged_index(trees, (keyspace, key), self.meanwhile, Access::Write)?;
        let mut changed = index.changed(key, since, now)?;
        if changed.is_none() {
            let horizon = || self.shared.versions.pins.retained().horizon();
            changed = trees.removals.after(since, keyspace, key, horizon);
            if changed.is_some() {
                let index = trees.tree(keyspace, now.version)?.index();
                // The key is still there, so the removal is of another key with the same hash.
                if masked_has(&[], index, key, View { version: since, ..now })? {
                    changed = None;
                }
            }
        }
        if !self.tombstones.is_empty() {
            let index = trees.tree(keyspace, now.version)?.index();
            changed = masked_changed(&self.tombstones, index, key, (since, now), changed)?;
        }
        no_conflict(trees, (keyspace, key), changed, Access::Write)
    }
}

/// Verifies that the transaction would read the same now, so that it is as if it had been executed now.
///
/// # Errors
/// [`Error::Conflict`].
pub(crate) fn validate_reads(
    shared: &Shared,
    ledger: &Ledger,
    reads: &ReadSet,
    meanwhile: Meanwhile<'_>,
) -> Result<(), Error> {
    let Meanwhile { since, now } = meanwhile;
    if now.version <= since {
        return Ok(());
    }
    let (trees, tombstones) = (&ledger.trees, shared.tombstones.load());
    let validate = |keyspace: Keyspace, key: &[u8]| {
        let index = unchanged_index(trees, (keyspace, key), meanwhile, Access::Read)?;
        let changed = index.changed(key, since, now)?;
        let changed = masked_changed(&tombstones, index, key, (since, now), changed)?;
        no_conflict(trees, (keyspace, key), changed, Access::Read)
    };
    for (&keyspace, keys) in &reads.keys {
        keys.iter().try_for_each(|key| named(trees, (keyspace, now), validate(keyspace, key)))?;
    }
    for read in &reads.ranges {
        let Range { from, to, .. } = read.range();
        let Some(range) = KeyRange::new(from, to) else { continue };
        validate_range(shared, ledger, (read.keyspace, &range, Access::Read), meanwhile)?;
    }
    Ok(())
}

/// Verifies that no other transaction has changed a key of the range.
///
/// # Errors
/// [`Error::Conflict`].
pub(crate) fn validate_range(
    shared: &Shared,
    ledger: &Ledger,
    (keyspace, range, access): (Keyspace, &KeyRange, Access),
    meanwhile: Meanwhile<'_>,
) -> Result<(), Error> {
    if meanwhile.now.version <= meanwhile.since {
        return Ok(());
    }
    let validated = unchanged_range(shared, ledger, (keyspace, range, access), meanwhile);
    named(&ledger.trees, (keyspace, meanwhile.now), validated)
}

fn unchanged_range(
    shared: &Shared,
    ledger: &Ledger,
    (keyspace, range, access): (Keyspace, &KeyRange, Access),
    meanwhile: Meanwhile<'_>,
) -> Result<(), Error> {
    let Meanwhile { since, now } = meanwhile;
    let (trees, tombstones) = (&ledger.trees, shared.tombstones.load());
    let index = unchanged_index(trees, (keyspace, &[]), meanwhile, access)?;
    let cell = index.object().to_bits();
    // A tombstone counts as a change even if it covers no key.
    let removed = tombstones.iter().find(|one| {
        one.is_of(cell, now.version) && one.version > since && one.range.overlaps(range)
    });
    if let Some(removed) = removed {
        no_conflict(trees, (keyspace, &removed.range.from), Some(removed.version), access)?;
    }
    let (mut first, mut failed) = (None, None);
    let (from, to) = range.bounds();
    let all = Range { from, to, direction: Direction::Forward };
    index.range_changed(all, since, now, &mut |key| {
        match masked_changed(&tombstones, index, key, (since, now), Some(now.version)) {
            Ok(None) => {}
            Ok(Some(_)) => first = Some(key.to_vec()),
            Err(error) => failed = Some(error),
        }
        first.is_none() && failed.is_none()
    })?;
    if let Some(error) = failed {
        return Err(error);
    }
    if let Some(key) = first {
        let changed = index.changed(&key, since, now)?.or(Some(now.version));
        no_conflict(trees, (keyspace, &key), changed, access)?;
    }
    Ok(())
}

/// The result, with the name of the keyspace in the error of a corrupt record.
fn named<T>(
    trees: &Directory,
    (keyspace, now): (Keyspace, View<'_>),
    found: Result<T, Error>,
) -> Result<T, Error> {
    match found {
        Err(error @ Error::Corrupt { .. }) => {
            Err(error).in_keyspace(trees.tree(keyspace, now.version)?.name())
        }
        found => found,
    }
}

/// The index of a keyspace, if it is the same as in the transaction's version. It is borrowed, because a change of its
/// reference count would disturb other threads' reads.
fn unchanged_index<'t>(
    trees: &'t Directory,
    (keyspace, key): (Keyspace, &[u8]),
    meanwhile: Meanwhile<'_>,
    access: Access,
) -> Result<&'t Index, Error> {
    let tree = trees.tree(keyspace, meanwhile.now.version)?;
    let birth = tree.birth();
    no_conflict(trees, (keyspace, key), (birth > meanwhile.since).then_some(birth), access)?;
    Ok(tree.index())
}

fn no_conflict(
    trees: &Directory,
    (keyspace, key): (Keyspace, &[u8]),
    changed: Option<u64>,
    access: Access,
) -> Result<(), Error> {
    let Some(version) = changed else { return Ok(()) };
    let tree = trees.tree(keyspace, version);
    let keyspace = tree.map(|tree| tree.known.name.to_string()).unwrap_or_default();
    Err(Error::Conflict { keyspace, key: key.to_vec(), access, version, held_by: None })
}
