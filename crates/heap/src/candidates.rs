//! Objects that may belong to a cycle that nothing refers to, and how far the search for such cycles has come. In memory only.
//!
//! A cycle becomes garbage when a count in it falls to what the cycle itself holds: so each object whose count falls, and stays above
//! zero, is a candidate. ([`cycles`](crate::cycles) judges them.) Commits go on meanwhile. What they unlink, link and make is
//! noted here, so that all that was reachable when marking began, or has become so since, is marked in the end. (A barrier of the
//! snapshot at the beginning: Yuasa 1990.)

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

/// A search.
#[derive(Default)]
pub(crate) struct Marking {
    /// The candidates that it judges.
    pub(crate) judged: FxHashSet<u64>,
    /// What is reachable; whether that is so from the root, not only from the program or for the sake of a commit.
    pub(crate) marked: FxHashMap<u64, bool>,
    /// Marked objects that are to be looked into.
    pub(crate) gray: Vec<u64>,
    /// Objects that are to be marked when all is that the root reaches.
    pub(crate) late: FxHashSet<u64>,
    pub(crate) is_late: bool,
}

impl Marking {
    /// Marks an object, unless it is.
    pub(crate) fn mark(&mut self, bits: u64) {
        if let std::collections::hash_map::Entry::Vacant(place) = self.marked.entry(bits) {
            place.insert(!self.is_late);
            self.gray.push(bits);
        }
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

    /// A commit changes an object's count.
    pub(crate) fn counted(&mut self, bits: u64, delta: i64) {
        if delta < 0 {
            self.add(bits);
        }
        if let Some(marking) = &mut self.marking {
            marking.late.insert(bits);
        }
    }

    /// A commit has made an object.
    pub(crate) fn made(&mut self, bits: u64) {
        if let Some(marking) = &mut self.marking {
            marking.marked.insert(bits, false);
        }
    }

    /// A sweep frees what is not in `live`: what was found of that is void, and a search begins anew.
    pub(crate) fn keep_only(&mut self, live: &FxHashSet<u64>) {
        self.found.extend(self.marking.take().into_iter().flat_map(|marking| marking.judged));
        self.found.retain(|bits| live.contains(bits));
        self.garbage.clear();
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
