//! What the storage at a memory controller holds: the transaction table, entries of metadata, and the file space.
//!
//! ```text
//! 0       table: 64 records of 32 bytes
//! 2048    entries of metadata, 32 bytes each, rounded up to a line
//!         file space: this controller's stripes of data and of logs
//! ```
//!
//! The sizes are the thesis's (section 3.4.2): a table of 2 KB, entries of 32 B. It leaves one word of a record
//! over, which has the participants here.

use tembo_pmem::LINE;

/// Transactions that a controller's table has.
pub const TRANSACTIONS: usize = 64;

/// Bytes of a record of the table.
pub(crate) const RECORD_SIZE: u64 = 32;

/// Words of a record.
pub(crate) const RECORD_WORDS: usize = 4;

/// Bytes of the table.
pub(crate) const TABLE_SIZE: u64 = RECORD_SIZE * TRANSACTIONS as u64;

/// Word of a record: [`FREE`], [`PENDING`] or [`COMMITTED`].
pub(crate) const STATUS: usize = 0;

/// Word of a record: the commit sequence number of its last commit. It outlives the write-back: a free record
/// with the number of a commit says that this controller is done with it.
pub(crate) const SEQUENCE: usize = 1;

/// Word of a record: the first entry in the low half, the count of entries in the high one.
pub(crate) const LIST: usize = 2;

/// Word of a record: a bit for each controller that takes part. Only our rule of recovery reads it.
pub(crate) const PARTICIPANTS: usize = 3;

/// No transaction.
pub(crate) const FREE: u64 = 0;

/// A transaction that has logged something.
pub(crate) const PENDING: u64 = 1;

/// A transaction that has committed, as far as this controller knows.
pub(crate) const COMMITTED: u64 = 2;

/// Bytes of an entry of metadata.
pub(crate) const ENTRY_SIZE: u64 = 32;

/// Words of an entry.
pub(crate) const ENTRY_WORDS: usize = 4;

/// Word of an entry: where the data go, in this controller's file space.
pub(crate) const TARGET: usize = 0;

/// Word of an entry: where they are logged.
pub(crate) const LOGGED: usize = 1;

/// Word of an entry: how many bytes.
pub(crate) const LEN: usize = 2;

/// Word of an entry: the number of the next one of the transaction.
pub(crate) const NEXT: usize = 3;

/// Controllers that an array has at most: there is a bit for each.
pub const CONTROLLERS_MAX: usize = u64::BITS as usize;

const _: () = assert!(TABLE_SIZE == 2048 && TABLE_SIZE.is_multiple_of(LINE));
// No record and no entry lies in two lines: its words become durable in the order in which they are stored.
const _: () = assert!(LINE.is_multiple_of(RECORD_SIZE) && LINE.is_multiple_of(ENTRY_SIZE));
const _: () =
    assert!(RECORD_WORDS as u64 * 8 == RECORD_SIZE && ENTRY_WORDS as u64 * 8 == ENTRY_SIZE);
