//! An object: the place and the size of a piece of allocated space, in 48 bits.

use crate::class::{class_for, size_of_class};

const OFFSET_BITS: u32 = 40;
const OFFSET_MASK: u64 = (1 << OFFSET_BITS) - 1;
const MASK: u64 = (1 << 48) - 1;

/// The unit in which objects are placed, in bytes.
pub(crate) const GRANULE: u64 = 16;

/// Bytes that an object's offset can reach: 16 TiB.
pub(crate) const REACH: u64 = GRANULE << OFFSET_BITS;

/// A piece of space in a pool: what a pointer on media holds.
///
/// 48 bits: the offset divided by 16 in bits 0..40, the size class in bits 40..48; 0 is none. The
/// upper 16 bits of a word that holds an object belong to the owner of the word. An object read
/// from media is only a claim until [`Pool::valid`](crate::Pool::valid) has accepted it.
#[derive(Copy, Clone, Eq, PartialEq, Ord, PartialOrd, Hash)]
pub struct Object(u64);

impl Object {
    /// No object.
    pub const NONE: Object = Object(0);

    /// Decodes the lower 48 bits of a word; the upper 16 are ignored.
    #[inline]
    pub const fn from_bits(bits: u64) -> Object {
        Object(bits & MASK)
    }

    /// The object as the lower 48 bits of a word; the upper 16 are zero.
    #[inline]
    pub const fn to_bits(self) -> u64 {
        self.0
    }

    /// Whether this is no object.
    #[inline]
    pub const fn is_none(self) -> bool {
        self.0 == 0
    }

    /// Bytes from the start of the region.
    #[inline]
    pub const fn offset(self) -> u64 {
        (self.0 & OFFSET_MASK) * GRANULE
    }

    /// The size of the object's class, in bytes: at least what was asked for. 0 for a class that
    /// does not exist.
    #[inline]
    pub const fn size(self) -> u64 {
        size_of_class(self.class())
    }

    /// The size in bytes that an object allocated for `size` bytes will have; `None` above
    /// [`OBJECT_SIZE_MAX`](crate::OBJECT_SIZE_MAX).
    #[inline]
    pub const fn size_for(size: u64) -> Option<u64> {
        match class_for(size) {
            Some(class) => Some(size_of_class(class)),
            None => None,
        }
    }

    #[inline]
    pub(crate) const fn class(self) -> u8 {
        (self.0 >> OFFSET_BITS) as u8
    }

    #[inline]
    pub(crate) const fn new(offset: u64, class: u8) -> Object {
        Object((offset / GRANULE) & OFFSET_MASK | (class as u64) << OFFSET_BITS)
    }
}

impl std::fmt::Debug for Object {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.is_none() {
            return f.write_str("Object(none)");
        }
        write!(f, "Object({:#x}, {} bytes)", self.offset(), self.size())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_round_trip_and_the_upper_sixteen_are_the_users() {
        let object = Object::new(0x1234_5670, 17);
        assert_eq!(Object::from_bits(object.to_bits() | 0xabcd << 48), object);
        assert_eq!((object.offset(), object.class()), (0x1234_5670, 17));
        assert_eq!(object.to_bits() >> 48, 0);
        assert!(Object::from_bits(0xffff << 48).is_none());
    }

    #[test]
    fn the_last_granule_is_reachable() {
        assert_eq!(Object::new(REACH - GRANULE, 1).offset(), REACH - GRANULE);
    }
}
