//! Streams: entries with ids that rise, and groups of consumers that share them.
//!
//! A stream has no small layout: a head, and an element for each entry, group, consumer and pending entry. A command
//! that adds an entry writes that and the head; one that delivers or acknowledges entries writes the group, the consumer and
//! two elements for each of them, and not the head.

mod group;
mod log;

pub(crate) use group::{Consumer, Group, Pending};
pub(crate) use log::{Stream, Trim, Trimmed};
