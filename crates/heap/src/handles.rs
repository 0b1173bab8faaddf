//! How many pointers of the program refer to each object. In memory only: an opening begins with none.
//!
//! ```text
//! place    one word for all objects that hash to it          count of one whole object; how many of them have entries
//! entry    in a map behind a lock                            any object: count, state, place in the dead-on-open list
//! ```
//!
//! An object is counted by its place or by an entry. It gets an entry when it is more than whole and counted, when the place has another
//! object, or counts no further; from then on, until its last pointer goes, or until it is no more than that. While an object of a place has an entry the place takes
//! no other object, so a pointer to an object with an entry finds the entry.

use rustc_hash::FxHashMap;

use crate::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use crate::sync::{Mutex, PLACES, lock};

const SHARDS: usize = 64;

/// The bits of a hash that say the place.
const PLACE_BITS: u32 = PLACES.ilog2();

/// A place has the bits of its object, or 0; above, how many pointers refer to that; above, how many objects of the place have entries. With
/// as many as it can say it says so for ever: then all of its objects but one have entries.
const OBJECT: u64 = (1 << 48) - 1;
const ONE_POINTER: u64 = 1 << 48;
const POINTERS: u64 = 0xff << 48;
const ONE_ENTRY: u64 = 1 << 56;
const ENTRIES: u64 = 0xff << 56;

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

type Entries = FxHashMap<u64, Entry>;

/// The counts, by the objects' bits.
pub(crate) struct Handles {
    places: Box<[AtomicU64]>,
    shards: [Mutex<Entries>; SHARDS],
    /// Entries that are fresh or void: while there are none, each pointer refers to a whole object.
    unsettled: AtomicUsize,
    /// The same of the objects that hash to one of these.
    unsettled_by: Box<[AtomicUsize]>,
}

/// So many counts of entries that are fresh or void.
const UNSETTLED: usize = 1 << 8;

impl Handles {
    pub(crate) fn new() -> Handles {
        Handles {
            places: (0..PLACES).map(|_| AtomicU64::new(0)).collect(),
            shards: std::array::from_fn(|_| Mutex::default()),
            unsettled: AtomicUsize::new(0),
            unsettled_by: (0..UNSETTLED).map(|_| AtomicUsize::new(0)).collect(),
        }
    }

    fn add_unsettled(&self, bits: u64) {
        self.unsettled_by[Handles::index(bits) % UNSETTLED].fetch_add(1, Ordering::SeqCst);
        self.unsettled.fetch_add(1, Ordering::SeqCst);
    }

    fn remove_unsettled(&self, bits: u64) {
        self.unsettled.fetch_sub(1, Ordering::SeqCst);
        self.unsettled_by[Handles::index(bits) % UNSETTLED].fetch_sub(1, Ordering::SeqCst);
    }

    /// Whether a pointer to the object refers to a whole one. `false`: perhaps not.
    #[inline]
    pub(crate) fn is_settled(&self, bits: u64) -> bool {
        self.unsettled_by[Handles::index(bits) % UNSETTLED].load(Ordering::SeqCst) == 0
    }

    fn index(bits: u64) -> usize {
        (bits.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - PLACE_BITS)) as usize
    }

    fn place(&self, bits: u64) -> &AtomicU64 {
        &self.places[Handles::index(bits)]
    }

    fn shard(&self, bits: u64) -> &Mutex<Entries> {
        &self.shards[Handles::index(bits) % SHARDS]
    }

    /// Changes the place of an object; what it was. `None` of `change`: it stays.
    #[inline]
    fn change(&self, bits: u64, change: impl Fn(u64) -> Option<u64>) -> Result<u64, u64> {
        self.place(bits).fetch_update(Ordering::AcqRel, Ordering::Acquire, change)
    }

    /// The entry of an object, which is made if there is none.
    fn entry<'s>(&self, shard: &'s mut Entries, bits: u64) -> &'s mut Entry {
        shard.entry(bits).or_insert_with(|| {
            let with_entry = |word: u64| {
                let entries = if word & ENTRIES == ENTRIES { 0 } else { ONE_ENTRY };
                let rest = if word & OBJECT == bits { word & ENTRIES } else { word };
                Some(rest + entries)
            };
            let (Ok(before) | Err(before)) = self.change(bits, with_entry);
            let is_here = before & OBJECT == bits;
            let count = if is_here { (before & POINTERS) / ONE_POINTER } else { 0 };
            Entry { count, ..NEW }
        })
    }

    /// An object needs no entry: it is whole, and has no pointer.
    fn remove(&self, shard: &mut Entries, bits: u64) {
        if shard.remove(&bits).is_some() {
            let is_countable = |word: u64| word & ENTRIES != ENTRIES;
            // As many as it can say stay as many.
            let _ = self.change(bits, |word| is_countable(word).then(|| word - ONE_ENTRY));
        }
    }

    /// An object is counted by its place from here on, if that is free, and the object no more than whole and counted.
    fn put_in_place(&self, shard: &mut Entries, bits: u64) {
        let Some(entry) = shard.get(&bits) else { return };
        let is_counted = entry.state == State::Whole && entry.slot.is_none();
        let (count, most) = (entry.count, POINTERS / ONE_POINTER);
        if is_counted && (1..=most).contains(&count) && bits <= OBJECT {
            let placed = |word: u64| (word == ONE_ENTRY).then(|| bits + count * ONE_POINTER);
            if self.change(bits, placed).is_ok() {
                shard.remove(&bits);
            }
        }
    }

    /// A pointer more; whether the object can have one.
    #[inline]
    pub(crate) fn acquire(&self, bits: u64) -> bool {
        let more = |word: u64| {
            let is_here = word & OBJECT == bits && word & POINTERS != POINTERS;
            if is_here {
                Some(word + ONE_POINTER)
            } else {
                // Damaged bits that are no object's get an entry.
                (word == 0 && bits <= OBJECT).then(|| bits + ONE_POINTER)
            }
        };
        self.change(bits, more).is_ok() || self.acquire_by_entry(bits)
    }

    fn acquire_by_entry(&self, bits: u64) -> bool {
        let mut shard = lock(self.shard(bits));
        let entry = self.entry(&mut shard, bits);
        let can = entry.state != State::Doomed;
        entry.count += u64::from(can);
        can
    }

    /// The first pointer to an object that a transaction makes. Another thread may hold one to what was at its place before, which it
    /// is about to find out and to drop: that one stays counted, or its release would take this one's count.
    pub(crate) fn make(&self, bits: u64) {
        let mut shard = lock(self.shard(bits));
        let entry = self.entry(&mut shard, bits);
        *entry = Entry { count: entry.count + 1, state: State::Fresh, slot: None };
        self.add_unsettled(bits);
    }

    /// A pointer less.
    #[inline]
    pub(crate) fn release(&self, bits: u64) -> Released {
        if self.release_by_place(bits) { Released::Nothing } else { self.release_by_entry(bits) }
    }

    #[inline]
    fn release_by_place(&self, bits: u64) -> bool {
        let less = |word: u64| {
            let is_last = word & POINTERS == ONE_POINTER;
            let left = || if is_last { word & ENTRIES } else { word - ONE_POINTER };
            (word & OBJECT == bits).then(left)
        };
        self.change(bits, less).is_ok()
    }

    fn release_by_entry(&self, bits: u64) -> Released {
        let mut shard = lock(self.shard(bits));
        let Some(entry) = shard.get_mut(&bits) else {
            // It may have got its place since. While the shard is locked it stays where it is.
            self.release_by_place(bits);
            return Released::Nothing;
        };
        entry.count = entry.count.saturating_sub(1);
        if entry.count > 0 {
            return Released::Nothing;
        }
        match entry.state {
            State::Whole if entry.slot.is_some() => Released::Orphan,
            State::Whole => {
                self.remove(&mut shard, bits);
                Released::Nothing
            }
            State::Void => {
                self.remove(&mut shard, bits);
                self.remove_unsettled(bits);
                Released::Void
            }
            State::Fresh | State::Doomed => Released::Nothing,
        }
    }

    /// Whether all pointers refer to whole objects, but for those to so many fresh ones.
    #[inline]
    pub(crate) fn are_whole_but(&self, fresh: usize) -> bool {
        self.unsettled.load(Ordering::SeqCst) == fresh
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
        let entry = self.entry(&mut shard, bits);
        let can = entry.count == 0;
        if can && entry.state != State::Fresh {
            entry.state = State::Doomed;
        }
        if !can {
            self.put_in_place(&mut shard, bits);
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
            self.remove(&mut shard, bits);
        }
    }

    /// The place of an object in the dead-on-open list.
    pub(crate) fn slot(&self, bits: u64) -> Option<u32> {
        lock(self.shard(bits)).get(&bits)?.slot
    }

    /// Notes the place; whether the object has no pointer of the program any more, and is to be destroyed. Of a fresh one
    /// [`settle`](Handles::settle) says that.
    pub(crate) fn set_slot(&self, bits: u64, slot: Option<u32>) -> bool {
        let mut shard = lock(self.shard(bits));
        let entry = self.entry(&mut shard, bits);
        entry.slot = slot;
        let is_unused = entry.count == 0 && entry.state != State::Fresh;
        if is_unused && slot.is_none() && entry.state == State::Whole {
            self.remove(&mut shard, bits);
        } else {
            self.put_in_place(&mut shard, bits);
        }
        is_unused && slot.is_some()
    }

    /// The transaction that made the object has ended, and has committed it or not. What is to be done with it.
    pub(crate) fn settle(&self, bits: u64, is_committed: bool) -> Released {
        let mut shard = lock(self.shard(bits));
        let Some(entry) = shard.get_mut(&bits) else { return Released::Nothing };
        if entry.state != State::Fresh {
            return Released::Nothing;
        }
        if !is_committed && entry.count > 0 {
            entry.state = State::Void;
            return Released::Nothing;
        }
        entry.state = State::Whole;
        let (is_unused, is_orphan) = (entry.count == 0, entry.slot.is_some());
        if is_unused && !is_orphan {
            self.remove(&mut shard, bits);
        } else {
            self.put_in_place(&mut shard, bits);
        }
        self.remove_unsettled(bits);
        match is_committed {
            false => Released::Void,
            // Its last pointer was dropped since it got its place in the dead-on-open list.
            true if is_unused && is_orphan => Released::Orphan,
            true => Released::Nothing,
        }
    }

    /// Whether the program has a counted pointer to the object.
    pub(crate) fn is_held(&self, bits: u64) -> bool {
        let shard = lock(self.shard(bits));
        let is_here = self.place(bits).load(Ordering::Acquire) & OBJECT == bits;
        is_here || shard.get(&bits).is_some_and(|entry| entry.count > 0)
    }

    /// Objects of the heap to which the program has a pointer. Some may be there twice, while others get entries.
    pub(crate) fn held(&self) -> Vec<u64> {
        let here = self.places.iter().map(|place| place.load(Ordering::Acquire) & OBJECT);
        let mut held: Vec<u64> = here.filter(|bits| *bits != 0).collect();
        held.extend(self.those(|entry| entry.count > 0 && entry.state == State::Whole));
        held
    }

    /// Objects whose space is taken, though nothing on media refers to them.
    pub(crate) fn void(&self) -> Vec<u64> {
        self.those(|entry| matches!(entry.state, State::Void | State::Fresh))
    }

    fn those(&self, is_one: impl Fn(&Entry) -> bool) -> Vec<u64> {
        let of_shard = |shard: &Mutex<Entries>| {
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
        assert_eq!(handles.settle(7, true), Released::Nothing);
        assert!(!handles.doom(7), "the pointer that was returned keeps the object");
        assert_eq!(handles.held(), [7]);
    }

    #[test]
    fn the_space_of_what_was_rolled_back_is_free_when_the_last_pointer_goes() {
        let handles = Handles::new();
        assert!(handles.acquire(7));
        handles.make(7);
        assert_eq!(handles.release(7), Released::Nothing);
        assert_eq!(handles.settle(7, false), Released::Nothing);
        assert_eq!((handles.void(), handles.is_whole(7, false)), (vec![7], false));
        assert_eq!(handles.release(7), Released::Void);
        assert!(handles.void().is_empty() && handles.is_whole(7, false));
    }

    #[test]
    fn a_new_orphan_of_which_the_last_pointer_goes_within_the_commit_is_to_be_destroyed() {
        let handles = Handles::new();
        handles.make(7);
        assert!(!handles.set_slot(7, Some(3)));
        assert_eq!(handles.release(7), Released::Nothing, "it is no object yet");
        assert_eq!(handles.settle(7, true), Released::Orphan);
        assert!(handles.doom(7));
        handles.end_doom(7, true);
        assert!(is_empty(&handles));
    }

    fn is_empty(handles: &Handles) -> bool {
        let no_entry = handles.shards.iter().all(|shard| lock(shard).is_empty());
        no_entry && handles.places.iter().all(|place| place.load(Ordering::SeqCst) == 0)
    }

    /// So many objects of one place.
    fn neighbours(count: usize) -> Vec<u64> {
        (1..).filter(|bits| Handles::index(*bits) == Handles::index(1)).take(count).collect()
    }

    #[test]
    fn objects_of_one_place_are_counted_each_for_itself() {
        let (handles, all) = (Handles::new(), neighbours(if cfg!(miri) { 3 } else { 600 }));
        // More than a place can count, of one object and of objects.
        for round in 0..300 {
            for (index, &bits) in all.iter().enumerate() {
                if round < 2 || index < 2 {
                    assert!(handles.acquire(bits));
                }
            }
        }
        assert!(all.iter().all(|bits| handles.is_held(*bits) && !handles.doom(*bits)));
        let mut held = handles.held();
        held.sort_unstable();
        assert_eq!(held, all);
        for round in 0..300 {
            for (index, &bits) in all.iter().enumerate() {
                if round < 2 || index < 2 {
                    assert_eq!(handles.release(bits), Released::Nothing);
                }
                let is_held = round == 0 || (index < 2 && round < 299);
                assert_eq!(handles.is_held(bits), is_held, "{index} in {round}");
            }
        }
        assert!(handles.held().is_empty());
        assert!(handles.shards.iter().all(|shard| lock(shard).is_empty()));
    }

    #[test]
    fn what_is_doomed_gets_no_pointer_though_its_place_is_empty() {
        let handles = Handles::new();
        let all = neighbours(2);
        assert!(handles.acquire(all[0]) && handles.doom(all[1]));
        assert_eq!(handles.release(all[0]), Released::Nothing);
        assert!(!handles.acquire(all[1]));
        assert!(handles.acquire(all[0]));
        handles.end_doom(all[1], true);
        assert!(handles.acquire(all[1]));
        for bits in all {
            assert_eq!(handles.release(bits), Released::Nothing);
        }
        assert!(is_empty(&handles));
    }

    #[test]
    fn an_object_that_is_no_more_than_counted_gets_its_place() {
        let handles = Handles::new();
        let by_place = |count: u64| {
            let word = handles.place(7).load(Ordering::SeqCst);
            assert_eq!(word, if count > 0 { 7 + count * ONE_POINTER } else { ONE_ENTRY });
        };
        handles.make(7);
        by_place(0);
        assert!(handles.acquire(7));
        assert_eq!(handles.settle(7, true), Released::Nothing);
        by_place(2);
        assert!(!handles.set_slot(7, Some(1)));
        by_place(0);
        assert!(!handles.set_slot(7, None));
        by_place(2);
        assert_eq!(
            (handles.release(7), handles.release(7)),
            (Released::Nothing, Released::Nothing)
        );
        assert!(is_empty(&handles));
    }

    #[test]
    fn an_orphan_that_was_counted_by_its_place_is_destroyed_when_its_last_pointer_goes() {
        let handles = Handles::new();
        assert!(handles.acquire(7) && handles.acquire(7));
        assert!(!handles.doom(7) && !handles.set_slot(7, Some(1)));
        assert_eq!(handles.release(7), Released::Nothing);
        assert_eq!(handles.release(7), Released::Orphan);
    }

    #[test]
    fn threads_that_count_together_count_right() {
        let (handles, all) = (Handles::new(), neighbours(3));
        let rounds = if cfg!(miri) { 20 } else { 20_000 };
        std::thread::scope(|scope| {
            for thread in 0..3 {
                let (handles, all) = (&handles, &all);
                scope.spawn(move || {
                    for round in 0..rounds {
                        let bits = all[(round * 7 + thread) % 3];
                        if (round + thread) % 5 < 2 {
                            // As a commit that unlinks it, or finds that it has a pointer.
                            if handles.doom(bits) {
                                handles.end_doom(bits, true);
                            }
                        } else if handles.acquire(bits) {
                            assert!(handles.is_held(bits) && !handles.doom(bits));
                            assert_eq!(handles.release(bits), Released::Nothing);
                        }
                    }
                });
            }
        });
        assert!(is_empty(&handles) && handles.held().is_empty());
    }
}
