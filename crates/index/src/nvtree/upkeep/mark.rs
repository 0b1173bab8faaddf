//! The marking half of a sweep, which finds all that can be reached. And the scrub, which erases elements of dead versions
//! from the leaves, so that their interval can be forgotten.

use std::sync::Mutex;

use tembo_pmem::thread::lock;
use tembo_pool::Object;

use super::reach::reach;
use crate::error::damaged;
use crate::nvtree::change::erase_slots;
use crate::nvtree::hint::hint_objects;
use crate::nvtree::history;
use crate::nvtree::image::{LeafImage, make};
use crate::nvtree::leaf::Leaf;
use crate::nvtree::leaves::Leaves;
use crate::{DeadIntervals, Error, Retained, TreeMarker, Writer};

/// Leaves that are prefetched at once where pages come from a disk one by one.
const ASKED: usize = 16;

/// Asks for the leaves behind that one, as far as the inner nodes know them.
fn ask(leaves: &Leaves, leaf: &Leaf<'_>) -> Result<(), Error> {
    let behind = leaves.inner()?.behind::<ASKED>(&leaf.low()?.to_vec(), &*leaves.forest);
    for id in behind.into_iter().flatten() {
        // If a place is outdated that does no harm: the marking comes to every leaf by the list.
        if let Ok(leaf) = Leaf::at(&leaves.forest, id) {
            leaf.will_read();
        }
    }
    Ok(())
}

pub(crate) fn mark(
    leaves: &Leaves,
    structure: &Mutex<()>,
    retained: &Retained,
    dead: &DeadIntervals,
    marker: &mut dyn TreeMarker,
) -> Result<(), Error> {
    // The lock keeps merges away, which could carry elements that were not yet reached to where the walk has been.
    let _marking = lock(structure);
    marker.reachable(leaves.cell_object)?;
    for object in hint_objects(&leaves.forest, leaves.cell()?)? {
        marker.reachable(object)?;
    }
    let (mut next, mut passed) = (Some(leaves.first()?), None);
    for count in 0_usize.. {
        let Some(object) = next else { break };
        let leaf = Leaf::of(&leaves.forest, object)?;
        if count % (ASKED / 2) == 0 && leaf.region().reads_alone() {
            ask(leaves, &leaf)?;
        }
        if !marker.reachable(object)? || passed == Some(object) {
            return damaged(object.offset(), "a leaf that is in one list once");
        }
        if count.is_power_of_two() {
            // Above the limit of a sweep nothing is marked, and a damaged list may go round there: then it comes to this leaf
            // again, at the latest when so many leaves were passed as lie before the ring and in it. (Brent, 1980.)
            passed = Some(object);
        }
        leaves.pass(&leaf)?;
        let reached = reach(&leaf, retained, dead)?;
        for object in reached.objects {
            leaves.forest.pool().valid(object)?;
            marker.reachable(object)?;
        }
        (0..reached.live).for_each(|_| marker.live_entry());
        if !reached.is_clean {
            marker.unclean(object);
        }
        next = reached.next;
    }
    leaves.all_passed();
    Ok(())
}

/// Erases elements of dead versions, and copies that an interrupted change has left.
pub(crate) fn scrub_one(
    leaves: &Leaves,
    object: Object,
    writer: &mut Writer<'_>,
) -> Result<(), Error> {
    let leaf = Leaf::of(&leaves.forest, object)?;
    let guard = leaf.side.lock();
    let contents = LeafImage::read(&leaf, writer.dead)?;
    let strays = contents.strays.iter().map(|seen| seen.slot);
    let slots: Vec<usize> = strays.chain(contents.dead.iter().copied()).collect();
    erase_slots(&leaf, &slots)?;
    if history::read(&leaf)?.len() > contents.old.len() {
        // Readers of the visible version may be here.
        let version = writer.stamp.version() + 1;
        history::replace(&leaf, &contents.old, version, writer.retired)?;
    }
    // The slots were marked free already, but the side-car may say too much of the history.
    guard.forget();
    drop(guard);
    make(&leaf)
}
