//! Upkeep of a tree, beside readers and writers: marking, scrubbing, collecting, the hint, checking.

mod check;
mod collect;
mod hint_writer;
mod mark;
mod merge;
mod reach;

pub(super) use self::check::verify_tree;
pub(super) use self::collect::collect_step;
pub(super) use self::hint_writer::{is_hint_outgrown, write_hint};
pub(super) use self::mark::{mark, scrub_one};
#[cfg(test)]
pub(super) use self::reach::{reach_once, reach_simple};
