//! Watches what is stored, flushed and fenced, and counts what buys nothing. Of this folder and of the store's tests.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Mutex, MutexGuard};

use tembo_pmem::{Observer, Stored};

/// Two steps that may flush one line before a fence.
pub(crate) type Pair = [&'static str; 2];

/// A line that a cleaning has emptied may be emptied further by a merge, or get what the space was made for, within
/// the same operation; and small records that one change of the structure makes may share a line.
const ALLOWED: [Pair; 3] = [
    ["nvtree.erase.flush", "nvtree.erase.flush"],
    ["nvtree.erase.flush", "nvtree.element.flush"],
    ["nvtree.record.write", "nvtree.record.write"],
];

#[derive(Default)]
pub(crate) struct Seen {
    dirty: HashSet<u64>,
    /// Lines that were flushed since the last fence, with the step that did.
    flushed: HashMap<u64, &'static str>,
    /// What else is allowed at this time.
    pub(crate) allowed: &'static [Pair],
    pub(crate) wasted: BTreeMap<String, usize>,
    pub(crate) fences: usize,
    pub(crate) lines: usize,
}

#[derive(Default)]
pub(crate) struct Watch(Mutex<Seen>);

impl Watch {
    pub(crate) fn seen(&self) -> MutexGuard<'_, Seen> {
        self.0.lock().unwrap()
    }
}

impl Observer for Watch {
    fn load(&self, _offset: u64, _len: u64) {}

    fn store(&self, stored: Stored<'_>, perform: &mut dyn FnMut()) {
        perform();
        let lines = stored.offset / 64..=(stored.offset + stored.len().max(1) - 1) / 64;
        self.seen().dirty.extend(lines);
    }

    fn flush(&self, name: &'static str, offset: u64, len: u64) {
        let mut seen = self.seen();
        for line in offset / 64..=(offset + len.max(1) - 1) / 64 {
            seen.lines += 1;
            let is_dirty = seen.dirty.remove(&line);
            let allowed = seen.allowed;
            match seen.flushed.insert(line, name).map(|before| [before, name]) {
                Some(pair) if ALLOWED.contains(&pair) || allowed.contains(&pair) => {}
                Some([before, _]) => {
                    *seen.wasted.entry(format!("twice: {before}, {name}")).or_default() += 1;
                }
                None if !is_dirty => *seen.wasted.entry(format!("clean: {name}")).or_default() += 1,
                None => {}
            }
        }
    }

    fn fence(&self, name: &'static str) {
        let mut seen = self.seen();
        seen.fences += 1;
        if seen.flushed.is_empty() {
            *seen.wasted.entry(format!("nothing to order: {name}")).or_default() += 1;
        }
        seen.flushed.clear();
    }

    fn sync(&self) {}

    fn resize(&self, _size: u64) {}
}
