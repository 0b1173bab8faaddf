//! An index of any kind, as a store holds it. The magic of its cell says of which kind it is.

use std::ops::Bound;
use std::sync::Arc;

use tembo_pool::{Object, Pool};

use crate::changes::{Period, VisitChanged, VisitDiffering};
use crate::error::damaged;
use crate::{
    Cdds, CheckReport, DeadIntervals, Direction, Error, Forest, HashIndex, KeyChange, NvTree, Op,
    Place, Range, Records, Retained, Retired, Stamp, Ticket, TreeMarker, Value, ValueRoom,
    VersionedIndex, View, Visit, VisitKey, Writer, Written,
};

/// The indexes that there are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum IndexKind {
    /// The CDDS B-Tree: every node is persistent.
    Cdds,
    /// The NV-Tree: only its leaves are persistent.
    #[default]
    Nvtree,
    /// The hash index: the leaves of an NV-Tree, found by the hash of a key. Its keys have no order.
    Hash,
}

impl IndexKind {
    /// Every kind.
    pub const ALL: [IndexKind; 3] = [IndexKind::Cdds, IndexKind::Nvtree, IndexKind::Hash];

    /// The kinds whose keys have an order.
    pub const ORDERED: [IndexKind; 2] = [IndexKind::Cdds, IndexKind::Nvtree];

    /// Whether the index visits keys in the order of their bytes, so that a range of keys means what its bounds say.
    pub const fn is_ordered(self) -> bool {
        !matches!(self, IndexKind::Hash)
    }

    /// Its name, as users write it.
    pub const fn name(self) -> &'static str {
        match self {
            IndexKind::Cdds => "cdds",
            IndexKind::Nvtree => "nvtree",
            IndexKind::Hash => "hash",
        }
    }
}

/// An index of any kind.
pub enum Index {
    /// The CDDS B-Tree.
    Cdds(Cdds),
    /// The NV-Tree.
    Nvtree(NvTree),
    /// The hash index.
    Hash(HashIndex),
}

/// Evaluates the same expression for each kind of index.
macro_rules! either {
    ($index:expr, $inner:ident => $does:expr) => {
        match $index {
            Index::Cdds($inner) => $does,
            Index::Nvtree($inner) => $does,
            Index::Hash($inner) => $does,
        }
    };
}

impl Index {
    /// Writes and flushes an empty index, made in version `birth`, into a pool. Returns the object that the caller has to
    /// link.
    ///
    /// Durability point: none; everything is flushed. The caller fences before it links the object.
    ///
    /// # Errors
    /// Those of the pool.
    pub fn format(
        pool: &Pool,
        kind: IndexKind,
        records: Records,
        birth: Stamp,
    ) -> Result<Object, Error> {
        match kind {
            IndexKind::Cdds => Cdds::format(pool, records, birth),
            IndexKind::Nvtree => NvTree::format(pool, records, birth),
            IndexKind::Hash => HashIndex::format(pool, records, birth),
        }
    }

    /// Makes an empty index. Returns it with the object that the caller has to link.
    ///
    /// Durability point: as of [`Index::format`].
    ///
    /// # Errors
    /// As of [`Index::format`].
    pub fn create(
        forest: Arc<Forest>,
        kind: IndexKind,
        writer: &Writer<'_>,
    ) -> Result<(Index, Object), Error> {
        match kind {
            IndexKind::Cdds => {
                Cdds::create(forest, writer).map(|(tree, cell)| (Index::Cdds(tree), cell))
            }
            IndexKind::Nvtree => {
                NvTree::create(forest, writer).map(|(tree, cell)| (Index::Nvtree(tree), cell))
            }
            IndexKind::Hash => {
                HashIndex::create(forest, writer).map(|(index, cell)| (Index::Hash(index), cell))
            }
        }
    }

    /// Opens the index whose cell is an object that `create` returned, made in version `birth`. Its kind is the one that
    /// the magic of the cell says.
    ///
    /// # Errors
    /// [`Error::Damaged`] if none lies there.
    pub fn open(forest: Arc<Forest>, cell: Object, birth: u64) -> Result<Index, Error> {
        forest.pool().valid(cell)?;
        if Cdds::lies_at(forest.pool(), cell)? {
            return Cdds::open(forest, cell, birth).map(Index::Cdds);
        }
        if NvTree::lies_at(forest.pool(), cell)? {
            return NvTree::open(forest, cell).map(Index::Nvtree);
        }
        if HashIndex::lies_at(forest.pool(), cell)? {
            return HashIndex::open(forest, cell).map(Index::Hash);
        }
        damaged(cell.offset(), "the root cell of an index")
    }

    /// Gives back the space of an index that nothing refers to yet.
    ///
    /// # Errors
    /// Damage.
    pub fn discard(self) -> Result<(), Error> {
        either!(self, index => index.discard())
    }

    /// The object that `create` returned.
    pub fn object(&self) -> Object {
        either!(self, index => index.object())
    }

    /// How many leaves a hint on media names; `None`: there is no sound one.
    ///
    /// # Errors
    /// Damage.
    pub fn hinted_leaves(&self) -> Result<Option<u64>, Error> {
        match self {
            Index::Cdds(_) => Ok(None),
            Index::Nvtree(tree) => tree.hinted_leaves(),
            Index::Hash(index) => index.hinted_leaves(),
        }
    }

    /// The kind of the index.
    pub fn kind(&self) -> IndexKind {
        match self {
            Index::Cdds(_) => IndexKind::Cdds,
            Index::Nvtree(_) => IndexKind::Nvtree,
            Index::Hash(_) => IndexKind::Hash,
        }
    }

    /// Entries that only old versions needed when space was taken because of them, since the last walk
    /// through the index.
    pub fn kept(&self) -> u64 {
        match self {
            // Its writers leave out entries that nothing needs, and its old nodes are freed whole.
            Index::Cdds(_) => 0,
            Index::Nvtree(tree) => tree.kept(),
            Index::Hash(index) => index.kept(),
        }
    }

    /// Notes that a walk through the index begins.
    pub fn forget_kept(&self) {
        match self {
            Index::Cdds(_) => {}
            Index::Nvtree(tree) => tree.forget_kept(),
            Index::Hash(index) => index.forget_kept(),
        }
    }

    /// The value under `key` in a version that is visible, for a reader that has not pinned it. The value is copied, into
    /// `room` if it is long. `None`: the read needs a pin, for example because the value has more bytes than
    /// [`ValueRoom::LEN`], because the leaf has something newer, or because a writer was changing it.
    ///
    /// What is returned was there at one moment during the call, unless a tree was given up meanwhile. The caller has to
    /// find that out afterwards.
    #[inline(always)]
    pub fn get_unpinned<'r>(
        &self,
        key: &[u8],
        version: u64,
        room: &'r mut ValueRoom,
    ) -> Option<Option<Value<'r>>> {
        match self {
            // A CDDS B-Tree has a tree for each version, which its readers find, and its writers change nodes in order.
            Index::Cdds(_) => None,
            Index::Nvtree(tree) => tree.get_unpinned(key, version, room),
            Index::Hash(index) => index.get_unpinned(key, version, room),
        }
    }

    /// Visits everything that happened in the period to keys from `from` on, in the order of the index and, of
    /// one key, of versions. The caller retains all versions from `period.after` on, and the period is
    /// visible. The visited changes may include a put of the value that was there, and a removal of a key
    /// that was not there.
    ///
    /// An NV-Tree passes over leaves in which nothing is that new, and reads each of the others once. A CDDS
    /// B-Tree reads the leaves of every version in the period, and comes to each of them from the roots.
    ///
    /// # Errors
    /// Damage.
    pub fn changes(
        &self,
        period: Period<'_>,
        from: &[u8],
        visit: &mut VisitChanged<'_>,
    ) -> Result<(), Error> {
        match self {
            Index::Cdds(tree) => tree.visit_changes(period, from, visit),
            Index::Nvtree(tree) => tree.visit_changes(period, from, visit),
            Index::Hash(index) => index.visit_changes(period, from, visit),
        }
    }

    /// Visits the keys from `from` on that differ between the version `period.after` and the version
    /// `period.until`, in order, with their values in the later one. The caller retains these two versions.
    /// The visited keys may include some that are the same in both.
    ///
    /// # Errors
    /// Damage.
    pub fn difference(
        &self,
        period: Period<'_>,
        from: Bound<&[u8]>,
        visit: &mut VisitDiffering<'_>,
    ) -> Result<(), Error> {
        let (to, direction) = (Bound::Unbounded, Direction::Forward);
        let (range, later) = (Range { from, to, direction }, period.last());
        let mut looked_up = Ok(());
        self.range_changed(range, period.after, later, &mut |key| match self.get(key, later) {
            Ok(value) => visit(key, value),
            Err(error) => {
                looked_up = Err(error);
                false
            }
        })?;
        looked_up
    }
}

impl VersionedIndex for Index {
    #[inline(always)]
    fn get(&self, key: &[u8], view: View<'_>) -> Result<Option<Value<'_>>, Error> {
        either!(self, index => index.get(key, view))
    }

    fn get_at(&self, place: Place, key: &[u8], view: View<'_>) -> Result<Option<Value<'_>>, Error> {
        either!(self, index => index.get_at(place, key, view))
    }

    fn get_many<'i>(
        &'i self,
        keys: &[&[u8]],
        view: View<'_>,
        values: &mut Vec<Option<Value<'i>>>,
    ) -> Result<(), Error> {
        either!(self, index => index.get_many(keys, view, values))
    }

    fn prefetch(&self, keys: &[&[u8]], view: View<'_>, places: &mut Vec<Place>) {
        either!(self, index => index.prefetch(keys, view, places));
    }

    fn bring_near(&self, changes: &[KeyChange<'_>], view: View<'_>) {
        either!(self, index => index.bring_near(changes, view));
    }

    fn range(
        &self,
        from: Bound<&[u8]>,
        to: Bound<&[u8]>,
        direction: Direction,
        view: View<'_>,
        visit: &mut Visit<'_>,
    ) -> Result<(), Error> {
        either!(self, index => index.range(from, to, direction, view, visit))
    }

    fn apply(&self, op: Op<'_>, writer: &mut Writer<'_>) -> Result<bool, Error> {
        either!(self, index => index.apply(op, writer))
    }

    #[inline(always)]
    fn apply_at(&self, place: Place, op: Op<'_>, writer: &mut Writer<'_>) -> Result<bool, Error> {
        either!(self, index => index.apply_at(place, op, writer))
    }

    fn write_together(&self, puts: &[(&[u8], &[u8])], written: &mut Vec<Option<Written>>) {
        either!(self, index => index.write_together(puts, written));
    }

    fn put_written(
        &self,
        place: Place,
        put: (&[u8], &[u8]),
        written: Written,
        writer: &mut Writer<'_>,
    ) -> Result<bool, Error> {
        either!(self, index => index.put_written(place, put, written, writer))
    }

    #[inline(always)]
    fn prefetch_single(&self, op: Op<'_>) -> Place {
        either!(self, index => index.prefetch_single(op))
    }

    #[inline(always)]
    fn apply_single(
        &self,
        op: Op<'_>,
        ticket: &Ticket<'_>,
        writer: &mut Writer<'_>,
    ) -> Result<Option<bool>, Error> {
        either!(self, index => index.apply_single(op.apart(), ticket, writer))
    }

    #[inline(always)]
    fn apply_single_at(
        &self,
        place: Place,
        op: Op<'_>,
        ticket: &Ticket<'_>,
        writer: &mut Writer<'_>,
    ) -> Result<Option<bool>, Error> {
        either!(self, index => index.apply_single_at(place, op.apart(), ticket, writer))
    }

    fn changed(&self, key: &[u8], since: u64, now: View<'_>) -> Result<Option<u64>, Error> {
        either!(self, index => index.changed(key, since, now))
    }

    fn range_changed(
        &self,
        range: Range<'_>,
        since: u64,
        now: View<'_>,
        visit: &mut VisitKey<'_>,
    ) -> Result<(), Error> {
        either!(self, index => index.range_changed(range, since, now, visit))
    }

    fn mark(
        &self,
        retained: &Retained,
        dead: &DeadIntervals,
        marker: &mut dyn TreeMarker,
    ) -> Result<(), Error> {
        either!(self, index => index.mark(retained, dead, marker))
    }

    fn scrub(&self, node: Object, writer: &mut Writer<'_>) -> Result<(), Error> {
        either!(self, index => index.scrub(node, writer))
    }

    fn scrub_root(&self, writer: &mut Writer<'_>) -> Result<(), Error> {
        either!(self, index => index.scrub_root(writer))
    }

    fn collect(
        &self,
        from: Option<&[u8]>,
        writer: &mut Writer<'_>,
    ) -> Result<Option<Vec<u8>>, Error> {
        either!(self, index => index.collect(from, writer))
    }

    fn wants_hint(&self) -> bool {
        either!(self, index => index.wants_hint())
    }

    fn write_hint(&self, version: u64, retired: &mut Vec<Retired>) -> Result<(), Error> {
        either!(self, index => index.write_hint(version, retired))
    }

    fn check(&self, retained: &Retained, dead: &DeadIntervals) -> Result<CheckReport, Error> {
        either!(self, index => index.check(retained, dead))
    }
}
