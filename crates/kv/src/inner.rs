//! What the threads of a store share, and what its writer does.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, RwLock};

use tembo_index::{Clock, DeadInterval, DeadIntervals, Forest, Index, VERSION_MAX, Writer};
use tembo_pmem::{Region, lock};
use tembo_pool::{Pool, TenantEntry};

use crate::catalogue::{Catalogue, index_number};
use crate::committer::CommitQueue;
use crate::format::KeyspaceEntry;
use crate::lanes::{DRAWN_AT_ONCE, Lanes};
use crate::ledger::{LANE, Ledger};
use crate::open::PAUSE;
use crate::pins::Pins;
use crate::wake::Wake;
use crate::writer::{Recovery, Tree, WriterState, Writing};
use crate::{Durability, Error};

/// In a pool of so many bytes nobody waits long for a survey.
const HURRY_MAX: u64 = 64 << 20;

/// What the threads of a store share.
pub(crate) struct Inner {
    /// The store's place in its pool.
    pub(crate) tenant: TenantEntry,
    pub(crate) forest: Arc<Forest>,
    pub(crate) ledger: Ledger,
    pub(crate) catalogue: Catalogue,
    pub(crate) pins: Pins,
    /// Draws the versions.
    pub(crate) clock: Clock,
    /// In the `logged` domain: every version up to it is synced.
    pub(crate) durable: AtomicU64,
    pub(crate) is_logged: bool,
    /// To be locked by [`Inner::lock`] only.
    pub(crate) writer: Mutex<WriterState>,
    /// Where single keys are changed without the writer's lock.
    pub(crate) lanes: Lanes,
    /// The state is no longer taken.
    pub(crate) given_back: Condvar,
    /// Transactions that wait to be committed.
    pub(crate) queue: CommitQueue,
    /// Bytes that a transaction keeps in memory.
    pub(crate) transaction_memory: usize,
    /// Held for reading while a snapshot begins, for writing by a rollback.
    pub(crate) gate: RwLock<()>,
    /// The trees of the visible version, for snapshots of it.
    pub(crate) current: RwLock<Current>,
    /// `told` of `current`.
    pub(crate) told: AtomicU64,
    pub(crate) wake: Arc<Wake>,
}

/// Trees by keyspace, and the version since which they are these.
#[derive(Clone, Default)]
pub(crate) struct Current {
    /// Counts what was told; 0: nothing was.
    pub(crate) told: u64,
    pub(crate) since: u64,
    pub(crate) trees: Arc<[Known]>,
}

/// A keyspace as readers know it.
#[derive(Clone)]
pub(crate) struct Known {
    pub(crate) name: String,
    pub(crate) index: Arc<Index>,
    pub(crate) incarnation: u32,
}

impl Known {
    pub(crate) fn of(tree: &Tree) -> Known {
        let (name, index) = (tree.name.clone(), tree.index.clone());
        Known { name, index, incarnation: tree.incarnation }
    }
}

impl Inner {
    pub(crate) fn region(&self) -> &Region {
        self.forest.pool().region()
    }

    pub(crate) fn pool(&self) -> &Pool {
        self.forest.pool()
    }

    /// The writer's lock; the lanes are closed. A transaction that is the one writer has it between its
    /// calls too, whichever thread they come from: then the state is *taken*, and everybody else waits.
    pub(crate) fn lock(&self) -> Writing<'_> {
        Writing::begin(self, self.wait_for_writer())
    }

    /// The writer's lock, to change something. If a small pool would have to grow for it though the survey
    /// that is owed since the open may find room, the survey comes first: else a process that is killed again
    /// and again before its survey has ended would make the pool grow each time. A large pool grows, for
    /// nobody is to wait so long.
    pub(crate) fn lock_to_write(&self) -> Writing<'_> {
        let mut state = self.lock();
        while self.is_in_need(&state) {
            self.end_foreign_survey(&mut state);
            if state.recovery == Recovery::Surveying {
                drop(state);
                std::thread::sleep(PAUSE);
                state = self.lock();
                continue;
            }
            state.has_hurried = true;
            // Of damage tells who comes to it; then the pool grows.
            let _ = self.recover_now(&mut state);
        }
        state
    }

    /// Whether a small pool would have to grow before the survey that is owed since the open.
    fn is_in_need(&self, state: &WriterState) -> bool {
        state.recovery != Recovery::Done
            && !state.has_hurried
            && self.pool().region().size() <= HURRY_MAX
            && self.pool().is_short()
    }

    /// The writer's lock, with the lanes as they are, once nobody has taken the state.
    pub(crate) fn wait_for_writer(&self) -> MutexGuard<'_, WriterState> {
        let mut state = lock(&self.writer);
        while state.is_taken {
            state = self.given_back.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state
    }

    /// The writer's lock, by whoever has taken the state.
    pub(crate) fn lock_taken(&self) -> Writing<'_> {
        Writing::begin(self, lock(&self.writer))
    }

    /// Lets others have the writer's lock.
    pub(crate) fn give_back(&self, mut state: Writing<'_>) {
        state.is_taken = false;
        drop(state);
        self.given_back.notify_all();
    }

    /// Makes a dead interval known, durably; the caller is the one writer.
    pub(crate) fn kill(&self, state: &mut WriterState, dead: DeadInterval) -> Result<(), Error> {
        self.note_dead(state, dead)?;
        self.tell_dead(state)?;
        self.owe(state);
        Ok(())
    }

    /// Makes grouped versions of an uncommitted transaction void, durably.
    pub(crate) fn kill_grouped(
        &self,
        state: &mut WriterState,
        from: u64,
        to: u64,
    ) -> Result<(), Error> {
        self.kill(state, DeadInterval { from, to, lane: Some(LANE) })
    }

    fn note_dead(&self, state: &mut WriterState, dead: DeadInterval) -> Result<(), Error> {
        let region = self.region();
        let _section = region.reserve(4)?;
        while !self.ledger.note_dead(region, dead)? {
            self.recover_now(state)?;
        }
        Ok(())
    }

    /// Tells the trees what is dead: what the ledger says, and what is pending.
    fn tell_dead(&self, state: &mut WriterState) -> Result<(), Error> {
        state.dead = Arc::new(self.dead_now(state)?);
        self.forest.set_dead(state.dead.clone());
        // What an earlier answer holds for visible may be void.
        state.retained_uses = 0;
        Ok(())
    }

    pub(crate) fn dead_now(&self, state: &WriterState) -> Result<DeadIntervals, Error> {
        let mut dead = self.ledger.dead(self.region())?;
        dead.extend(state.pending_dead);
        Ok(DeadIntervals::new(dead))
    }

    /// A survey is due.
    pub(crate) fn owe(&self, state: &mut WriterState) {
        if state.recovery == Recovery::Done {
            state.recovery = Recovery::Owed;
        } else {
            state.again |= !state.surveyed || state.recovery == Recovery::Preparing;
        }
        self.wake.want();
    }

    /// Makes an uncommitted version void. Not durable, and need not be: until the next commit it is
    /// in flight, and an open would make it void.
    pub(crate) fn abort(&self, state: &mut WriterState, version: u64) {
        state.unlinked.clear();
        let told = self.ledger.committed(self.region()).and_then(|from| {
            // Between the last commit and this version every group was aborted.
            let to = state.pending_dead.map_or(version, |dead| dead.to.max(version));
            state.pending_dead = Some(DeadInterval { from, to, lane: Some(LANE) });
            self.tell_dead(state)
        });
        state.broken |= told.is_err();
        self.owe(state);
    }

    /// Publishes a version: what was aborted before it becomes durably dead first.
    pub(crate) fn commit_word(&self, state: &mut WriterState, version: u64) -> Result<(), Error> {
        if let Some(dead) = state.pending_dead {
            self.note_dead(state, dead)?;
            state.pending_dead = None;
        }
        let _section = self.region().reserve(2)?;
        self.ledger.commit(self.region(), version)
    }

    /// The next version, below the durable limit.
    pub(crate) fn next_version(&self, state: &mut WriterState) -> Result<u64, Error> {
        self.allow_next(state)?;
        Ok(self.clock.draw())
    }

    /// Sees to it that what the clock draws next lies below the durable limit.
    pub(crate) fn allow_next(&self, state: &mut WriterState) -> Result<(), Error> {
        let version = self.clock.last() + 1;
        // With what lanes may draw before they look again.
        if version + DRAWN_AT_ONCE <= state.limit {
            return Ok(());
        }
        if version >= VERSION_MAX {
            return Err(Error::Damaged { what: "a version that is left" });
        }
        let _section = self.region().reserve(2)?;
        state.limit = self.ledger.raise_limit(self.region(), version)?;
        self.offer_to_prepare(state);
        Ok(())
    }

    /// After a commit: what it unlinked waits for its readers, and what nobody reads is given back.
    pub(crate) fn settle(&self, state: &mut WriterState) {
        let mut unlinked = std::mem::take(&mut state.unlinked);
        state.retired.extend(&mut unlinked);
        state.unlinked = unlinked;
        self.move_window(state);
        self.offer_to_collect(state);
        self.reclaim(state);
        self.offer_to_prepare(state);
    }

    pub(crate) fn reclaim(&self, state: &mut WriterState) {
        if state.recovery == Recovery::Done
            && (!state.cleared.is_empty() || !state.inherited.is_empty() || state.window.inherits())
        {
            let retained = self.pins.retained();
            let before = state.cleared.len() + state.inherited.len();
            state.cleared.retain(|&(start, end)| retained.needs(start, end));
            state.inherited.retain(|pin| retained.pins().contains(pin));
            let fewer = state.cleared.len() + state.inherited.len() < before;
            if state.window.inherits_less(retained.window()) || fewer {
                self.owe(state);
            }
        }
        // While a survey runs, or nodes wait to be scrubbed, nothing may become something else.
        if matches!(state.recovery, Recovery::Surveying | Recovery::Scrubbing)
            || state.retired.len() == 0
        {
            return;
        }
        let retained = self.pins.retained();
        self.forest.set_retained(retained.clone());
        state.retired.reclaim(&retained, self.pool());
    }

    /// Tells snapshots that will be of `version` which trees there are.
    pub(crate) fn tell_trees(&self, state: &WriterState, version: u64) {
        let trees = state.trees.iter().map(Known::of).collect();
        let mut current = self.current.write().unwrap_or_else(PoisonError::into_inner);
        let told = current.told + 1;
        *current = Current { told, since: version, trees };
        self.told.store(told, Ordering::Release);
        drop(current);
        self.pins.forget_trees();
    }

    /// Everything fenced becomes as durable as the policy promises.
    pub(crate) fn sync(&self) -> Result<(), Error> {
        // Without a log nothing is left to do behind a fence.
        if !self.is_logged {
            return Ok(());
        }
        let version = self.pins.visible();
        if version > self.durable() {
            self.region().sync()?;
            self.durable.fetch_max(version, Ordering::AcqRel);
        }
        Ok(())
    }

    /// Every version up to it is synced.
    pub(crate) fn durable(&self) -> u64 {
        if self.is_logged { self.durable.load(Ordering::Acquire) } else { self.pins.visible() }
    }

    #[inline]
    pub(crate) fn make_durable(&self, durability: Durability) -> Result<(), Error> {
        match durability {
            Durability::Strict | Durability::Group if self.is_logged => self.sync(),
            _ => Ok(()),
        }
    }

    /// As `make_durable`, of a visible version: what was synced since need not be synced again.
    pub(crate) fn make_version_durable(
        &self,
        durability: Durability,
        version: u64,
    ) -> Result<(), Error> {
        if version > self.durable() { self.make_durable(durability) } else { Ok(()) }
    }

    /// A grouped commit of the store's own changes: catalogue entries. Fenced when it returns.
    pub(crate) fn commit_own<T>(
        &self,
        state: &mut WriterState,
        change: impl FnOnce(&mut Writer<'_>) -> Result<T, Error>,
    ) -> Result<T, Error> {
        state.sound()?;
        let version = self.next_version(state)?;
        let (retained, dead) = (self.pins.retained(), self.forest.dead());
        let mut writer = Writer {
            stamp: Ledger::grouped(version),
            dead: &dead,
            retained: &retained,
            retired: &mut state.unlinked,
        };
        let changed = change(&mut writer);
        let committed = changed.and_then(|changed| {
            self.commit_word(state, version)?;
            Ok(changed)
        });
        match committed {
            Ok(_) => {
                self.pins.publish(version);
                self.settle(state);
            }
            Err(_) => self.abort(state, version),
        }
        committed
    }

    /// Names a version; synced when it returns.
    pub(crate) fn name(&self, name: &str, version: u64) -> Result<(), Error> {
        let region = self.region();
        let section = region.reserve(1)?;
        self.ledger.name_snapshot(region, name, version)?;
        drop(section);
        Ok(region.sync()?)
    }

    /// Forgets a name; synced when it returns.
    pub(crate) fn forget_name(&self, name: &str) -> Result<(), Error> {
        let region = self.region();
        let section = region.reserve(1)?;
        self.ledger.forget_snapshot(region, name)?;
        drop(section);
        Ok(region.sync()?)
    }
}

pub(crate) fn create_tree(
    inner: &Inner,
    name: &str,
    id: u64,
    writer: &mut Writer<'_>,
) -> Result<Tree, Error> {
    let _section = inner.pool().reserve(4096, 64)?;
    // Every tree of a store is of the kind that the first one was made of.
    let kind = inner.catalogue.tree().kind();
    let (index, cell) = Index::create(inner.forest.clone(), kind, writer)?;
    let entry = KeyspaceEntry {
        id: id.into(),
        cell: cell.to_bits().into(),
        birth: writer.stamp.version().into(),
        index: index_number(kind).into(),
    };
    if let Err(error) = inner.catalogue.put_keyspace(name, entry, writer) {
        index.discard()?;
        return Err(error);
    }
    let (name, index) = (name.to_owned(), Arc::new(index));
    Ok(Tree {
        name,
        index,
        entry,
        surveyed: Some(0),
        delta: 0,
        removed: 0,
        kept_until: None,
        incarnation: 0,
    })
}
