//! Steps that bought nothing: of a run, by name.

use std::collections::{BTreeMap, HashMap, HashSet};

use crate::event::{Event, LINE, Step};

/// How often a step was done, and how often it bought nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Done {
    /// How often it was done; for a flush, how many lines.
    pub count: u64,
    /// Of these: lines that no store had changed since they were last flushed; fences by a thread
    /// that had flushed nothing since its last one.
    pub idle: u64,
}

/// What was done in vain.
#[derive(Clone, Debug, Default)]
pub struct Redundancy {
    /// Flushes, by name.
    pub flushes: BTreeMap<&'static str, Done>,
    /// Fences, by name.
    pub fences: BTreeMap<&'static str, Done>,
    /// Stores that were never flushed, by their name or else by the flush that came to their line
    /// last.
    pub unflushed: BTreeMap<&'static str, u64>,
}

impl Redundancy {
    /// Adds what one run did.
    pub fn add(&mut self, events: &[Event]) {
        let mut dirty: HashMap<u32, Vec<&'static str>> = HashMap::new();
        let mut flusher: HashMap<u32, &'static str> = HashMap::new();
        let mut pending: HashSet<u16> = HashSet::new();
        for event in events {
            match event.step {
                Step::Store(piece) => {
                    let line = (piece.offset / LINE as u64) as u32;
                    dirty.entry(line).or_default().push(piece.name.unwrap_or(""));
                }
                Step::Flush { name, first, last } => {
                    let done = self.flushes.entry(name).or_default();
                    for line in first..=last {
                        done.count += 1;
                        done.idle += u64::from(dirty.remove(&line).is_none());
                        flusher.insert(line, name);
                    }
                    pending.insert(event.thread);
                }
                Step::Fence { name } => {
                    let done = self.fences.entry(name).or_default();
                    done.count += 1;
                    done.idle += u64::from(!pending.remove(&event.thread));
                }
                Step::Sync | Step::Resize { .. } | Step::Operation => {}
            }
        }
        for (line, names) in dirty {
            for name in names {
                let flusher = flusher.get(&line).copied().unwrap_or("(a line never flushed)");
                *self.unflushed.entry(if name.is_empty() { flusher } else { name }).or_default() +=
                    1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::Piece;

    #[test]
    fn what_is_flushed_twice_and_fenced_twice_is_redundant() {
        let event = |step| Event { thread: 0, step };
        let store = event(Step::Store(Piece { name: None, offset: 64, bytes: [1; 8], len: 8 }));
        let flush = |name| event(Step::Flush { name, first: 1, last: 2 });
        let fence = |name| event(Step::Fence { name });
        let mut found = Redundancy::default();
        found.add(&[store, flush("a"), flush("b"), fence("c"), fence("d"), store]);
        assert_eq!(found.flushes["a"], Done { count: 2, idle: 1 });
        assert_eq!(found.flushes["b"], Done { count: 2, idle: 2 });
        assert_eq!(found.fences["c"], Done { count: 1, idle: 0 });
        assert_eq!(found.fences["d"], Done { count: 1, idle: 1 });
        assert_eq!(found.unflushed, BTreeMap::from([("b", 1)]));
    }
}
