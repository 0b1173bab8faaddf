//! Background recovery: survey, sweep, scrub; then collection.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;

use tembo_index::{DeadIntervals, Forest, Index, Retained, Surveyor, VersionedIndex, Writer};
use tembo_pool::{Object, Sweep};

use crate::catalogue::open_tree;
use crate::inner::Inner;
use crate::ledger::Ledger;
use crate::wake::Wake;
use crate::writer::{Recovery, Scrubbed, WriterState};
use crate::{Error, Progress};

/// Nodes scrubbed while the writer's lock is held.
const SCRUB_BATCH: usize = 32;

/// Objects between two times at which a survey lets others go first: where there are fewer processors than
/// threads, whoever asks meanwhile would wait until this thread has had its time.
const OBJECTS_BETWEEN_YIELDS: u64 = 128;

/// What a survey begins with, taken under the writer's lock.
pub(crate) struct Noted {
    pub(crate) retained: Arc<Retained>,
    dead: Arc<DeadIntervals>,
    /// Every tree of a retained version, by cell.
    trees: BTreeMap<u64, Arc<Index>>,
}

/// Marks what a survey reaches.
struct Marker<'m> {
    marker: &'m mut dyn tembo_pool::Marker,
    unclean: Vec<Object>,
    live: u64,
    reached: u64,
    wake: &'m Wake,
    forest: &'m Forest,
}

impl Surveyor for Marker<'_> {
    fn reachable(&mut self, object: Object) -> Result<bool, tembo_index::Error> {
        if self.wake.is_stopped() {
            return Err(tembo_index::Error::Stopped);
        }
        self.reached += 1;
        if self.reached.is_multiple_of(OBJECTS_BETWEEN_YIELDS) {
            self.forest.prepare();
            std::thread::yield_now();
        }
        Ok(self.marker.mark(object)?)
    }

    fn unclean(&mut self, node: Object) {
        self.unclean.push(node);
    }

    fn live_entry(&mut self) {
        self.live += 1;
    }
}

impl Inner {
    /// One step: a survey, a batch of nodes scrubbed or of leaves collected, or an index prepared for the
    /// next open. Before it, memory for what is written next.
    pub(crate) fn recovery_step(&self) -> Result<Progress, Error> {
        self.forest.prepare();
        let mut state = self.lock();
        self.reclaim(&mut state);
        match state.recovery {
            Recovery::Done => match self.collect_batch(&mut state)? {
                Progress::More => Ok(Progress::More),
                Progress::Idle => self.prepare_step(state),
            },
            Recovery::Surveying | Recovery::Preparing => {
                self.end_foreign_survey(&mut state);
                Ok(if state.recovery == Recovery::Owed { Progress::More } else { Progress::Idle })
            }
            Recovery::Scrubbing => {
                self.scrub_batch(&mut state)?;
                Ok(Progress::More)
            }
            Recovery::Owed => {
                let (sweep, noted) = match self.begin_survey(&mut state) {
                    // Another tenant of the pool is at it: later.
                    Err(Error::Pool(
                        tembo_pool::Error::SweepRunning | tembo_pool::Error::TenantBusy { .. },
                    )) => return Ok(Progress::More),
                    begun => begun?,
                };
                drop(state);
                self.survey(sweep, &noted)?;
                Ok(Progress::More)
            }
        }
    }

    /// All of it, while the caller holds the writer's lock.
    pub(crate) fn recover_now(&self, state: &mut WriterState) -> Result<(), Error> {
        if state.recovery.is_under_way() {
            return Err(Error::TooManyAborts);
        }
        if state.recovery != Recovery::Scrubbing {
            let (mut sweep, noted) = self.begin_survey(state)?;
            let found = self.mark_all(&mut sweep, &noted);
            self.end_survey(state, Some(sweep), &noted, found)?;
        }
        while state.recovery == Recovery::Scrubbing {
            let is_last = state.unclean.is_empty();
            self.scrub_batch(state)?;
            if is_last && state.recovery == Recovery::Scrubbing {
                // Another tenant of the pool has not settled.
                return Err(Error::TooManyAborts);
            }
        }
        Ok(())
    }

    fn begin_survey(&self, state: &mut WriterState) -> Result<(Sweep, Noted), Error> {
        // Those that are not open are kept open until the sweep has begun.
        let _tenants = self.forest.pool().open_tenants()?;
        let mut sweep = self.pool().begin_sweep_by(self.tenant.id)?;
        sweep.mark(self.ledger.root())?;
        Ok((sweep, self.note_survey(state)?))
    }

    /// Notes what a survey goes over, and begins it.
    pub(crate) fn note_survey(&self, state: &mut WriterState) -> Result<Noted, Error> {
        self.reclaim(state);
        let (retained, dead) = (self.pins.retained(), self.forest.dead());
        let current = state.trees.iter().map(|tree| (tree.entry.cell.get(), tree.index.clone()));
        let mut trees: BTreeMap<u64, Arc<Index>> = current.collect();
        for (_, _, entry) in self.retained_trees(&retained, &dead)? {
            if let Entry::Vacant(vacant) = trees.entry(entry.cell.get()) {
                vacant.insert(Arc::new(open_tree(&self.forest, &entry)?));
            }
        }
        self.scrub_roots(&trees)?;
        // What the survey frees, nobody may hold for needed.
        self.forest.set_retained(retained.clone());
        // The survey is a reader of the visible version.
        self.pins.pin(retained.visible());
        state.recovery = Recovery::Surveying;
        for tree in state.trees.iter_mut().filter(|tree| tree.surveyed.is_none()) {
            tree.delta = 0;
        }
        Ok(Noted { retained, dead, trees })
    }

    /// Takes back the roots of dead versions, so that the sweep need not keep them.
    fn scrub_roots(&self, trees: &BTreeMap<u64, Arc<Index>>) -> Result<(), Error> {
        let (dead, retained) = (self.forest.dead(), self.pins.retained());
        let mut writer = Writer {
            stamp: Ledger::grouped(self.clock.last()),
            dead: &dead,
            retained: &retained,
            retired: &mut Vec::new(),
        };
        let _section = self.region().reserve(trees.len() as u64 + 1)?;
        self.catalogue.tree().scrub_root(&mut writer)?;
        trees.values().try_for_each(|tree| tree.scrub_root(&mut writer))?;
        // ORDER: no cell names a dead root when the space of dead roots is given back.
        self.region().fence_flushed("kv.scrub.roots");
        Ok(())
    }

    fn survey(&self, mut sweep: Sweep, noted: &Noted) -> Result<(), Error> {
        // Pins that are dropped meanwhile are still surveyed: nothing is given back until the end.
        let found = self.mark_all(&mut sweep, noted);
        let mut state = self.lock();
        self.end_survey(&mut state, Some(sweep), noted, found)
    }

    /// Marks the store, then the other tenants of its pool.
    fn mark_all(&self, sweep: &mut Sweep, noted: &Noted) -> Result<Found, Error> {
        let found = self.mark_noted(noted, sweep)?;
        sweep.mark_others(&|| !self.wake.is_stopped())?;
        Ok(found)
    }

    pub(crate) fn mark_noted(
        &self,
        noted: &Noted,
        marker: &mut dyn tembo_pool::Marker,
    ) -> Result<Found, Error> {
        let mut found = Found::default();
        let (retained, dead) = (noted.retained.clone(), noted.dead.clone());
        let (wake, forest) = (&*self.wake, &*self.forest);
        marker.mark(self.ledger.root())?;
        let mut marker = Marker { marker, unclean: Vec::new(), live: 0, reached: 0, wake, forest };
        self.catalogue.tree().survey(&retained, &dead, &mut marker)?;
        let unclean = marker.unclean.drain(..).map(|node| (Scrubbed::Catalogue, node));
        found.unclean.extend(unclean);
        for (&cell, tree) in &noted.trees {
            marker.live = 0;
            tree.survey(&retained, &dead, &mut marker)?;
            found.counts.insert(cell, marker.live);
            let scrubbed = Scrubbed::Keyspace(tree.clone());
            let unclean = marker.unclean.drain(..).map(|node| (scrubbed.clone(), node));
            found.unclean.extend(unclean);
        }
        Ok(found)
    }

    pub(crate) fn end_survey(
        &self,
        state: &mut WriterState,
        sweep: Option<Sweep>,
        noted: &Noted,
        found: Result<Found, Error>,
    ) -> Result<(), Error> {
        self.pins.unpin(noted.retained.visible());
        state.recovery = Recovery::Owed;
        let found = found?;
        for tree in &mut state.trees {
            if tree.surveyed.is_none() {
                tree.surveyed = found.counts.get(&tree.entry.cell.get()).copied();
            }
        }
        state.sweep = sweep;
        state.unclean = found.unclean;
        state.scrubbing = noted.dead.intervals().to_vec();
        state.recovery = Recovery::Scrubbing;
        state.surveyed = true;
        Ok(())
    }

    pub(crate) fn scrub_batch(&self, state: &mut WriterState) -> Result<(), Error> {
        let (dead, retained) = (self.forest.dead(), self.pins.retained());
        let mut retired = Vec::new();
        let mut writer = Writer {
            stamp: Ledger::grouped(self.clock.last()),
            dead: &dead,
            retained: &retained,
            retired: &mut retired,
        };
        let section = self.region().reserve((SCRUB_BATCH * 32) as u64)?;
        let mut scrubbed = Ok(());
        for _ in 0..SCRUB_BATCH {
            let Some((tree, node)) = state.unclean.last() else { break };
            scrubbed = self.tree_of(tree).scrub(*node, &mut writer);
            if scrubbed.is_err() {
                break;
            }
            state.unclean.pop();
        }
        // ORDER: scrubbed, by whichever thread, before the intervals are forgotten.
        self.region().fence_flushed("kv.scrub.batch");
        drop(section);
        state.retired.extend(&mut retired);
        scrubbed?;
        if state.unclean.is_empty() { self.end_scrub(state) } else { Ok(()) }
    }

    fn end_scrub(&self, state: &mut WriterState) -> Result<(), Error> {
        if let Some(mut sweep) = state.sweep.take() {
            if !sweep.settle_others()? {
                state.sweep = Some(sweep);
                return Ok(());
            }
            let unlinked = state.unlinked.iter().map(|retired| retired.object);
            let pending: Vec<Object> = state.retired.objects().chain(unlinked).collect();
            sweep.finish(pending)?;
        }
        if !state.scrubbing.is_empty() {
            self.note_void(&state.scrubbing)?;
            let _section = self.region().reserve(1)?;
            self.ledger.forget_dead(self.region(), &state.scrubbing)?;
            if state.pending_dead.is_some_and(|dead| state.scrubbing.contains(&dead)) {
                state.pending_dead = None;
            }
            state.dead = Arc::new(self.dead_now(state)?);
            self.forest.forget_dead(state.dead.clone());
        }
        state.scrubbing.clear();
        let again = std::mem::take(&mut state.again);
        let more = again || !self.forest.dead().intervals().is_empty();
        state.recovery = if more { Recovery::Owed } else { Recovery::Done };
        self.reclaim(state);
        Ok(())
    }

    fn tree_of<'t>(&'t self, tree: &'t Scrubbed) -> &'t Index {
        match tree {
            Scrubbed::Catalogue => self.catalogue.tree(),
            Scrubbed::Keyspace(tree) => tree,
        }
    }
}

/// What a survey found.
#[derive(Default)]
pub(crate) struct Found {
    /// Keys in the visible version, by cell.
    counts: BTreeMap<u64, u64>,
    unclean: Vec<(Scrubbed, Object)>,
}
