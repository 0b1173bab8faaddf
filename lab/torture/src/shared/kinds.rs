//! The kinds of tenants that share the pool.

use tembo_pool::Kinds;

use crate::toys;

/// Stores and toy heaps.
pub(super) fn kinds() -> Kinds {
    toys::beside(tembo_kv::kinds())
}
