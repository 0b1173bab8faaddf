//! Validation: whether others have committed, since a transaction began, what it writes or has read.

use std::sync::Arc;

use tembo_index::{Index, VersionedIndex, View};

use crate::inner::Inner;
use crate::transaction::{ReadSet, WriteSet};
use crate::writer::WriterState;
use crate::{Error, Keyspace};

/// What others may have done: after one version, as far as the other view sees.
#[derive(Clone, Copy)]
pub(crate) struct Meanwhile<'d> {
    /// The transaction's snapshot: pinned.
    pub(crate) since: u64,
    pub(crate) now: View<'d>,
}

impl Inner {
    /// First committer wins: nobody has written these keys meanwhile.
    ///
    /// # Errors
    /// [`Error::Conflict`].
    pub(crate) fn validate_writes(
        &self,
        state: &mut WriterState,
        writes: &WriteSet,
        meanwhile: Meanwhile<'_>,
    ) -> Result<(), Error> {
        let Meanwhile { since, now } = meanwhile;
        if now.version <= since {
            return Ok(());
        }
        writes.each_key(|keyspace, key| {
            let index = self.unchanged_index(state, keyspace, key, since)?;
            let mut changed = index.changed(key, since, now)?;
            if changed.is_none() {
                let horizon = || self.pins.retained().horizon();
                let removed = state.removals.after(since, keyspace, key, horizon);
                // What is still there as it was, is another key of the same hash.
                let view = View { version: since, ..now };
                changed = match removed {
                    Some(_) if index.get(key, view)?.is_some() => None,
                    removed => removed,
                };
            }
            no_conflict(keyspace, key, changed)
        })
    }

    /// What was read is what would be read now, so the transaction is as if it had been executed now.
    ///
    /// # Errors
    /// [`Error::Conflict`].
    pub(crate) fn validate_reads(
        &self,
        state: &WriterState,
        reads: &ReadSet,
        meanwhile: Meanwhile<'_>,
    ) -> Result<(), Error> {
        let Meanwhile { since, now } = meanwhile;
        if now.version <= since {
            return Ok(());
        }
        for (&keyspace, keys) in &reads.keys {
            for key in keys {
                let index = self.unchanged_index(state, keyspace, key, since)?;
                no_conflict(keyspace, key, index.changed(key, since, now)?)?;
            }
        }
        for read in &reads.ranges {
            let index = self.unchanged_index(state, read.keyspace, &[], since)?;
            let mut first = None;
            index.range_changed(read.range(), since, now, &mut |key| {
                first = Some(key.to_vec());
                false
            })?;
            if let Some(key) = first {
                let changed = index.changed(&key, since, now)?;
                no_conflict(read.keyspace, &key, changed.or(Some(now.version)))?;
            }
        }
        Ok(())
    }

    /// The index of a keyspace, unless it is another one since.
    fn unchanged_index(
        &self,
        state: &WriterState,
        keyspace: Keyspace,
        key: &[u8],
        since: u64,
    ) -> Result<Arc<Index>, Error> {
        let tree = state.tree(keyspace, self)?;
        let birth = tree.entry.birth.get();
        no_conflict(keyspace, key, (birth > since).then_some(birth))?;
        Ok(tree.index.clone())
    }
}

fn no_conflict(keyspace: Keyspace, key: &[u8], changed: Option<u64>) -> Result<(), Error> {
    match changed {
        None => Ok(()),
        Some(version) => Err(Error::Conflict { keyspace: keyspace.id, key: key.to_vec(), version }),
    }
}
