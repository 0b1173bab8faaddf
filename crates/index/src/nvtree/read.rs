//! The general path of readers: a lookup that the fast path has left, ranges, what has changed.

mod changed;
mod changes;
mod lookup;
mod lookup_many;
mod prefetcher;
mod scan;
mod shown;
mod unpinned;

pub(super) use self::changed::changed_after;
pub(super) use self::changes::visit_changes;
pub(super) use self::lookup::{bring_changes_near, bring_near, lookup};
pub(super) use self::lookup_many::lookup_many;
pub(super) use self::scan::scan;
pub(super) use self::shown::Sought;
pub(super) use self::unpinned::{copy_long, copy_newest};
