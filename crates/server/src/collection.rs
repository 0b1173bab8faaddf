//! Collections as commands see them: a hash, a list or a set under a key, whichever way it is laid out.
//!
//! A collection is opened for one command, read and changed, and saved. A small one is held whole, and saved as one
//! value; the entries of a large one are elements of their own in the store, of which a command touches what it needs.
//! A small one that grows becomes a large one, and stays so. A stream is always large.

mod hash;
mod list;
mod opened;
mod set;
mod sorted_set;
mod stream;

pub(crate) use hash::{Hash, Hashes};
pub(crate) use list::{End, List, Lists};
pub(crate) use opened::{Collection, Family};
pub(crate) use set::{Set, Sets};
pub(crate) use sorted_set::{SortedSet, SortedSets, Span};
pub(crate) use stream::{Consumer, Group, Pending, Stream, Trim, Trimmed, check_name};
