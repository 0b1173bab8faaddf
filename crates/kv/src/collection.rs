//! Logical collection in the background: when an eighth of a keyspace's keys has been removed, its index
//! is walked once, a few leaves at a time, so that what nobody needs leaves them and leaves that have
//! become small are merged. Between two batches the writer's lock is free. While a survey runs, or
//! nodes wait to be scrubbed, nothing is collected.
//!
//! It is walked too when as many of its entries were kept for old versions only, and took space, and the
//! horizon has passed them since: a snapshot was dropped, or the window has moved on.

use tembo_index::{Index, IndexKind, Retained, VersionedIndex, Writer};

use crate::inner::Inner;
use crate::ledger::Ledger;
use crate::writer::{Recovery, Tree, WriterState};
use crate::{Error, Progress};

/// Leaves that are collected while the writer's lock is held.
const BATCH: usize = 2;

/// One in so many keys must have been removed.
const SHARE: u64 = 8;

/// Fewer removals than one to so many bytes of a node are not worth a walk.
const REMOVED_BYTES: u64 = 32;

/// Less than so many entries is never worth one.
const KEPT_MIN: u64 = 32;

/// Versions between two calls to see what has been given up.
const LOOK_STEP: u64 = 1000;

/// A walk through a tree.
pub(crate) struct Collection {
    /// The cell of the tree.
    cell: u64,
    /// Where it goes on.
    from: Option<Vec<u8>>,
}

impl Tree {
    /// Whether so much was removed that a walk is worth it.
    fn is_due(&self, node_size: u64) -> bool {
        let removed_min = (node_size / REMOVED_BYTES).max(1);
        let enough = |count: u64| self.removed >= removed_min.max(count / SHARE);
        // Nodes of the CDDS B-Tree are made anew by its writers, who leave out what nobody needs.
        self.index.kind() == IndexKind::Nvtree && self.count().is_some_and(enough)
    }

    /// Whether so much was kept for old versions, which have been given up since, that a walk is worth it.
    fn is_released(&mut self, node_size: u64, retained: &Retained) -> bool {
        let kept_min = (node_size / REMOVED_BYTES).max(1);
        let enough = |count: u64| self.index.kept() >= kept_min.max(count / SHARE);
        if !self.count().is_some_and(enough) {
            return false;
        }
        retained.horizon() >= *self.kept_until.get_or_insert(retained.visible())
    }
}

impl Inner {
    /// Notes that keys were removed; calls the background when that is due.
    pub(crate) fn note_removed(&self, state: &mut WriterState, id: usize, count: u64) {
        let node_size = self.pool().geometry().node_size.into();
        let tree = &mut state.trees[id];
        tree.removed += count;
        if !state.collecting.is_called && tree.is_due(node_size) {
            state.collecting.is_called = true;
            self.wake.want();
        }
    }

    /// Looks now and then, while something is kept for old versions only, whether they have been given
    /// up; then calls the background, for which the writer may have to wait.
    #[inline]
    pub(crate) fn offer_to_collect(&self, state: &mut WriterState) {
        if self.forest.kept() >= KEPT_MIN && self.clock.last() >= state.collecting.look_at {
            state.collecting.look_at = self.clock.last() + LOOK_STEP;
            let node_size = self.pool().geometry().node_size.into();
            let retained = self.pins.retained();
            if state.trees.iter_mut().any(|tree| tree.is_released(node_size, &retained)) {
                self.wake.want();
            }
        }
    }

    /// A version is not held any more: if it was an old one, the background looks what that gives back.
    pub(crate) fn let_go(&self, version: u64) {
        if version + LOOK_STEP < self.pins.visible() {
            self.wake.want();
        }
    }

    /// One batch of leaves, if one is due.
    pub(crate) fn collect_batch(&self, state: &mut WriterState) -> Result<Progress, Error> {
        if state.recovery != Recovery::Done || state.broken {
            return Ok(Progress::Idle);
        }
        state.collecting.is_called = false;
        let Some(walk) = state.collecting.walk.take().or_else(|| self.begin_walk(state)) else {
            return Ok(Progress::Idle);
        };
        let tree = state.trees.iter().find(|tree| tree.entry.cell.get() == walk.cell);
        // A tree that was cleared meanwhile goes as a whole.
        let Some(index) = tree.map(|tree| tree.index.clone()) else { return Ok(Progress::More) };
        state.collecting.walk = match self.walk_on(state, &index, walk) {
            // There is not even room to make room: the walk is over.
            Err(Error::Full(_)) => None,
            walked => walked?,
        };
        state.collecting.passes += u64::from(state.collecting.walk.is_none());
        Ok(Progress::More)
    }

    /// A walk through the first tree in which one is due.
    fn begin_walk(&self, state: &mut WriterState) -> Option<Collection> {
        let node_size = self.pool().geometry().node_size.into();
        let retained = self.pins.retained();
        let is_due =
            |tree: &mut &mut Tree| tree.is_due(node_size) || tree.is_released(node_size, &retained);
        let tree = state.trees.iter_mut().find_map(|mut tree| is_due(&mut tree).then_some(tree))?;
        tree.removed = 0;
        tree.kept_until = None;
        tree.index.forget_kept();
        Some(Collection { cell: tree.entry.cell.get(), from: None })
    }

    /// Collects some leaves; where to go on. After an error the walk is over.
    fn walk_on(
        &self,
        state: &mut WriterState,
        index: &Index,
        walk: Collection,
    ) -> Result<Option<Collection>, Error> {
        self.allow_next(state)?;
        let (dead, retained) = (self.forest.dead(), self.pins.retained());
        self.forest.set_retained(retained.clone());
        let mut retired = Vec::new();
        let mut writer = Writer {
            stamp: Ledger::grouped(self.clock.last()),
            dead: &dead,
            retained: &retained,
            retired: &mut retired,
        };
        let mut next = Ok(walk.from);
        for _ in 0..BATCH {
            next = index.collect(next.unwrap_or_default().as_deref(), &mut writer);
            if !matches!(next, Ok(Some(_))) {
                break;
            }
        }
        // ORDER: what was erased and unlinked is durably so before its space is used again.
        self.region().fence_flushed("kv.collect.batch");
        if !retired.is_empty() {
            // A version in which nothing else happens: who reads from it on sees nothing of this.
            self.pins.publish(self.clock.draw());
        }
        state.retired.extend(&mut retired);
        self.reclaim(state);
        Ok(next?.map(|from| Collection { from: Some(from), ..walk }))
    }
}

/// How far the collection is.
#[derive(Default)]
pub(crate) struct Collecting {
    walk: Option<Collection>,
    /// The version at which the writer looks again.
    look_at: u64,
    /// The background knows that one is due.
    is_called: bool,
    /// Walks that have come to their end since the open.
    pub(crate) passes: u64,
}
