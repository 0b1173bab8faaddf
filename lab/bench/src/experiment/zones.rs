//! Parts of the keys that a workload keeps to, and what it does there.

use crate::keys::Keys;

/// Ascending keys, so that a zone of keys is a zone of leaves.
pub(super) fn sorted(keys: Keys) -> Vec<u64> {
    keys.last(keys.count as usize)
}

/// The part of all keys that `per_mille` says, from the left or up to the right end.
pub(super) fn zone(keys: &[u64], per_mille: usize, is_right: bool) -> &[u64] {
    let len = (keys.len() * per_mille / 1000).max(1);
    if is_right { &keys[keys.len() - len..] } else { &keys[..len] }
}

/// Reads among the updates, in percent. The paper's workload has none, with which its own model (section
/// 5.4, equation 2) limits no size: then only a cap would be seen.
pub(super) const READS_PERCENT: u64 = 2;

/// The unit of their rates.
pub(super) const RATE: &str = "thousand operations a second";

/// Parts of the keys, per mille.
pub(super) const PARTS: [(&str, usize); 3] = [("100 %", 1000), ("5 %", 50), ("0.5 %", 5)];
