//! The NV-Tree (Yang et al., IEEE TC 2016, sections 3 and 4): a B+-Tree of which only the leaves are
//! persistent. This one goes beyond the paper.
//!
//! # The idea
//! The nodes that lead a search to a leaf can be rebuilt from the leaves. So only the *leaves* are
//! on media, in a list in the order of their keys (the paper's decisions D1 and D2), unordered within;
//! the inner nodes are volatile, a block of cache-line aligned nodes without pointers (D3, `inner.rs`).
//! The paper appends an element and then raises a counter: two flushes in order. Here the element
//! itself says that it is there: its *meta bits*, stored last into its line, hold its version. Stores
//! to one line become durable in order, so an insert is one line and one fence.
//!
//! # What is on media
//! A leaf is a header line and lines of three *elements* (`format.rs`). An element holds eight bytes of
//! key after the prefix that the leaf's keys share, eight bytes of value, and meta bits; what is longer
//! lies in a record. A version counts from one of the leaf's two bases (`change/rebase.rs`), which makes it
//! short enough for three elements in a line. The next committed element of a key ends the one before;
//! a removal is an element too. So nothing is ever changed in place: put, update and remove take a slot
//! that is free, or one whose element no version needs that can be read. The paper's NEGATIVE elements
//! match by value and can cancel the wrong one; its update is two elements, between which a crash
//! loses the key. Versions make both unnecessary.
//!
//! # What is not
//! A leaf's *side-car* (`leaf/side.rs`) has the fingerprint of the newest element of each key and marks for
//! free slots, ended elements and removals; the newest version in the leaf; and, when something has
//! asked, the order of keys. It is made on first touch. A reader takes the leaf's sequence from it,
//! reads, and asks whether the sequence still is; a writer makes it odd meanwhile. A reader of an older
//! version than the newest in the leaf looks at all elements, and at the *history*, where what only
//! old versions need goes when one key has more versions than its leaf slots (`history.rs`).
//!
//! # How it changes
//! A full leaf is cleaned (`change/reclaim.rs`) of what no version needs; a removal leaves only after a fence
//! that follows the erasure of what it removes. If that is not enough it is *split* (`change/split.rs`): the upper half is written
//! into a new leaf, then one store links it. The elements that have moved do not count in the old leaf any more, for they
//! are not below the next leaf's low key: nothing is erased. *Merge* (`upkeep/collect.rs`) is the reverse: the
//! right leaf's elements are copied to the left, where they count when one store unlinks the right.
//! The paper rebuilds all inner nodes when a PLN is full, and inserts wait; here inner nodes split.
//! Entries have versions, the structure has none: a transaction that is aborted leaves splits behind, which
//! are harmless.
//!
//! # Cost
//! If key and value have up to eight bytes, an insert, an update or a removal that commits by itself costs one line and
//! one fence; in a group it costs one line. The insert that takes a leaf's last slot splits it
//! (`change/split_half.rs`): it costs two fences, and lines for what moves, the header and the link. If key or value is
//! longer, an insert and an update first write a record, with one more fence. So does the removal of a record of more than
//! 1 KiB whose key does not fit into a word behind the leaf's prefix; no other removal does.
//!
//! # Modules
//! ```text
//!   nvtree.rs   the tree: format, open, VersionedIndex
//!     |
//!   change/     put and remove: the general path, the fast path of records and blocks; making room: clean, split, rebase
//!   upkeep/     mark, scrub, collect and merge, the hint, check
//!   read/       the general path of lookups; ranges, changes
//!   fast        the fast path of lookups and changes of short keys and values
//!     |
//!   leaves/     the leaves of a tree, and the ways to them: how a search finds one, how an opening learns of all
//!     |
//!   image/      all of a leaf in the order of keys; how its side-car is made
//!   hint/       the hint, as it is read
//!     |
//!   history     what only old versions need of a leaf
//!   leaf/       a leaf: its header, slots and elements; its side-car and fingerprints
//!   inner/      the inner nodes
//!   format      all of it on media
//! ```

mod change;
mod fast;
mod format;
mod hint;
mod history;
mod how;
mod image;
mod inner;
mod leaf;
mod leaves;
mod read;
#[cfg(test)]
mod tests;
mod upkeep;

use std::ops::Bound;
use std::sync::{Arc, Mutex};

use tembo_pool::{Object, Pool};

pub(crate) use self::format::Sorted;
pub(crate) use self::format::lines_in;
use self::format::{CELL_SIZE, LEAF_MAGIC, LeafHeader, TreeCell, cell_magic, records_of};
pub(crate) use self::how::How;
pub(crate) use self::inner::Arena;
use self::leaf::Leaf;
pub(crate) use self::leaf::{Side, all_slots, hash};
pub(crate) use self::leaves::DirectoryMemory;
use self::leaves::{Leaves, Wanted};
use self::read::Sought;
use crate::changes::{Period, VisitChanged};
use crate::error::damaged;
use crate::record::expect_records;
use crate::{
    CheckReport, DeadIntervals, Direction, Error, Forest, KeyChange, Op, Place, Range, Records,
    Retained, Retired, Stamp, Ticket, TreeMarker, Value, ValueRoom, VersionedIndex, View, Visit,
    VisitKey, Writer, Written,
};

/// An NV-Tree. See the [module](self).
pub struct NvTree {
    leaves: Leaves,
    /// A mark, a merge and the thread that writes the hint each hold this. So a merge does not carry elements to where a
    /// mark has been, and a hint names no leaf that a merge unlinks.
    structure: Mutex<()>,
}

impl NvTree {
    /// Writes and flushes an empty tree, made in version `birth`, into a pool. Returns the object that the caller has to
    /// link.
    ///
    /// Durability point: none; everything is flushed. The caller fences before it links the object.
    pub fn format(pool: &Pool, records: Records, birth: Stamp) -> Result<Object, Error> {
        NvTree::format_sorted(pool, Sorted::ByKey, records, birth)
    }

    /// As `format`, for a list of leaves in that order.
    pub(crate) fn format_sorted(
        pool: &Pool,
        sorted: Sorted,
        records: Records,
        birth: Stamp,
    ) -> Result<Object, Error> {
        let (region, node_size) = (pool.region(), u64::from(pool.geometry().node_size));
        let cell_object = pool.alloc(CELL_SIZE)?;
        let first = pool.alloc(node_size).inspect_err(|_| pool.free(cell_object))?;
        for word in region.words(first.offset(), (node_size / 8) as usize)? {
            region.store(word, 0);
        }
        let header: &LeafHeader = region.get(first.offset())?;
        region.store(&header.shape, u64::from(LEAF_MAGIC) << 32);
        region.store(&header.bases[0], birth.version().saturating_sub(1));
        // ORDER: the leaf is durable before the commit of what links the cell.
        region.flush("nvtree.format.leaf", first.offset(), node_size);
        let cell: &TreeCell = region.get(cell_object.offset())?;
        region.store(&cell.first, first.to_bits());
        region.store(&cell.magic, cell_magic(sorted, records));
        for word in [&cell.hint, &cell.hint_check].into_iter().chain(&cell.reserved) {
            region.store(word, 0);
        }
        // ORDER: the cell is durable before the commit of what links it.
        region.flush("nvtree.format.cell", cell_object.offset(), CELL_SIZE);
        Ok(cell_object)
    }

    /// Makes an empty tree. Returns it with the object that the caller has to link.
    ///
    /// Durability point: as of [`NvTree::format`].
    pub fn create(forest: Arc<Forest>, writer: &Writer<'_>) -> Result<(NvTree, Object), Error> {
        NvTree::create_sorted(forest, Sorted::ByKey, writer)
    }

    /// As `create`, for a list of leaves in that order.
    pub(crate) fn create_sorted(
        forest: Arc<Forest>,
        sorted: Sorted,
        writer: &Writer<'_>,
    ) -> Result<(NvTree, Object), Error> {
        let cell = NvTree::format_sorted(forest.pool(), sorted, forest.records(), writer.stamp)?;
        let tree = NvTree::open_sorted(forest, sorted, cell)?;
        let first = Leaf::of(&tree.leaves.forest, tree.leaves.first()?)?;
        // An earlier leaf at the same place may have left a side-car.
        first.side.lock().forget();
        Ok((tree, cell))
    }

    /// Whether the cell of an NV-Tree lies there.
    pub fn lies_at(pool: &Pool, cell: Object) -> Result<bool, Error> {
        NvTree::lies_sorted_at(pool, Sorted::ByKey, cell)
    }

    /// As `lies_at`, for a list of leaves in that order.
    pub(crate) fn lies_sorted_at(pool: &Pool, sorted: Sorted, cell: Object) -> Result<bool, Error> {
        let media: &TreeCell = pool.region().get(cell.offset())?;
        Ok(cell.size() >= CELL_SIZE && records_of(sorted, media.magic.load()).is_some())
    }

    /// Gives back the space of a tree that nothing refers to yet.
    pub fn discard(self) -> Result<(), Error> {
        self.leaves.forest.pool().give_up([self.leaves.first()?, self.leaves.cell_object]);
        Ok(())
    }

    /// The object that `create` returned.
    pub fn object(&self) -> Object {
        self.leaves.cell_object
    }

    /// Opens the tree whose cell is an object that `create` returned.
    pub fn open(forest: Arc<Forest>, cell_object: Object) -> Result<NvTree, Error> {
        NvTree::open_sorted(forest, Sorted::ByKey, cell_object)
    }

    /// As `open`, for a list of leaves in that order.
    pub(crate) fn open_sorted(
        forest: Arc<Forest>,
        sorted: Sorted,
        cell_object: Object,
    ) -> Result<NvTree, Error> {
        forest.pool().valid(cell_object)?;
        let media: &TreeCell = forest.region().get(cell_object.offset())?;
        let Some(records) =
            records_of(sorted, media.magic.load()).filter(|_| cell_object.size() >= CELL_SIZE)
        else {
            let wanted = match sorted {
                Sorted::ByKey => "the cell of an NV-Tree",
                Sorted::ByHash => "the cell of a hash index",
            };
            return damaged(cell_object.offset(), wanted);
        };
        forest.agree(records, cell_object)?;
        Ok(NvTree { leaves: Leaves::new(forest, cell_object, sorted), structure: Mutex::new(()) })
    }

    /// How many leaves the hint on media names; `None`: there is no hint, or one that was torn or
    /// damaged.
    ///
    /// # Errors
    /// Damage of the cell.
    pub fn hinted_leaves(&self) -> Result<Option<u64>, Error> {
        hint::hinted_leaves(&self.leaves.forest, self.leaves.cell()?)
    }

    /// Elements that only old versions needed when leaves were split for them, since the last walk.
    pub(crate) fn kept(&self) -> u64 {
        self.leaves.kept()
    }

    /// Notes that a walk through the tree begins.
    pub(crate) fn forget_kept(&self) {
        self.leaves.forget_kept();
    }

    /// See [`crate::Index::get_unpinned`]. It is not inlined, so that its callers' values do not take its registers.
    #[inline(never)]
    pub(crate) fn get_unpinned<'r>(
        &self,
        key: &[u8],
        version: u64,
        room: &'r mut ValueRoom,
    ) -> Option<Option<Value<'r>>> {
        self.copy_fast::<false>(key, version, room)
    }

    /// As `get_unpinned`. `SCATTERED`: the tree is sorted by hash, and the key is a scattered one.
    #[inline(always)]
    pub(crate) fn copy_fast<'r, const SCATTERED: bool>(
        &self,
        key: &[u8],
        version: u64,
        room: &'r mut ValueRoom,
    ) -> Option<Option<Value<'r>>> {
        if key.len() > 8 {
            return read::copy_long::<SCATTERED>(&self.leaves, key, version, room);
        }
        let (wanted, mut reached) = (Wanted::new(key), None);
        match fast::get_fast::<SCATTERED>(&self.leaves, wanted, version, &mut reached) {
            Some(value) => Some(value),
            None => read::copy_newest(&reached?, wanted, version, room),
        }
    }

    /// As [`VersionedIndex::get`]. `SCATTERED`: the tree is sorted by hash, and the key is a scattered one.
    #[inline(always)]
    pub(crate) fn find<const SCATTERED: bool>(
        &self,
        key: &[u8],
        view: View<'_>,
    ) -> Result<Option<Value<'_>>, Error> {
        let (wanted, mut reached) = (Wanted::new(key), None);
        let found = if key.len() > 8 {
            // The fast path has not looked for the leaf, for it is for keys that stand in their words.
            reached = self.leaves.leaf_fast::<SCATTERED>(wanted);
            None
        } else {
            fast::get_fast::<SCATTERED>(&self.leaves, wanted, view.version, &mut reached)
        };
        match found {
            Some(value) => Ok(value),
            None => read::lookup(&self.leaves, wanted, reached, view),
        }
    }

    /// As [`VersionedIndex::get_many`]. `SCATTERED`: the tree is sorted by hash, and the keys are scattered ones.
    pub(crate) fn find_many<'i, const SCATTERED: bool>(
        &'i self,
        keys: &[&[u8]],
        view: View<'_>,
        values: &mut Vec<Option<Value<'i>>>,
    ) -> Result<(), Error> {
        read::lookup_many::<SCATTERED>(&self.leaves, keys, view, values)
    }

    /// Puts or removes a key. `SCATTERED`: the tree is sorted by hash, and the key is a scattered one.
    #[inline(always)]
    pub(crate) fn change<const SCATTERED: bool>(
        &self,
        place: Place,
        op: Op<'_>,
        how: How<'_>,
        writer: &mut Writer<'_>,
    ) -> Result<bool, Error> {
        change::change::<SCATTERED>(&self.leaves, place, op, how, writer)
    }

    /// As [`prefetch_single`](VersionedIndex::prefetch_single), for a scattered key.
    #[inline(always)]
    pub(crate) fn prefetch_scattered(&self, key: &[u8; 8]) {
        self.leaves.prefetch_scattered(u64::from_be_bytes(*key), leaf::hash(key));
    }

    /// Visits everything that happened in a period: see [`crate::Index::changes`].
    pub(crate) fn visit_changes(
        &self,
        period: Period<'_>,
        from: &[u8],
        visit: &mut VisitChanged<'_>,
    ) -> Result<(), Error> {
        read::visit_changes(&self.leaves, period, from, visit)
    }
}

impl VersionedIndex for NvTree {
    fn get(&self, key: &[u8], view: View<'_>) -> Result<Option<Value<'_>>, Error> {
        self.find::<false>(key, view)
    }

    fn get_at(&self, place: Place, key: &[u8], view: View<'_>) -> Result<Option<Value<'_>>, Error> {
        if !place.is_known() {
            return self.get(key, view);
        }
        let wanted = Wanted::new(key);
        match self.leaves.leaf_at(place, wanted) {
            None => self.get(key, view),
            reached => read::lookup(&self.leaves, wanted, reached, view),
        }
    }

    fn get_many<'i>(
        &'i self,
        keys: &[&[u8]],
        view: View<'_>,
        values: &mut Vec<Option<Value<'i>>>,
    ) -> Result<(), Error> {
        self.find_many::<false>(keys, view, values)
    }

    fn prefetch(&self, keys: &[&[u8]], _view: View<'_>, places: &mut Vec<Place>) {
        let all = places.len() + keys.len();
        // The thread that reads the key itself gets the error.
        if let Ok(found) = read::bring_near(&self.leaves, keys) {
            places.extend(found);
        }
        places.resize(all, Place::default());
    }

    fn bring_near(&self, changes: &[KeyChange<'_>], _view: View<'_>) {
        let keys: Vec<&[u8]> = changes.iter().map(|(key, _)| *key).collect();
        // As above.
        let _ = read::bring_changes_near(&self.leaves, &keys);
        let have_records = changes.iter().filter(|change| change::has_record(change));
        expect_records(&self.leaves.forest, have_records);
    }

    fn range(
        &self,
        from: Bound<&[u8]>,
        to: Bound<&[u8]>,
        direction: Direction,
        view: View<'_>,
        visit: &mut Visit<'_>,
    ) -> Result<(), Error> {
        read::scan(&self.leaves, from, to, direction, (view, Sought::Seen), visit)
    }

    fn apply(&self, op: Op<'_>, writer: &mut Writer<'_>) -> Result<bool, Error> {
        self.change::<false>(Place::default(), op, How::Grouped, writer)
    }

    #[inline(always)]
    fn apply_at(&self, place: Place, op: Op<'_>, writer: &mut Writer<'_>) -> Result<bool, Error> {
        change::apply_at(&self.leaves, place, op, writer)
    }

    fn write_together(&self, puts: &[(&[u8], &[u8])], written: &mut Vec<Option<Written>>) {
        change::write_together(&self.leaves, puts, written);
    }

    fn put_written(
        &self,
        place: Place,
        put: (&[u8], &[u8]),
        written: Written,
        writer: &mut Writer<'_>,
    ) -> Result<bool, Error> {
        change::put_written(&self.leaves, place, put, written, writer)
    }

    #[inline(always)]
    fn prefetch_single(&self, op: Op<'_>) -> Place {
        // A put comes to its own search soon enough.
        let Op::Remove { key } = op else { return Place::default() };
        match key.as_array() {
            Some(eight) => self.leaves.prefetch_word(u64::from_be_bytes(*eight), leaf::hash(eight)),
            None if key.len() > 8 => self.leaves.prefetch_long(key),
            None => Place::default(),
        }
    }

    #[inline(always)]
    fn apply_single_at(
        &self,
        place: Place,
        op: Op<'_>,
        ticket: &Ticket<'_>,
        writer: &mut Writer<'_>,
    ) -> Result<Option<bool>, Error> {
        self.change::<false>(place, op, How::Single(ticket), writer).map(Some)
    }

    fn changed(&self, key: &[u8], since: u64, now: View<'_>) -> Result<Option<u64>, Error> {
        read::changed_after(&self.leaves, key, since, now)
    }

    fn range_changed(
        &self,
        range: Range<'_>,
        since: u64,
        now: View<'_>,
        visit: &mut VisitKey<'_>,
    ) -> Result<(), Error> {
        let sought = (now, Sought::ChangedAfter(since));
        read::scan(&self.leaves, range.from, range.to, range.direction, sought, &mut |key, _| {
            visit(key)
        })
    }

    fn mark(
        &self,
        retained: &Retained,
        dead: &DeadIntervals,
        marker: &mut dyn TreeMarker,
    ) -> Result<(), Error> {
        upkeep::mark(&self.leaves, &self.structure, retained, dead, marker)
    }

    fn scrub(&self, node: Object, writer: &mut Writer<'_>) -> Result<(), Error> {
        upkeep::scrub_one(&self.leaves, node, writer)
    }

    fn scrub_root(&self, _writer: &mut Writer<'_>) -> Result<(), Error> {
        Ok(())
    }

    fn collect(
        &self,
        from: Option<&[u8]>,
        writer: &mut Writer<'_>,
    ) -> Result<Option<Vec<u8>>, Error> {
        upkeep::collect_step(&self.leaves, &self.structure, from, writer)
    }

    fn wants_hint(&self) -> bool {
        upkeep::is_hint_outgrown(&self.leaves)
    }

    fn write_hint(&self, version: u64, retired: &mut Vec<Retired>) -> Result<(), Error> {
        upkeep::write_hint(&self.leaves, &self.structure, version, retired)
    }

    fn check(&self, retained: &Retained, dead: &DeadIntervals) -> Result<CheckReport, Error> {
        upkeep::verify_tree(&self.leaves, retained, dead)
    }
}
