//! Whether some order of the calls explains what they returned and what is there.

use std::collections::HashSet;

use super::plan::Call;
use crate::recording::digest;
use crate::tree::{Map, key, value};

/// What a call has returned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    Existed(bool),
    Value(Option<Vec<u8>>),
    Values([Option<Vec<u8>>; 3]),
    Done,
    /// Another transaction came first: nothing has changed.
    Refused,
}

/// A call that was begun.
#[derive(Clone, Debug)]
pub(super) struct Done {
    thread: usize,
    pub(super) call: Call,
    serial: u64,
    /// In the order of all begins and returns, and how many steps were done then.
    begin: (usize, usize),
    /// The same of its return, and what it returned.
    end: Option<(usize, usize, Answer)>,
}

impl Done {
    pub(super) fn begun(thread: usize, call: Call, serial: u64, begin: (usize, usize)) -> Done {
        Done { thread, call, serial, begin, end: None }
    }

    pub(super) fn end(&mut self, answer: Answer, (time, steps): (usize, usize)) {
        self.end = Some((time, steps, answer));
    }

    /// After how many steps it returned.
    pub(super) fn returned(&self) -> Option<usize> {
        self.end.as_ref().map(|end| end.1)
    }

    /// Whose, and when it began and returned.
    pub(super) fn times(&self) -> (usize, usize, Option<usize>) {
        (self.thread, self.begin.0, self.end.as_ref().map(|end| end.0))
    }

    /// Of another thread, at the same time.
    pub(super) fn overlaps(&self, other: &Done) -> bool {
        let ends_after = |end: &Done, begin: usize| end.times().2.is_none_or(|end| end > begin);
        self.thread != other.thread
            && ends_after(self, other.begin.0)
            && ends_after(other, self.begin.0)
    }

    /// It was refused, because another transaction came first.
    pub(super) fn is_refused(&self) -> bool {
        matches!(self.end, Some((.., Answer::Refused)))
    }

    /// Whether it may have changed, at the same time, what the other has read or written.
    pub(super) fn comes_before(&self, other: &Done) -> bool {
        let keys = |call: &Call| -> (Vec<u8>, Vec<u8>) {
            let of = |writes: &[(u8, usize)]| writes.iter().map(|&(n, _)| n).collect();
            match call {
                Call::Put(n, _) | Call::Remove(n) => (Vec::new(), vec![*n]),
                Call::Group(writes) => (Vec::new(), of(writes)),
                Call::Transact(n, writes) => (vec![*n], of(writes)),
                Call::Get(n) => (vec![*n], Vec::new()),
                Call::View(n, m) => (vec![*n, *m], Vec::new()),
                Call::Abort(_) | Call::Step => (Vec::new(), Vec::new()),
            }
        };
        let (writes, (reads, others)) = (keys(&self.call).1, keys(&other.call));
        let is_met = |n: &u8| reads.contains(n) || others.contains(n);
        !self.is_refused() && self.overlaps(other) && writes.iter().any(is_met)
    }

    /// What was known of it when so many steps were done; `None`: nothing that matters.
    fn before(&self, steps: usize) -> Option<Done> {
        let mut done = self.clone();
        done.end = done.end.filter(|end| end.1 <= steps);
        let is_read =
            matches!(done.call, Call::Get(_) | Call::View(..) | Call::Abort(_) | Call::Step);
        (done.begin.1 <= steps && (done.end.is_some() || !is_read)).then_some(done)
    }

    /// Takes effect; false if it has returned something else.
    fn effect(&self, map: &mut Map) -> bool {
        if self.is_refused() {
            return true;
        }
        let put = |writes: &[(u8, usize)], map: &mut Map| {
            for (at, &(n, len)) in writes.iter().enumerate() {
                map.insert(key(n), value(self.serial + at as u64, len));
            }
        };
        let answer = match &self.call {
            Call::Put(n, len) => {
                Answer::Existed(map.insert(key(*n), value(self.serial, *len)).is_some())
            }
            Call::Remove(n) => Answer::Existed(map.remove(&key(*n)).is_some()),
            Call::Get(n) => Answer::Value(map.get(&key(*n)).cloned()),
            Call::View(n, m) => Answer::Values([n, m, n].map(|n| map.get(&key(*n)).cloned())),
            Call::Abort(_) | Call::Step => Answer::Done,
            Call::Group(writes) => {
                put(writes, map);
                Answer::Done
            }
            Call::Transact(n, writes) => {
                let read = map.get(&key(*n)).cloned();
                put(writes, map);
                Answer::Value(read)
            }
        };
        self.end.as_ref().is_none_or(|end| end.2 == answer)
    }
}

/// The calls of which something was known when so many steps were done.
pub(super) fn known(calls: &[Done], steps: usize) -> Vec<Done> {
    calls.iter().filter_map(|call| call.before(steps)).collect()
}

/// Whether some order of the calls, those that did not return left out or not, leads from one map to the
/// other.
pub(super) fn explains(calls: &[Done], from: &Map, to: &Map) -> bool {
    let mut search = Search { calls, to, tried: HashSet::default() };
    search.from(0, from)
}

struct Search<'s> {
    calls: &'s [Done],
    to: &'s Map,
    /// What has taken effect, a bit each, and what was there then.
    tried: HashSet<(u32, u64)>,
}

impl Search<'_> {
    fn from(&mut self, taken: u32, map: &Map) -> bool {
        if !self.tried.insert((taken, digest(Some(map)))) {
            return false;
        }
        let calls = self.calls;
        let left = || calls.iter().enumerate().filter(|(at, _)| taken >> at & 1 == 0);
        let first_end = left().filter_map(|(_, call)| Some(call.end.as_ref()?.0)).min();
        if first_end.is_none() && map == self.to {
            return true;
        }
        for (at, call) in left() {
            // Nothing takes effect before it begins.
            if first_end.is_some_and(|end| call.begin.0 > end) {
                continue;
            }
            let mut next = map.clone();
            if call.effect(&mut next) && self.from(taken | 1 << at, &next) {
                return true;
            }
        }
        false
    }
}
