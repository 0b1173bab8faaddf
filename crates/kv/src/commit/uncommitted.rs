//! Changes that are made in place, under the writer's lock, and commit together.

use std::ops::Bound;
use std::sync::Arc;

use tembo_index::{
    DeadIntervals, Direction, Index, KeyChange, Op, Place, Range, Retained, VersionedIndex, View,
    Writer, Written,
};

use crate::error::InKeyspace;
use crate::ledger::{Cleared, Group, Ledger, abort, kill_grouped, next_version};
use crate::media::{CommitWord, FEATURES_RANGES, FEATURES_REPLICA, grouped};
use crate::shared::Shared;
use crate::tally::{Tally, TallyPoint};
use crate::tombstones::{KeyRange, Tombstone};
use crate::trees::{Tree, create_tree};
use crate::version::PinKind;
use crate::{Access, Error, Keyspace};

/// The range of all keys.
const ALL: Range<'_> =
    Range { from: Bound::Unbounded, to: Bound::Unbounded, direction: Direction::Forward };

/// Changes that are made under versions of their own, and are not committed.
pub(crate) struct Uncommitted {
    /// The version of the next change. It is drawn when the change comes.
    version: Option<u64>,
    /// The first version drawn, of those that are not taken back.
    first: Option<u64>,
    /// The last version drawn.
    last: Option<u64>,
    /// Whether any entry carries one of the stamps.
    written: bool,
    retained: Arc<Retained>,
    dead: Arc<DeadIntervals>,
    tally: Tally,
    /// Number of objects that the changes have unlinked. They are at the end of the writer's list.
    unlinked: usize,
    /// What an abort takes back in the directory, the last change first.
    undo: Vec<Undo>,
    /// The id of the prepared transaction whose changes these are: they may change the keys that it holds.
    own: Option<Arc<[u8]>>,
}

/// How a change of the directory is taken back.
enum Undo {
    /// Removes the last keyspace.
    Created,
    /// Gives the keyspace its tree back.
    Cleared(Keyspace, Box<Tree>),
    /// Removes the tombstone of that version.
    RangeRemoved(u64),
    /// Lets the tombstone of that version cover entries again.
    TombstoneEnded(u64),
}

/// A point to which changes can be taken back.
#[derive(Clone)]
pub(crate) struct Point {
    /// The last version before the point, whether of these changes or not.
    version: u64,
    /// The last version of these changes before the point.
    last: Option<u64>,
    tally: TallyPoint,
    unlinked: usize,
    undo: usize,
}

impl Group for Uncommitted {
    fn several(&self) -> Option<(u64, u64)> {
        self.first.zip(self.last).filter(|(first, last)| first < last)
    }

    fn hand_in(&mut self) -> &mut Tally {
        (self.version, self.first, self.last) = (None, None, None);
        &mut self.tally
    }

    fn changes_trees(&self) -> bool {
        self.undo.iter().any(|undo| matches!(undo, Undo::Created | Undo::Cleared(..)))
    }

    fn cleared(&mut self, version: u64) -> Vec<Cleared> {
        let cleared = |undo| match undo {
            Undo::Cleared(_, tree) => {
                Some(Cleared { index: tree.index().clone(), birth: tree.birth(), end: version })
            }
            _ => None,
        };
        self.undo.drain(..).filter_map(cleared).collect()
    }
}

impl Uncommitted {
    /// No changes yet. For the writer.
    pub(crate) fn begin(shared: &Shared) -> Uncommitted {
        Uncommitted {
            version: None,
            first: None,
            last: None,
            written: false,
            retained: shared.versions.pins.retained(),
            dead: shared.forest.dead(),
            tally: Tally::default(),
            unlinked: 0,
            undo: Vec::new(),
            own: None,
        }
    }

    /// As `begin`, under a given version, which is committed even if nothing is changed.
    pub(crate) fn begin_at(shared: &Shared, version: u64) -> Uncommitted {
        let version = Some(version);
        Uncommitted { version, first: version, last: version, ..Uncommitted::begin(shared) }
    }

    /// As `begin`, for the changes of a prepared transaction.
    pub(crate) fn of_prepared(shared: &Shared, id: &[u8]) -> Uncommitted {
        Uncommitted { own: Some(id.into()), ..Uncommitted::begin(shared) }
    }

    /// True while nothing has been changed.
    pub(crate) fn is_empty(&self) -> bool {
        self.last.is_none()
    }

    /// The last version of these changes, or the last one before them.
    pub(crate) fn newest(&self, shared: &Shared) -> u64 {
        self.last.unwrap_or_else(|| shared.versions.clock.last())
    }

    /// The view of everything, with these changes.
    pub(crate) fn view(&self, shared: &Shared) -> View<'_> {
        View { version: self.newest(shared), dead: &self.dead }
    }

    /// What the changes add to a keyspace's count.
    pub(crate) fn delta(&self, keyspace: Keyspace) -> i64 {
        self.tally.delta(keyspace)
    }

    /// The version to be committed; `None`: nothing was changed.
    pub(crate) fn last(&self) -> Option<u64> {
        self.last
    }

    /// Applies one change. Returns whether the key was there before.
    #[inline]
    pub(crate) fn apply(
        &mut self,
        shared: &Shared,
        ledger: &mut Ledger,
        (keyspace, place): (Keyspace, Place),
        op: Op<'_>,
    ) -> Result<bool, Error> {
        let was_seen = self.check_change(shared, ledger, keyspace, op)?;
        let change = |index: &Index, writer: &mut Writer<'_>| index.apply_at(place, op, writer);
        let existed = self.make(shared, ledger, (keyspace, op), change)?;
        Ok(existed && was_seen)
    }

    /// Checks whether a change may be made. Returns whether its key, if it is there, is covered by no tombstone.
    #[inline(always)]
    fn check_change(
        &self,
        shared: &Shared,
        ledger: &mut Ledger,
        keyspace: Keyspace,
        op: Op<'_>,
    ) -> Result<bool, Error> {
        let has_tombstones = shared.tombstones.has_any();
        let was_seen = !has_tombstones || self.is_seen(shared, ledger, keyspace, op)?;
        if !shared.held.is_empty() {
            let (Op::Put { key, .. } | Op::Remove { key }) = op;
            shared.check_held(keyspace, key, self.own.as_deref())?;
        }
        Ok(was_seen)
    }

    /// As [`apply`](Uncommitted::apply), puts a value that is written already, and belongs to the caller no more.
    pub(crate) fn put_written(
        &mut self,
        shared: &Shared,
        ledger: &mut Ledger,
        (keyspace, place): (Keyspace, Place),
        (key, value): (&[u8], &[u8]),
        written: Written,
    ) -> Result<bool, Error> {
        let op = Op::Put { key, value: &[value] };
        let mut left = Some(written);
        let change = |index: &Index, writer: &mut Writer<'_>| {
            left = None;
            index.put_written(place, (key, value), written, writer)
        };
        let put = self.check_change(shared, ledger, keyspace, op).and_then(|was_seen| {
            let existed = self.make(shared, ledger, (keyspace, op), change)?;
            Ok(existed && was_seen)
        });
        if let Some(written) = left {
            shared.pool().give_up([written.object()]);
        }
        put
    }

    /// Applies changes of keys of one keyspace, in this order: puts, and removals where there is no value. Pages that they
    /// need of the disk are prefetched together, and values that fill pages are written together where that is less work.
    pub(crate) fn apply_group(
        &mut self,
        shared: &Shared,
        ledger: &mut Ledger,
        keyspace: Keyspace,
        group: &[KeyChange<'_>],
    ) -> Result<(), Error> {
        self.bring_near(shared, ledger, keyspace, group);
        let mut all = self.write_together(shared, ledger, keyspace, group).into_iter();
        let mut applied = Ok(());
        for (key, value) in group {
            let mut written = all.next().flatten();
            if applied.is_ok() {
                let at = (keyspace, Place::default());
                applied = match (value, written.take()) {
                    (Some(value), Some(written)) => {
                        let put = (*key, *value);
                        self.put_written(shared, ledger, at, put, written).map(drop)
                    }
                    (Some(value), None) => {
                        self.apply(shared, ledger, at, Op::Put { key, value: &[value] }).map(drop)
                    }
                    (None, _) => self.apply(shared, ledger, at, Op::Remove { key }).map(drop),
                };
            }
            if let Some(written) = written {
                shared.pool().give_up([written.object()]);
            }
        }
        applied
    }

    /// Writes those values of a group that the index writes together. Returns one or `None` for each change, or an empty
    /// list.
    fn write_together(
        &self,
        shared: &Shared,
        ledger: &Ledger,
        keyspace: Keyspace,
        group: &[KeyChange<'_>],
    ) -> Vec<Option<Written>> {
        let mut written = Vec::new();
        let bytes: usize = group.iter().filter_map(|(_, value)| *value).map(<[u8]>::len).sum();
        if !shared.region().writes_together(bytes as u64) {
            return written;
        }
        // A removal counts as a put of an empty value here, which is not written.
        let puts: Vec<(&[u8], &[u8])> =
            group.iter().map(|(key, value)| (*key, value.unwrap_or_default())).collect();
        if let Ok(tree) = ledger.trees.tree(keyspace, self.newest(shared)) {
            tree.index().write_together(&puts, &mut written);
        }
        written
    }

    /// Prefetches together the pages that these changes need, where pages come from a disk one by one.
    fn bring_near(
        &self,
        shared: &Shared,
        ledger: &Ledger,
        keyspace: Keyspace,
        group: &[KeyChange<'_>],
    ) {
        if group.len() < 2 || !shared.region().reads_alone() {
            return;
        }
        let view = self.view(shared);
        if let Ok(tree) = ledger.trees.tree(keyspace, view.version) {
            tree.index().bring_near(group, view);
        }
    }

    /// Erases an entry that a tombstone covers. No reader sees a difference, so this is done even if a prepared transaction
    /// holds the key.
    pub(crate) fn erase(
        &mut self,
        shared: &Shared,
        ledger: &mut Ledger,
        keyspace: Keyspace,
        key: &[u8],
    ) -> Result<(), Error> {
        let (place, op) = (Place::default(), Op::Remove { key });
        let change = |index: &Index, writer: &mut Writer<'_>| index.apply_at(place, op, writer);
        self.make(shared, ledger, (keyspace, op), change).map(drop)
    }

    /// Makes a change that was checked. Returns whether the index had an entry of the key before.
    #[inline(always)]
    fn make(
        &mut self,
        shared: &Shared,
        ledger: &mut Ledger,
        (keyspace, op): (Keyspace, Op<'_>),
        change: impl FnOnce(&Index, &mut Writer<'_>) -> Result<bool, tembo_index::Error>,
    ) -> Result<bool, Error> {
        let _relief = matches!(op, Op::Remove { .. }).then(|| shared.pool().relief());
        let version = self.draw(shared, ledger)?;
        let before = ledger.unlinked.len();
        let Ledger { trees, unlinked, .. } = ledger;
        let (dead, retained) = (&*self.dead, &*self.retained);
        let mut writer = Writer { stamp: grouped(version), dead, retained, retired: unlinked };
        let tree = trees.tree(keyspace, version)?;
        let applied = change(tree.index(), &mut writer);
        let more = unlinked.len() - before;
        self.note_unlinked(more, !matches!(applied, Err(tembo_index::Error::Pool(_))));
        let existed = applied.in_keyspace(tree.name())?;
        self.tally.count(keyspace, op, existed, version);
        Ok(existed)
    }

    /// Removes the keys of a range by one entry, whatever their number.
    pub(crate) fn remove_range(
        &mut self,
        shared: &Shared,
        ledger: &mut Ledger,
        (keyspace, range): (Keyspace, KeyRange),
    ) -> Result<(), Error> {
        let _relief = shared.pool().relief();
        let cell = ledger.trees.tree(keyspace, self.newest(shared))?.known.cell;
        let (from, to) = range.bounds();
        let all = Range { from, to, direction: Direction::Forward };
        shared.check_held_range(keyspace, all, Access::Write)?;
        ledger.features.announce(shared, FEATURES_RANGES)?;
        // The removal has a version of its own: it covers puts of earlier versions, and none of later ones.
        self.version = None;
        let version = self.draw(shared, ledger)?;
        let tombstone = Tombstone { cell, range: Arc::new(range), version, until: u64::MAX };
        self.write_catalogue(ledger, version, |writer| {
            shared.catalogue.put_tombstone(&tombstone, writer)
        })?;
        self.version = None;
        shared.versions.pins.pin(version, PinKind::Tombstone);
        shared.tombstones.change(|list| list.push(tombstone));
        self.undo.push(Undo::RangeRemoved(version));
        shared.wake.want();
        Ok(())
    }

    /// Ends a tombstone, after the last entry that it covered was erased.
    pub(crate) fn end_tombstone(
        &mut self,
        shared: &Shared,
        ledger: &mut Ledger,
        tombstone: &Tombstone,
    ) -> Result<(), Error> {
        let _relief = shared.pool().relief();
        let version = self.draw(shared, ledger)?;
        self.write_catalogue(ledger, version, |writer| {
            shared.catalogue.remove_tombstone(tombstone, writer)
        })?;
        end_at(shared, tombstone.version, version);
        self.undo.push(Undo::TombstoneEnded(tombstone.version));
        Ok(())
    }

    fn write_catalogue(
        &mut self,
        ledger: &mut Ledger,
        version: u64,
        change: impl FnOnce(&mut Writer<'_>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let before = ledger.unlinked.len();
        let (dead, retained) = (&*self.dead, &*self.retained);
        let retired = &mut ledger.unlinked;
        let mut writer = Writer { stamp: grouped(version), dead, retained, retired };
        let changed = change(&mut writer);
        let has_written = !matches!(changed, Err(Error::Full(_)));
        self.note_unlinked(ledger.unlinked.len() - before, has_written);
        changed
    }

    /// Whether no tombstone covers the key of a change.
    #[cold]
    fn is_seen(
        &self,
        shared: &Shared,
        ledger: &Ledger,
        keyspace: Keyspace,
        op: Op<'_>,
    ) -> Result<bool, Error> {
        let tree = ledger.trees.tree(keyspace, self.newest(shared))?;
        let (Op::Put { key, .. } | Op::Remove { key }) = op;
        shared.sees(tree.index(), key, self.view(shared))
    }

    /// Gives the keyspace an empty tree.
    pub(crate) fn clear(
        &mut self,
        shared: &Shared,
        ledger: &mut Ledger,
        keyspace: Keyspace,
    ) -> Result<(), Error> {
        let tree = ledger.trees.tree(keyspace, self.newest(shared))?;
        shared.check_held_range(keyspace, ALL, Access::Write)?;
        let name = tree.known.name.clone();
        let _relief = shared.pool().relief();
        let tree = self.create_tree(shared, ledger, (&name, keyspace.id))?;
        let before = ledger.trees.replace(keyspace, tree);
        self.undo.push(Undo::Cleared(keyspace, Box::new(before)));
        self.tally.clear(keyspace);
        Ok(())
    }

    /// Makes a keyspace.
    pub(crate) fn create(
        &mut self,
        shared: &Shared,
        ledger: &mut Ledger,
        name: &str,
    ) -> Result<Keyspace, Error> {
        let id = ledger.trees.next_id();
        let tree = self.create_tree(shared, ledger, (name, id))?;
        self.undo.push(Undo::Created);
        Ok(ledger.trees.push(tree))
    }

    /// Makes the store a replica, or ends that.
    pub(crate) fn set_replica(
        &mut self,
        shared: &Shared,
        ledger: &mut Ledger,
        is_replica: bool,
    ) -> Result<(), Error> {
        if is_replica {
            ledger.features.announce(shared, FEATURES_REPLICA)?;
        }
        let version = self.draw(shared, ledger)?;
        self.write_catalogue(ledger, version, |writer| {
            shared.catalogue.set_replica(is_replica, writer)
        })
    }

    /// Notes that a change has unlinked so many objects. A refused change has changed nothing, but may have unlinked objects
    /// to make room. A change that met damage may have written something.
    fn note_unlinked(&mut self, more: usize, has_written: bool) {
        self.unlinked += more;
        self.written |= has_written || more > 0;
    }

    fn create_tree(
        &mut self,
        shared: &Shared,
        ledger: &mut Ledger,
        keyspace: (&str, u32),
    ) -> Result<Tree, Error> {
        let stamp = grouped(self.draw(shared, ledger)?);
        let before = ledger.unlinked.len();
        let mut writer = Writer {
            stamp,
            dead: &self.dead,
            retained: &self.retained,
            retired: &mut ledger.unlinked,
        };
        let made = create_tree(&shared.indexes, &shared.catalogue, keyspace, &mut writer);
        self.note_unlinked(ledger.unlinked.len() - before, !matches!(made, Err(Error::Full(_))));
        made
    }

    /// Changes an entry of the catalogue that names no tree.
    pub(crate) fn change_catalogue(
        &mut self,
        shared: &Shared,
        ledger: &mut Ledger,
        op: Op<'_>,
    ) -> Result<(), Error> {
        let _relief = matches!(op, Op::Remove { .. }).then(|| shared.pool().relief());
        let version = self.draw(shared, ledger)?;
        let unlinked = &mut ledger.unlinked;
        let before = unlinked.len();
        let (dead, retained) = (&*self.dead, &*self.retained);
        let mut writer = Writer { stamp: grouped(version), dead, retained, retired: unlinked };
        let applied = shared.catalogue.tree().apply(op, &mut writer);
        let more = unlinked.len() - before;
        self.unlinked += more;
        self.written |= !matches!(applied, Err(tembo_index::Error::Pool(_))) || more > 0;
        applied?;
        Ok(())
    }

    /// Notes the removed keys in the directory, for transactions that are validated before these changes commit.
    pub(crate) fn note_removed(&mut self, ledger: &mut Ledger) {
        for (hash, version) in self.tally.take_removed() {
            ledger.trees.removals.note(hash, version);
        }
    }

    /// Makes all changes void. If several of these are to be committed together, they have to be aborted from the last to
    /// the first.
    pub(crate) fn abort(&mut self, shared: &Shared, ledger: &mut Ledger) {
        let Some(last) = self.last.take() else { return };
        self.undo_after(shared, ledger, 0);
        self.forget_unlinked(ledger, 0);
        if self.written {
            abort(shared, ledger, last);
        }
    }

    /// Takes back changes of the directory, except the first `kept`.
    fn undo_after(&mut self, shared: &Shared, ledger: &mut Ledger, kept: usize) {
        for undo in self.undo.drain(kept..).rev() {
            match undo {
                Undo::Created => ledger.trees.pop(),
                Undo::Cleared(keyspace, tree) => drop(ledger.trees.replace(keyspace, *tree)),
                Undo::RangeRemoved(version) => {
                    shared.tombstones.change(|list| list.retain(|one| one.version != version));
                    shared.versions.pins.unpin(version, PinKind::Tombstone);
                }
                Undo::TombstoneEnded(version) => end_at(shared, version, u64::MAX),
            }
        }
    }

    /// The current point. The changes that follow have a version of their own.
    pub(crate) fn point(&mut self, shared: &Shared) -> Point {
        self.version = None;
        let (version, tally) = (self.newest(shared), self.tally.point());
        let (unlinked, undo) = (self.unlinked, self.undo.len());
        Point { version, last: self.last, tally, unlinked, undo }
    }

    /// Takes back the changes after a point. On an error nothing has changed.
    pub(crate) fn take_back(
        &mut self,
        shared: &Shared,
        ledger: &mut Ledger,
        point: &Point,
    ) -> Result<(), Error> {
        self.version = None;
        let Some(last) = self.last.filter(|&last| last > point.version) else { return Ok(()) };
        // If no change is kept, one interval can hold all groups since the last commit.
        let from = match point.last {
            Some(_) => point.version,
            None => CommitWord(&shared.root).load()?,
        };
        kill_grouped(shared, ledger, from, last)?;
        self.dead = shared.forest.dead();
        self.undo_after(shared, ledger, point.undo);
        self.forget_unlinked(ledger, point.unlinked);
        self.last = point.last;
        // Those that are not taken back come before the point.
        self.first = self.first.filter(|_| point.last.is_some());
        self.tally.go_back(&point.tally);
        Ok(())
    }

    /// Takes unlinked objects off the writer's list, except the first `kept`: they are linked again.
    pub(crate) fn forget_unlinked(&mut self, ledger: &mut Ledger, kept: usize) {
        let before = ledger.unlinked.len().saturating_sub(self.unlinked);
        ledger.unlinked.truncate(before + kept);
        self.unlinked = kept;
    }

    /// The version of the next change, drawn if there is none.
    ///
    /// # Errors
    /// [`Error::ReadOnly`]; those of the version limit.
    pub(crate) fn draw(&mut self, shared: &Shared, ledger: &mut Ledger) -> Result<u64, Error> {
        let version = match self.version {
            Some(version) => version,
            None => {
                shared.check_writable()?;
                next_version(shared, ledger)?
            }
        };
        self.first.get_or_insert(version);
        (self.version, self.last) = (Some(version), Some(version));
        Ok(version)
    }
}

/// Notes that a tombstone covers nothing from a version on.
fn end_at(shared: &Shared, tombstone: u64, until: u64) {
    shared.tombstones.change(|list| {
        let ended = list.iter_mut().filter(|one| one.version == tombstone);
        ended.for_each(|one| one.until = until);
    });
}
