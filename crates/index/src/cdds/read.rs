//! Reading more than one key: ranges, what has changed, and what will be looked for.

mod changed;
mod changes;
mod leaf_prefetcher;
mod prefetcher;
mod scan;

pub(super) use self::changed::{changed_after, range_changed_after};
pub(super) use self::changes::visit_changes;
pub(super) use self::prefetcher::{ABREAST, prefetch_keys};
pub(super) use self::scan::scan;
