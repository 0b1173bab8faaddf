//! A transaction's own writes: in memory, and in the pool if it has outgrown memory.

use std::sync::Arc;

use tembo_index::{Direction, Range};

use super::spilled::{Spilled, Written};
use crate::commit::WriteSet;
use crate::{Error, Keyspace};

/// A transaction's own writes.
#[derive(Clone, Copy)]
pub(super) struct Own<'t> {
    pub(super) writes: &'t WriteSet,
    pub(super) spilled: Option<&'t Spilled>,
}

impl Own<'_> {
    /// The last write of the key: a value, or a removal.
    pub(super) fn get(&self, keyspace: Keyspace, key: &[u8]) -> Result<Option<Written>, Error> {
        if let Some(own) = self.writes.get(keyspace, key) {
            return Ok(Some(own.map(<[u8]>::to_vec)));
        }
        let Some(spilled) = &self.spilled else { return Ok(None) };
        spilled.own(keyspace, key)
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
            own.extend(spilled.keys(keyspace, range, most)?);
            match range.direction {
                Direction::Forward => own.sort_unstable(),
                Direction::Backward => own.sort_unstable_by(|a, b| b.cmp(a)),
            }
            own.dedup();
            // Each of the two may have more keys behind its last one.
            own.truncate(most);
        }
        Ok(own)
    }
}
