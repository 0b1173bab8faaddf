//! What a tree consists of that is changed no more.

use std::collections::HashSet;

use tembo_index::{Error as IndexError, Index, TreeMarker, VersionedIndex};
use tembo_pool::Object;

use crate::shared::Shared;

struct Collector {
    seen: HashSet<u64>,
    objects: Vec<Object>,
    count_max: usize,
}

impl TreeMarker for Collector {
    fn reachable(&mut self, object: Object) -> Result<bool, IndexError> {
        if self.objects.len() == self.count_max {
            return Err(IndexError::Stopped);
        }
        let is_first = self.seen.insert(object.to_bits());
        if is_first {
            self.objects.push(object);
        }
        Ok(is_first)
    }

    fn unclean(&mut self, _node: Object) {}

    fn live_entry(&mut self) {}
}

/// The objects of a tree; `None`: more than `count_max`, or damage. Needs no lock.
pub(super) fn tree_objects(
    shared: &Shared,
    index: &Index,
    count_max: usize,
) -> Option<Vec<Object>> {
    let (dead, retained) = (shared.forest.dead(), shared.versions.pins.retained());
    let mut collector = Collector { seen: HashSet::new(), objects: Vec::new(), count_max };
    let marked = index.mark(&retained, &dead, &mut collector);
    marked.is_ok().then_some(collector.objects)
}
