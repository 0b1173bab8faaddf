//! The CDDS B-Tree: a B+-Tree in which every change makes a version and no version is overwritten.
//!
//! # The idea
//! Venkataraman's thesis (chapter 4, algorithms 1 to 6; FAST 2011, section 3) keeps every entry of a
//! B-Tree with the range of versions `[start, end)` in which it lives. An update writes new entries
//! and ends old ones, each with the version that is being made; when all of it is durable, one
//! eight-byte store makes that version the current one. A crash before that store leaves entries of
//! a version that never happened. So there is no log, and nothing is copied twice.
//!
//! # What is on media
//! A *node* is a header line and up to 30 entries of 32 bytes, two in a line, none across two. An
//! entry holds the first key bytes that distinguish it from its neighbours (`head`), where its record or
//! child lies (`target`), and its two stamps. `start` is stored last, so the order of stores within
//! a line makes it the witness of the other three words. Key and value lie in an immutable record.
//! A node also carries its key range, low exclusive, high inclusive, which never changes: all keys
//! in it share the range's common prefix, and `head` begins behind it. A parent's entry needs no key
//! of its own, since the child's high key is it; the last child has no high key, and so the tree
//! needs no maximal key to be inserted first (thesis 4.5).
//!
//! # What is not
//! The thesis keeps the entries of a node physically in order and pays for each insertion with a
//! shift: on average half a node rewritten, a fence wherever the shift crosses a line, and hybrids
//! of two entries after a crash. Here the *order* (by key, then start) is what can be rebuilt, and
//! so it is volatile: thirty slot numbers and a copy of the heads in a side-car, made when the node is
//! first touched after opening, kept up by the one writer, read by readers under a sequence number.
//! The place of a key is the number of lesser heads, all of which are counted: that has no branch to
//! guess. The side-car knows which entries have an end, so that a reader of the newest version, and a
//! writer that needs a slot, do not look at the others.
//! An insertion is one entry in any free slot: one line. The number of entries needs no place on
//! media either, an empty slot says so itself. Algorithm 6, which walks the whole tree to undo the
//! last version, is not needed: the stamps of that version stand in a [dead interval](crate::DeadIntervals). Every
//! reader passes over them, the order is made without them, and the next writer of the node reuses their
//! slots. A scrub erases the rest in the background.
//!
//! # How it changes
//! *Put* ends the entry of the key if there is one and adds another; *remove* ends it. A slot is
//! reused if no retained version can see its entry (algorithm 2; the document compares with the current
//! version where it must be the oldest pinned one; this code asks whether any pinned version lies in
//! `[start, end)`). Everything else is one operation, *reshape*: when a node has no room, or when
//! at most m_l = k/5 of its entries live on, its live entries (in the latter case with those of a
//! sibling) are written into one new node, or two if one would be left with less than m_l free
//! slots. This is split-insert with one or two nodes (algorithm 3), merge and copy-from-sibling
//! (algorithm 4). The parent ends its entries for the old nodes and begins others for the new, which
//! may reshape the parent. The old node's entries are not touched; one stamp in its header, its
//! *death*, ends those that have no end. So old versions stay readable, a record may be freed before
//! the old node that still names it, and nothing that a crash can undo is overwritten.
//!
//! A new root is published by one store into the root cell. It names the root before and since when
//! it is the root. Readers of older versions follow that chain, and so does every reader after a crash.
//!
//! # Space
//! What a version unlinks is *retired* with its lifetime and freed when that version is visible and
//! no pinned one lies in the lifetime. This is the physical half of algorithm 5, without a mark phase, since a
//! child may have two parents but only one life. After a crash the list of retired objects is lost;
//! then a mark marks what retained versions reach, and the rest is free. The logical half empties
//! slots. New nodes have at least 2 m_l live entries and nodes are reshaped at m_l, so N keys need
//! at most max(1, N/m_l) leaves: thesis 4.4.6, verified by `check`.
//!
//! # Cost
//! With p new records of l lines and no reshape, n puts flush Σl + n lines (an update ends an entry
//! too: one line more unless old and new share one), and a remove flushes one. An index fences only
//! when the root changes, and once in a single remove. A group has two fences, whatever its size.
//! A reshape flushes up to two nodes, their bounds, and three lines in the parent.
//!
//! # Modules
//! ```text
//!   cdds.rs     the tree: format, open, VersionedIndex
//!     |
//!   change/     put and remove: in place (edit), or up the path (climb) with nodes written anew (nodes)
//!   upkeep/     mark, scrub, collect, check
//!   read/       ranges, changes, what is prefetched
//!     |
//!   roots       the cell, the chain of roots, the ways from a root to a leaf
//!     |
//!   node/       a node, its bounds, its side-car
//!   format      all of it on media
//! ```

mod change;
mod format;
mod node;
mod read;
mod roots;
#[cfg(test)]
mod tests;
mod upkeep;

use std::ops::Bound;
use std::sync::Arc;

use tembo_pool::{Object, Pool};

pub(crate) use self::format::capacity;
use self::format::{CELL_SIZE, NodeHeader, RootCell, cell_magic, records_of, shape};
use self::node::Node;
pub(crate) use self::node::Side;
use self::roots::Roots;
use crate::changes::{Period, VisitChanged};
use crate::error::damaged;
use crate::record::expect_records;
use crate::{
    CheckReport, DeadIntervals, Direction, Error, Forest, KeyChange, Op, Place, Range, Records,
    Retained, Stamp, Ticket, TreeMarker, Value, VersionedIndex, View, Visit, VisitKey, Writer,
};

/// A CDDS B-Tree. See the [module](self).
pub struct Cdds {
    roots: Roots,
    /// The version that made the tree: older versions do not have it.
    birth: u64,
}

impl Cdds {
    /// Writes and flushes an empty tree, made in version `birth`, into a pool. Returns the object that the caller has to link.
    ///
    /// Durability point: none; everything is flushed. The caller fences before it links the object.
    pub fn format(pool: &Pool, records: Records, birth: Stamp) -> Result<Object, Error> {
        let (region, node_size) = (pool.region(), u64::from(pool.geometry().node_size));
        let cell_object = pool.alloc(CELL_SIZE)?;
        let root = pool.alloc(node_size).inspect_err(|_| pool.free(cell_object))?;
        for word in region.words(root.offset(), (node_size / 8) as usize)? {
            region.store(word, 0);
        }
        let header: &NodeHeader = region.get(root.offset())?;
        let shape = shape(0, capacity(node_size), 0, false);
        region.store(&header.birth, birth.to_bits());
        region.store(&header.shape, shape);
        // ORDER: the root is durable before the commit of what links the cell.
        region.flush("cdds.format.root", root.offset(), node_size);
        let cell: &RootCell = region.get(cell_object.offset())?;
        region.store(&cell.root, root.to_bits());
        region.store(&cell.magic, cell_magic(records));
        for word in &cell.reserved {
            region.store(word, 0);
        }
        // ORDER: the cell is durable before the commit of what links it.
        region.flush("cdds.format.cell", cell_object.offset(), CELL_SIZE);
        Ok(cell_object)
    }

    /// Makes an empty tree. Returns it with the object that the caller has to link.
    ///
    /// Durability point: as of [`Cdds::format`].
    pub fn create(forest: Arc<Forest>, writer: &Writer<'_>) -> Result<(Cdds, Object), Error> {
        let cell = Cdds::format(forest.pool(), forest.records(), writer.stamp)?;
        let tree = Cdds::open(forest, cell, writer.stamp.version())?;
        let root = Object::from_bits(tree.roots.cell()?.root.load());
        Node::new(&tree.roots.forest, root)?.reset()?;
        Ok((tree, cell))
    }

    /// Gives back the space of a tree that nothing refers to yet.
    pub fn discard(self) -> Result<(), Error> {
        let root = Object::from_bits(self.roots.cell()?.root.load());
        self.roots.forest.pool().give_up([root, self.roots.cell_object]);
        Ok(())
    }

    /// The object that `create` returned.
    pub fn object(&self) -> Object {
        self.roots.cell_object
    }

    /// Whether the cell of such a tree lies there: an object of the pool.
    pub(crate) fn lies_at(pool: &Pool, cell: Object) -> Result<bool, Error> {
        let media: &RootCell = pool.region().get(cell.offset())?;
        Ok(records_of(media.magic.load()).is_some())
    }

    /// The tree behind an object that `create` returned, made in version `birth`.
    pub fn open(forest: Arc<Forest>, cell_object: Object, birth: u64) -> Result<Cdds, Error> {
        forest.pool().valid(cell_object)?;
        let tree = Cdds { roots: Roots::new(forest, cell_object), birth };
        let records = records_of(tree.roots.cell()?.magic.load());
        let Some(records) = records.filter(|_| cell_object.size() >= CELL_SIZE) else {
            return damaged(cell_object.offset(), "the root cell of a tree");
        };
        tree.roots.forest.agree(records, cell_object)?;
        Ok(tree)
    }

    /// Visits everything that happened in a period: see [`crate::Index::changes`].
    pub(crate) fn visit_changes(
        &self,
        period: Period<'_>,
        from: &[u8],
        visit: &mut VisitChanged<'_>,
    ) -> Result<(), Error> {
        read::visit_changes(&self.roots, period, from, visit)
    }
}

impl VersionedIndex for Cdds {
    fn get(&self, key: &[u8], view: View<'_>) -> Result<Option<Value<'_>>, Error> {
        self.get_at(Place::default(), key, view)
    }

    fn get_at(&self, place: Place, key: &[u8], view: View<'_>) -> Result<Option<Value<'_>>, Error> {
        Ok(self.roots.lookup(key, place, view)?.map(Value::in_pool))
    }

    fn get_many<'i>(
        &'i self,
        keys: &[&[u8]],
        view: View<'_>,
        values: &mut Vec<Option<Value<'i>>>,
    ) -> Result<(), Error> {
        let mut places = Vec::new();
        for keys in keys.chunks(read::ABREAST) {
            // Only the writer may use a place. What is on the way there is in the cache by this time.
            places.clear();
            read::prefetch_keys(&self.roots, keys, view, &mut places);
            for key in keys {
                values.push(self.get(key, view)?);
            }
        }
        Ok(())
    }

    fn prefetch(&self, keys: &[&[u8]], view: View<'_>, places: &mut Vec<Place>) {
        read::prefetch_keys(&self.roots, keys, view, places);
    }

    fn bring_near(&self, changes: &[KeyChange<'_>], view: View<'_>) {
        let keys: Vec<&[u8]> = changes.iter().map(|(key, _)| *key).collect();
        read::prefetch_keys(&self.roots, &keys, view, &mut Vec::with_capacity(keys.len()));
        expect_records(&self.roots.forest, changes.iter());
    }

    fn range(
        &self,
        from: Bound<&[u8]>,
        to: Bound<&[u8]>,
        direction: Direction,
        view: View<'_>,
        visit: &mut Visit<'_>,
    ) -> Result<(), Error> {
        read::scan(&self.roots, from, to, direction, view, visit)
    }

    fn apply(&self, op: Op<'_>, writer: &mut Writer<'_>) -> Result<bool, Error> {
        change::change(&self.roots, op, Place::default(), writer)
    }

    fn apply_at(&self, place: Place, op: Op<'_>, writer: &mut Writer<'_>) -> Result<bool, Error> {
        change::change(&self.roots, op, place, writer)
    }

    fn apply_single_at(
        &self,
        _place: Place,
        op: Op<'_>,
        ticket: &Ticket<'_>,
        writer: &mut Writer<'_>,
    ) -> Result<Option<bool>, Error> {
        op.key()?;
        match op {
            // An update changes two lines, which become durable in any order: only a group commits both.
            Op::Put { .. } => Ok(None),
            Op::Remove { key } => change::remove_single(&self.roots, key, ticket, writer),
        }
    }

    fn changed(&self, key: &[u8], since: u64, now: View<'_>) -> Result<Option<u64>, Error> {
        read::changed_after(&self.roots, key, since, now)
    }

    fn range_changed(
        &self,
        range: Range<'_>,
        since: u64,
        now: View<'_>,
        visit: &mut VisitKey<'_>,
    ) -> Result<(), Error> {
        read::range_changed_after(&self.roots, range, since, now, visit)
    }

    fn mark(
        &self,
        retained: &Retained,
        dead: &DeadIntervals,
        marker: &mut dyn TreeMarker,
    ) -> Result<(), Error> {
        upkeep::mark(&self.roots, retained, dead, marker)
    }

    fn scrub(&self, node: Object, writer: &mut Writer<'_>) -> Result<(), Error> {
        upkeep::scrub_one(&self.roots, node, writer)
    }

    fn scrub_root(&self, writer: &mut Writer<'_>) -> Result<(), Error> {
        upkeep::scrub_cell(&self.roots, writer)
    }

    fn collect(
        &self,
        from: Option<&[u8]>,
        writer: &mut Writer<'_>,
    ) -> Result<Option<Vec<u8>>, Error> {
        upkeep::collect_step(&self.roots, from, writer)
    }

    fn check(&self, retained: &Retained, dead: &DeadIntervals) -> Result<CheckReport, Error> {
        upkeep::verify_tree(&self.roots, self.birth, retained, dead)
    }
}
