//! Linearisability of operations on single keys.
//!
//! **What it decides.** Whether each operation can be given one moment between its call and its return, so
//! that in the order of these moments every result is what a map would have answered (Herlihy and Wing,
//! TOPLAS 1990). Linearisability is local, and so each key is judged for itself: that is
//! P-compositionality (Horn and Kroening, FORTE 2015), and what makes it cheap.
//!
//! **How.** Wing and Gong's search (JPDC 1993) in the form of Lowe's just-in-time linearisation
//! (Concurrency and Computation, 2017), breadth first. One walks along the calls and returns of a key and
//! keeps all *configurations*: the key's value, and which of the operations under way have had their
//! moment. An operation gets its moment no earlier than somebody's return asks for it: at a return, each
//! configuration in which that operation has not had its moment tries all ways of giving it one after some of
//! the others. Those that cannot are struck; none left is a violation, and what remained just before is
//! its story.
//!
//! **How long it takes.** O(n · c) with c configurations at a time: at most values × 2^p with p operations
//! under way, and p is the number of threads, not of operations. In practice c is below ten. At most 64 may
//! be under way.
//!
//! **Crashes.** Nobody was told of an operation that was under way in a crash: it has had its moment before the
//! crash, or never will. Both stay possible until somebody reads; but what was read as absent after the crash
//! cannot come back. That is strict linearisability (Aguilera and Frølund, HPL-2003-241).
//!
//! **Why no crate.** Those that there are keep, as Wing and Gong do, a set of partial linearisations of the
//! *whole* history (`todc-utils`), or search it recursively and clone it at each step (`stateright`):
//! right for the histories of a model checker, not for a million operations.

use std::collections::HashSet;

use super::database::{Key, Value};
use super::record::ABSENT;
use super::story::Broken;

/// Operations under way at a time, at most.
const UNDER_WAY_MAX: usize = 64;

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
        /// Whether there was something, if it was told.
        existed: Option<bool>,
    },
    /// Removed.
    Remove {
        /// Whether there was something.
        existed: bool,
    },
    /// Counted one up; a key that is not there counts from 0.
    Increment {
        /// What it was told.
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
    fn time(self) -> u64 {
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
    /// Who called.
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
    fn apply(&self, state: Value) -> Option<Value> {
        let told = matches!(self.end, End::Returned(_));
        let is_there = state != ABSENT;
        match self.operation {
            Operation::Get { found } => (found == state).then_some(state),
            Operation::Put { value, existed } => {
                (!told || existed.is_none_or(|existed| existed == is_there)).then_some(value)
            }
            Operation::Remove { existed } => (!told || existed == is_there).then_some(ABSENT),
            Operation::Increment { result } => (!told || result == state + 1).then_some(state + 1),
        }
    }

    pub(super) fn tell(&self) -> String {
        let Call { thread, operation, called, end, .. } = self;
        let lost = if matches!(end, End::Lost(_)) { ", lost" } else { "" };
        format!("thread {thread}, time {called} to {}{lost}: {operation:?}", end.time())
    }
}

/// The value, and who of those under way has had his moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Configuration {
    state: Value,
    done: u64,
}

/// Whether all operations of each key are linearisable. Every key is absent at first.
///
/// # Errors
/// The first violation in the first key that has one.
pub fn check_registers(calls: &[Call]) -> Result<(), Broken> {
    let mut sorted: Vec<&Call> = calls.iter().collect();
    sorted.sort_unstable_by_key(|call| (call.key, call.called));
    sorted.chunk_by(|one, other| one.key == other.key).try_for_each(check_key)
}

fn check_key(calls: &[&Call]) -> Result<(), Broken> {
    // Time, whether it is a call, and whose.
    let mut events: Vec<(u64, bool, usize)> = Vec::with_capacity(2 * calls.len());
    for (at, call) in calls.iter().enumerate() {
        events.push((call.called, true, at));
        events.push((call.end.time(), false, at));
    }
    events.sort_unstable();
    let mut search = Search {
        slots: vec![None; UNDER_WAY_MAX],
        configurations: HashSet::from([Configuration { state: ABSENT, done: 0 }]),
    };
    for (_, is_call, at) in events {
        if is_call {
            search.call(calls[at]);
        } else {
            search.end(calls[at])?;
        }
    }
    Ok(())
}

/// What may be the case.
struct Search<'c> {
    /// Who is under way; his bit in [`Configuration::done`].
    slots: Vec<Option<&'c Call>>,
    configurations: HashSet<Configuration>,
}

impl<'c> Search<'c> {
    fn call(&mut self, call: &'c Call) {
        // More than fit are taken for lost calls that had no effect: a violation found then is doubtful.
        if let Some(free) = self.slots.iter().position(Option::is_none) {
            self.slots[free] = Some(call);
        }
    }

    /// Keeps what is possible when that call has had its moment; or, if it was lost, never has.
    fn end(&mut self, call: &'c Call) -> Result<(), Broken> {
        let Some(slot) = self.slots.iter().position(|at| *at == Some(call)) else { return Ok(()) };
        let bit = 1 << slot;
        let mut open: Vec<Configuration> = self.configurations.iter().copied().collect();
        let mut seen: HashSet<Configuration> = open.iter().copied().collect();
        let mut kept = match call.end {
            End::Returned(_) => HashSet::new(),
            End::Lost(_) => open.iter().copied().filter(|one| one.done & bit == 0).collect(),
        };
        while let Some(configuration) = open.pop() {
            if configuration.done & bit != 0 {
                kept.insert(Configuration { done: configuration.done & !bit, ..configuration });
                continue;
            }
            for (other, pending) in self.slots.iter().enumerate() {
                let Some(pending) = pending else { continue };
                if configuration.done & (1 << other) != 0 {
                    continue;
                }
                let Some(state) = pending.apply(configuration.state) else { continue };
                let next = Configuration { state, done: configuration.done | (1 << other) };
                if seen.insert(next) {
                    open.push(next);
                }
            }
        }
        if kept.is_empty() {
            return Err(self.story(call));
        }
        self.slots[slot] = None;
        self.configurations = kept;
        Ok(())
    }

    fn story(&self, last: &Call) -> Broken {
        let mut states: Vec<Value> = self.configurations.iter().map(|one| one.state).collect();
        states.sort_unstable();
        states.dedup();
        let beside = self.slots.iter().flatten().filter(|call| ***call != *last);
        Broken::NotLinearisable { last: *last, beside: beside.map(|call| **call).collect(), states }
    }
}
