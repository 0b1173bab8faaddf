//! The directory of a hash index: maps the first bits of scattered keys to the leaf that has these keys.
//!
//! # The idea
//! Extendible hashing (Fagin, Nievergelt, Pippenger, Strong, ACM TODS 4, 1979) finds a bucket by the first bits of
//! a hash. Here the bucket is a leaf, and the scattered key is the hash: the leaves lie in its order. The directory is
//! volatile, and it is an accelerator: a slot that says nothing sends the search through the inner nodes, which know
//! every leaf. So it need not be made at an opening, it need not be exact, and it can grow by being empty.
//!
//! # What a slot says
//! *New*: nothing has been said since the table was made. *Forgotten*: what was said may no longer hold. *Shared*: keys with
//! these bits are in several leaves, or in a leaf that covers too many slots; ask the inner nodes. A leaf: **all** keys with
//! these bits are in it.
//!
//! # Why a reader may believe it
//! A slot comes to name a leaf, and ceases to, only while the leaf's lock is held. A split and a merge have
//! forgotten or replaced what the slots of the range said before the lock is given back. A reader (1) reads the number
//! of bits and the slot, (2) reads the leaf's sequence, even, and (3) finds both of (1) unchanged. If the leaf had lost
//! the key before the sequence of (2), the thread that took the key away had the lock, so what it stored is seen at (3):
//! in the table of the same bits the slot, or else a larger number of bits, which it had read. If the slot was forgotten
//! and named again after (2), the sequence is another by then, and the reader's last question, whether it is the same,
//! says so.
//!
//! # Growth
//! There is a table for each number of bits, made (of zero pages) when leaves have outgrown the one before. All its
//! slots are new. A search that comes to a new slot *inherits*: it asks the table that was in use before, and copies the leaf
//! that is named there to the slots that came in place of that one and of those beside it that name the same leaf. If that table
//! names none, the leaf is looked for and listed. So no operation waits for the growth of a table; tables of fewer bits stay,
//! and are together no larger than the one in use.
//!
//! # Why an heir may believe the table before
//! What moves keys out of a leaf, or lists it, reads under the leaf's lock which table is in use, and writes to all slots there
//! that it concerns. An heir locks the leaf too. So each such operation is over when the heir has the lock: if it wrote to the
//! table in use, the slot is no longer new, and if to the table before, then that says what holds. There is no table between,
//! since the number of bits and that of the table before change in one word. A merge leaves *forgotten*, which is not new. A
//! split lists its two leaves one after the other, and a table that comes into use in between has new slots for the first.
//! The heir reads the leaf's sequence, then finds the one slot new and the other naming the leaf, and locks the leaf at that
//! sequence; with the lock it takes the slots beside for the same reason.
//!
//! "All slots that it concerns" has an exception, a leaf that covers too many slots to write to: no slot may name such a leaf.
//! So each table has a bound on the slots that a leaf covers which it names, its *width*, and an heir takes nothing if a leaf of
//! that width would cover too many. If a leaf has taken in others since, then that merge has widened the table in use, or has
//! forgotten the leaf's slots there.
//!
//! # Memory
//! A table has four to eight slots of four bytes for each leaf: with those before it at most 64 bytes for a leaf. All directories of a
//! pool together take no more than their part of what the process may have (`directory_memory.rs`). If the next table
//! would be too large, a smaller one is made: then slots have keys of several leaves, and the inner nodes are asked. The smallest,
//! of 256 bytes, is made whatever there is, for without any table each search would list its leaf in vain, under its lock.
//! A leaf is listed in at most [`SPAN_MAX`] slots: splits and merges have so much to do and no more, whatever
//! the keys are.

use std::ops::Range;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use zerocopy::FromZeros;

use super::directory_memory::DirectoryMemory;
use crate::key::KeyBytes;
use crate::nvtree::inner::LeafId;

/// Least number of slots for each leaf. Of these, about one is shared: the one in which the low key of the leaf lies.
const SLOTS_PER_LEAF: usize = 4;
/// Most slots in which a leaf is listed.
const SPAN_MAX: u64 = 1 << 10;
const BITS_MIN: u32 = 6;
const BITS_MAX: u32 = 30;

/// An heir looks for the same leaf in fewer slots than these to each side of the one that is asked for.
const NEAR: u64 = 16;

const NEW: u32 = 0;
const FORGOTTEN: u32 = 1;
const SHARED: u32 = 2;
/// The word of a slot that names leaf 0.
const FIRST: u32 = 3;

/// The directory.
pub(crate) struct HashDirectory {
    /// Which tables are in use: [`Sizes`].
    sizes: AtomicU32,
    /// The tables, by their number of bits.
    tables: [OnceLock<Table>; BITS_MAX as usize + 1],
    memory: Arc<DirectoryMemory>,
}

/// A table: a word for each slot.
struct Table {
    slots: Box<[AtomicU32]>,
    /// No leaf that a slot names covers more slots as a whole, unless it has grown while a later table was in use.
    width: AtomicU64,
}

/// The table in use and the one before it, which change together.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Sizes(u32);

impl Sizes {
    fn new(bits: u32, before: u32) -> Sizes {
        Sizes(before << 8 | bits)
    }

    /// First bits of a key that are the number of its slot. 0: there is no table yet.
    #[inline(always)]
    fn bits(self) -> u32 {
        self.0 & 0xff
    }

    /// The same, of the table before. 0: there is none.
    fn before(self) -> u32 {
        self.0 >> 8
    }
}

/// The content of a slot.
pub(crate) enum Listed<'d> {
    /// This leaf has all keys of the slot.
    Leaf(LeafId, Entry<'d>),
    /// Several leaves have keys of the slot: a search goes through the inner nodes.
    Shared,
    /// The slot says nothing.
    Unknown,
}

/// The slot in which a leaf was found, as it was.
pub(crate) struct Entry<'d> {
    directory: &'d HashDirectory,
    slot: &'d AtomicU32,
    sizes: Sizes,
    said: u32,
}

/// A leaf that the table before the one in use names, for a slot that is new.
pub(crate) struct Heritage<'d> {
    pub(crate) leaf: LeafId,
    /// The slot that names it, and its number.
    old: Entry<'d>,
    at: u64,
    new: &'d AtomicU32,
    before: &'d Table,
    table: &'d Table,
}

impl Entry<'_> {
    /// Whether the slot still says the same.
    #[inline]
    pub(crate) fn still(&self) -> bool {
        // The sequence of the leaf was read before, with acquire ordering.
        self.slot.load(Ordering::Relaxed) == self.said
            && self.directory.sizes.load(Ordering::Relaxed) == self.sizes.0
    }
}

impl Heritage<'_> {
    /// Whether the slots still say the same, and the leaf covers few enough of the table in use.
    pub(crate) fn still(&self) -> bool {
        let width = self.before.width.load(Ordering::Relaxed);
        self.old.still()
            && self.new.load(Ordering::Relaxed) == NEW
            && self.widened(width) <= SPAN_MAX
    }

    /// The most slots of the table in use that a leaf covers which covers so many of the table before.
    fn widened(&self, width: u64) -> u64 {
        // The leaf may have parts of two slots more.
        (width + 2) << self.more()
    }

    /// Bits that the table in use has more.
    fn more(&self) -> u32 {
        self.old.sizes.bits() - self.old.sizes.before()
    }

    /// Copies what the table before says of the leaf, near the slot that was asked for. The caller holds the leaf's lock, and
    /// nothing has had it since the heritage was [`still`](Heritage::still) there.
    pub(crate) fn take(&self) {
        let said = |at: u64| {
            let slot = self.before.slots.get(at as usize);
            slot.map(|slot| slot.load(Ordering::Relaxed))
        };
        let is_leaf = |at: &u64| said(*at) == Some(self.old.said);
        let below =
            (self.at.saturating_sub(NEAR)..self.at).rev().take_while(is_leaf).count() as u64;
        let above = (self.at + 1..self.at + NEAR).take_while(is_leaf).count() as u64;
        let run = self.at - below..self.at + above + 1;
        // If slots that name other leaves lie on both sides, the leaf has none beyond.
        let is_other = |at: Option<u64>| {
            at.and_then(said).is_some_and(|said| said >= FIRST && said != self.old.said)
        };
        let width = match is_other(run.start.checked_sub(1)) && is_other(Some(run.end)) {
            true => run.end - run.start,
            false => self.before.width.load(Ordering::Relaxed),
        };
        self.table.widen(self.widened(width));
        let new = run.start << self.more()..run.end << self.more();
        for slot in self.table.slots.get(new.start as usize..new.end as usize).unwrap_or_default() {
            // What is not new has been said since.
            let (said, order) = (self.old.said, Ordering::Release);
            let _ = slot.compare_exchange(NEW, said, order, Ordering::Relaxed);
        }
    }
}

impl Drop for HashDirectory {
    fn drop(&mut self) {
        let tables = self.tables.iter().filter_map(OnceLock::get);
        tables.for_each(|table| self.memory.give_back(size_of_val(&*table.slots) as u64));
    }
}

impl HashDirectory {
    /// An empty directory. Its tables are counted in `memory`.
    pub(crate) fn new(memory: Arc<DirectoryMemory>) -> HashDirectory {
        let tables = std::array::from_fn(|_| OnceLock::new());
        HashDirectory { sizes: AtomicU32::new(0), tables, memory }
    }

    /// The content of the slot of a key whose first eight bytes are `head`.
    #[inline(always)]
    pub(crate) fn find(&self, head: u64) -> Listed<'_> {
        let sizes = self.sizes();
        let Some(slot) = self.slot(sizes.bits(), head) else { return Listed::Unknown };
        match slot.load(Ordering::Acquire) {
            NEW | FORGOTTEN => Listed::Unknown,
            SHARED => Listed::Shared,
            said => Listed::Leaf(said - FIRST, Entry { directory: self, slot, sizes, said }),
        }
    }

    /// The leaf that the table before names for a key whose first eight bytes are `head`, if the slot in use is new.
    pub(crate) fn heritage(&self, head: u64) -> Option<Heritage<'_>> {
        let sizes = self.sizes();
        let (table, before) = (self.of_bits(sizes.bits())?, self.of_bits(sizes.before())?);
        let (new, slot) = (self.slot(sizes.bits(), head)?, self.slot(sizes.before(), head)?);
        let said = slot.load(Ordering::Acquire);
        let leaf = said.checked_sub(FIRST)?;
        let old = Entry { directory: self, slot, sizes, said };
        let at = head >> (64 - sizes.before());
        Some(Heritage { leaf, old, at, new, before, table }).filter(Heritage::still)
    }

    /// Whether the slot of a key whose first eight bytes are `head` says something.
    pub(crate) fn says(&self, head: u64) -> bool {
        !matches!(self.find(head), Listed::Unknown)
    }

    /// Asks the processor for the slot of a key.
    #[inline]
    pub(crate) fn prefetch(&self, head: u64) {
        if let Some(slot) = self.slot(self.sizes().bits(), head) {
            tembo_pmem::prefetch(slot);
        }
    }

    #[inline(always)]
    fn slot(&self, bits: u32, head: u64) -> Option<&AtomicU32> {
        self.of_bits(bits)?.slots.get((head >> (64 - bits)) as usize)
    }

    #[inline(always)]
    fn of_bits(&self, bits: u32) -> Option<&Table> {
        self.tables.get(bits as usize)?.get()
    }

    #[inline(always)]
    fn sizes(&self) -> Sizes {
        Sizes(self.sizes.load(Ordering::Acquire))
    }

    /// Makes a table for so many leaves, as far as there is memory for it.
    pub(crate) fn reach(&self, leaves: usize) {
        let wanted = leaves.saturating_mul(SLOTS_PER_LEAF).next_power_of_two().ilog2();
        let wanted = wanted.clamp(BITS_MIN, BITS_MAX);
        let sizes = self.sizes();
        let bits = sizes.bits();
        if wanted > bits
            && let Some(made) =
                (bits.max(BITS_MIN - 1) + 1..=wanted).rev().find(|&bits| self.make(bits))
        {
            let next = Sizes::new(made, bits);
            // Another thread may have been quicker. If its table is too small, the next search makes a larger one.
            let _ =
                self.sizes.compare_exchange(sizes.0, next.0, Ordering::AcqRel, Ordering::Relaxed);
        }
    }

    /// Makes the table of so many bits. Returns false if there is no memory for it.
    fn make(&self, bits: u32) -> bool {
        let Some(table) = self.tables.get(bits as usize) else { return false };
        let size = size_of::<AtomicU32>() as u64 * (1 << bits);
        if table.get().is_some() {
            return true;
        }
        if bits == BITS_MIN {
            self.memory.take_always(size);
        } else if !self.memory.take(size) {
            return false;
        }
        match <[AtomicU32]>::new_box_zeroed_with_elems(1 << bits) {
            Ok(slots) => {
                // Another thread may have been quicker.
                if table.set(Table { slots, width: AtomicU64::new(0) }).is_err() {
                    self.memory.give_back(size);
                }
                true
            }
            Err(_) => {
                self.memory.give_back(size);
                false
            }
        }
    }

    /// Lists a leaf that covers the keys from `low` on, below `high`. The caller holds its lock.
    ///
    /// A leaf that covers too many slots is not listed, and no slot of this table names it: see [`HashDirectory::merge`].
    pub(crate) fn list(&self, leaf: LeafId, low: KeyBytes<'_>, high: Option<KeyBytes<'_>>) {
        let Some((table, bits)) = self.table() else { return };
        let Covered { whole, parts } = covered(low, high, bits);
        let span = whole.end.saturating_sub(whole.start);
        let said = match leaf.checked_add(FIRST) {
            Some(said) if span <= SPAN_MAX => said,
            _ => return,
        };
        table.widen(span);
        whole.for_each(|at| store(table, at, said));
        parts.into_iter().flatten().for_each(|at| store(table, at, SHARED));
    }

    /// Marks the slot of a key whose first eight bytes are `head` as shared, if it says nothing.
    pub(crate) fn share(&self, head: u64) {
        if let Some(slot) = self.slot(self.sizes().bits(), head) {
            // If another thread has listed a leaf meanwhile, that stays.
            for said in [NEW, FORGOTTEN] {
                let _ = slot.compare_exchange(said, SHARED, Ordering::Release, Ordering::Relaxed);
            }
        }
    }

    /// Notes that a leaf that covers the keys from `low` on takes in the next one, which covers those from `middle` on, below
    /// `high`. The caller holds the locks of both.
    pub(crate) fn merge(
        &self,
        low: KeyBytes<'_>,
        middle: KeyBytes<'_>,
        high: Option<KeyBytes<'_>>,
    ) {
        let Some((table, bits)) = self.table() else { return };
        forget((table, bits), middle, high);
        let Covered { whole, .. } = covered(low, high, bits);
        let span = whole.end.saturating_sub(whole.start);
        if span > SPAN_MAX {
            // A later split would not look for slots that name a leaf of so many slots.
            forget((table, bits), low, Some(middle));
        } else {
            table.widen(span);
        }
    }

    /// The leaf that is named for keys with this beginning, and the slot.
    #[cfg(test)]
    pub(crate) fn listed(&self, head: u64) -> Option<(LeafId, std::ops::RangeInclusive<u64>)> {
        let Listed::Leaf(leaf, entry) = self.find(head) else { return None };
        let rest = u64::MAX >> entry.sizes.bits();
        Some((leaf, head & !rest..=head | rest))
    }

    fn table(&self) -> Option<(&Table, u32)> {
        let bits = self.sizes().bits();
        Some((self.of_bits(bits)?, bits))
    }
}

impl Table {
    /// Notes that a leaf which slots name may cover so many as a whole.
    fn widen(&self, span: u64) {
        if span > self.width.load(Ordering::Relaxed) {
            self.width.fetch_max(span, Ordering::Relaxed);
        }
    }
}

/// Forgets what the slots of the keys from `low` on, below `high`, say.
fn forget((table, bits): (&Table, u32), low: KeyBytes<'_>, high: Option<KeyBytes<'_>>) {
    let Covered { whole, parts } = covered(low, high, bits);
    if whole.end.saturating_sub(whole.start) <= SPAN_MAX {
        whole.for_each(|at| store(table, at, FORGOTTEN));
    }
    parts.into_iter().flatten().for_each(|at| store(table, at, FORGOTTEN));
}

fn store(table: &Table, at: u64, said: u32) {
    if let Some(slot) = table.slots.get(at as usize) {
        slot.store(said, Ordering::Release);
    }
}

/// The slots of a range of keys.
#[derive(Debug, PartialEq)]
struct Covered {
    /// Slots all of whose keys lie in the range.
    whole: Range<u64>,
    /// Slots some of whose keys may lie in the range.
    parts: [Option<u64>; 2],
}

/// The slots of the keys from `low` on, below `high`, in the table of so many bits.
fn covered(low: KeyBytes<'_>, high: Option<KeyBytes<'_>>, bits: u32) -> Covered {
    let shift = 64 - bits;
    // The slot of `end`, and whether `end` bounds it from below: the slot's least key is the first not below `end`.
    let first_of = |end: KeyBytes<'_>| {
        let word = end.head(0);
        let slot = word >> shift;
        // The least key of a slot does not end in a zero byte: the same key with zeros behind it is greater.
        let is_least = slot << shift == word && end.len() <= 8 && !ends_in_zero(end);
        (slot, is_least)
    };
    let (first, is_whole) = first_of(low);
    let start = if is_whole { first } else { first + 1 };
    let (end, last) = match high {
        None => (1 << bits, None),
        Some(high) => {
            let (slot, is_least) = first_of(high);
            (slot, (!is_least).then_some(slot))
        }
    };
    let before = (!is_whole).then_some(first);
    Covered { whole: start..end, parts: [before, last] }
}

fn ends_in_zero(key: KeyBytes<'_>) -> bool {
    key.slice(key.len().saturating_sub(1)..key.len()).is_some_and(|last| last.is(&[0]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::head::head;

    const BITS: u32 = BITS_MIN;

    fn directory(own: Option<u64>) -> HashDirectory {
        HashDirectory::new(Arc::new(DirectoryMemory::of(own)))
    }

    fn cover(low: &[u8], high: Option<&[u8]>) -> Covered {
        covered(low.into(), high.map(KeyBytes::from), BITS)
    }

    /// `covered` agrees with the keys of a slot: its least one, its greatest ones, and some between.
    #[test]
    fn a_whole_slot_has_no_key_outside() {
        let mut seed = 1_u64;
        let mut key = |most: u64| {
            seed = seed.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
            let len = (seed >> 40) % (most + 1);
            let bytes = (seed >> 3).to_be_bytes().map(|byte| if byte % 3 == 0 { 0 } else { byte });
            [bytes, bytes].concat()[..len as usize].to_vec()
        };
        for _ in 0..20_000 {
            let (one, other) = (key(10), key(10));
            let (low, high) = (one.clone().min(other.clone()), one.max(other));
            if low == high {
                continue;
            }
            let found = cover(&low, Some(&high));
            for probe in (0..8).map(|_| key(12)).chain([low.clone()]) {
                let slot = head(&probe, 0) >> (64 - BITS);
                let is_inside = probe >= low && probe < high;
                if found.whole.contains(&slot) {
                    assert!(is_inside, "{probe:?} in {low:?}..{high:?}, {found:?}");
                } else if is_inside {
                    assert!(found.parts.contains(&Some(slot)), "{probe:?}, {found:?}");
                }
            }
        }
    }

    #[test]
    fn a_range_between_slots_shares_none() {
        let (low, high) = ([0x40_u8], [0x80_u8]);
        let found = cover(&low, Some(&high));
        assert_eq!(found, Covered { whole: 16..32, parts: [None, None] });
        assert_eq!(cover(&[], None), Covered { whole: 0..64, parts: [None, None] });
        // A key of zeros is above the least key of its slot, and there are keys between.
        let found = cover(&[0x40, 0], Some(&[0x80, 0]));
        assert_eq!(found, Covered { whole: 17..32, parts: [Some(16), Some(32)] });
    }

    fn said(directory: &HashDirectory, first: u8) -> Option<LeafId> {
        match directory.find(u64::from(first) << 56) {
            Listed::Leaf(leaf, entry) => entry.still().then_some(leaf),
            Listed::Shared | Listed::Unknown => None,
        }
    }

    #[test]
    fn a_split_and_a_merge_are_seen() {
        let directory = directory(None);
        assert_eq!(said(&directory, 0), None);
        directory.reach(1);
        directory.list(7, KeyBytes::EMPTY, None);
        assert_eq!([0, 0x55, 0xff].map(|first| said(&directory, first)), [Some(7); 3]);
        let Listed::Leaf(7, entry) = directory.find(0x55 << 56) else { panic!("listed") };
        let low = KeyBytes::from(&[0x55_u8, 1][..]);
        directory.list(9, low, None);
        directory.list(7, KeyBytes::EMPTY, Some(low));
        let seen = [0, 0x53, 0x55, 0x58, 0xff].map(|first| said(&directory, first));
        assert_eq!(seen, [Some(7), Some(7), None, Some(9), Some(9)]);
        assert!(!entry.still());
        directory.merge(KeyBytes::EMPTY, low, None);
        let seen = [0, 0x53, 0x55, 0x58, 0xff].map(|first| said(&directory, first));
        assert_eq!(seen, [Some(7), Some(7), None, None, None]);
    }

    #[test]
    fn a_larger_table_begins_empty() {
        let directory = directory(None);
        directory.reach(1);
        directory.list(7, KeyBytes::EMPTY, None);
        let Listed::Leaf(7, entry) = directory.find(0) else { panic!("listed") };
        directory.reach(1000);
        assert!(!entry.still());
        assert_eq!(said(&directory, 0), None);
        // One leaf would be in too many slots.
        directory.list(7, KeyBytes::EMPTY, None);
        assert_eq!(said(&directory, 0), None);
        directory.share(0);
        assert!(matches!(directory.find(0), Listed::Shared));
    }

    /// A directory and the leaves that it is to know, each with the least head of its keys.
    struct Model {
        directory: HashDirectory,
        leaves: Vec<(u64, LeafId)>,
        free: Vec<LeafId>,
        seed: u64,
        inherited: u64,
    }

    impl Model {
        fn new(seed: u64) -> Model {
            let (directory, leaves, free) = (directory(None), vec![(0, 0)], (1..400).collect());
            Model { directory, leaves, free, seed, inherited: 0 }
        }

        fn random(&mut self, below: usize) -> usize {
            self.seed = self.seed.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
            (self.seed >> 33) as usize % below
        }

        /// The least key of a leaf; `None` behind the last one.
        fn low(&self, at: usize) -> Option<Vec<u8>> {
            let mut low = self.leaves.get(at)?.0.to_be_bytes().to_vec();
            low.truncate(low.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1));
            Some(low)
        }

        fn list(&self, at: usize) {
            let (low, high) = (self.low(at).unwrap(), self.low(at + 1));
            let high = high.as_deref().map(KeyBytes::from);
            self.directory.list(self.leaves[at].1, low[..].into(), high);
        }

        fn grow(&mut self) {
            let bits = self.directory.sizes().bits() + 1 + self.random(2) as u32;
            self.directory.reach((1 << bits.min(13)) / SLOTS_PER_LEAF);
        }

        fn split(&mut self) {
            let at = self.random(self.leaves.len());
            let from = self.leaves[at].0;
            let end = self.leaves.get(at + 1).map_or(u64::MAX, |next| next.0);
            // Most leaves end where slots do.
            let kept = u64::MAX << (64 - 1 - self.random(16));
            let middle = (from + (end - from) / (2 + self.random(14) as u64)) & kept;
            if middle <= from {
                return;
            }
            let Some(right) = self.free.pop() else { return };
            self.leaves.insert(at + 1, (middle, right));
            self.list(at + 1);
            if self.random(8) == 0 {
                // Another thread makes a table meanwhile.
                self.grow();
            }
            self.list(at);
        }

        fn merge(&mut self) {
            let at = self.random(self.leaves.len());
            let Some(middle) = self.low(at + 1) else { return };
            let (low, high) = (self.low(at).unwrap(), self.low(at + 2));
            let high = high.as_deref().map(KeyBytes::from);
            self.directory.merge(low[..].into(), middle[..].into(), high);
            let (_, freed) = self.leaves.remove(at + 1);
            self.free.push(freed);
        }

        fn inherit(&mut self) {
            let head = (self.random(1 << 16) as u64) << 48;
            let grows = self.random(16) == 0;
            let Some(heritage) = self.directory.heritage(head) else { return };
            if grows {
                // Another thread makes a table after this one has the lock.
                let bits = self.directory.sizes().bits() + 1;
                self.directory.reach((1 << bits.min(13)) / SLOTS_PER_LEAF);
            }
            heritage.take();
            self.inherited += 1;
        }

        /// Asserts that each leaf that a slot names has all its keys.
        fn check(&self) {
            let bits = self.directory.sizes().bits();
            for slot in 0..1_u64.checked_shl(bits).filter(|_| bits > 0).unwrap_or(0) {
                let first = slot << (64 - bits);
                if let Some((leaf, heads)) = self.directory.listed(first) {
                    let at = self.leaves.partition_point(|&(low, _)| low <= first) - 1;
                    let next = self.leaves.get(at + 1).map_or(u128::MAX, |next| next.0.into());
                    assert_eq!(leaf, self.leaves[at].1, "{first:x} of {bits} bits");
                    assert!(u128::from(*heads.end()) < next, "{first:x} of {bits} bits");
                }
            }
        }
    }

    /// Whatever happens to leaves and tables in which order, a slot names no leaf that lacks one of its keys.
    #[test]
    fn a_slot_names_the_leaf_of_all_its_keys() {
        let mut inherited = 0;
        for seed in 0..400 {
            let mut model = Model::new(seed);
            for _ in 0..150 {
                match model.random(16) {
                    0 => model.grow(),
                    1..=5 => model.split(),
                    6..=7 => model.merge(),
                    8..=10 => {
                        let at = model.random(model.leaves.len());
                        model.list(at);
                    }
                    _ => (0..8).for_each(|_| model.inherit()),
                }
                model.check();
            }
            inherited += model.inherited;
        }
        assert!(inherited > 1000, "{inherited}");
    }

    /// A search of a new table finds there what the table before named, without a listing.
    #[test]
    fn a_larger_table_inherits() {
        let directory = directory(None);
        directory.reach(16);
        let middle = KeyBytes::from(&[0x80_u8][..]);
        directory.list(7, KeyBytes::EMPTY, Some(middle));
        directory.list(9, middle, None);
        directory.reach(32);
        assert_eq!(said(&directory, 0), None);
        let heritage = directory.heritage(0x10 << 56).unwrap();
        assert_eq!(heritage.leaf, 7);
        heritage.take();
        assert_eq!(
            [0x10, 0x11, 0x80].map(|first| said(&directory, first)),
            [Some(7), Some(7), None]
        );
        // What was said since counts.
        let other = directory.heritage(0x90 << 56).unwrap();
        directory.merge(KeyBytes::EMPTY, middle, None);
        assert!(!other.still() && directory.heritage(0x90 << 56).is_none());
    }

    /// Two directories share a sixteenth of the memory, and one that is dropped gives its part back.
    #[test]
    fn directories_take_no_more_than_their_part() {
        let memory = Arc::new(DirectoryMemory::of(Some(16 * 20_000)));
        let (one, other) = (HashDirectory::new(memory.clone()), HashDirectory::new(memory.clone()));
        one.reach(100);
        assert_eq!((memory.taken(), one.table().unwrap().1), (4 * 512, 9));
        // 2^30 slots are too many: 4096 are not.
        one.reach(1 << 40);
        assert_eq!((memory.taken(), one.table().unwrap().1), (4 * (512 + 4096), 12));
        other.reach(1000);
        assert!(memory.taken() <= memory.most(), "{}", memory.taken());
        assert!(other.table().unwrap().1 < 12);
        other.list(7, KeyBytes::EMPTY, None);
        one.reach(1 << 40);
        assert!(memory.taken() <= memory.most(), "{}", memory.taken());
        drop(one);
        other.reach(1000);
        assert_eq!(other.table().unwrap().1, 12);
        drop(other);
        assert_eq!(memory.taken(), 0);
        // Without memory there is the smallest table, so that a search learns at once to go through the inner nodes.
        let least = directory(Some(0));
        least.reach(1000);
        assert_eq!((least.memory.taken(), least.table().unwrap().1), (4 * 64, BITS_MIN));
        least.share(0);
        assert!(matches!(least.find(0), Listed::Shared));
    }
}
