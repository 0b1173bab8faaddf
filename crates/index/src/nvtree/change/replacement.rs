//! One element in the place of another.

use tembo_pool::Object;

use crate::Error;
use crate::nvtree::change::clean::is_shared;
use crate::nvtree::leaf::{Element, FREE, Slots};
use crate::nvtree::leaves::{Found, Spot};

/// What a change puts in the place of what was there.
pub(crate) struct Replacement<'s, 'f, 'k> {
    pub(crate) spot: &'s Spot<'f, 'k>,
    pub(crate) element: Element,
    pub(crate) removed: bool,
    /// The newest element of the key.
    pub(crate) old: Option<Found>,
    /// The slot to use. It is free, or nothing needs its element.
    pub(crate) slot: usize,
    /// The change adds a key, and every other slot has the newest element of some key.
    pub(crate) fills: bool,
}

/// The record of the element that is about to be overwritten, and since when it was there; `None`
/// if the removal of its key still has its key in it, or old versions need it.
pub(crate) fn replaced(change: &Replacement<'_, '_, '_>) -> Result<Option<(Object, u64)>, Error> {
    let leaf = &change.spot.leaf;
    if change.spot.prints.get(change.slot) == FREE {
        return Ok(None);
    }
    let (element, meta) = leaf.element(change.slot)?;
    let Some(record) = element.record() else { return Ok(None) };
    // A record belongs to one key. Only a removal and the element that it ended can share one.
    let ended = Slots(change.spot.prints.ended(leaf.lines()).0 & !(1 << change.slot));
    let may_share = change.spot.traits.shared || change.spot.traits.older;
    let shared =
        change.element.record() == Some(record) || may_share && is_shared(leaf, ended, record)?;
    Ok(if shared { None } else { Some((record, meta.stamp(leaf.bases()?).version())) })
}
