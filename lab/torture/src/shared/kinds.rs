//! The kinds of tenants that share the pool.

use tembo_pool::Kinds;

use crate::heap;

/// Stores and toy heaps.
pub(super) fn kinds() -> Kinds {
    heap::beside(tembo_kv::kinds())
}
