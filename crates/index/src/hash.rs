//! The hash index: keys without an order, each found by its hash. The documents' CDDS hash table (Venkataraman et al., FAST 2011,
//! section 8: versions for "a wide range of structures"), built on the NV-Tree's leaves.
//!
//! # The idea
//! An extendible hash table (Fagin et al., ACM TODS 4, 1979) has buckets in the order of the hash's first bits and a
//! directory from bits to buckets. The NV-Tree has leaves in the order of keys and a volatile search structure above
//! them. They are the same thing if the key *is* the hash. So the hash is a permutation (`hash/scatter.rs`): the
//! scattered key has the key's length, its first eight bytes are a hash of all of it, and the key comes back from it. It
//! stands in the leaf instead of the key, and nothing is stored twice.
//!
//! # What comes with that
//! On media there is a list of leaves like that of the NV-Tree, with a magic of its own ([format](../../../../docs/formats/hash.md)).
//! A put, an update and a removal cost one line and one fence, as in the NV-Tree. Versions, snapshots, histories, dead
//! intervals, recovery, mark, scrub, collection, the hint and the check are the NV-Tree's, and so are the images that a
//! crash can leave: the hash index has no step of persistence that the NV-Tree does not have.
//!
//! # What differs
//! A search reads one slot of a volatile *directory* (`nvtree/leaves/hash_directory.rs`) instead of going down the
//! inner nodes:
//!
//! ```text
//!   key ──► scattered key ──┬──► directory slot: a leaf ────────────────────► leaf ──► element
//!          (hash/scatter.rs)│                                                  ▲
//!                           └──► slot shared or unknown ──► inner nodes ───────┘
//!                                                           (and the slot learns the leaf)
//! ```
//! That touches the same number of cache lines whatever the number of keys. A leaf is split between two hashes that differ
//! in a high bit, not in the middle, so that few slots of the directory have keys of two leaves. A search of those goes
//! through the inner nodes, and so does a search by a slot that no search has filled since an opening. The
//! NV-Tree keeps the inner nodes anyway: they cost some bytes for a leaf of a thousand. So
//! - growth is O(1) steps: a put splits one leaf at most, and a larger directory begins empty and takes over what the one before
//!   knew a leaf at a time, as keys are looked for; nothing is rehashed;
//! - an opening waits for nothing: the directory fills as keys are looked for;
//! - chosen keys do limited harm: keys with the same hash lie in leaves beside each other, which the inner nodes
//!   distinguish. The worst case of the hash index is the NV-Tree.
//!
//! # Order
//! The index visits keys in the order of their scattered bytes, which is the same in every version and in every life of the
//! process, so that a walk can be taken up again behind a key. That order means nothing to a user: *bounds of
//! a range are places in that order*, and the code that offers ranges of keys to programs refuses them for this index
//! ([`IndexKind::is_ordered`](crate::IndexKind::is_ordered)).
//!
//! # Rivals
//! Dash (VLDB 2020) and CCEH (FAST 2019) have persistent directories and segments: a doubling copies the directory, and
//! splits rewrite segments. P-CLHT (SOSP 2019) rehashes the whole table while writers wait. Viper (VLDB 2021) has a
//! volatile table that an opening makes anew from every record. None has versions.

mod scatter;

use std::ops::Bound;
use std::sync::Arc;

use tembo_pool::{Object, Pool};

use self::scatter::{gathered, scattered, scattered_eight};
use crate::changes::{Changed, Period, VisitChanged};
use crate::nvtree::{How, NvTree, Sorted};
use crate::{
    CheckReport, DeadIntervals, Direction, Error, Forest, KeyChange, Op, Place, Range, Records,
    Retained, Retired, Stamp, Ticket, TreeMarker, Value, ValueRoom, VersionedIndex, View, Visit,
    VisitKey, Writer,
};

/// A hash index. See the [module](self).
pub struct HashIndex {
    leaves: NvTree,
}

impl HashIndex {
    /// Writes and flushes an empty index, made in version `birth`, into a pool. Returns the object that the caller has to
    /// link.
    ///
    /// Durability point: none; everything is flushed. The caller fences before it links the object.
    ///
    /// # Errors
    /// Those of the pool.
    pub fn format(pool: &Pool, records: Records, birth: Stamp) -> Result<Object, Error> {
        NvTree::format_sorted(pool, Sorted::ByHash, records, birth)
    }

    /// Makes an empty index. Returns it with the object that the caller has to link.
    ///
    /// Durability point: as of [`HashIndex::format`].
    ///
    /// # Errors
    /// Those of the pool.
    pub fn create(forest: Arc<Forest>, writer: &Writer<'_>) -> Result<(HashIndex, Object), Error> {
        let (leaves, cell) = NvTree::create_sorted(forest, Sorted::ByHash, writer)?;
        Ok((HashIndex { leaves }, cell))
    }

    /// Whether the cell of a hash index lies there.
    ///
    /// # Errors
    /// Damage.
    pub fn lies_at(pool: &Pool, cell: Object) -> Result<bool, Error> {
        NvTree::lies_sorted_at(pool, Sorted::ByHash, cell)
    }

    /// Gives back the space of an index that nothing refers to yet.
    ///
    /// # Errors
    /// Damage.
    pub fn discard(self) -> Result<(), Error> {
        self.leaves.discard()
    }

    /// The object that `create` returned.
    pub fn object(&self) -> Object {
        self.leaves.object()
    }

    /// The index behind an object that `create` returned.
    ///
    /// # Errors
    /// [`Error::Damaged`] if none lies there.
    pub fn open(forest: Arc<Forest>, cell: Object) -> Result<HashIndex, Error> {
        Ok(HashIndex { leaves: NvTree::open_sorted(forest, Sorted::ByHash, cell)? })
    }

    /// How many leaves the hint on media names; `None`: there is no sound one.
    ///
    /// # Errors
    /// Damage of the cell.
    pub fn hinted_leaves(&self) -> Result<Option<u64>, Error> {
        self.leaves.hinted_leaves()
    }

    /// Elements that only old versions needed when leaves were split for them, since the last walk.
    pub(crate) fn kept(&self) -> u64 {
        self.leaves.kept()
    }

    /// Notes that a walk through the index begins.
    pub(crate) fn forget_kept(&self) {
        self.leaves.forget_kept();
    }

    /// See [`crate::Index::get_unpinned`].
    #[inline(never)]
    pub(crate) fn get_unpinned<'r>(
        &self,
        key: &[u8],
        version: u64,
        room: &'r mut ValueRoom,
    ) -> Option<Option<Value<'r>>> {
        scattered(key, |key| self.leaves.copy_fast::<true>(key, version, room))
    }

    /// Visits everything that happened in a period, in the index's order: see [`crate::Index::changes`].
    pub(crate) fn visit_changes(
        &self,
        period: Period<'_>,
        from: &[u8],
        visit: &mut VisitChanged<'_>,
    ) -> Result<(), Error> {
        let mut visit = |Changed { key, version, value }: Changed<'_>| {
            gathered(key, |key| visit(Changed { key, version, value }))
        };
        named(scattered(from, |from| self.leaves.visit_changes(period, from, &mut visit)))
    }

    #[inline(always)]
    fn change(&self, op: Op<'_>, how: How<'_>, writer: &mut Writer<'_>) -> Result<bool, Error> {
        let changed = scattered(op.key()?, |key| {
            let op = match op {
                Op::Put { value, .. } => Op::Put { key, value },
                Op::Remove { .. } => Op::Remove { key },
            };
            self.leaves.change::<true>(Place::default(), op, how, writer)
        });
        named(changed)
    }
}

/// Calls `with` with the place of a key in the index's order.
fn with_bound<T>(bound: Bound<&[u8]>, with: impl FnOnce(Bound<&[u8]>) -> T) -> T {
    match bound {
        Bound::Included(key) => scattered(key, |key| with(Bound::Included(key))),
        Bound::Excluded(key) => scattered(key, |key| with(Bound::Excluded(key))),
        Bound::Unbounded => with(Bound::Unbounded),
    }
}

/// Calls `with` with all of these keys, scattered.
fn all_scattered<T>(keys: &[&[u8]], with: impl FnOnce(&[&[u8]]) -> T) -> T {
    let (mut bytes, mut ends) = (Vec::new(), Vec::with_capacity(keys.len()));
    for key in keys {
        scattered(key, |key| bytes.extend_from_slice(key));
        ends.push(bytes.len());
    }
    let starts = std::iter::once(0).chain(ends.iter().copied());
    let keys: Vec<&[u8]> = starts.zip(&ends).map(|(start, &end)| &bytes[start..end]).collect();
    with(&keys)
}

/// The same change, of the key instead of the scattered key.
#[inline(always)]
fn named<T>(found: Result<T, Error>) -> Result<T, Error> {
    found.map_err(|error| match error {
        Error::Corrupt { offset, key } => {
            Error::Corrupt { offset, key: gathered(&key, <[u8]>::to_vec) }
        }
        error => error,
    })
}

impl VersionedIndex for HashIndex {
    #[inline]
    fn get(&self, key: &[u8], view: View<'_>) -> Result<Option<Value<'_>>, Error> {
        named(scattered(key, |key| self.leaves.find::<true>(key, view)))
    }

    fn get_at(
        &self,
        _place: Place,
        key: &[u8],
        view: View<'_>,
    ) -> Result<Option<Value<'_>>, Error> {
        self.get(key, view)
    }

    fn get_many<'i>(
        &'i self,
        keys: &[&[u8]],
        view: View<'_>,
        values: &mut Vec<Option<Value<'i>>>,
    ) -> Result<(), Error> {
        let find = |keys: &[&[u8]]| self.leaves.find_many::<true>(keys, view, values);
        named(all_scattered(keys, find))
    }

    fn prefetch(&self, keys: &[&[u8]], view: View<'_>, places: &mut Vec<Place>) {
        all_scattered(keys, |keys| self.leaves.prefetch(keys, view, places));
    }

    fn bring_near(&self, changes: &[KeyChange<'_>], view: View<'_>) {
        let keys: Vec<&[u8]> = changes.iter().map(|(key, _)| *key).collect();
        all_scattered(&keys, |keys| {
            let values = changes.iter().map(|(_, value)| *value);
            let changes: Vec<_> = keys.iter().copied().zip(values).collect();
            self.leaves.bring_near(&changes, view);
        });
    }

    fn range(
        &self,
        from: Bound<&[u8]>,
        to: Bound<&[u8]>,
        direction: Direction,
        view: View<'_>,
        visit: &mut Visit<'_>,
    ) -> Result<(), Error> {
        let mut visit = |key: &[u8], value: Value<'_>| gathered(key, |key| visit(key, value));
        named(with_bound(from, |from| {
            with_bound(to, |to| self.leaves.range(from, to, direction, view, &mut visit))
        }))
    }

    fn apply(&self, op: Op<'_>, writer: &mut Writer<'_>) -> Result<bool, Error> {
        self.change(op, How::Grouped, writer)
    }

    fn apply_at(&self, _place: Place, op: Op<'_>, writer: &mut Writer<'_>) -> Result<bool, Error> {
        self.change(op, How::Grouped, writer)
    }

    #[inline(always)]
    fn prefetch_single(&self, op: Op<'_>) -> Place {
        let (Op::Put { key, .. } | Op::Remove { key }) = op;
        if let Some(eight) = key.as_array() {
            self.leaves.prefetch_scattered(&scattered_eight(eight));
        }
        Place::default()
    }

    #[inline]
    fn apply_single_at(
        &self,
        _place: Place,
        op: Op<'_>,
        ticket: &Ticket<'_>,
        writer: &mut Writer<'_>,
    ) -> Result<Option<bool>, Error> {
        self.change(op, How::Single(ticket), writer).map(Some)
    }

    fn changed(&self, key: &[u8], since: u64, now: View<'_>) -> Result<Option<u64>, Error> {
        named(scattered(key, |key| self.leaves.changed(key, since, now)))
    }

    fn range_changed(
        &self,
        range: Range<'_>,
        since: u64,
        now: View<'_>,
        visit: &mut VisitKey<'_>,
    ) -> Result<(), Error> {
        let mut visit = |key: &[u8]| gathered(key, |key| visit(key));
        named(with_bound(range.from, |from| {
            with_bound(range.to, |to| {
                let range = Range { from, to, direction: range.direction };
                self.leaves.range_changed(range, since, now, &mut visit)
            })
        }))
    }

    fn mark(
        &self,
        retained: &Retained,
        dead: &DeadIntervals,
        marker: &mut dyn TreeMarker,
    ) -> Result<(), Error> {
        named(self.leaves.mark(retained, dead, marker))
    }

    fn scrub(&self, node: Object, writer: &mut Writer<'_>) -> Result<(), Error> {
        named(self.leaves.scrub(node, writer))
    }

    fn scrub_root(&self, writer: &mut Writer<'_>) -> Result<(), Error> {
        self.leaves.scrub_root(writer)
    }

    /// As the trait says. The keys that it takes and returns are scattered ones.
    fn collect(
        &self,
        from: Option<&[u8]>,
        writer: &mut Writer<'_>,
    ) -> Result<Option<Vec<u8>>, Error> {
        named(self.leaves.collect(from, writer))
    }

    fn wants_hint(&self) -> bool {
        self.leaves.wants_hint()
    }

    fn write_hint(&self, version: u64, retired: &mut Vec<Retired>) -> Result<(), Error> {
        named(self.leaves.write_hint(version, retired))
    }

    fn check(&self, retained: &Retained, dead: &DeadIntervals) -> Result<CheckReport, Error> {
        named(self.leaves.check(retained, dead))
    }
}
