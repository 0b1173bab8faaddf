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

use std::sync::atomic::{AtomicU64, Ordering};

use crate::nvtree::inner::LeafId;
use crate::nvtree::leaf::Moment;

/// Answers about slots of ended elements: a bit for each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Asked {
    /// Slots of elements that some version needs.
    pub(crate) needed: u64,
    /// Slots of elements that no version needs.
    pub(crate) unneeded: u64,
}

impl Asked {
    /// The answers after the group has put an element into a slot, which has ended the element in `old`.
    pub(crate) fn after(self, slot: usize, old: Option<usize>) -> Asked {
        let (slot, old) = (1 << slot, old.map_or(0, |old| 1 << old));
        Asked { needed: (self.needed | old) & !slot, unneeded: self.unneeded & !(slot | old) }
    }
}

/// What answers are about: a leaf, the moment since which they hold, and the version of the group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AskedOf {
    pub(crate) leaf: LeafId,
    pub(crate) moment: Moment,
    pub(crate) version: u64,
}

/// The answers in the leaf that a group has changed last. Neighbouring keys share one.
///
/// There is one group at a time, so that no lock is needed. An instruction that locks would wait until the lines that the
/// change before it has flushed are in memory: that took longer than all else of a change.
#[derive(Default)]
pub(crate) struct LastAsked {
    /// The words of [`AskedOf::words`], then the answers, then their mark. The mark shows if words of two groups are mixed.
    words: [AtomicU64; 6],
}

impl AskedOf {
    #[inline]
    fn words(self) -> [u64; 3] {
        [u64::from(self.leaf), self.moment.to_bits(), self.version]
    }
}

/// A mark of some words: a hash, which other words rarely have.
#[inline]
fn mark([leaf, moment, version]: [u64; 3], asked: Asked) -> u64 {
    let words = [leaf, moment, version, asked.needed, asked.unneeded];
    words.iter().fold(0x9e37_79b9_7f4a_7c15, |mark: u64, word| {
        (mark ^ word).wrapping_mul(0xff51_afd7_ed55_8ccd).rotate_left(31)
    })
}

impl LastAsked {
    /// The answers about this. They are empty if the last ones are about anything else.
    #[inline]
    pub(crate) fn get(&self, of: AskedOf) -> Asked {
        let [leaf, moment, version, needed, unneeded, marked] =
            self.words.each_ref().map(|word| word.load(Ordering::Relaxed));
        let asked = Asked { needed, unneeded };
        let is_of = [leaf, moment, version] == of.words() && marked == mark(of.words(), asked);
        if is_of { asked } else { Asked::default() }
    }

    #[inline]
    pub(crate) fn set(&self, of: AskedOf, asked: Asked) {
        let [leaf, moment, version] = of.words();
        let marked = mark(of.words(), asked);
        let words = [leaf, moment, version, asked.needed, asked.unneeded, marked];
        self.words.iter().zip(words).for_each(|(word, value)| word.store(value, Ordering::Relaxed));
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
        for word in &last.words {
            // Any changed word makes it another group's.
            word.fetch_xor(1, Ordering::Relaxed);
            assert_eq!(last.get(of), Asked::default());
            word.fetch_xor(1, Ordering::Relaxed);
        }
        assert_eq!(last.get(of), asked);
        drop(side.lock());
        let now = AskedOf { moment: side.begin(0).unwrap(), ..of };
        assert_eq!(last.get(now), Asked::default());
    }

    #[test]
    fn a_slot_that_was_used_has_no_answer_and_what_was_ended_is_needed() {
        let asked = Asked { needed: 0b0100, unneeded: 0b0011 };
        assert_eq!(asked.after(0, Some(3)), Asked { needed: 0b1100, unneeded: 0b0010 });
        assert_eq!(asked.after(1, None), Asked { needed: 0b0100, unneeded: 0b0001 });
        // An element of the group takes the place of another element of the group.
        assert_eq!(asked.after(5, Some(5)), asked);
    }
}
