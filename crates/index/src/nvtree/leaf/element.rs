//! An element of a leaf, as a value: its key, its value, and the stamp since which it is there.

use tembo_pool::Object;

use crate::Stamp;
use crate::nvtree::format::{
    DELTA_MAX, META_BASE, META_LANE_MASK, META_LANE_SHIFT, META_REMOVED, SHAPE_BITS, SHAPE_BLOCK,
    SHAPE_LONG, SHAPE_ODD, SHAPE_VALUE_SHIFT,
};

/// Lanes whose groups an element can name. One of the sixteen codes means that the change committed by itself.
pub(crate) const LANES: u8 = 15;

/// The length that stands for a key or a value that does not fit into a word.
pub(crate) const LONG: usize = 9;

/// The meta bits of an element: lane, base and delta of its stamp, and whether it is a removal. Zero: there is no element.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Meta(pub(crate) u32);

impl Meta {
    /// The meta bits of a stamp over one of two bases. `None`: the stamp is not above that base or out of its reach.
    #[inline(always)]
    pub(crate) fn new(stamp: Stamp, removed: bool, which: usize, base: u64) -> Option<Meta> {
        let single = Meta::of_single(stamp.version(), removed, which, base)?;
        if !stamp.is_grouped() {
            return Some(single);
        }
        let lane = u32::from(stamp.lane()) + 1;
        (stamp.lane() < LANES).then_some(Meta(single.0 | lane << META_LANE_SHIFT))
    }

    /// As `new`, for a change that commits by itself.
    #[inline(always)]
    pub(crate) fn of_single(version: u64, removed: bool, which: usize, base: u64) -> Option<Meta> {
        let delta = version.wrapping_sub(base);
        let flags = if removed { META_REMOVED } else { 0 } | if which == 1 { META_BASE } else { 0 };
        (1..=u64::from(DELTA_MAX)).contains(&delta).then_some(Meta(flags | delta as u32))
    }

    /// Meta bits without a delta, as an entry of the history has them.
    pub(crate) fn of_removal(removed: bool) -> Meta {
        Meta(if removed { META_REMOVED } else { 0 })
    }

    #[inline]
    pub(crate) fn is_empty(self) -> bool {
        self.0 & DELTA_MAX == 0
    }

    #[inline]
    pub(crate) fn is_removed(self) -> bool {
        self.0 & META_REMOVED != 0
    }

    /// The number of the base from which the delta counts.
    #[inline]
    pub(crate) fn base(self) -> usize {
        usize::from(self.0 & META_BASE != 0)
    }

    #[inline]
    pub(crate) fn stamp(self, bases: [u64; 2]) -> Stamp {
        let version = bases[self.base()].saturating_add(u64::from(self.0 & DELTA_MAX));
        match self.0 >> META_LANE_SHIFT & META_LANE_MASK {
            0 => Stamp::single(version, 0),
            lane => Stamp::grouped(version, lane as u8 - 1),
        }
    }
}

/// How key and value stand in the two words of an element.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Shape(pub(crate) u32);

impl Shape {
    /// A shape. `odd`: the key lacks the leaf's prefix. A length above eight means that the record has it.
    #[inline]
    pub(crate) fn new(key_len: usize, value_len: usize, odd: bool) -> Shape {
        let nibble = |len: usize| if len <= 8 { len as u32 } else { SHAPE_LONG };
        let odd = if odd { SHAPE_ODD } else { 0 };
        Shape(nibble(key_len) | nibble(value_len) << SHAPE_VALUE_SHIFT | odd)
    }

    /// The key's part of the shape of a key that has the leaf's prefix and so many bytes behind it, at most eight.
    #[inline]
    pub(crate) fn of_simple_key(len: usize) -> Shape {
        Shape(len as u32)
    }

    /// Bytes of the key in its word. `None`: the key does not fit in.
    #[inline]
    pub(crate) fn key_len(self) -> Option<usize> {
        let len = self.0 & SHAPE_LONG;
        (len <= 8).then_some(len as usize)
    }

    /// Bytes of the value in its word. `None`: the value lies in a record, or is a block.
    #[inline]
    pub(crate) fn value_len(self) -> Option<usize> {
        let len = self.0 >> SHAPE_VALUE_SHIFT & SHAPE_LONG;
        (len <= 8).then_some(len as usize)
    }

    /// Whether the value is the whole object, and the key stands in its word.
    #[inline]
    pub(crate) fn is_block(self) -> bool {
        self.0 >> SHAPE_VALUE_SHIFT & SHAPE_LONG == SHAPE_BLOCK
    }

    /// Bytes of key and value, if both are in their words and the key has the leaf's prefix.
    #[inline]
    pub(crate) fn simple_lens(self) -> Option<(usize, usize)> {
        Some((self.key_len()?, self.value_len()?)).filter(|_| !self.is_odd())
    }

    #[inline]
    pub(crate) fn is_odd(self) -> bool {
        self.0 & SHAPE_ODD != 0
    }

    /// Whether these bits can be those of a sound element.
    pub(crate) fn is_canonical(self) -> bool {
        let is_length = |nibble: u32| nibble <= 8 || nibble == SHAPE_LONG;
        self.0 <= SHAPE_ODD | SHAPE_LONG << SHAPE_VALUE_SHIFT | SHAPE_LONG
            && is_length(self.0 & SHAPE_LONG)
            && (is_length(self.0 >> SHAPE_VALUE_SHIFT & SHAPE_LONG)
                || self.is_block() && self.key_len().is_some())
    }

    /// Whether the key's part is the same.
    #[inline]
    pub(crate) fn same_key(self, other: Shape) -> bool {
        (self.0 ^ other.0) & (SHAPE_LONG | SHAPE_ODD) == 0
    }

    #[inline]
    pub(crate) fn with_value(self, value_len: usize) -> Shape {
        Shape(self.0 & !(SHAPE_LONG << SHAPE_VALUE_SHIFT)).or(Shape::new(0, value_len, false))
    }

    /// The same shape, for a value that is a block.
    #[inline]
    pub(crate) fn with_block(self) -> Shape {
        self.with_value(0).or(Shape(SHAPE_BLOCK << SHAPE_VALUE_SHIFT))
    }

    /// The same key's part, with the length of a value.
    #[inline]
    pub(crate) fn with_key(self, key_len: usize, odd: bool) -> Shape {
        Shape(self.0 & SHAPE_LONG << SHAPE_VALUE_SHIFT).or(Shape::new(key_len, 0, odd))
    }

    fn or(self, other: Shape) -> Shape {
        Shape(self.0 | other.0)
    }
}

/// The shapes of the elements of a line.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Shapes(u32);

impl Shapes {
    /// The lowest bit of each shape.
    const LOWEST: u32 = 1 | 1 << SHAPE_BITS | 1 << (2 * SHAPE_BITS);

    /// The shapes in the last word of a line.
    #[inline]
    pub(crate) fn of(tail: u64) -> Shapes {
        Shapes((tail >> 32) as u32)
    }

    /// A bit for each key that does not stand in its word, behind the leaf's prefix.
    #[inline]
    pub(crate) fn complex_keys(self) -> u64 {
        Shapes::gathered(Shapes::long(self.0) | (self.0 / SHAPE_ODD))
    }

    /// A bit for each key that lacks the leaf's prefix.
    #[inline]
    pub(crate) fn odd_keys(self) -> u64 {
        Shapes::gathered(self.0 / SHAPE_ODD)
    }

    /// A bit for each value that lies in a record.
    #[inline]
    pub(crate) fn long_values(self) -> u64 {
        Shapes::gathered(Shapes::long(self.0 >> SHAPE_VALUE_SHIFT))
    }

    /// The lowest bit of each shape is set if its lowest four are a number above eight.
    #[inline]
    fn long(nibbles: u32) -> u32 {
        nibbles >> 3 & (nibbles | nibbles >> 1 | nibbles >> 2)
    }

    #[inline]
    fn gathered(bits: u32) -> u64 {
        let bits = bits & Shapes::LOWEST;
        u64::from(bits | bits >> (SHAPE_BITS - 1) | bits >> (2 * SHAPE_BITS - 2)) & 0b111
    }
}

/// The two words of an element and how key and value stand in them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Element {
    pub(crate) key: u64,
    pub(crate) payload: u64,
    pub(crate) shape: Shape,
}

impl Element {
    /// Whether the element may have a key with this hash, as far as its words say: above the record of a long key stand
    /// sixteen bits of the key's hash.
    #[inline(always)]
    pub(crate) fn may_be_of(&self, hash: u64) -> bool {
        self.shape.key_len().is_some() || self.payload >> 48 == hash & 0xffff
    }

    /// The bits of the hash that stand above the record of a long key, if the key is long and has the leaf's prefix.
    #[inline]
    pub(crate) fn long_hash(&self) -> Option<u64> {
        (self.shape.key_len().is_none() && !self.shape.is_odd()).then_some(self.payload >> 48)
    }

    /// The object that the element owns, if there is one: the record of key and value, or the block.
    #[inline]
    pub(crate) fn record(&self) -> Option<Object> {
        match self.shape.value_len() {
            Some(_) => None,
            None => Some(Object::from_bits(self.payload)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stamp_comes_back_from_its_bits() {
        for version in [1, 2, u64::from(DELTA_MAX)] {
            for base in [0, 1 << 40] {
                for stamp in [Stamp::single(base + version, 0), Stamp::grouped(base + version, 14)]
                {
                    for (which, removed) in [(0, false), (1, false), (0, true), (1, true)] {
                        let meta = Meta::new(stamp, removed, which, base).unwrap();
                        let mut bases = [77; 2];
                        bases[which] = base;
                        assert_eq!(meta.stamp(bases), stamp);
                        assert_eq!((meta.is_removed(), meta.is_empty()), (removed, false));
                    }
                }
            }
        }
        let beyond = Stamp::single(u64::from(DELTA_MAX) + 1, 0);
        assert_eq!(Meta::new(beyond, false, 0, 0), None);
        assert_eq!(Meta::new(Stamp::single(5, 0), false, 0, 5), None);
        assert_eq!(Meta::new(Stamp::single(5, 0), false, 0, 6), None);
        assert_eq!(Meta::new(Stamp::grouped(5, 15), false, 0, 0), None);
    }

    #[test]
    fn a_shape_has_the_lengths() {
        for key in 0..12 {
            for value in 0..12 {
                for odd in [false, true] {
                    let shape = Shape::new(key, value, odd);
                    assert_eq!(shape.key_len(), (key <= 8).then_some(key));
                    assert_eq!(shape.value_len(), (value <= 8).then_some(value));
                    assert_eq!(shape.is_odd(), odd);
                    assert!(shape.0 < 1 << crate::nvtree::format::SHAPE_BITS);
                    assert_eq!(shape.with_value(3), Shape::new(key, 3, odd));
                    assert!(shape.same_key(shape.with_value(9)));
                    assert!(!shape.same_key(Shape::new(key, value, !odd)));
                    let block = shape.with_block();
                    assert!(block.is_block() && !shape.is_block() && block.value_len().is_none());
                    assert!(block.same_key(shape) && block.is_canonical() == (key <= 8));
                    assert_eq!(block.with_key(3, !odd), Shape::new(3, 0, !odd).with_block());
                    assert_eq!(shape.with_key(5, odd), Shape::new(5, value, odd));
                }
            }
        }
    }
    #[test]
    fn the_shapes_of_a_line_are_of_each() {
        let shapes = (0..1 << SHAPE_BITS).map(Shape);
        for (number, shape) in shapes.enumerate() {
            let others = [Shape(number as u32 * 7 % 512), Shape(number as u32 * 31 % 512)];
            let three = [others[0], shape, others[1]];
            let tail =
                three.iter().rev().fold(0, |tail, shape| tail << SHAPE_BITS | u64::from(shape.0));
            let shapes = Shapes::of(tail << 32 | 0xffff_ffff);
            for (at, shape) in three.iter().enumerate() {
                let is_complex = shape.key_len().is_none() || shape.is_odd();
                assert_eq!(shapes.complex_keys() >> at & 1 == 1, is_complex);
                assert_eq!(shapes.odd_keys() >> at & 1 == 1, shape.is_odd());
                assert_eq!(shapes.long_values() >> at & 1 == 1, shape.value_len().is_none());
            }
        }
    }
}
