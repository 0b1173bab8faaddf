//! Linearisability of operations on single keys.
//!
//! **What it decides.** Whether each operation can be given one moment between its call and its return, so
//! that in the order of these moments every result is what a map would have answered (Herlihy and Wing,
//! TOPLAS 1990). Linearisability is local, and so each key is judged for itself: that is
//! P-compositionality (Horn and Kroening, FORTE 2015), and what makes it cheap.
//!
//! **How.** Wing and Gong's search (JPDC 1993) in the form of Lowe's just-in-time linearisation
//! (Concurrency and Computation, 2017), breadth first. The search follows the calls and returns of a key and
//! keeps all *configurations*: the key's value, and which of the operations under way have had their
//! moment. An operation gets its moment no earlier than a return asks for it: at a return, each
//! configuration in which that operation has not had its moment tries all ways of giving it one after some of
//! the others. Those that cannot are struck; none left is a violation, and what remained just before is
//! its report.
//!
//! **How long it takes.** O(n · c) with c configurations at a time: at most values × 2^p with p operations
//! under way, and p is the number of threads, not of operations. In practice c is below ten. At most 64 may
//! be under way.
//!
//! **Crashes.** An operation that was under way in a crash was not acknowledged: it has had its moment before the
//! crash, or never will. Both stay possible until the key is read; but what was read as absent after the crash
//! cannot come back. That is strict linearisability (Aguilera and Frølund, HPL-2003-241).
//!
//! **Why no crate.** Those that there are keep, as Wing and Gong do, a set of partial linearisations of the
//! *whole* history (`todc-utils`), or search it recursively and clone it at each step (`stateright`):
//! right for the histories of a model checker, not for a million operations.

use std::collections::HashSet;

use super::broken::Broken;
use super::call::{Call, End};
use super::database::Value;
use super::record::ABSENT;

/// Operations under way at a time, at most.
const UNDER_WAY_MAX: usize = 64;

/// The value, and which of the operations under way have had their moment.
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
    /// The calls under way; the place of each is its bit in [`Configuration::done`].
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
            return Err(self.violation(call));
        }
        self.slots[slot] = None;
        self.configurations = kept;
        Ok(())
    }

    fn violation(&self, last: &Call) -> Broken {
        let mut states: Vec<Value> = self.configurations.iter().map(|one| one.state).collect();
        states.sort_unstable();
        states.dedup();
        let beside = self.slots.iter().flatten().filter(|call| ***call != *last);
        Broken::NotLinearisable { last: *last, beside: beside.map(|call| **call).collect(), states }
    }
}
