//! What a transaction has written: in memory, and in place if it has outgrown memory.

use std::sync::Arc;

use tembo_index::{Direction, Range, VersionedIndex};

use super::spilled::Spilled;
use crate::commit::WriteSet;
use crate::{Error, Keyspace};

/// A transaction's own writes.
#[derive(Clone, Copy)]
pub(super) struct Own<'t> {
    pub(super) writes: &'t WriteSet,
    pub(super) spilled: Option<&'t Spilled>,
}

impl Own<'_> {
    /// What was written under the key: a value, or that it is removed.
    pub(super) fn get(
        &self,
        keyspace: Keyspace,
        key: &[u8],
    ) -> Result<Option<Option<Vec<u8>>>, Error> {
        if let Some(own) = self.writes.get(keyspace, key) {
            return Ok(Some(own.map(<[u8]>::to_vec)));
        }
        let Some(spilled) = &self.spilled else { return Ok(None) };
        spilled.own(keyspace, key)
    }

    /// The keyspaces in which something may have been written.
    pub(super) fn keyspaces(&self) -> Vec<Keyspace> {
        self.spilled.map(Spilled::keyspaces).unwrap_or_default()
    }

    /// The first `most` keys of a range that were written, in the order of its direction.
    pub(super) fn keys(
        &self,
        keyspace: Keyspace,
        range: Range<'_>,
        most: usize,
    ) -> Result<Vec<Arc<[u8]>>, Error> {
        let mut own = self.writes.keys(keyspace, range, most);
        if let Some(spilled) = &self.spilled {
            let (index, both) = (spilled.index(keyspace)?, own.len().saturating_add(most));
            index.range_changed(range, spilled.before(), spilled.view(), &mut |key| {
                own.push(key.into());
                own.len() < both
            })?;
            match range.direction {
                Direction::Forward => own.sort_unstable(),
                Direction::Backward => own.sort_unstable_by(|a, b| b.cmp(a)),
            }
            own.dedup();
            // Beyond the last key of either there may be others.
            own.truncate(most);
        }
        Ok(own)
    }
}
