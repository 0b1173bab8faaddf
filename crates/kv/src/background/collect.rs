//! Logical collection: when an eighth of a keyspace's keys has been removed, its index
//! is walked once, a few leaves at a time. Entries that no version needs are erased, and leaves that
//! have become small are merged. A batch in 64 is taken under the writer's lock, the others beside the write slots
//! (`write/beside.rs`). While a marking runs, or nodes wait to be scrubbed, nothing is collected.
//!
//! It is also due when as many entries took space for old versions only, and the horizon has passed those versions
//! since: a snapshot was dropped, or the window has moved on.

use tembo_index::{Index, VersionedIndex, Writer};

use crate::Error;

/// Steps of the index in a batch, so that a thread that wants the writer's lock does not wait for long.
const BATCH: usize = 2;

/// A collection of a tree.
#[derive(Clone)]
pub(crate) struct Collection {
    /// The cell of the tree.
    cell: u64,
    /// The key from which the collection goes on.
    from: Option<Vec<u8>>,
}

impl Collection {
    /// A collection of the tree with that root cell.
    pub(crate) fn begin(cell: u64) -> Collection {
        Collection { cell, from: None }
    }

    /// The root cell of its tree.
    pub(crate) fn cell(&self) -> u64 {
        self.cell
    }

    /// Collects some leaves of the tree. Returns the key from which to go on. Makes no fence.
    pub(crate) fn batch(
        self,
        index: &Index,
        writer: &mut Writer<'_>,
    ) -> Result<Option<Collection>, Error> {
        let mut next = self.from;
        for _ in 0..BATCH {
            next = index.collect(next.as_deref(), writer)?;
            if next.is_none() {
                break;
            }
        }
        Ok(next.map(|from| Collection { from: Some(from), ..self }))
    }
}
