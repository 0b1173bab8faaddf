//! A leaf at a moment.

use crate::Error;
use crate::nvtree::leaf::{Element, Leaf, Meta, Moment, Placed, Prints, Traits, print};

/// A leaf at a moment, with the content of its side-car at that moment.
#[derive(Clone, Copy)]
pub(crate) struct Spot<'f, 'k> {
    pub(crate) leaf: Leaf<'f>,
    pub(crate) moment: Moment,
    pub(crate) prints: Prints,
    pub(crate) traits: Traits,
    pub(crate) placed: Placed<'k>,
    pub(crate) hash: u64,
}

/// An element that was found.
#[derive(Clone, Copy)]
pub(crate) struct Found {
    pub(crate) slot: usize,
    pub(crate) element: Element,
    pub(crate) meta: Meta,
}

impl Spot<'_, '_> {
    /// The newest element of the key, unless that is a removal. The key's record must be safe to
    /// read: its version is pinned, or the caller is the writer.
    #[inline]
    pub(crate) fn newest(&self) -> Result<Option<Found>, Error> {
        for slot in self.prints.matching(print(self.hash), self.leaf.lines()) {
            let (element, meta) = self.leaf.element(slot)?;
            if element.may_be_of(self.hash) && self.leaf.is_of(&element, &self.placed)? {
                return Ok(Some(Found { slot, element, meta }));
            }
        }
        Ok(None)
    }
}
