//! Objects that may belong to a cycle that nothing refers to, and how far the search for such cycles has come. In memory only.
//!
//! A cycle becomes garbage when a count in it falls to what the cycle itself holds. So a candidate is each object whose count falls
//! and stays above zero, and each that a commit links as often as it unlinks it. ([`cycles`](crate::cycles) judges them.) An object that a
//! commit links more often than it unlinks it is none: if only a cycle is left to hold it, a sweep frees it. Commits go on meanwhile. What
//! they unlink, link and make is noted here, so that all that was reachable when marking began, or has become so since, is
//! marked in the end. (A barrier of the snapshot at the beginning: Yuasa 1990.)

use rustc_hash::{FxHashMap, FxHashSet};

/// Candidates that are kept. Of what comes beyond, a sweep finds what is garbage.
const CANDIDATES_MAX: usize = 1 << 20;

/// The candidates.
#[derive(Default)]
pub(crate) struct Candidates {
    found: FxHashSet<u64>,
    pub(crate) marking: Option<Marking>,
    /// Objects of cycles that nothing refers to, which are to be taken apart.
    pub(crate) garbage: FxHashSet<u64>,
}

/// How an object is marked.
struct Mark {
    /// It may be reachable from the program only, or is marked for the sake of a commit.
    is_late: bool,
    /// It is to be looked into.
    is_gray: bool,
}

/// A search.
#[derive(Default)]
pub(crate) struct Marking {
    /// The candidates that it judges.
    pub(crate) judged: FxHashSet<u64>,
    /// What is reachable.
    marked: FxHashMap<u64, Mark>,
    /// Marked objects that are to be looked into, and places of some that were destroyed meanwhile.
    gray: Vec<u64>,
    /// Objects that are to be marked when all is that the root reaches.
    pub(crate) late: FxHashSet<u64>,
    pub(crate) is_late: bool,
}

impl Marking {
    /// Marks an object, unless it is.
    pub(crate) fn mark(&mut self, bits: u64) {
        if let std::collections::hash_map::Entry::Vacant(place) = self.marked.entry(bits) {
            place.insert(Mark { is_late: self.is_late, is_gray: true });
            self.gray.push(bits);
        }
    }

    pub(crate) fn is_marked(&self, bits: u64) -> bool {
        self.marked.contains_key(&bits)
    }

    /// A marked object that is to be looked into, and is so by the caller.
    pub(crate) fn next(&mut self) -> Option<u64> {
        loop {
            let bits = self.gray.pop()?;
            // What was destroyed meanwhile is not marked; what was made in its place is, and need not be looked into.
            if let Some(mark) = self.marked.get_mut(&bits).filter(|mark| mark.is_gray) {
                mark.is_gray = false;
                return Some(bits);
            }
        }
    }

    /// Marks what was noted. From here on what is marked may be reachable from the program only.
    pub(crate) fn mark_late(&mut self) {
        self.is_late = true;
        std::mem::take(&mut self.late).into_iter().for_each(|bits| self.mark(bits));
    }
}

impl Candidates {
    /// Begins a search, if there is something to judge.
    pub(crate) fn begin(&mut self) -> Option<&mut Marking> {
        if self.found.is_empty() {
            return None;
        }
        let judged = std::mem::take(&mut self.found);
        Some(self.marking.insert(Marking { judged, ..Marking::default() }))
    }

    /// An object may be a part of a cycle that nothing refers to, from here on.
    pub(crate) fn add(&mut self, bits: u64) {
        if self.found.len() < CANDIDATES_MAX {
            self.found.insert(bits);
        }
    }

    /// A commit links or unlinks an object. Its count may stay as it was: a pointer to it is moved to where the search has been
    /// already, or into a cycle of its own.
    pub(crate) fn counted(&mut self, bits: u64, delta: i64) {
        if delta <= 0 {
            self.add(bits);
        }
        if let Some(marking) = &mut self.marking {
            marking.late.insert(bits);
        }
    }

    /// A commit has made an object.
    pub(crate) fn made(&mut self, bits: u64) {
        if let Some(marking) = &mut self.marking {
            marking.marked.insert(bits, Mark { is_late: true, is_gray: false });
        }
    }

    /// Ends a search, if one is under way: its candidates wait for another one.
    pub(crate) fn give_up(&mut self) {
        self.found.extend(self.marking.take().into_iter().flat_map(|marking| marking.judged));
    }

    /// Ends a search that has found this. Candidates that are reachable from the program, or for the sake of a commit, stay candidates.
    pub(crate) fn judged(&mut self, garbage: FxHashSet<u64>) {
        let Some(marking) = self.marking.take() else { return };
        let is_late = |bits: &u64| marking.marked.get(bits).is_some_and(|mark| mark.is_late);
        marking.judged.iter().filter(|bits| is_late(bits)).for_each(|bits| self.add(*bits));
        self.garbage = garbage;
    }

    /// Whether nothing is to be searched for, or taken apart.
    pub(crate) fn is_done(&self) -> bool {
        self.garbage.is_empty() && self.found.is_empty()
    }

    /// A sweep frees what is not in `live`: what was found of that is void, and a search begins anew.
    pub(crate) fn keep_only(&mut self, live: &FxHashSet<u64>) {
        self.give_up();
        self.found.retain(|bits| live.contains(bits));
        self.garbage.clear();
    }

    /// An object has moved, while no search is under way.
    pub(crate) fn moved(&mut self, from: u64, to: u64) {
        for set in [&mut self.found, &mut self.garbage] {
            if set.remove(&from) {
                set.insert(to);
            }
        }
    }

    /// An object is destroyed by the commits, or was not made: its place will be another's.
    pub(crate) fn remove(&mut self, bits: u64) {
        self.found.remove(&bits);
        self.garbage.remove(&bits);
        if let Some(marking) = &mut self.marking {
            marking.judged.remove(&bits);
            marking.marked.remove(&bits);
            marking.late.remove(&bits);
        }
    }
}
