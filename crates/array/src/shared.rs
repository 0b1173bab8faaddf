//! What all handles of the devices of a store share.

use std::sync::atomic::AtomicU64;

use tembo_kv::Store;

use crate::latch::Latches;
use crate::shape::Spaces;

/// The store and what is volatile of its devices.
pub(crate) struct Shared {
    pub(crate) store: Store,
    pub(crate) spaces: Spaces,
    pub(crate) latches: Latches,
    /// Bytes that the log of a transaction may have.
    pub(crate) log_max: AtomicU64,
}
