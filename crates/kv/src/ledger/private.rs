//! Gives back the space of private trees whose transactions have ended, and of large trees that were cleared.

use std::collections::HashSet;

use tembo_index::{Index, Retired};
use tembo_pool::Object;

use super::space::reclaim;
use super::state::Ledger;
use super::tree_objects::tree_objects;
use crate::shared::Shared;
use crate::trees::PRIVATE_VERSION;

/// More objects are left to a sweep.
const OBJECTS_MAX: usize = 1 << 16;

/// The objects of a private tree; `None`: too many, or damage.
pub(crate) struct PrivateObjects(Option<Vec<Object>>);

/// Collects what a tree consists of that is changed no more. Needs no lock.
pub(crate) fn collect_private(shared: &Shared, index: &Index) -> PrivateObjects {
    PrivateObjects(tree_objects(shared, index, OBJECTS_MAX))
}

/// Gives back what is given up, while the caller holds the writer's lock: it needs the space.
#[cold]
pub(crate) fn give_back_now(shared: &Shared, ledger: &mut Ledger) {
    let trees = shared.private.take_given_up();
    let collected: Vec<_> =
        trees.iter().map(|tree| (&**tree, collect_private(shared, tree))).collect();
    free_private(shared, ledger, &collected);
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
            None => ledger.unlisted.lose(),
        }
        shared.private.forget(index);
    }
    reclaim(shared, ledger);
}
