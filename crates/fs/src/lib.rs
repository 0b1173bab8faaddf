//! A file system over the store.
//!
//! Inodes, names and pieces of bytes are keys of a [`Store`](tembo_kv::Store). A call is a commit: it happens as a whole or
//! not at all, also at a crash. Several calls, on any files, are one commit too ([`Fs::write`]), and a transaction of any
//! length has a view of its own until it commits ([`Fs::transaction`]). Snapshots, rollback and backup are the store's.
//!
//! ```text
//!  fs, transaction      handles: commits, transactions, what is open
//!  tree                 the calls, through any handle of the store
//!  names data allocate attributes share  what they do
//!  layer                what a file and its clones show in common
//!  access_list          POSIX access control lists, in step with permissions
//!  timeline             which version was there when
//!  records              inodes, names, pieces, attributes as keys and values
//!  watched              a transaction that finds its conflicts when it writes
//!  access format        handles of the store as one; what is on media
//! ```
//!
//! Nothing here knows FUSE, a clock, or an error number of an operating system: the caller gives the time, checks
//! permissions, and translates errors.
//!
//! ```
//! use tembo_fs::{FileKind, Format, Fs, New, ROOT, Time};
//! use tembo_kv::{Durability, Options, Store};
//!
//! # fn main() -> Result<(), tembo_fs::Error> {
//! let store = Store::volatile(&Options::new())?;
//! let now = Time { seconds: 1_700_000_000, nanoseconds: 0 };
//! let fs = Fs::format(&store, &Format::default(), now)?;
//! let new = New { kind: FileKind::Regular, permissions: 0o644, user: 0, group: 0, device: 0, umask: None };
//!
//! // Two files, or none of them.
//! fs.write(now, Durability::Strict, |tree| {
//!     let bill = tree.create(ROOT, b"bill", &new)?;
//!     tree.write(bill.number, 0, b"100")?;
//!     let receipt = tree.create(ROOT, b"receipt", &new)?;
//!     tree.write(receipt.number, 0, b"paid")
//! })?;
//!
//! let mut bytes = [0; 16];
//! let mut tree = fs.snapshot()?;
//! let inode = tree.resolve(b"/receipt")?;
//! assert_eq!(tree.read(inode.number, 0, &mut bytes)?, 4);
//! # Ok(())
//! # }
//! ```

mod access;
mod access_list;
mod allocate;
mod attributes;
mod bounds;
mod check;
mod check_layers;
mod data;
mod diff;
mod error;
mod format;
mod fs;
mod inode;
mod layer;
mod names;
mod open_files;
mod point;
mod records;
mod share;
mod time;
mod timeline;
mod transaction;
mod tree;
mod watched;

pub use access::{Reads, Writes};
pub use access_list::{ACCESS_LIST, DEFAULT_LIST};
pub use allocate::Allocate;
pub use attributes::Condition;
pub use bounds::{
    ATTRIBUTE_NAME_LEN_MAX, ATTRIBUTE_SIZE_MAX, FILE_SIZE_MAX, LINKS_MAX, NAME_LEN_MAX,
    PIECE_SIZE_MAX, PIECE_SIZE_MIN, ROOT, TARGET_LEN_MAX,
};
pub use check::{Check, Finding};
pub use diff::{Difference, DifferenceKind};
pub use error::Error;
pub use fs::{Format, Fs, Usage};
pub use inode::{FileKind, Inode};
pub use names::{New, Rename};
pub use point::Point;
pub use records::Entry;
pub use time::Time;
pub use transaction::FsTransaction;
pub use tree::{AnyTree, AnyTreeMut, Set, Tree, TreeMut};
pub use watched::Touched;
