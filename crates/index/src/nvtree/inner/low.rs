//! The low keys of leaves, which separate the children of inner nodes.

use crate::Error;
use crate::key::KeyBytes;

/// The number of a leaf: its place on media, in units of the leaves' size.
pub(crate) type LeafId = u32;

/// Gives the low keys of leaves. A low key never changes while its leaf lives.
pub(crate) trait Lows {
    /// The low key of `leaf`. A reader without a lock may ask for a leaf that was removed or never existed; then the
    /// result may be any bytes or an error.
    ///
    /// # Errors
    /// There is no leaf at that place. The search ends with the error, unless the node has changed meanwhile.
    fn low(&self, leaf: LeafId) -> Result<KeyBytes<'_>, Error>;
}
