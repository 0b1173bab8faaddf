//! The order of keys, for ranges.

use crate::nvtree::format::Line;
use crate::nvtree::image::{Keys, LeafImage, Seen};
use crate::nvtree::leaf::{Guard, Leaf, Order, Shape, Slots, place_of, read_element};
use crate::{Error, Stamp};

/// The slots of the newest elements in the order of their keys.
pub(crate) fn order_of(leaf: &Leaf<'_>, guard: &Guard<'_>) -> Result<Order, Error> {
    let (prints, _) = guard.prints();
    let slots = prints.live(leaf.lines());
    let lines = leaf.all_lines()?;
    if let Some(order) = Keys::of(lines).order(slots) {
        return Ok(order.with_shape(shape_of_all(slots, lines)));
    }
    let mut live = LeafImage::default();
    for slot in slots {
        let (element, meta) = leaf.element(slot)?;
        live.insert(leaf, Seen { slot, element, meta, stamp: Stamp::NONE })?;
    }
    Ok(Order::of(live.seen.iter().map(|seen| seen.slot)))
}

/// The common shape of the elements in these slots. `None`: they have several shapes.
fn shape_of_all(mut slots: Slots, lines: &[Line]) -> Option<Shape> {
    let shape_of = |slot| {
        let (number, at) = place_of(slot);
        Some(read_element(lines.get(number)?, at).shape)
    };
    let first = shape_of(slots.next()?)?;
    slots.all(|slot| shape_of(slot) == Some(first)).then_some(first)
}
