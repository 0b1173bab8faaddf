//! Upkeep of a tree, beside readers and writers: marking, scrubbing, collecting, checking.

mod check;
mod collect;
mod mark;

pub(super) use self::check::verify_tree;
pub(super) use self::collect::{collect_step, scrub_cell, scrub_one};
pub(super) use self::mark::mark;
