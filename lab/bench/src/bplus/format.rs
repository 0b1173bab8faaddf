//! Nodes of the B+-Trees that others are measured against: words only. A head of one line, then entries.

use tembo_pmem::LINE;

/// Words in the head of a node.
pub(super) const HEADER_WORDS: usize = 8;

/// Word of the head: entries in the node.
pub(super) const COUNT: usize = 0;

/// Word of the head: object of the next leaf; 0: there is none.
pub(super) const NEXT: usize = 1;

/// Word of an entry, in all layouts that are sorted.
pub(super) const KEY: usize = 0;

/// Word of an entry: its value, or the object of a child.
pub(super) const VALUE: usize = 1;

/// Word of an appended element: [`POSITIVE`] or [`NEGATIVE`]; key and value are where they always are.
pub(super) const FLAG: usize = 2;

/// An element that gives its key a value.
pub(super) const POSITIVE: u64 = 1;

/// An element that takes the value of its key away.
pub(super) const NEGATIVE: u64 = 2;

/// Words in the head of the log: bytes that it holds, and the node that they are of.
pub(super) const LOG_WORDS: usize = 8;

const _: () = assert!(HEADER_WORDS as u64 * 8 == LINE);
const _: () = assert!(LOG_WORDS as u64 * 8 == LINE);
