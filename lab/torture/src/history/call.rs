//! A call of one operation on a single key.

use super::database::{Key, Value};
use super::record::ABSENT;

/// An operation on one key, with its result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Read, and found.
    Get {
        /// What was there.
        found: Value,
    },
    /// Put.
    Put {
        /// What it put.
        value: Value,
        /// Whether there was something, if it was answered.
        existed: Option<bool>,
    },
    /// Removed.
    Remove {
        /// Whether there was something.
        existed: bool,
    },
    /// Counted one up; a key that is not there counts from 0.
    Increment {
        /// The answer.
        result: Value,
    },
}

/// How a call ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// At this time, with the result that the operation has.
    Returned(u64),
    /// By a crash, which was over at this time: it has happened before, or never.
    Lost(u64),
}

impl End {
    pub(super) fn time(self) -> u64 {
        match self {
            End::Returned(time) | End::Lost(time) => time,
        }
    }
}

/// A call of one operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call {
    /// The key.
    pub key: Key,
    /// The calling thread.
    pub thread: u16,
    /// What, with its result; of one that was lost the result is ignored, and a read left out.
    pub operation: Operation,
    /// When it was called.
    pub called: u64,
    /// When and how it ended.
    pub end: End,
}

/// Calls of any keys, in any order.
pub type Calls = Vec<Call>;

impl Call {
    /// The value after it, if it may happen when the value is `state`.
    pub(super) fn apply(&self, state: Value) -> Option<Value> {
        let is_answered = matches!(self.end, End::Returned(_));
        let is_there = state != ABSENT;
        match self.operation {
            Operation::Get { found } => (found == state).then_some(state),
            Operation::Put { value, existed } => {
                (!is_answered || existed.is_none_or(|existed| existed == is_there)).then_some(value)
            }
            Operation::Remove { existed } => {
                (!is_answered || existed == is_there).then_some(ABSENT)
            }
            Operation::Increment { result } => {
                (!is_answered || result == state + 1).then_some(state + 1)
            }
        }
    }

    pub(super) fn report(&self) -> String {
        let Call { thread, operation, called, end, .. } = self;
        let lost = if matches!(end, End::Lost(_)) { ", lost" } else { "" };
        format!("thread {thread}, time {called} to {}{lost}: {operation:?}", end.time())
    }
}
