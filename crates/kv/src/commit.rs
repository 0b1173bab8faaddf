//! Commits of several changes: what is to be committed, whether it may be, and how it becomes one version.
//!
//! # A commit goes one way
//! ```text
//!  optimistic transaction ─► WriteSet, ReadSet ─► CommitQueue ─► leader
//!                                                                  │ for each: validation, then changes in place
//!  exclusive, larger than memory, new keyspace ─► changes in place            │
//!                                              │                   │
//!                                              ▼                   ▼
//!                                     Uncommitted: entries with stamps, a tally, trees to be put back
//!                                              │                   │
//!                                              └──► ledger::publish ◄┘    (fence, word, fence; visible; followers)
//! ```

mod committer;
mod queue;
mod uncommitted;
mod validation;
mod write_set;

pub(crate) use committer::{KEYS_ABREAST, commit_job, commit_jobs};
pub(crate) use queue::{CommitQueue, Job};
pub(crate) use uncommitted::{Point, Uncommitted};
pub(crate) use validation::{
    Meanwhile, WriteValidation, validate_range, validate_reads, validate_writes,
};
pub(crate) use write_set::WriteSet;
