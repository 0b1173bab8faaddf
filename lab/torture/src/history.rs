//! Histories: what threads did to a store, which answers they got, and whether these are right.
//!
//! The adversary judges what a crash leaves; a history judges what was seen while nothing crashed. Real
//! threads run transactions by chance ([`Plan::run`]), a [`Recorder`] for each writes down every operation
//! with its result and the time at which it was called and returned, and afterwards checkers say whether
//! the whole could have been produced by a store that keeps its promise:
//!
//! | checker | promise | trusts |
//! |---|---|---|
//! | [`check_snapshots`] | each transaction reads the state of one version and nothing else; the first committer wins; versions follow real time | the versions that the store says |
//! | [`check_cycles`] | no cycle of dependencies that the isolation level forbids | the order of the versions of a key |
//! | [`check_registers`] | single-key operations are linearisable | nothing |
//! | [`check_crash`] | what was acknowledged survives, and what it had read, and every transaction whole or not at all | nothing |
//!
//! Each checker's head says what it decides, how long that takes and which method it uses. That they find
//! what they are for is proven on a [`Toy`] store with bugs planted in it: each is caught, and without them
//! nothing is.

mod broken;
mod call;
mod cycle;
mod database;
mod files;
mod graph;
mod judge;
mod plan;
mod record;
mod register;
mod script;
mod served;
mod snapshots;
mod stored;
mod survival;
mod toy;
mod versions;

pub use broken::{Broken, Dependency, Edge};
pub use call::{Call, Calls, End, Operation};
pub use cycle::check_cycles;
pub use database::{Database, Failure, Isolation, Key, Registers, Transact, Value};
pub use files::Files;
pub use judge::{Checked, judge};
pub use plan::{Plan, Progress};
pub use record::{ABSENT, Action, Clock, History, Outcome, Recorder, Transaction};
pub use register::check_registers;
pub use script::Script;
pub use served::Served;
pub use snapshots::check_snapshots;
pub use stored::Stored;
pub use survival::check_crash;
pub use toy::{Fault, Toy};
