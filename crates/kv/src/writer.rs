//! What the one writer knows.

use std::collections::BTreeMap;
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, MutexGuard};

use tembo_index::{DeadInterval, DeadIntervals, Index, Retained, Retired};
use tembo_pool::{Object, Sweep};

use crate::collection::Collecting;
use crate::format::KeyspaceEntry;
use crate::inner::Inner;
use crate::removals::Removals;
use crate::retire::RetireList;
use crate::tenant::ForeignSurvey;
use crate::window::Window;
use crate::{Error, Keyspace};

/// A keyspace as the writer sees it.
pub(crate) struct Tree {
    pub(crate) name: String,
    pub(crate) index: Arc<Index>,
    pub(crate) entry: KeyspaceEntry,
    /// Keys when the last survey began; `None`: not yet known.
    pub(crate) surveyed: Option<u64>,
    /// Keys added less keys removed since then.
    pub(crate) delta: i64,
    /// Keys removed since the last collection began.
    pub(crate) removed: u64,
    /// When the horizon has come so far, what is kept for old versions can go.
    pub(crate) kept_until: Option<u64>,
    /// Of its number, since this open.
    pub(crate) incarnation: u32,
}

impl Tree {
    pub(crate) fn count(&self) -> Option<u64> {
        self.surveyed.map(|count| count.saturating_add_signed(self.delta))
    }
}

/// How far the background recovery is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Recovery {
    /// A survey is due: space below the pool's sweep limit is unknown, or a count, or there are dead
    /// intervals to scrub.
    Owed,
    /// A survey is under way: nothing is given back until it ends.
    Surveying,
    /// Nodes with dead stamps are being scrubbed.
    Scrubbing,
    /// An index is being prepared for the next open: no survey may begin.
    Preparing,
    /// Nothing is left to do.
    Done,
}

/// State of the one writer, under its lock.
pub(crate) struct WriterState {
    /// The durable limit of versions.
    pub(crate) limit: u64,
    /// What is dead: the same as in the forest.
    pub(crate) dead: Arc<DeadIntervals>,
    /// What was retained some time ago, for single changes; and how many may still use it.
    pub(crate) retained: Retained,
    pub(crate) retained_uses: u32,
    /// By number.
    pub(crate) trees: Vec<Tree>,
    /// Named snapshots.
    pub(crate) named: BTreeMap<String, u64>,
    /// Unlinked by committed transactions.
    pub(crate) retired: RetireList,
    /// Unlinked by the running transaction.
    pub(crate) unlinked: Vec<Retired>,
    pub(crate) recovery: Recovery,
    /// A survey has ended since the open.
    pub(crate) surveyed: bool,
    /// A writer has once surveyed the pool himself, for want of space.
    pub(crate) has_hurried: bool,
    /// What became void before that lies above the first survey's limit: it takes another.
    pub(crate) again: bool,
    pub(crate) collecting: Collecting,
    pub(crate) window: Window,
    /// Nodes to scrub, each with its tree, and the intervals that are then forgotten.
    pub(crate) unclean: Vec<(Scrubbed, Object)>,
    pub(crate) scrubbing: Vec<DeadInterval>,
    /// Gives back what the survey has not reached, when nothing refers to it any more.
    pub(crate) sweep: Option<Sweep>,
    /// Another tenant's sweep surveys the store.
    pub(crate) foreign_survey: Option<ForeignSurvey>,
    /// Lifetimes of trees that were cleared: only a sweep gives them back.
    pub(crate) cleared: Vec<(u64, u64)>,
    /// Versions that were named when the store was opened: what only they see is in no list, and so
    /// only a sweep gives it back.
    pub(crate) inherited: Vec<u64>,
    /// What was aborted since the last commit.
    pub(crate) pending_dead: Option<DeadInterval>,
    /// Counts the incarnations of keyspace numbers.
    pub(crate) incarnations: u32,
    /// Something failed half-way: no more writes.
    pub(crate) broken: bool,
    pub(crate) removals: Removals,
    /// A transaction that has outgrown memory is the one writer: see [`Inner::lock`].
    pub(crate) is_taken: bool,
}

impl Recovery {
    /// Whether somebody is at it without the writer's lock.
    pub(crate) fn is_under_way(self) -> bool {
        matches!(self, Recovery::Surveying | Recovery::Preparing)
    }
}

impl WriterState {
    /// Of a store that was opened with these versions dead, these trees and these names.
    pub(crate) fn new(
        limit: u64,
        dead: Arc<DeadIntervals>,
        trees: Vec<Tree>,
        named: BTreeMap<String, u64>,
    ) -> WriterState {
        WriterState {
            limit,
            dead,
            retained: Retained::default(),
            retained_uses: 0,
            trees,
            inherited: named.values().copied().collect(),
            named,
            retired: RetireList::default(),
            unlinked: Vec::new(),
            recovery: Recovery::Owed,
            surveyed: false,
            has_hurried: false,
            again: false,
            collecting: Collecting::default(),
            window: Window::default(),
            unclean: Vec::new(),
            scrubbing: Vec::new(),
            sweep: None,
            foreign_survey: None,
            cleared: Vec::new(),
            pending_dead: None,
            incarnations: 1,
            broken: false,
            removals: Removals::default(),
            is_taken: false,
        }
    }

    /// # Errors
    /// [`Error::NoSuchKeyspace`].
    pub(crate) fn tree(&self, keyspace: Keyspace, inner: &Inner) -> Result<&Tree, Error> {
        let tree = self.trees.get(keyspace.id as usize);
        tree.filter(|tree| tree.incarnation == keyspace.incarnation)
            .ok_or_else(|| Error::NoSuchKeyspace { version: inner.clock.last() })
    }

    /// # Errors
    /// The store takes no more writes until it is opened again.
    pub(crate) fn sound(&self) -> Result<(), Error> {
        if self.broken {
            return Err(Error::Damaged { what: "what an earlier operation left half done" });
        }
        Ok(())
    }
}

/// The state, by the one writer: while it lives, nobody else changes anything.
pub(crate) struct Writing<'s> {
    inner: &'s Inner,
    state: MutexGuard<'s, WriterState>,
}

impl<'s> Writing<'s> {
    /// With the writer's lock.
    pub(crate) fn begin(inner: &'s Inner, mut state: MutexGuard<'s, WriterState>) -> Writing<'s> {
        inner.close_lanes(&mut state);
        Writing { inner, state }
    }
}

impl Deref for Writing<'_> {
    type Target = WriterState;

    fn deref(&self) -> &WriterState {
        &self.state
    }
}

impl DerefMut for Writing<'_> {
    fn deref_mut(&mut self) -> &mut WriterState {
        &mut self.state
    }
}

impl Drop for Writing<'_> {
    fn drop(&mut self) {
        self.inner.open_lanes(&self.state);
    }
}

/// A tree by where it is found.
#[derive(Clone)]
pub(crate) enum Scrubbed {
    Catalogue,
    Keyspace(Arc<Index>),
}
