//! Logical collection: when an eighth of a keyspace's keys has been removed, its index
//! is gone through once, a few leaves at a time, so that entries that no version needs leave it and leaves that
//! have become small are merged. Between two batches the writer's lock is free. While a marking runs, or
//! nodes wait to be scrubbed, nothing is collected.
//!
//! It is due too when as many of its entries were kept for old versions only, and took space, and the
//! horizon has passed them since: a snapshot was dropped, or the window has moved on.

use tembo_index::{Index, VersionedIndex, Writer};

use crate::Error;

/// Leaves that are collected while the writer's lock is held.
const BATCH: usize = 2;

/// A collection of a tree.
pub(crate) struct Collection {
    /// The cell of the tree.
    cell: u64,
    /// Where it goes on.
    from: Option<Vec<u8>>,
}

impl Collection {
    /// Of the tree with that root cell.
    pub(crate) fn begin(cell: u64) -> Collection {
        Collection { cell, from: None }
    }

    /// The root cell of its tree.
    pub(crate) fn cell(&self) -> u64 {
        self.cell
    }

    /// Collects some leaves of its tree; where to go on. Nothing is fenced.
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
