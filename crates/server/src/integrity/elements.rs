//! The elements of a database in a snapshot.

use tembo_kv::{Keyspace, Snapshot};

/// Where the elements of a database are.
#[derive(Clone, Copy)]
pub(super) struct Elements<'s> {
    pub(super) snapshot: &'s Snapshot,
    pub(super) space: Keyspace,
}

impl Elements<'_> {
    /// The value of an element by its whole key.
    pub(super) fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, String> {
        let found = self.snapshot.get(self.space, key).map_err(|error| error.to_string())?;
        Ok(found.map(|value| value.to_vec()))
    }
}
