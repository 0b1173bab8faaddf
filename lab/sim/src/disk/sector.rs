//! A sector: the piece of a file that a disk writes whole or not at all.

use std::sync::{Arc, LazyLock};

/// Bytes in a sector.
pub(super) const SECTOR: usize = 512;

/// The bytes of a sector. They are shared by all disks that hold them.
#[derive(Debug)]
pub(super) struct Sector {
    pub(super) hash: u64,
    pub(super) bytes: [u8; SECTOR],
}

static ZERO: LazyLock<Arc<Sector>> = LazyLock::new(|| Sector::of([0; SECTOR]));

impl Sector {
    /// A sector of these bytes.
    pub(super) fn of(bytes: [u8; SECTOR]) -> Arc<Sector> {
        let hash = bytes.chunks_exact(8).fold(0, |hash, word| {
            mix(hash, word.try_into().map(u64::from_le_bytes).unwrap_or_default())
        });
        Arc::new(Sector { hash, bytes })
    }

    /// A sector of which the first half was written over another one.
    pub(super) fn torn(old: &Sector, new: &Sector) -> Arc<Sector> {
        let mut bytes = old.bytes;
        bytes[..SECTOR / 2].copy_from_slice(&new.bytes[..SECTOR / 2]);
        Sector::of(bytes)
    }

    /// A sector of zeroes.
    pub(super) fn zero() -> Arc<Sector> {
        ZERO.clone()
    }
}

impl PartialEq for Sector {
    fn eq(&self, other: &Sector) -> bool {
        self.hash == other.hash && self.bytes == other.bytes
    }
}

/// Folds a number into a hash.
pub(super) fn mix(hash: u64, number: u64) -> u64 {
    let mixed = (hash ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed ^ (mixed >> 32)
}
