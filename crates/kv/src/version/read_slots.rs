//! Read slots: short reads of one key, or of some keys at once, at the visible version, with a pin that lasts for one call.
//!
//! A [snapshot](crate::Snapshot) takes the lock of the table of pins, twice, and clones what it reads
//! from. That is too much for one key. A short read takes a *slot* instead, mostly its thread's own, which
//! it enters by a store ([`Latch::enter`]), and writes down there which version it reads. Three things have
//! to hold.
//!
//! **No pin is missed.** A writer loads `visible`, and at some later time, behind a sequentially
//! consistent fence, reads the slots and then uses what no pin needs. The reader swaps the version
//! into its slot and then loads `visible` again; both are sequentially consistent. Of the reader's load
//! and the writer's fence one comes first. If the load does, so does the swap, and the writer finds
//! the pin. If the fence does, the load finds the `visible` of before the fence or a later one; if that
//! is not the version in the slot, the reader begins anew, and if it is, then the version is at least
//! the writer's `visible`, of which and after which everything counts as needed. Nor is a slot missed:
//! a reader that takes one notes that it is in *use*, once and for all, before the swap, sequentially consistent
//! too. (A barrier that the writer pays for both, as [`Latch`] has it, is too dear here: writers ask every few
//! changes.)
//!
//! **What was read was there.** The slot is emptied with release, and the writer reads it with acquire:
//! what it reuses after it found the slot empty was read before.
//!
//! **A rollback does not take the version away.** It *closes* the slots before it looks at them, by the
//! same argument with `closed` in the place of `visible`: it finds the pin and refuses, or the reader
//! finds the slots closed and takes a snapshot, which waits for the rollback.
//!
//! **A read that copies pins nothing** ([`Index::get_unpinned`](tembo_index::Index::get_unpinned)). The swap is an
//! atomic exchange, which waits for all that is under way, and the searches of two reads that follow each other do not
//! overlap. So a thread first tries without: it enters its slot for the trees, loads `visible`, finds nothing dead, no
//! tombstone and no other trees, and copies what it finds while the leaf does not change. What was copied was there, in
//! that version: a leaf that has something newer is left to a read with a pin, and what is erased meanwhile changes its
//! leaf. Trees that are given up do not, nor does a rollback: so the thread looks behind the copy whether its trees are
//! still the published ones. They are published anew, by each rollback too, before the space of anything is given back. What an
//! abort makes void was never visible.
//!
//! Dead intervals come into force before a version above them is visible, so a reader that finds none
//! in force after its pin needs none; otherwise it takes a snapshot. The same order makes the trees
//! that it knows, if no others were published since, those of its version or later ones.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use tembo_index::{DeadIntervals, Value, VersionedIndex, View};
use tembo_pmem::thread::{self, Latch, LatchGuard};

use super::visible::{Visible, bits};
use crate::error::InKeyspace;
use crate::trees::Current;
use crate::{Error, Keyspace};

static NOTHING_DEAD: DeadIntervals = DeadIntervals::NONE;

/// Slots; a reader that finds its slot taken takes a snapshot.
const SLOT_COUNT: usize = 64;

/// Slots from the first on that have owners. Threads with greater numbers share the others.
const OWNED_COUNT: usize = 48;

/// Attempts to pin the visible version beside a writer that moves it on.
const ATTEMPTS: usize = 16;

/// Where a thread says what it reads; away from the lines of others.
#[repr(align(128))]
struct Slot {
    /// The version that is read; 0: none.
    version: AtomicU64,
    /// The trees as this slot's last reader knew them.
    known: Latch<Current>,
}

/// The slots of a store.
pub(crate) struct Slots {
    slots: Box<[Slot]>,
    /// Those that were ever taken: a bit each.
    used: AtomicU64,
    closed: AtomicBool,
}

/// A version pinned for one read.
pub(crate) struct Reading<'s> {
    slot: &'s Slot,
    /// The version.
    pub(crate) version: u64,
    /// The trees to read from, once they are brought up to date.
    pub(crate) known: LatchGuard<'s, Current>,
}

impl Slots {
    pub(crate) fn new() -> Slots {
        let owned = (0..OWNED_COUNT).map(|owner| Latch::of(owner, Current::default()));
        let shared = (OWNED_COUNT..SLOT_COUNT).map(|_| Latch::default());
        let slot = |known| Slot { version: AtomicU64::new(0), known };
        let slots = owned.chain(shared).map(slot).collect();
        Slots { slots, used: AtomicU64::new(0), closed: AtomicBool::new(false) }
    }

    /// The thread's slot, if it is free.
    #[inline]
    fn take(&self) -> Option<(&Slot, LatchGuard<'_, Current>)> {
        let own = self.slots.get(thread::number());
        let entered = own.and_then(|slot| Some((slot, slot.known.enter()?)));
        entered.or_else(|| self.take_by_lock())
    }

    /// The trees that the thread knows, for a read without a pin; `None`: the slot is not its own for now.
    #[inline]
    pub(crate) fn enter(&self) -> Option<LatchGuard<'_, Current>> {
        self.slots.get(thread::number())?.known.enter()
    }

    #[inline(never)]
    fn take_by_lock(&self) -> Option<(&Slot, LatchGuard<'_, Current>)> {
        let own = thread::number();
        let shared = OWNED_COUNT + own % (SLOT_COUNT - OWNED_COUNT);
        let number = if own < OWNED_COUNT { own } else { shared };
        let slot = &self.slots[number];
        let known = slot.known.try_lock()?;
        self.used.fetch_or(1 << number, Ordering::SeqCst);
        Some((slot, slot.known.bias(known)))
    }

    /// Pins the version that `visible` says; `None` when that takes a snapshot.
    #[inline]
    pub(crate) fn begin(&self, visible: &Visible) -> Option<Reading<'_>> {
        let (slot, known) = self.take()?;
        // Empties the slot whatever comes.
        let mut reading = Reading { slot, version: visible.load(), known };
        for _ in 0..ATTEMPTS {
            slot.version.swap(reading.version, Ordering::SeqCst);
            if self.closed.load(Ordering::SeqCst) {
                return None;
            }
            let version = visible.load();
            if version == reading.version {
                return Some(reading);
            }
            reading.version = version;
        }
        None
    }

    /// The versions that are being read. Behind a sequentially consistent fence that the caller has
    /// put after its last change to `visible`.
    pub(crate) fn versions(&self) -> impl Iterator<Item = u64> + '_ {
        let used = bits(self.used.load(Ordering::SeqCst));
        let read = used.map(|slot| self.slots[slot].version.load(Ordering::Acquire));
        read.filter(|&version| version != 0)
    }

    /// Frees what idle slots know of trees.
    pub(crate) fn forget_trees(&self) {
        for slot in bits(self.used.load(Ordering::SeqCst)) {
            if let Some(mut known) = self.slots[slot].known.try_lock() {
                *known = Current::default();
            }
        }
    }

    /// No short read begins until `open`. By the writer.
    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::SeqCst);
    }

    /// Short reads begin again.
    pub(crate) fn open(&self) {
        self.closed.store(false, Ordering::SeqCst);
    }
}

impl Reading<'_> {
    /// The value under `key`.
    #[inline]
    pub(crate) fn get(&self, keyspace: Keyspace, key: &[u8]) -> Result<Option<Value<'_>>, Error> {
        let known = self.known.tree(keyspace, self.version)?;
        let view = View { version: self.version, dead: &NOTHING_DEAD };
        known.index.get(key, view).in_keyspace(&known.name)
    }

    /// The values under some keys.
    pub(crate) fn get_many(
        &self,
        keyspace: Keyspace,
        keys: &[&[u8]],
    ) -> Result<Vec<Option<Value<'_>>>, Error> {
        let known = self.known.tree(keyspace, self.version)?;
        let view = View { version: self.version, dead: &NOTHING_DEAD };
        let mut values = Vec::new();
        known.index.get_many(keys, view, &mut values).in_keyspace(&known.name)?;
        Ok(values)
    }
}

impl Drop for Reading<'_> {
    fn drop(&mut self) {
        self.slot.version.store(0, Ordering::Release);
    }
}
