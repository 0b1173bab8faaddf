//! The low keys of leaves, which separate what inner nodes lead to.

use crate::Error;
use crate::key::KeyBytes;

/// What a leaf is known by: its place on media, in units of the leaves' size.
pub(crate) type LeafId = u32;

/// What knows the low keys of leaves, which never change while the leaf lives.
pub(crate) trait Lows {
    /// The low key of `leaf`. A reader without a lock may ask for one that has been removed, or for a
    /// leaf that never was: any bytes will do then, and so will an error.
    ///
    /// # Errors
    /// What stands there cannot be a leaf; the search ends with it unless it asked in vain.
    fn low(&self, leaf: LeafId) -> Result<KeyBytes<'_>, Error>;
}
