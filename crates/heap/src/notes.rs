//! What a transaction notes. It is kept, emptied, for the next one of the thread: an allocation for each map would cost more than
//! what most transactions put into it.

use std::cell::Cell;

use rustc_hash::FxHashMap;

use crate::change::{Change, KEPT_MAX, empty};
use crate::keyed::Keyed;
use crate::known::{Kinds, Known};
use crate::records::Records;

thread_local! {
    static SPARE: Cell<Option<Box<Notes>>> = const { Cell::new(None) };
}

#[derive(Default)]
pub(crate) struct Notes {
    pub(crate) change: Change,
    /// How many pointers more of the heap refer to each object.
    pub(crate) deltas: Keyed<i64>,
    /// Objects of the heap that it links or changes, each kept by a pointer until the commit: the program may drop its own before.
    pub(crate) kept: Keyed<()>,
    /// Objects that it has made.
    pub(crate) made: Vec<u64>,
    /// New objects to which new objects have got pointers: there may be a cycle.
    pub(crate) rings: Vec<u64>,
    /// Records that it has read: of that version or a later one, and none later than the one of the heap that it sees.
    pub(crate) read: Records,
    /// Records that it owns, each with its version before.
    pub(crate) owned: Records,
    /// Objects that get a newer version of their type, each with the type's identity and number.
    pub(crate) renewed: FxHashMap<u64, (u64, u16)>,
    /// Numbers of types, by their [marks](crate::persist::Expected).
    pub(crate) numbers: FxHashMap<u64, u16>,
    pub(crate) known: Known,
    pub(crate) kinds: Kinds,
    pub(crate) scratch: Vec<u64>,
    /// Words of the object that a [view](crate::View) has looked at last.
    pub(crate) seen: Vec<u64>,
    /// Words that are stored, and what is there.
    pub(crate) stored: (Vec<u64>, Vec<u64>),
    /// The heap of which the numbers are.
    heap: u64,
}

impl Notes {
    /// Empty ones, for a transaction of a heap.
    pub(crate) fn take(heap: u64) -> Box<Notes> {
        // A thread that ends has none.
        let mut notes = SPARE.try_with(Cell::take).ok().flatten().unwrap_or_default();
        if notes.heap != heap {
            notes.heap = heap;
            notes.numbers.clear();
            notes.kinds = Kinds::default();
        }
        notes
    }

    /// The transaction has ended.
    pub(crate) fn give(mut self: Box<Self>) {
        self.change.clear();
        self.deltas.clear();
        self.kept.clear();
        self.made.clear();
        self.rings.clear();
        self.read.clear();
        self.owned.clear();
        empty(&mut self.renewed);
        self.known.clear();
        for words in [&mut self.scratch, &mut self.seen, &mut self.stored.0, &mut self.stored.1] {
            words.clear();
            words.shrink_to(KEPT_MAX);
        }
        self.made.shrink_to(KEPT_MAX);
        self.rings.shrink_to(KEPT_MAX);
        // As above.
        let _ = SPARE.try_with(|spare| spare.set(Some(self)));
    }
}
