//! The order of a leaf's keys: the places of its newest elements, one after the other.

use zerocopy::IntoBytes;

use super::element::Shape;
use super::prints::{Slots, WORDS};
use super::slot::place_of;
use crate::nvtree::format::{LINES_MAX, PAIRS_PER_LINE, Pair, SHAPE_BITS, SLOTS_MAX};
use crate::simd::RANKED;

const _: () = assert!(PAIRS_PER_LINE * LINES_MAX <= u8::MAX as usize);

/// Bit of the rest that [`Order::to_words`] returns: all elements have one shape, which stands above this bit.
const IS_ALIKE: u64 = 1 << 8;
const SHAPE_SHIFT: u32 = 9;

/// The places of elements in the order of their keys.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Order {
    /// One byte for each place, in the order of memory.
    places: [u64; WORDS],
    count: usize,
    alike: Option<Shape>,
}

/// The index of an element's pair among all pairs of a leaf.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LeafPlace(u8);

impl LeafPlace {
    fn of(slot: usize) -> LeafPlace {
        let (number, at) = place_of(slot);
        LeafPlace((number * PAIRS_PER_LINE + at) as u8)
    }

    /// The line, and the place in the line.
    #[inline]
    pub(crate) fn in_line(self) -> (usize, usize) {
        let place = usize::from(self.0);
        (place / PAIRS_PER_LINE, place % PAIRS_PER_LINE)
    }

    /// The key and the payload there, of a leaf [as pairs](super::Leaf::all_pairs).
    #[inline(always)]
    pub(crate) fn words(self, pairs: &[Pair]) -> (u64, u64) {
        let pair = pairs.get(usize::from(self.0));
        pair.map_or((0, 0), |pair| (pair.key.load(), pair.payload.load()))
    }
}

impl Order {
    /// Bits that an order has beside its places.
    pub(crate) const REST_BITS: u32 = SHAPE_SHIFT + SHAPE_BITS;

    /// The places of the elements.
    #[inline(always)]
    pub(crate) fn places(&self) -> impl ExactSizeIterator<Item = LeafPlace> + '_ {
        self.places.as_bytes()[..self.count.min(SLOTS_MAX)].iter().map(|&place| LeafPlace(place))
    }

    /// The shape that all elements have, if they have the same, simple one.
    #[inline]
    pub(crate) fn alike(&self) -> Option<Shape> {
        self.alike
    }

    /// The order in which each slot stands at its rank. `None`: two slots have the same rank.
    #[inline]
    pub(crate) fn of_ranks(slots: Slots, ranks: &[u64; RANKED]) -> Option<Order> {
        let (mut order, mut taken) = (Order::default(), 0_u64);
        for slot in slots {
            let rank = ranks[slot];
            *order.places.as_mut_bytes().get_mut(rank as usize)? = LeafPlace::of(slot).0;
            taken |= 1 << rank;
            order.count += 1;
        }
        (taken == (1 << order.count) - 1).then_some(order)
    }

    /// The order of these slots.
    pub(crate) fn of(slots: impl Iterator<Item = usize>) -> Order {
        let mut order = Order::default();
        for slot in slots.take(SLOTS_MAX) {
            order.places.as_mut_bytes()[order.count] = LeafPlace::of(slot).0;
            order.count += 1;
        }
        order
    }

    /// The same order, with the simple shape that all elements have, if there is one.
    pub(crate) fn with_shape(self, alike: Option<Shape>) -> Order {
        Order { alike: alike.filter(|shape| shape.simple_lens().is_some()), ..self }
    }

    /// The words of the places, and the rest.
    pub(super) fn to_words(self) -> ([u64; WORDS], u64) {
        let alike = self.alike.map_or(0, |shape| IS_ALIKE | u64::from(shape.0) << SHAPE_SHIFT);
        (self.places.map(u64::from_le), self.count as u64 | alike)
    }

    /// The order that [`to_words`](Order::to_words) has given as words.
    #[inline]
    pub(super) fn from_words(words: [u64; WORDS], rest: u64) -> Order {
        let count = (rest & (IS_ALIKE - 1)) as usize;
        let alike = (rest & IS_ALIKE != 0).then_some(Shape((rest >> SHAPE_SHIFT) as u32));
        Order { places: words.map(u64::to_le), count, alike }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_comes_back_from_its_words() {
        let all = (0..SLOTS_MAX).rev();
        let order = Order::of(all.clone());
        let found: Vec<_> = order.places().map(LeafPlace::in_line).collect();
        assert_eq!(found, all.map(place_of).collect::<Vec<_>>());
        for shape in (0..1 << SHAPE_BITS).map(Shape) {
            let alike = order.with_shape(Some(shape));
            let (words, rest) = alike.to_words();
            assert!(rest < 1 << Order::REST_BITS);
            assert_eq!(Order::from_words(words, rest), alike);
            assert_eq!(alike.alike(), shape.simple_lens().map(|_| shape));
        }
        let (words, rest) = order.to_words();
        assert_eq!(Order::from_words(words, rest), order);
    }
}
