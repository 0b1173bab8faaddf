//! The trait of all indexes, and its types.

use std::ops::Bound;

use crate::{DeadIntervals, Error, KEY_SIZE_MAX, Retained, Stamp, Ticket, Value};
use tembo_pool::Object;

/// A version as a reader sees it.
#[derive(Clone, Copy, Debug)]
pub struct View<'d> {
    /// Versions above it are not seen.
    pub version: u64,
    /// Versions in these intervals are not seen either.
    pub dead: &'d DeadIntervals,
}

impl View<'_> {
    /// True if an entry with these stamps lives in this view.
    #[inline]
    pub fn sees(&self, start: Stamp, end: Stamp) -> bool {
        start.version() <= self.version
            && !start.is_none()
            && !self.dead.contains(start)
            && (end.is_none() || end.version() > self.version || self.dead.contains(end))
    }
}

/// Which way a range is walked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Ascending keys.
    Forward,
    /// Descending keys.
    Backward,
}

/// A change to one key.
#[derive(Clone, Copy, Debug)]
pub enum Op<'a> {
    /// Puts the concatenation of the parts under the key.
    Put {
        /// The key.
        key: &'a [u8],
        /// The value, in parts.
        value: &'a [&'a [u8]],
    },
    /// Removes the key.
    Remove {
        /// The key.
        key: &'a [u8],
    },
}

impl<'a> Op<'a> {
    /// The key.
    ///
    /// # Errors
    /// [`Error::KeyTooLong`].
    #[inline]
    pub(crate) fn key(&self) -> Result<&'a [u8], Error> {
        let (Op::Put { key, .. } | Op::Remove { key }) = *self;
        if key.len() > KEY_SIZE_MAX {
            return Err(Error::KeyTooLong { size: key.len() });
        }
        Ok(key)
    }

    /// A copy of the change, made field by field. A copy of the whole moves two words at a time, and so would wait for the
    /// stores of each word, which may be behind a fence.
    #[inline(always)]
    pub(crate) fn apart(self) -> Op<'a> {
        match self {
            Op::Put { key, value } => Op::Put { key, value },
            Op::Remove { key } => Op::Remove { key },
        }
    }
}

/// A value in an object of its own, which was written before it is put: see [`VersionedIndex::write_together`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Written {
    pub(crate) object: Object,
    /// The payload of the element that will refer to it.
    pub(crate) payload: u64,
    /// Whether it is a block; else a record.
    pub(crate) is_block: bool,
}

impl Written {
    /// The object, which nothing refers to until the value is put.
    pub fn object(self) -> Object {
        self.object
    }
}

/// The place at which the one writer has found a key. It is valid for that key and that index only. If it is
/// outdated, or the default, the key is looked for.
#[derive(Clone, Copy, Debug, Default)]
pub struct Place {
    pub(crate) node: u64,
    pub(crate) since: u64,
}

impl Place {
    /// Whether a search has found it. It may be outdated.
    #[inline]
    pub(crate) fn is_known(self) -> bool {
        self.node != 0
    }
}

/// An object that nothing needs once no retained version lies in `[start, end)` and `end` is visible.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retired {
    /// The object.
    pub object: Object,
    /// The first version that could see it.
    pub start: u64,
    /// The version that unlinked it.
    pub end: u64,
}

/// The one writer's side of a commit: the stamp of its changes, the versions that must be kept, and the objects that the
/// changes retire.
#[derive(Debug)]
pub struct Writer<'w> {
    /// The stamp of every change.
    pub stamp: Stamp,
    /// Versions that are void.
    pub dead: &'w DeadIntervals,
    /// Versions that can be read since the transaction began.
    pub retained: &'w Retained,
    /// The changes add the objects that they unlink.
    pub retired: &'w mut Vec<Retired>,
}

impl Writer<'_> {
    /// The view of the writer itself: everything, its own changes included.
    pub fn view(&self) -> View<'_> {
        View { version: self.stamp.version(), dead: self.dead }
    }
}

/// Receives each key and value of a range; returns false to end the walk.
pub type Visit<'v> = dyn FnMut(&[u8], Value<'_>) -> bool + 'v;

/// Receives each key that has changed; returns false to end the walk.
pub type VisitKey<'v> = dyn FnMut(&[u8]) -> bool + 'v;

/// A range of keys, and the direction in which it is walked.
#[derive(Clone, Copy, Debug)]
pub struct Range<'k> {
    /// The lower bound.
    pub from: Bound<&'k [u8]>,
    /// The upper bound.
    pub to: Bound<&'k [u8]>,
    /// The direction.
    pub direction: Direction,
}

/// Receives what a mark finds.
pub trait TreeMarker {
    /// Notes that `object` is reachable in a retained version. Returns false if that was reported before.
    fn reachable(&mut self, object: Object) -> Result<bool, Error>;
    /// Notes that the node holds stamps of dead versions, so that a scrub has to visit it.
    fn unclean(&mut self, node: Object);
    /// Counts an entry that lives in the newest visible version.
    fn live_entry(&mut self);
}

/// A key, and the value that is put. `None`: the key is removed.
pub type KeyChange<'c> = (&'c [u8], Option<&'c [u8]>);

/// An ordered map of bytes to bytes, every retained version of which can be read.
///
/// An index never commits: `apply` writes stamped changes, which the store publishes. Reading and
/// applying take `&self`; one writer at a time, any number of readers, each under a pin of the
/// version that it reads.
pub trait VersionedIndex: Send + Sync {
    /// The value under `key`.
    fn get(&self, key: &[u8], view: View<'_>) -> Result<Option<Value<'_>>, Error>;

    /// As `get`, for the writer and in its view, with the place of the key.
    fn get_at(&self, place: Place, key: &[u8], view: View<'_>) -> Result<Option<Value<'_>>, Error>;

    /// Adds the value under each of the keys, in their order: as `get` of each, with less waiting for memory. On an error
    /// it may have added some.
    fn get_many<'i>(
        &'i self,
        keys: &[&[u8]],
        view: View<'_>,
        values: &mut Vec<Option<Value<'i>>>,
    ) -> Result<(), Error>;

    /// Finds the places of keys that will soon be read or changed in the view of the one writer, for
    /// all of them at once, and prefetches what they need in memory. Adds one place for each key. Changes
    /// nothing.
    fn prefetch(&self, keys: &[&[u8]], view: View<'_>, places: &mut Vec<Place>);

    /// Prefetches what these changes need, which will soon be made in the view of the one writer: where pages come from a disk
    /// one by one, those that the changes read and store to are asked for together. Changes nothing.
    fn bring_near(&self, changes: &[KeyChange<'_>], view: View<'_>);

    /// Visits the keys from `from` to `to` in the given direction.
    fn range(
        &self,
        from: Bound<&[u8]>,
        to: Bound<&[u8]>,
        direction: Direction,
        view: View<'_>,
        visit: &mut Visit<'_>,
    ) -> Result<(), Error>;

    /// Applies one change. Returns whether the key was there before. A key can be changed again at the same version; a change
    /// sees those before it.
    ///
    /// Durability point: none; everything is flushed, and durable after the caller's next fence.
    /// On an error nothing has changed, unless it is damage. A key of more than [`KEY_SIZE_MAX`] bytes is
    /// [`Error::KeyTooLong`].
    fn apply(&self, op: Op<'_>, writer: &mut Writer<'_>) -> Result<bool, Error>;

    /// As `apply`, with the place of the key.
    fn apply_at(&self, place: Place, op: Op<'_>, writer: &mut Writer<'_>) -> Result<bool, Error>;

    /// Writes some of these values, each of which will be put under its key next, into objects of their own, if that is less work
    /// than to write one by one: adds to `written` one or `None` for each. What is not [put](VersionedIndex::put_written)
    /// belongs to the caller, which frees it as one that was never used.
    ///
    /// Durability point: none; they are durable after the caller's next fence.
    fn write_together(&self, puts: &[(&[u8], &[u8])], written: &mut Vec<Option<Written>>) {
        written.resize(written.len() + puts.len(), None);
    }

    /// As `apply_at`, puts a value that was written with [`write_together`](VersionedIndex::write_together), by the same thread.
    /// It does not belong to the caller any more, not even after an error.
    fn put_written(
        &self,
        place: Place,
        (key, value): (&[u8], &[u8]),
        _written: Written,
        writer: &mut Writer<'_>,
    ) -> Result<bool, Error> {
        // An index that writes none gets none.
        self.apply_at(place, Op::Put { key, value: &[value] }, writer)
    }

    /// Applies one change that commits by itself: stamped, as the last act before the index's own
    /// fence, with the version that it draws by this ticket. True if the key was there before; what changes nothing
    /// draws no version. `None`: this index cannot do that in place; the caller applies the change in a group instead.
    ///
    /// Before the call only the lane of `writer.stamp` counts; afterwards it is the stamp of the change. The
    /// caller makes sure that the version that is drawn next is below the durable limit of versions.
    ///
    /// Durability point: when it returns.
    #[inline(always)]
    fn apply_single(
        &self,
        op: Op<'_>,
        ticket: &Ticket<'_>,
        writer: &mut Writer<'_>,
    ) -> Result<Option<bool>, Error> {
        op.key()?;
        let place = self.prefetch_single(op);
        self.apply_single_at(place, op, ticket, writer)
    }

    /// As `apply_single`, at the place that [`prefetch_single`](VersionedIndex::prefetch_single) has found.
    fn apply_single_at(
        &self,
        place: Place,
        op: Op<'_>,
        ticket: &Ticket<'_>,
        writer: &mut Writer<'_>,
    ) -> Result<Option<bool>, Error>;

    /// Looks for the key of a single change that comes next, and asks the processor for what it will read first: as long before the
    /// change as possible, while the fence of another one is still under way. The place may be the default.
    #[inline]
    fn prefetch_single(&self, _op: Op<'_>) -> Place {
        Place::default()
    }

    /// Whether the key was put or removed after version `since`, as far as `now` sees. Returns a version up to
    /// which that happened: the last one that did it, where the index knows it. `since` is pinned, or not below the
    /// visible version. A key that was put and removed since may count as unchanged.
    fn changed(&self, key: &[u8], since: u64, now: View<'_>) -> Result<Option<u64>, Error>;

    /// Visits the keys of the range that have changed, as [`changed`](VersionedIndex::changed) says.
    fn range_changed(
        &self,
        range: Range<'_>,
        since: u64,
        now: View<'_>,
        visit: &mut VisitKey<'_>,
    ) -> Result<(), Error>;

    /// Reports every object that a retained version can reach.
    fn mark(
        &self,
        retained: &Retained,
        dead: &DeadIntervals,
        marker: &mut dyn TreeMarker,
    ) -> Result<(), Error>;

    /// Erases from the node entries of dead versions, and entries that no version needs.
    ///
    /// Durability point: the caller's next fence.
    fn scrub(&self, node: Object, writer: &mut Writer<'_>) -> Result<(), Error>;

    /// Takes back a root that a dead version published.
    ///
    /// Durability point: the caller's next fence.
    fn scrub_root(&self, writer: &mut Writer<'_>) -> Result<(), Error>;

    /// Performs one step of logical collection, from the leaf that covers `from` on. Returns the key from which to go
    /// on, or `None` at the end.
    ///
    /// Durability point: when it returns, and before another writer finds a leaf unlocked. In the CDDS B-Tree the caller's
    /// next fence, before which no other writer comes.
    fn collect(
        &self,
        from: Option<&[u8]>,
        writer: &mut Writer<'_>,
    ) -> Result<Option<Vec<u8>>, Error>;

    /// Whether a call of [`write_hint`](VersionedIndex::write_hint) is worth it.
    fn wants_hint(&self) -> bool {
        false
    }

    /// Writes a hint that makes the next open quick, while readers and the writer go on. Retires the hint before, which
    /// belonged to no version, as of `version`. Correctness does not depend on a hint.
    ///
    /// Durability point: when it returns. On an error nothing has changed.
    ///
    /// # Errors
    /// Those of the pool; damage.
    fn write_hint(&self, _version: u64, _retired: &mut Vec<Retired>) -> Result<(), Error> {
        Ok(())
    }

    /// Verifies the structure in the view of every retained version.
    fn check(&self, retained: &Retained, dead: &DeadIntervals) -> Result<CheckReport, Error>;
}

/// What a check of one index counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CheckReport {
    /// Keys in the visible version.
    pub entry_count: u64,
    /// Leaves in the visible version.
    pub leaf_count: u64,
    /// Inner nodes in the visible version.
    pub inner_count: u64,
    /// Levels in the visible version.
    pub height: u32,
}
