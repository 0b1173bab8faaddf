//! How many pointers of the program refer to each object. In memory only: an opening begins with none.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use rustc_hash::FxHashMap;
use tembo_pmem::thread::lock;

const SHARDS: usize = 64;

/// Where an object stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// It is an object of the heap.
    Whole,
    /// The transaction that made it is under way.
    Fresh,
    /// That transaction was rolled back: its space is free when the last pointer is dropped.
    Void,
    /// It is being destroyed: no new pointer can refer to it.
    Doomed,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    count: u64,
    state: State,
    /// Its place in the dead-on-open list, if no pointer of the heap refers to it.
    slot: Option<u32>,
}

const NEW: Entry = Entry { count: 0, state: State::Whole, slot: None };

/// What is to be done when a pointer was dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Released {
    /// Nothing.
    Nothing,
    /// Nothing refers to the object any more: it is to be destroyed.
    Orphan,
    /// It never was an object: its space is to be given back.
    Void,
}

/// The counts, by the objects' bits.
pub(crate) struct Handles {
    shards: [Mutex<FxHashMap<u64, Entry>>; SHARDS],
    /// Entries that are fresh or void: while there are none, each pointer refers to a whole object.
    unsettled: AtomicUsize,
}

impl Handles {
    pub(crate) fn new() -> Handles {
        Handles {
            shards: std::array::from_fn(|_| Mutex::default()),
            unsettled: AtomicUsize::new(0),
        }
    }

    fn shard(&self, bits: u64) -> &Mutex<FxHashMap<u64, Entry>> {
        &self.shards[(bits ^ bits >> 7) as usize % SHARDS]
    }

    /// A pointer more; whether the object can have one.
    pub(crate) fn acquire(&self, bits: u64) -> bool {
        let mut shard = lock(self.shard(bits));
        let entry = shard.entry(bits).or_insert(NEW);
        let can = entry.state != State::Doomed;
        entry.count += u64::from(can);
        can
    }

    /// The first pointer to an object that a transaction makes. Another thread may hold one to what was at its place before, which it
    /// is about to find out and to drop: that one stays counted, or its release would take this one's count.
    pub(crate) fn make(&self, bits: u64) {
        let mut shard = lock(self.shard(bits));
        let entry = shard.entry(bits).or_insert(NEW);
        *entry = Entry { count: entry.count + 1, state: State::Fresh, slot: None };
        self.unsettled.fetch_add(1, Ordering::SeqCst);
    }

    /// A pointer less.
    pub(crate) fn release(&self, bits: u64) -> Released {
        let mut shard = lock(self.shard(bits));
        let Some(entry) = shard.get_mut(&bits) else { return Released::Nothing };
        entry.count = entry.count.saturating_sub(1);
        if entry.count > 0 {
            return Released::Nothing;
        }
        match entry.state {
            State::Whole if entry.slot.is_some() => Released::Orphan,
            State::Whole => {
                shard.remove(&bits);
                Released::Nothing
            }
            State::Void => {
                shard.remove(&bits);
                self.unsettled.fetch_sub(1, Ordering::SeqCst);
                Released::Void
            }
            State::Fresh | State::Doomed => Released::Nothing,
        }
    }

    /// Whether the pointer refers to an object of the heap, or to one that `is_own` transaction makes.
    pub(crate) fn is_whole(&self, bits: u64, is_own: bool) -> bool {
        if self.unsettled.load(Ordering::SeqCst) == 0 {
            return true;
        }
        match lock(self.shard(bits)).get(&bits).map(|entry| entry.state) {
            Some(State::Fresh) => is_own,
            Some(State::Void | State::Doomed) => false,
            Some(State::Whole) | None => true,
        }
    }

    /// Dooms an object to which no pointer of the heap refers, unless one of the program does.
    pub(crate) fn doom(&self, bits: u64) -> bool {
        let mut shard = lock(self.shard(bits));
        let entry = shard.entry(bits).or_insert(NEW);
        let can = entry.count == 0;
        if can && entry.state != State::Fresh {
            entry.state = State::Doomed;
        }
        can
    }

    /// The change that doomed the object is made: forgets it. Or it is not made: as it was.
    pub(crate) fn end_doom(&self, bits: u64, is_made: bool) {
        let mut shard = lock(self.shard(bits));
        let Some(entry) = shard.get_mut(&bits) else { return };
        if entry.state != State::Doomed {
            return;
        }
        entry.state = State::Whole;
        if is_made || entry.slot.is_none() {
            shard.remove(&bits);
        }
    }

    /// The place of an object in the dead-on-open list.
    pub(crate) fn slot(&self, bits: u64) -> Option<u32> {
        lock(self.shard(bits)).get(&bits)?.slot
    }

    /// Notes the place; whether the object has no pointer of the program any more, and is to be destroyed.
    pub(crate) fn set_slot(&self, bits: u64, slot: Option<u32>) -> bool {
        let mut shard = lock(self.shard(bits));
        let entry = shard.entry(bits).or_insert(NEW);
        entry.slot = slot;
        let is_unused = entry.count == 0;
        if is_unused && slot.is_none() && entry.state == State::Whole {
            shard.remove(&bits);
        }
        is_unused && slot.is_some()
    }

    /// The transaction that made the object has ended. Returns whether its space is free.
    pub(crate) fn settle(&self, bits: u64, is_committed: bool) -> bool {
        let mut shard = lock(self.shard(bits));
        let Some(entry) = shard.get_mut(&bits) else { return false };
        if entry.state != State::Fresh {
            return false;
        }
        if !is_committed && entry.count > 0 {
            entry.state = State::Void;
            return false;
        }
        entry.state = State::Whole;
        if entry.count == 0 && entry.slot.is_none() {
            shard.remove(&bits);
        }
        self.unsettled.fetch_sub(1, Ordering::SeqCst);
        !is_committed
    }

    /// Whether the program has a counted pointer to the object.
    pub(crate) fn is_held(&self, bits: u64) -> bool {
        lock(self.shard(bits)).get(&bits).is_some_and(|entry| entry.count > 0)
    }

    /// Objects of the heap to which the program has a pointer.
    pub(crate) fn held(&self) -> Vec<u64> {
        let is_held = |entry: &Entry| entry.count > 0 && entry.state == State::Whole;
        self.those(is_held)
    }

    /// Objects whose space is taken, though nothing on media refers to them.
    pub(crate) fn void(&self) -> Vec<u64> {
        self.those(|entry| matches!(entry.state, State::Void | State::Fresh))
    }

    fn those(&self, is_one: impl Fn(&Entry) -> bool) -> Vec<u64> {
        let of_shard = |shard: &Mutex<FxHashMap<u64, Entry>>| {
            let shard = lock(shard);
            let found = shard.iter().filter(|(_, entry)| is_one(entry));
            found.map(|(bits, _)| *bits).collect::<Vec<_>>()
        };
        self.shards.iter().flat_map(of_shard).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stale_pointer_to_the_place_of_a_new_object_takes_no_count_of_it() {
        let handles = Handles::new();
        assert!(handles.acquire(7), "read from an object that changes meanwhile");
        handles.make(7);
        assert_eq!(handles.release(7), Released::Nothing);
        assert!(!handles.settle(7, true));
        assert!(!handles.doom(7), "the pointer that was returned keeps the object");
        assert_eq!(handles.held(), [7]);
    }

    #[test]
    fn the_space_of_what_was_rolled_back_is_free_when_the_last_pointer_goes() {
        let handles = Handles::new();
        assert!(handles.acquire(7));
        handles.make(7);
        assert_eq!(handles.release(7), Released::Nothing);
        assert!(!handles.settle(7, false));
        assert_eq!((handles.void(), handles.is_whole(7, false)), (vec![7], false));
        assert_eq!(handles.release(7), Released::Void);
        assert!(handles.void().is_empty() && handles.is_whole(7, false));
    }
}
