//! The file system of a store, mounted by FUSE: what the kernel asks, as calls of [`tembo_fs`].
//!
//! Each call of a program is one commit. What is durable when is [`Durable`]; permissions are checked by the kernel. All
//! changes come through the kernel, so that it may keep names, attributes and pages in its caches.
//!
//! `.tembo/snapshots` in the root, which no listing shows, holds the named snapshots as trees that can only be read. To make a
//! directory there names a snapshot, to remove one drops it.
//!
//! `.tembo/versions/NUMBER` and `.tembo/at/TIME` are the tree as it was in a version and at a time, if the store keeps its versions.
//!
//! Opening `.tembo/begin` begins a transaction, whose number is read from the file. `.tembo/transactions/NUMBER` is the tree as
//! it is in that transaction. To write `commit` to the open file commits it, to close the file before drops it.
//!
//! Of a file with the attribute `user.tembo.transaction` each open that may write is a transaction, which a close commits.

mod answers;
mod attributes;
mod bytes;
mod caller;
mod committer;
mod durable;
mod errors;
mod face;
mod gone;
mod handles;
mod held;
mod mount;
mod names;
mod opened;
mod past;
mod place;
mod privileges;
mod quota;
mod replies;
mod served;
mod syncs;
mod trees;
mod unsynced;
mod views;

pub use durable::Durable;
pub use mount::{Mount, MountOptions, Unmounter};
