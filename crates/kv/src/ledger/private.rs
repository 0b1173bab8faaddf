//! Gives back the space of private trees whose transactions have ended.

use std::collections::HashSet;

use tembo_index::{Error as IndexError, Index, Retired, TreeMarker, VersionedIndex};
use tembo_pool::Object;

use super::space::reclaim;
use super::state::Ledger;
use crate::shared::Shared;
use crate::trees::PRIVATE_VERSION;

/// More objects are left to a sweep.
const OBJECTS_MAX: usize = 1 << 16;

/// The objects of a private tree; `None`: too many, or damage.
pub(crate) struct PrivateObjects(Option<Vec<Object>>);

#[derive(Default)]
struct Collector {
    seen: HashSet<u64>,
    objects: Vec<Object>,
}

impl TreeMarker for Collector {
    fn reachable(&mut self, object: Object) -> Result<bool, IndexError> {
        if self.objects.len() == OBJECTS_MAX {
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

/// Collects what a tree consists of that is changed no more. Needs no lock.
pub(crate) fn collect_private(shared: &Shared, index: &Index) -> PrivateObjects {
    let (dead, retained) = (shared.forest.dead(), shared.versions.pins.retained());
    let mut collector = Collector::default();
    let marked = index.mark(&retained, &dead, &mut collector);
    PrivateObjects(marked.is_ok().then_some(collector.objects))
}

/// Gives the space of these trees back: at once, or when a marking that has seen them ends.
pub(crate) fn free_private(
    shared: &Shared,
    ledger: &mut Ledger,
    trees: &[(&Index, PrivateObjects)],
) {
    // What was unlinked waits already, and may be reachable still.
    let waiting: HashSet<u64> = ledger.retired.objects().map(Object::to_bits).collect();
    for (index, PrivateObjects(objects)) in trees {
        match objects {
            Some(objects) => {
                let (start, end) = (PRIVATE_VERSION, PRIVATE_VERSION);
                let retired = |&object: &Object| Retired { object, start, end };
                let others = objects.iter().filter(|object| !waiting.contains(&object.to_bits()));
                ledger.retired.extend(&mut others.map(retired).collect());
            }
            None => ledger.unlisted.push((PRIVATE_VERSION, PRIVATE_VERSION)),
        }
        shared.private.forget(index);
    }
    reclaim(shared, ledger);
}
