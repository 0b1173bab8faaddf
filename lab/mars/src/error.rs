//! What can go wrong: the thesis defines no error of its interface.

use crate::message::{Owner, State};

/// Why a request is refused. Nothing has changed then, but in [`Error::Region`] and [`Error::Damaged`].
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The region below the array.
    #[error("the region of the array")]
    Region(#[from] tembo_pmem::Error),
    /// The transaction is not in a state in which this can be asked.
    #[error("transaction {owner:?} is {state:?}")]
    BadState {
        /// Which transaction.
        owner: Owner,
        /// Its state.
        state: State,
    },
    /// An application has 64 transactions.
    #[error("there is no transaction {tid}: an application has {count}")]
    NoSuchTransaction {
        /// The number that was asked for.
        tid: u8,
        /// How many there are.
        count: usize,
    },
    /// All records of the tables are taken by transactions that are not over.
    #[error("{pending} transactions are not over, and the tables have no more records")]
    NoTransaction {
        /// Transactions that are not over.
        pending: usize,
    },
    /// A controller has no entry of metadata left: the metadata file is full.
    #[error("controller {controller} has no entry of metadata left for {wanted} more")]
    NoEntry {
        /// Which controller.
        controller: usize,
        /// Entries that the request needs there.
        wanted: u32,
    },
    /// Beyond the end of the array.
    #[error("{len} bytes at {offset} of an array of {size}")]
    OutOfRange {
        /// Where.
        offset: u64,
        /// How many bytes.
        len: u64,
        /// Bytes of the array.
        size: u64,
    },
    /// The log offset does not fall on the controllers of the target: the two differ modulo a row of stripes.
    #[error(
        "log offset {log} is on another controller than target {target}: rows have {row} bytes"
    )]
    NotColocated {
        /// The target.
        target: u64,
        /// The log offset.
        log: u64,
        /// Bytes in a row of stripes, one of each controller.
        row: u64,
    },
    /// No write of the transaction has that log offset.
    #[error("no write of transaction {owner:?} is logged at {log}")]
    NoSavepoint {
        /// Which transaction.
        owner: Owner,
        /// The log offset.
        log: u64,
    },
    /// An array of these sizes cannot be.
    #[error("an array cannot have {what}")]
    Geometry {
        /// What is wrong.
        what: &'static str,
    },
    /// What is on media is not what the machine writes.
    #[error("damaged: {what} at controller {controller}")]
    Damaged {
        /// Which controller; of ARIES, 0.
        controller: usize,
        /// What.
        what: &'static str,
    },
    /// The log has no room, even with every page written and a checkpoint taken: a transaction is too old.
    #[error("{needed} more bytes do not fit in a log of {size}")]
    LogFull {
        /// Bytes that were to be logged.
        needed: u64,
        /// Bytes of the log.
        size: u64,
    },
    /// All frames of the buffer pool are pinned.
    #[error("a transaction needs more than the {frames} frames of the buffer pool")]
    NoFrame {
        /// Frames of the pool.
        frames: usize,
    },
}

impl From<tembo_pmem::Fault> for Error {
    fn from(fault: tembo_pmem::Fault) -> Error {
        Error::Region(fault.into())
    }
}
