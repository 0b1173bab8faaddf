//! Multi-part atomic writes as their document has them: Coburn, "Providing Fast and Safe Access to Next-Generation,
//! Non-Volatile Memories", PhD thesis, 2012, chapter 3.
//!
//! An experiment, not a part of the product: it is here so that the thesis's figures can be repeated, and so that the error
//! in its recovery can be shown. The product's own devices are in `tembo-array`.
//!
//! ```text
//!   host          Request ─► central controller ─► Command ─► logger ─► bank: table, entries, files
//!                 Notice  ◄─ TID manager        ◄─ Reply   ◄─   one of each for every controller
//!                            scoreboard, sequence numbers
//! ```
//!
//! # Where the thesis is silent or wrong
//! - Recovery tears transactions: see [`RecoveryRule`].
//! - A partial abort "makes the savepoint the new head" of a list that is appended to and replayed from its head. Here
//!   the list is cut behind the savepoint, which takes no store: its length is stored with the commit.
//! - A savepoint is a log offset, and the entries of one transaction are in the order of arrival, at offsets that the
//!   application has chosen, on several controllers. Here the central controller knows the order of the writes, and
//!   each logger forgets those from the savepoint's on.
//! - No error is defined. Here each request that cannot be done is refused before anything has changed ([`Error`]).
//! - 64 transactions an application, and 64 in each table: when those are taken, [`Error::NoTransaction`].
//! - "Any alignment" contradicts co-location. Here a log offset must fall on the controllers of its target;
//!   [`Geometry::colocated`] finds one.
//! - Two write-backs to one target must follow the order of the commits. Here each logger writes back in that order.
//! - Free lists of entries in storage are not needed: recovery leaves no transaction.

mod aries;
mod bank;
mod calendar;
mod central;
mod crew;
mod error;
mod format;
mod geometry;
mod host;
mod logger;
mod machine;
mod message;
mod recovery;
mod soft_atomic;
mod store;
mod timing;
mod workload;

pub use aries::{Aries, AriesOptions, Lsn, Undone};
pub use crew::Crew;
pub use error::Error;
pub use format::{CONTROLLERS_MAX, TRANSACTIONS};
pub use geometry::Geometry;
pub use host::{Host, Times};
pub use machine::{Machine, Step};
pub use message::{Notice, Owner, Request, State, Write};
pub use recovery::{Recovered, RecoveryRule};
pub use store::{AriesStore, ArrayStore, Scheme, Store};
pub use timing::{Parameters, Traffic};
pub use workload::{BplusTree, Graph, HashTable, Random};
