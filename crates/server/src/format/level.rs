//! On which level of a large sorted set a member stands.

/// One member in 2 to this power stands on the next level.
const BITS: u32 = 5;
/// The highest level: there is none for more members than this leaves on it.
pub const LEVEL_MAX: u8 = 8;

/// The level of a member; 0: it counts for itself only. It depends on nothing but the member, so that the levels of a sorted
/// set do not depend on its history.
pub fn level_of(member: &[u8]) -> u8 {
    let level = hash(member).trailing_zeros() / BITS;
    level.min(u32::from(LEVEL_MAX)) as u8
}

/// FNV-1a, its bits mixed as MurmurHash3 ends.
fn hash(bytes: &[u8]) -> u64 {
    let fnv = bytes.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    let mixed = (fnv ^ (fnv >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    let mixed = (mixed ^ (mixed >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    mixed ^ (mixed >> 33)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is on media must not change.
    #[test]
    fn levels_stay_what_they_are() {
        let members = (0..100_000).map(|number: u32| number.to_string());
        let levels: Vec<u8> = members.map(|member| level_of(member.as_bytes())).collect();
        let on = |level| levels.iter().filter(|&&other| other >= level).count();
        assert_eq!((on(1), on(2), on(3), on(4)), (3071, 106, 4, 0));
        assert_eq!(levels.iter().position(|&level| level == 3), Some(49_118));
    }
}
