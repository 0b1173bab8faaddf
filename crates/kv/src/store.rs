//! The store: opening, versions, keyspaces, durability.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use tembo_index::{DeadInterval, DeadIntervals, Forest, View, Writer};
use tembo_pmem::Region;
use tembo_pool::{Pool, PoolOptions};

use crate::catalogue::Catalogue;
use crate::format::{INDEX_CDDS, KeyspaceEntry};
use crate::ledger::Ledger;
use crate::pins::Pins;
use crate::writer::{Recovery, Tree, WriterState};
use crate::{Durability, Error, Keyspace, Progress, Snapshot, Transaction, open};

/// How a store is created or opened.
#[derive(Clone)]
pub struct Options {
    /// The pool below.
    pub pool: PoolOptions,
    /// Recover in a thread of the store's own. Otherwise [`Store::maintain`] does it step by step.
    pub background: bool,
}

impl Default for Options {
    fn default() -> Options {
        Options { pool: PoolOptions::default(), background: true }
    }
}

/// A store of versioned keyspaces in one pool.
///
/// One writer at a time ([`Store::transaction`]), any number of readers ([`Store::snapshot`]).
pub struct Store {
    pub(crate) inner: Arc<Inner>,
    recoverer: Recoverer,
    background: bool,
}

/// The thread that recovers; stopped and joined when dropped.
#[derive(Default)]
struct Recoverer {
    stop: Arc<AtomicBool>,
    handle: Mutex<Option<JoinHandle<()>>>,
}

impl Recoverer {
    fn restart(&self, inner: &Arc<Inner>) {
        let mut handle = self.handle.lock().unwrap_or_else(PoisonError::into_inner);
        if handle.as_ref().is_none_or(JoinHandle::is_finished) {
            *handle = open::spawn_recovery(inner, &self.stop);
        }
    }
}

impl Drop for Recoverer {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        let handle = self.handle.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(handle) = handle {
            // A panic of the thread has been reported by the thread.
            let _ = handle.join();
        }
    }
}

/// What the threads of a store share.
pub(crate) struct Inner {
    pub(crate) forest: Arc<Forest>,
    pub(crate) ledger: Ledger,
    pub(crate) catalogue: Catalogue,
    pub(crate) pins: Pins,
    pub(crate) durable: AtomicU64,
    pub(crate) writer: Mutex<WriterState>,
}

impl Inner {
    pub(crate) fn region(&self) -> &Region {
        self.forest.pool().region()
    }

    pub(crate) fn pool(&self) -> &Pool {
        self.forest.pool()
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, WriterState> {
        self.writer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes dead intervals known, durably; the caller is the one writer.
    pub(crate) fn kill(&self, state: &mut WriterState, dead: DeadInterval) -> Result<(), Error> {
        let region = self.region();
        let _section = region.reserve(4)?;
        if !self.ledger.note_dead(region, dead)? {
            self.recover_now(state)?;
            if !self.ledger.note_dead(region, dead)? {
                return Err(Error::Damaged { what: "a table of dead intervals with room" });
            }
        }
        self.forest.set_dead(Arc::new(DeadIntervals::new(self.ledger.dead(region)?)));
        if state.recovery == Recovery::Done {
            state.recovery = Recovery::Owed;
        }
        Ok(())
    }

    /// The next version, below the durable limit.
    pub(crate) fn next_version(&self, state: &mut WriterState) -> Result<u64, Error> {
        let version = state.version + 1;
        if version > state.limit {
            let _section = self.region().reserve(2)?;
            state.limit = self.ledger.raise_limit(self.region(), version)?;
        }
        state.version = version;
        Ok(version)
    }

    /// After a commit: what it unlinked waits for its readers, and what nobody reads is given back.
    pub(crate) fn settle(&self, state: &mut WriterState) {
        let mut unlinked = std::mem::take(&mut state.unlinked);
        state.retired.extend(&mut unlinked);
        state.unlinked = unlinked;
        self.reclaim(state);
    }

    pub(crate) fn reclaim(&self, state: &mut WriterState) {
        if state.recovery == Recovery::Done
            && (!state.cleared.is_empty() || !state.inherited.is_empty())
        {
            let retained = self.pins.retained();
            let before = state.cleared.len() + state.inherited.len();
            state.cleared.retain(|&(start, end)| retained.needs(start, end));
            state.inherited.retain(|pin| retained.pins().contains(pin));
            if state.cleared.len() + state.inherited.len() < before {
                state.recovery = Recovery::Owed;
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
        state.retired.reclaim(&retained, self.pins.changes(), self.pool());
    }

    /// Everything fenced becomes as durable as the policy promises.
    pub(crate) fn sync(&self) -> Result<(), Error> {
        let version = self.pins.visible();
        if version > self.durable.load(Ordering::Acquire) {
            self.region().sync()?;
            self.durable.fetch_max(version, Ordering::AcqRel);
        }
        Ok(())
    }

    pub(crate) fn make_durable(&self, durability: Durability) -> Result<(), Error> {
        match durability {
            Durability::Strict | Durability::Group => self.sync(),
            Durability::Buffered => Ok(()),
        }
    }
}

impl Store {
    /// Makes a store in a new pool at `path`, where nothing may be.
    pub fn create(path: &Path, options: &Options) -> Result<Store, Error> {
        Store::start(Pool::create(path, &options.pool)?, options)
    }

    /// Opens the store at `path`. This is recovery; it does not wait for anything to be rebuilt.
    pub fn open(path: &Path, options: &Options) -> Result<Store, Error> {
        Store::start(Pool::open(path, &options.pool)?, options)
    }

    /// A store in memory, which ends with the process.
    pub fn volatile(options: &Options) -> Result<Store, Error> {
        Store::start(Pool::volatile(&options.pool)?, options)
    }

    /// The store in an open pool; an empty one if the pool is fresh.
    pub fn start(pool: Pool, options: &Options) -> Result<Store, Error> {
        let inner = Arc::new(open::open(pool, options.pool.region.size_max)?);
        let recoverer = Recoverer::default();
        if options.background {
            recoverer.restart(&inner);
        }
        Ok(Store { inner, recoverer, background: options.background })
    }

    /// A clean stop: with a redo log, a checkpoint, so that the one file can be copied.
    /// Correctness never needs it.
    pub fn close(self) -> Result<(), Error> {
        let Store { inner, recoverer, .. } = self;
        drop(recoverer);
        inner.sync()?;
        let forest = Arc::into_inner(inner).map(|inner| {
            let Inner { forest, writer, catalogue, .. } = inner;
            drop((writer, catalogue));
            forest
        });
        let pool =
            forest.and_then(Arc::into_inner).map(Forest::into_pool).and_then(Arc::into_inner);
        match pool {
            Some(pool) => Ok(pool.close()?),
            None => Ok(()),
        }
    }

    /// The keyspace of that name, created (durable with the next sync) if there is none.
    pub fn keyspace(&self, name: &str) -> Result<Keyspace, Error> {
        let mut state = self.inner.lock();
        if let Some(id) = state.trees.iter().position(|tree| tree.name == name) {
            return Ok(Keyspace(id as u32));
        }
        let state = &mut *state;
        let id = state.trees.len() as u64;
        let tree =
            self.inner.commit_own(state, |writer| create_tree(&self.inner, name, id, writer))?;
        state.trees.push(tree);
        Ok(Keyspace(state.trees.len() as u32 - 1))
    }

    /// The keyspaces, by number.
    pub fn keyspaces(&self) -> Vec<(String, Keyspace)> {
        let state = self.inner.lock();
        let names = state.trees.iter().enumerate();
        names.map(|(id, tree)| (tree.name.clone(), Keyspace(id as u32))).collect()
    }

    /// The one writer; waits for the one before. Dropping it without a commit leaves nothing.
    pub fn transaction(&self) -> Result<Transaction<'_>, Error> {
        Transaction::begin(&self.inner)
    }

    /// Everything that is visible now, for as long as the handle lives.
    pub fn snapshot(&self) -> Result<Snapshot<'_>, Error> {
        let version = self.inner.pins.pin_visible();
        Ok(Snapshot::new(&self.inner, version))
    }

    /// The store as it was at a retained version: one named by [`Store::save_snapshot`], one that
    /// another handle holds, or the visible one.
    pub fn snapshot_at(&self, version: u64) -> Result<Snapshot<'_>, Error> {
        if self.inner.pins.pin_retained(version) {
            Ok(Snapshot::new(&self.inner, version))
        } else {
            Err(Error::NotRetained { version })
        }
    }

    /// Puts one key: a transaction of its own. True if the key was there before.
    pub fn put(
        &self,
        keyspace: Keyspace,
        key: &[u8],
        value: &[u8],
        durability: Durability,
    ) -> Result<bool, Error> {
        let mut tx = self.transaction()?;
        let existed = tx.put(keyspace, key, &[value])?;
        tx.commit(durability)?;
        Ok(existed)
    }

    /// Removes one key; false if it was not there. One fence, unless a node has to be reshaped.
    pub fn remove(
        &self,
        keyspace: Keyspace,
        key: &[u8],
        durability: Durability,
    ) -> Result<bool, Error> {
        let single = self.transaction()?.remove_single(keyspace, key)?;
        let existed = match single {
            Some(existed) => existed,
            None => {
                let mut tx = self.transaction()?;
                let existed = tx.remove(keyspace, key)?;
                tx.commit(Durability::Buffered)?;
                existed
            }
        };
        self.inner.make_durable(durability)?;
        Ok(existed)
    }

    /// The value under `key` in the visible version, copied.
    pub fn get(&self, keyspace: Keyspace, key: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        Ok(self.snapshot()?.get(keyspace, key)?.map(<[u8]>::to_vec))
    }

    /// All that is visible is as durable as the policy promises. After an error the store is
    /// poisoned.
    pub fn sync(&self) -> Result<(), Error> {
        self.inner.sync()
    }

    /// Every version up to it is fenced.
    pub fn visible(&self) -> u64 {
        self.inner.pins.visible()
    }

    /// Every version up to it is synced.
    pub fn durable(&self) -> u64 {
        self.inner.durable.load(Ordering::Acquire)
    }

    /// Names the visible version durably, in O(1): it can be read and rolled back to until the name
    /// is dropped or given to another version. Synced when it returns.
    pub fn save_snapshot(&self, name: &str) -> Result<u64, Error> {
        let mut state = self.inner.lock();
        let version = self.inner.pins.pin_visible();
        if let Err(error) = self.inner.name(name, version) {
            self.inner.pins.unpin(version);
            return Err(error);
        }
        if let Some(before) = state.named.insert(name.to_owned(), version) {
            self.inner.pins.unpin(before);
        }
        Ok(version)
    }

    /// Drops a named snapshot; false if there was none. Synced when it returns.
    pub fn drop_snapshot(&self, name: &str) -> Result<bool, Error> {
        let mut state = self.inner.lock();
        let Some(&version) = state.named.get(name) else { return Ok(false) };
        self.inner.forget_name(name)?;
        state.named.remove(name);
        self.inner.pins.unpin(version);
        self.inner.reclaim(&mut state);
        Ok(true)
    }

    /// The named snapshots and their versions.
    pub fn snapshots(&self) -> Vec<(String, u64)> {
        self.inner.lock().named.iter().map(|(name, &version)| (name.clone(), version)).collect()
    }

    /// Takes back everything after a retained version, in O(1); synced when it returns. What is
    /// void is scrubbed in the background. Named snapshots after it are dropped.
    pub fn rollback(&self, version: u64) -> Result<(), Error> {
        self.inner.rollback(version)?;
        self.restart_recovery();
        Ok(())
    }

    /// Some background work, at most `steps` small steps; by whoever has time. A store with a
    /// thread of its own recovers without it.
    pub fn maintain(&self, steps: usize) -> Result<Progress, Error> {
        if self.background {
            if self.inner.lock().recovery == Recovery::Owed {
                self.restart_recovery();
            }
            return Ok(Progress::Idle);
        }
        for _ in 0..steps {
            if self.inner.recovery_step()? == Progress::Idle {
                return Ok(Progress::Idle);
            }
        }
        Ok(Progress::More)
    }

    fn restart_recovery(&self) {
        if self.background {
            self.recoverer.restart(&self.inner);
        }
    }
}

pub(crate) fn create_tree(
    inner: &Inner,
    name: &str,
    id: u64,
    writer: &mut Writer<'_>,
) -> Result<Tree, Error> {
    let _section = inner.pool().reserve(4096, 64)?;
    let (index, cell) = tembo_index::Cdds::create(inner.forest.clone(), writer)?;
    let entry = KeyspaceEntry {
        id: id.into(),
        cell: cell.to_bits().into(),
        birth: writer.stamp.version().into(),
        index: INDEX_CDDS.into(),
    };
    inner.catalogue.put_keyspace(name, entry, writer)?;
    Ok(Tree { name: name.to_owned(), index: Arc::new(index), entry, surveyed: Some(0), delta: 0 })
}

/// Makes an uncommitted version void. If even that fails, no more is written: then the version is
/// still in flight, and the next open makes it void.
pub(crate) fn abort(inner: &Inner, state: &mut WriterState, version: u64) {
    state.unlinked.clear();
    let lane = Some(crate::ledger::LANE);
    let dead = DeadInterval { from: version - 1, to: version, lane };
    if inner.kill(state, dead).is_err() {
        state.broken = true;
    }
}

impl Inner {
    /// A grouped commit of the store's own changes: catalogue entries. Fenced when it returns.
    fn commit_own<T>(
        &self,
        state: &mut WriterState,
        change: impl FnOnce(&mut Writer<'_>) -> Result<T, Error>,
    ) -> Result<T, Error> {
        if state.broken {
            return Err(Error::Damaged { what: "an index, as found by an earlier transaction" });
        }
        let version = self.next_version(state)?;
        let (retained, dead) = (self.pins.retained(), self.forest.dead());
        let mut writer = Writer {
            stamp: Ledger::grouped(version),
            dead: &dead,
            retained: &retained,
            retired: &mut state.unlinked,
        };
        let committed = change(&mut writer).and_then(|changed| {
            let _section = self.region().reserve(2)?;
            self.ledger.commit(self.region(), version)?;
            Ok(changed)
        });
        match committed {
            Ok(_) => {
                self.pins.publish(version);
                self.settle(state);
            }
            Err(_) => abort(self, state, version),
        }
        committed
    }

    fn rollback(&self, version: u64) -> Result<(), Error> {
        let mut state = self.lock();
        // A survey counts and marks what the rollback would change.
        while state.recovery == Recovery::Surveying {
            drop(state);
            std::thread::yield_now();
            state = self.lock();
        }
        let state = &mut *state;
        let named_after: Vec<(String, u64)> = state
            .named
            .iter()
            .filter(|&(_, &named)| named > version)
            .map(|(name, &version)| (name.clone(), version))
            .collect();
        if !self.pins.pin_retained(version) {
            return Err(Error::NotRetained { version });
        }
        let in_use = self.pins.youngest_above(version).filter(|&pin| {
            self.pins.count(pin) > named_after.iter().filter(|(_, named)| *named == pin).count()
        });
        let rolled_back = match in_use {
            Some(version) => Err(Error::VersionInUse { version }),
            None => self.roll(state, version, &named_after),
        };
        self.pins.unpin(version);
        rolled_back
    }

    fn roll(
        &self,
        state: &mut WriterState,
        version: u64,
        named_after: &[(String, u64)],
    ) -> Result<(), Error> {
        self.kill(state, DeadInterval { from: version, to: state.version, lane: None })?;
        state.retired.forget_after(version);
        for (name, pin) in named_after {
            self.forget_name(name)?;
            state.named.remove(name);
            self.pins.unpin(*pin);
        }
        state.recovery = Recovery::Owed;
        let dead = self.forest.dead();
        let view = View { version: self.pins.visible(), dead: &dead };
        state.trees = open::trees(&self.forest, &self.catalogue, view)?;
        self.region().sync()?;
        Ok(())
    }

    fn name(&self, name: &str, version: u64) -> Result<(), Error> {
        let region = self.region();
        let section = region.reserve(1)?;
        self.ledger.name_snapshot(region, name, version)?;
        drop(section);
        Ok(region.sync()?)
    }

    fn forget_name(&self, name: &str) -> Result<(), Error> {
        let region = self.region();
        let section = region.reserve(1)?;
        self.ledger.forget_snapshot(region, name)?;
        drop(section);
        Ok(region.sync()?)
    }
}
