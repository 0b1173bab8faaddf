//! Streams: entries with ids that rise, and groups of consumers that share them.
//!
//! A stream has no small layout: a head, and an element for each block of entries, group, consumer and pending entry. In one
//! that an earlier release has made each entry has an element for itself, and it stays so. A command
//! that adds an entry writes its block and the head; one that delivers or acknowledges entries writes the group, the consumer and
//! two elements for each of them, and not the head.

mod blocks;
mod group;
mod id_of;
mod log;

pub(crate) use group::{Consumer, Group, Pending};
pub(crate) use log::{Stream, Trim, Trimmed, check_name};
