//! The order of keys, for ranges.

use crate::nvtree::image::{Keys, LeafImage, Seen};
use crate::nvtree::leaf::{Guard, Leaf, Order};
use crate::{Error, Stamp};

/// The slots of the newest elements in the order of their keys.
pub(crate) fn order_of(leaf: &Leaf<'_>, guard: &Guard<'_>) -> Result<Order, Error> {
    let (prints, _) = guard.prints();
    let slots = prints.live(leaf.lines());
    if let Some(order) = Keys::of(leaf.all_lines()?).order(slots) {
        return Ok(order);
    }
    let mut live = LeafImage::default();
    for slot in slots {
        let (element, meta) = leaf.element(slot)?;
        live.insert(leaf, Seen { slot, element, meta, stamp: Stamp::NONE })?;
    }
    Ok(Order::of(live.seen.iter().map(|seen| seen.slot)))
}
