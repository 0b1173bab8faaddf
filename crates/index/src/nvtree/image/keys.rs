//! The words of a leaf's keys. In most leaves all keys are short and have the leaf's prefix: then their words
//! give the order, and which key is in the middle takes no sorting.

use crate::nvtree::format::{Line, SLOTS_MAX, SLOTS_PER_LINE};
use crate::nvtree::leaf::{Order, Shapes, Slots};
use crate::simd::{RANKED, rank};

/// The keys of a leaf.
pub(crate) struct Keys {
    /// Their words, by slot.
    pub(crate) words: [u64; RANKED],
    slots: usize,
    /// Slots of keys whose word and length are not the whole key.
    pub(crate) complex: Slots,
    /// Slots of keys that lack the leaf's prefix.
    pub(crate) odd: Slots,
    /// Slots of elements that have records.
    pub(crate) owners: Slots,
}

impl Keys {
    #[inline]
    pub(crate) fn of(lines: &[Line]) -> Keys {
        let slots = (lines.len() * SLOTS_PER_LINE).min(SLOTS_MAX);
        let none = Slots(0);
        let mut keys = Keys { words: [0; RANKED], slots, complex: none, odd: none, owners: none };
        let words = keys.words.chunks_exact_mut(SLOTS_PER_LINE);
        let (mut shapes, mut complex, mut odd, mut owners) = (Shapes::default(), 0, 0, 0);
        for (number, (line, words)) in lines.iter().zip(words).enumerate() {
            let own = Shapes::of(line.meta_and_shapes.load());
            if own != shapes {
                // In most leaves the shapes of all lines are the same.
                (shapes, complex) = (own, own.complex_keys());
                (odd, owners) = (own.odd_keys(), own.long_values());
            }
            keys.odd.0 |= odd << (number * SLOTS_PER_LINE);
            keys.complex.0 |= complex << (number * SLOTS_PER_LINE);
            keys.owners.0 |= owners << (number * SLOTS_PER_LINE);
            words.iter_mut().zip(&line.pairs).for_each(|(word, pair)| *word = pair.key.load());
        }
        keys
    }

    /// The slots of keys with a lower word.
    #[inline]
    pub(crate) fn below(&self, pivot: u64) -> Slots {
        let words = self.words[..self.slots].iter().rev();
        Slots(words.fold(0, |slots, &word| slots << 1 | u64::from(word < pivot)))
    }

    /// The slots of keys with the same word.
    #[inline]
    pub(crate) fn equal(&self, wanted: u64) -> Slots {
        let words = self.words[..self.slots].iter().rev();
        Slots(words.fold(0, |slots, &word| slots << 1 | u64::from(word == wanted)))
    }

    /// The greatest lower word.
    #[inline]
    pub(crate) fn before(&self, pivot: u64) -> u64 {
        let words = self.words[..self.slots].iter();
        // There are no branches: nothing can predict which word is lower.
        words.fold(0, |last, &word| last.max(word & u64::from(word < pivot).wrapping_neg()))
    }

    #[inline]
    fn median(&self, slots: [usize; 3]) -> usize {
        let words = slots.map(|slot| self.words[slot]);
        let (low, high) = (words[0].min(words[1]), words[0].max(words[1]));
        let median = low.max(high.min(words[2]));
        slots[words.iter().position(|&word| word == median).unwrap_or(0)]
    }

    /// A key near the middle, and the slots of keys below it (Hoare's FIND, CACM 4, 1961, with a median
    /// of three). `None`: the keys near the middle have the same word.
    #[inline]
    pub(crate) fn middle(&self) -> Option<(usize, Slots)> {
        let (half, slack) = (self.slots / 2, self.slots / 16);
        let mut among = Slots((1 << self.slots) - 1);
        while let Some(first) = among.first() {
            let last = among.0.ilog2() as usize;
            let third = Slots(among.0 & u64::MAX << ((first + last) / 2)).first().unwrap_or(last);
            let slot = self.median([first, third, last]);
            let below = self.below(self.words[slot]);
            let count = below.0.count_ones() as usize;
            if count.abs_diff(half) <= slack {
                return Some((slot, below));
            }
            among.0 &= if count < half { !(below.0 | 1 << slot) } else { below.0 };
        }
        None
    }

    /// A number with few bits such that at least a quarter of the words are below it and at least a quarter are not, and the
    /// slots of the words below it. `None`: there is none.
    pub(crate) fn round_middle(&self) -> Option<(u64, Slots)> {
        let words = &self.words[..self.slots];
        let (mut low, mut high) = (*words.iter().min()?, *words.iter().max()?);
        while let Some(highest) = (low ^ high).checked_ilog2() {
            let middle = high >> highest << highest;
            let below = self.below(middle);
            let count = below.0.count_ones() as usize;
            if count * 4 < self.slots {
                low = middle;
            } else if count * 4 > self.slots * 3 {
                high = middle - 1;
            } else {
                return Some((middle, below));
            }
        }
        None
    }

    /// Some slots in the order of their keys, if the words give it. `None`: they do not. The words of longer keys give their
    /// order too, where no two words are the same.
    #[inline]
    pub(crate) fn order(&self, slots: Slots) -> Option<Order> {
        if self.odd.0 & slots.0 != 0 {
            return None;
        }
        let mut ranks = [0; RANKED];
        rank(&self.words, slots.0, &mut ranks);
        Order::of_ranks(slots, &ranks)
    }
}
