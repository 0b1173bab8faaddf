//! A point in time, and what was there.

use crate::time::Time;

/// A version, and the time of the last change in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Point {
    /// The time that the change was given.
    pub time: Time,
    /// What [`Store::snapshot_at`](tembo_kv::Store::snapshot_at) takes.
    pub version: u64,
}
