//! What a group of changes has asked about the ended elements of a leaf.
//!
//! # The idea
//! A change takes the slot of an ended element that nothing needs, and whether something does is a search of the leaf for
//! what has ended it. A group that changes many keys of a leaf ends an element with each, and each change would ask about
//! all that those before it have ended. These need no search: the version that ends them is not committed, so it is above
//! where every window begins, and they are needed. About what was ended before, the group asks once.
//!
//! # Why an answer stays true
//! It depends on the versions that the group keeps, which are the same from its first change to its last, and on where the next
//! newer element of the key begins. While the leaf has changed only by the group, that is where it was, unless the next newer
//! element was itself one that nothing needs, and was overwritten: then what is needed stays so, since its life became
//! longer, and what is not needed stays so too, since a longer life of two that hold no retained version holds none. A
//! leaf that something else has changed, and that of another state of dead versions, has another moment.

use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::nvtree::inner::LeafId;
use crate::nvtree::leaf::Moment;

/// Answers about slots of ended elements: a bit for each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Asked {
    /// Something needs them.
    pub(crate) needed: u64,
    /// Nothing does.
    pub(crate) unneeded: u64,
}

impl Asked {
    /// The answers after the group has put an element into a slot, which has ended the one in `old`.
    pub(crate) fn after(self, slot: usize, old: Option<usize>) -> Asked {
        let (slot, old) = (1 << slot, old.map_or(0, |old| 1 << old));
        Asked { needed: (self.needed | old) & !slot, unneeded: self.unneeded & !(slot | old) }
    }
}

/// Of which leaf answers are, from when on, and in the group of which version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AskedOf {
    pub(crate) leaf: LeafId,
    pub(crate) moment: Moment,
    pub(crate) version: u64,
}

/// The answers in the leaf that a group has changed last. Neighbouring keys share one.
#[derive(Default)]
pub(crate) struct LastAsked(Mutex<Option<(AskedOf, Asked)>>);

impl LastAsked {
    fn lock(&self) -> MutexGuard<'_, Option<(AskedOf, Asked)>> {
        // A panic leaves the answers before or after.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The answers; none if the last ones are of anything else.
    pub(crate) fn get(&self, of: AskedOf) -> Asked {
        match *self.lock() {
            Some((last, asked)) if last == of => asked,
            _ => Asked::default(),
        }
    }

    pub(crate) fn set(&self, of: AskedOf, asked: Asked) {
        *self.lock() = Some((of, asked));
    }
}

#[cfg(test)]
mod tests {
    use zerocopy::FromZeros;

    use super::*;
    use crate::nvtree::leaf::Side;

    #[test]
    fn answers_are_of_one_leaf_at_one_moment_in_one_group() {
        let (last, side) = (LastAsked::default(), Side::new_zeroed());
        let before = side.begin(0).unwrap();
        let moment = side.lock().unlock();
        assert_eq!(side.begin(0), Some(moment));
        let (of, asked) =
            (AskedOf { leaf: 3, moment, version: 9 }, Asked { needed: 4, unneeded: 3 });
        last.set(of, asked);
        assert_eq!(last.get(of), asked);
        for other in [
            AskedOf { leaf: 4, ..of },
            AskedOf { version: 10, ..of },
            AskedOf { moment: before, ..of },
        ] {
            assert_eq!(last.get(other), Asked::default());
        }
        drop(side.lock());
        let now = AskedOf { moment: side.begin(0).unwrap(), ..of };
        assert_eq!(last.get(now), Asked::default());
    }

    #[test]
    fn a_slot_that_was_used_has_no_answer_and_what_was_ended_is_needed() {
        let asked = Asked { needed: 0b0100, unneeded: 0b0011 };
        assert_eq!(asked.after(0, Some(3)), Asked { needed: 0b1100, unneeded: 0b0010 });
        assert_eq!(asked.after(1, None), Asked { needed: 0b0100, unneeded: 0b0001 });
        // An element of the group in the place of another one of it.
        assert_eq!(asked.after(5, Some(5)), asked);
    }
}
