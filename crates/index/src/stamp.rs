//! The version word: which version wrote an entry, in which lane.

/// Largest version: 56 bits.
pub const VERSION_MAX: u64 = (1 << 56) - 1;

const GROUPED: u64 = 1;
const LANE_SHIFT: u32 = 1;
const LANE_MASK: u64 = 0x1f;
const VERSION_SHIFT: u32 = 8;

/// Lanes that a version word can name.
pub const LANE_COUNT: usize = 1 + LANE_MASK as usize;

/// A version word as it stands on media: 56 bits of version above 8 bits of flags and lane.
///
/// Zero is no stamp: an empty entry, or an entry without end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp(u64);

impl Stamp {
    /// No stamp.
    pub const NONE: Stamp = Stamp(0);

    /// A stamp that commits when it is durable.
    pub const fn single(version: u64, lane: u8) -> Stamp {
        Stamp(version << VERSION_SHIFT | (lane as u64 & LANE_MASK) << LANE_SHIFT)
    }

    /// A stamp that commits when its lane's durable `committed` word reaches its version.
    pub const fn grouped(version: u64, lane: u8) -> Stamp {
        Stamp(Stamp::single(version, lane).0 | GROUPED)
    }

    /// The stamp in a word read from media.
    pub const fn from_bits(bits: u64) -> Stamp {
        Stamp(bits)
    }

    /// The word to store.
    pub const fn to_bits(self) -> u64 {
        self.0
    }

    /// True if there is no stamp.
    pub const fn is_none(self) -> bool {
        self.0 == 0
    }

    /// The version.
    pub const fn version(self) -> u64 {
        self.0 >> VERSION_SHIFT
    }

    /// The lane that wrote it.
    pub const fn lane(self) -> u8 {
        ((self.0 >> LANE_SHIFT) & LANE_MASK) as u8
    }

    /// True if the stamp commits with a group.
    pub const fn is_grouped(self) -> bool {
        self.0 & GROUPED != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_come_back() {
        for version in [1, 255, 1 << 40, VERSION_MAX] {
            for lane in 0..LANE_COUNT as u8 {
                let (single, grouped) =
                    (Stamp::single(version, lane), Stamp::grouped(version, lane));
                for stamp in [single, grouped] {
                    assert_eq!((stamp.version(), stamp.lane()), (version, lane));
                    assert_eq!(Stamp::from_bits(stamp.to_bits()), stamp);
                    assert!(!stamp.is_none());
                }
                assert!(grouped.is_grouped() && !single.is_grouped());
            }
        }
    }
}
