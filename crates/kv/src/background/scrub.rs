//! Scrubbing: erases what dead versions left in nodes, then lets the sweep give back what was not marked.

use std::sync::Arc;

use tembo_index::{DeadInterval, Index, VersionedIndex, Writer};
use tembo_pool::{Object, Sweep};

use crate::Error;

/// Nodes scrubbed while the writer's lock is held.
const BATCH: usize = 32;

/// The tree of a node that is scrubbed.
#[derive(Clone)]
pub(super) enum Scrubbed {
    Catalogue,
    Keyspace(Arc<Index>),
}

/// A scrub: what is left of it.
#[derive(Default)]
pub(crate) struct Scrubbing {
    /// Nodes that are not yet scrubbed, each with its tree.
    unclean: Vec<(Scrubbed, Object)>,
    /// The intervals that are forgotten when all nodes are scrubbed.
    intervals: Vec<DeadInterval>,
    /// The sweep, which gives back what the marking has not reached. It ends when no node refers to that any more.
    sweep: Option<Sweep>,
}

impl Scrubbing {
    /// Lines that the stores of a batch need in the log, at the most.
    pub(crate) const LINES: u64 = (BATCH * 32) as u64;

    pub(super) fn new(
        unclean: Vec<(Scrubbed, Object)>,
        intervals: Vec<DeadInterval>,
        sweep: Option<Sweep>,
    ) -> Scrubbing {
        Scrubbing { unclean, intervals, sweep }
    }

    /// Scrubs some nodes. Makes no fence.
    pub(crate) fn batch(
        &mut self,
        catalogue: &Index,
        writer: &mut Writer<'_>,
    ) -> Result<(), Error> {
        for _ in 0..BATCH {
            let Some((tree, node)) = self.unclean.last() else { break };
            let tree = match tree {
                Scrubbed::Catalogue => catalogue,
                Scrubbed::Keyspace(tree) => tree,
            };
            tree.scrub(*node, writer)?;
            self.unclean.pop();
        }
        Ok(())
    }

    /// Whether every node is scrubbed.
    pub(crate) fn is_complete(&self) -> bool {
        self.unclean.is_empty()
    }

    /// Gives back what was not marked, except pending objects. Returns false if another tenant of the pool has not settled:
    /// then the caller tries again later.
    pub(crate) fn sweep(&mut self, pending: impl FnOnce() -> Vec<Object>) -> Result<bool, Error> {
        let Some(mut sweep) = self.sweep.take() else { return Ok(true) };
        if !sweep.settle_others()? {
            self.sweep = Some(sweep);
            return Ok(false);
        }
        sweep.finish(pending())?;
        Ok(true)
    }

    /// The intervals whose stamps no node carries any more.
    pub(crate) fn intervals(&self) -> &[DeadInterval] {
        &self.intervals
    }
}
