//! Marking: finds what retained versions reach, counts keys, and finds the nodes with dead stamps.

use std::collections::BTreeMap;
use std::sync::Arc;

use tembo_index::{DeadIntervals, Forest, Index, Retained, TreeMarker, VersionedIndex};
use tembo_pool::{Object, Sweep};

use super::scrub::{Scrubbed, Scrubbing};
use super::wake::Wake;
use crate::Error;

/// Number of objects after which a marking yields its processor. Where there are fewer processors than threads, a thread
/// that waits would otherwise wait for the end of the time slice.
const OBJECTS_BETWEEN_YIELDS: u64 = 128;

/// The input of a marking, taken under the writer's lock.
pub(crate) struct Marking {
    pub(crate) retained: Arc<Retained>,
    pub(crate) dead: Arc<DeadIntervals>,
    /// Every tree of a retained version, by cell.
    pub(crate) trees: BTreeMap<u64, Arc<Index>>,
}

/// What a marking has found.
#[derive(Default)]
pub(crate) struct Found {
    /// Keys in the visible version, by cell.
    pub(crate) counts: BTreeMap<u64, u64>,
    unclean: Vec<(Scrubbed, Object)>,
}

struct Marker<'m> {
    marker: &'m mut dyn tembo_pool::Marker,
    unclean: Vec<Object>,
    live: u64,
    reached: u64,
    wake: &'m Wake,
    forest: &'m Forest,
}

impl TreeMarker for Marker<'_> {
    fn reachable(&mut self, object: Object) -> Result<bool, tembo_index::Error> {
        if self.wake.is_stopped() {
            return Err(tembo_index::Error::Stopped);
        }
        self.reached += 1;
        if self.reached.is_multiple_of(OBJECTS_BETWEEN_YIELDS) {
            self.forest.prefault();
            std::thread::yield_now();
        }
        Ok(self.marker.mark(object)?)
    }

    fn unclean(&mut self, node: Object) {
        self.unclean.push(node);
    }

    fn live_entry(&mut self) {
        self.live += 1;
    }
}

impl Marking {
    /// Marks all that is reachable. Needs no lock.
    ///
    /// # Errors
    /// Damage; `Stopped` if the thread was asked to end.
    pub(crate) fn run(
        &self,
        marker: &mut dyn tembo_pool::Marker,
        catalogue: &Index,
        forest: &Forest,
        wake: &Wake,
    ) -> Result<Found, Error> {
        let mut found = Found::default();
        let (retained, dead) = (self.retained.clone(), self.dead.clone());
        let mut marker = Marker { marker, unclean: Vec::new(), live: 0, reached: 0, wake, forest };
        catalogue.mark(&retained, &dead, &mut marker)?;
        let unclean = marker.unclean.drain(..).map(|node| (Scrubbed::Catalogue, node));
        found.unclean.extend(unclean);
        for (&cell, tree) in &self.trees {
            marker.live = 0;
            tree.mark(&retained, &dead, &mut marker)?;
            found.counts.insert(cell, marker.live);
            let scrubbed = Scrubbed::Keyspace(tree.clone());
            let unclean = marker.unclean.drain(..).map(|node| (scrubbed.clone(), node));
            found.unclean.extend(unclean);
        }
        Ok(found)
    }

    /// The scrub that follows. `sweep` is `None` if another tenant drives the sweep.
    pub(crate) fn scrubbing(&self, found: Found, sweep: Option<Sweep>) -> Scrubbing {
        Scrubbing::new(found.unclean, self.dead.intervals().to_vec(), sweep)
    }
}
