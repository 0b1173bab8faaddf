//! Prepared transactions: validated and on media, but not decided; for two-phase commit.
//!
//! # How
//! [`Transaction::prepare`](crate::Transaction::prepare) validates a transaction as a commit does. Then it stores what the
//! transaction writes, and what a serialisable one has read, as entries of the catalogue, in pieces (`encoding.rs`),
//! by one grouped commit. From then on the transaction *holds* these keys (`held.rs`): any other change of a key that it
//! writes or has read is refused with a conflict that names its id. Readers see the state before.
//! The decision is one grouped commit too: a commit makes the writes in place and removes the entries, a drop
//! removes the entries.
//!
//! ```text
//!   prepare ──► validate ──► entries in the catalogue ──► publish ──► keys held
//!                                                                       │   crash, open: entries ──► keys held
//!              writes in place, entries removed ──► publish ◄── commit ──┤
//!                               entries removed ──► publish ◄──── drop ──┘
//! ```
//!
//! # Why that is right
//! *All or nothing, whatever the process does.* Each step is one grouped commit: a crash keeps all of it or nothing. The
//! table of held keys is volatile. An open makes it from the entries before anything can be changed.
//!
//! *What was validated stays valid.* No key that the transaction writes or has read changes before its decision. So the commit
//! needs no validation, and a serialisable transaction is as if executed at the version of its commit. What it
//! reads it holds against writers; so it is refused to prepare if another one holds a key that it has read for a
//! write, as in strict two-phase locking.
//!
//! *The version of a commit is drawn when it is decided.* A version drawn at the prepare would become visible below
//! later ones, and change snapshots that were taken meanwhile. So the stamps of lanes 1 to 7, which could make entries
//! in place count later, are not used for this: their versions are as old as the prepare.
//!
//! *A rollback* takes the store to a version with all that was prepared then: what was prepared later is dropped, and
//! what was decided later is prepared again.
//!
//! # What it costs
//! While nothing is prepared, a change by the writer looks at one word, and a change in a write slot at nothing. While
//! something is, the write slots are barred. A prepared transaction keeps its keys in memory, not its values; an
//! open, a commit and a drop of one read it whole.

mod decision;
mod encoding;
mod prepare;

pub(crate) use decision::{commit, discard};
pub(crate) use encoding::{list, load};
pub(crate) use prepare::prepare;
