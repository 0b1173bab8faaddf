//! The store: opening, versions, keyspaces, durability.

use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;

use tembo_index::{Forest, IndexKind, Op, Writer};
use tembo_pmem::memory_max;
use tembo_pool::{Pool, PoolOptions};

use crate::inner::{Inner, create_tree};
use crate::tenant::StoreKind;
use crate::uncommitted::check_sizes;
use crate::wake::Wake;
use crate::writer::{Recovery, Tree};
use crate::{
    Durability, Error, Exclusive, Isolation, KEYSPACE_NAME_SIZE_MAX, Keyspace, Progress, Snapshot,
    Transaction, open,
};

/// What a transaction keeps in memory unless told otherwise.
pub(crate) const TRANSACTION_MEMORY: usize = 32 << 20;

/// How a store is created or opened.
#[derive(Clone)]
pub struct Options {
    /// The pool below.
    pub pool: PoolOptions,
    /// The index of a store that is created. One that is opened keeps its own.
    pub index: IndexKind,
    /// Recover in a thread of the store's own. Otherwise [`Store::maintain`] does it step by step.
    pub background: bool,
    /// Bytes of keys and values that a [`Transaction`] keeps in memory. One that writes more takes the
    /// writer's lock and goes on in place: others read meanwhile, and wait with their commits.
    pub transaction_memory: usize,
}

impl Default for Options {
    /// Half of the memory that there is may be private pages of the pool; a transaction keeps at most
    /// 32 MiB.
    fn default() -> Options {
        let mut pool = PoolOptions::default();
        pool.region.private_max = memory_max().map_or(u64::MAX, |bytes| bytes / 2);
        let transaction_memory = TRANSACTION_MEMORY;
        Options { pool, index: IndexKind::default(), background: true, transaction_memory }
    }
}

/// A store of versioned keyspaces in one pool.
///
/// Any number of threads read ([`Store::get`], [`Store::snapshot`]) and write: single keys
/// ([`Store::put`], [`Store::remove`]), over the NV-Tree beside each other; several keys together
/// ([`Store::transaction`]); or one alone, whom nobody comes before ([`Store::exclusive`]).
pub struct Store {
    pub(crate) inner: Arc<Inner>,
    recoverer: Recoverer,
    background: bool,
}

/// The thread that recovers; stopped and joined when dropped.
struct Recoverer {
    wake: Arc<Wake>,
    handle: Option<JoinHandle<()>>,
}

impl Drop for Recoverer {
    fn drop(&mut self) {
        self.wake.stop();
        if let Some(handle) = self.handle.take() {
            // A panic of the thread has been reported by the thread.
            let _ = handle.join();
        }
    }
}

/// The kinds of tenants that the caller knows, and stores.
fn with_stores(options: &PoolOptions) -> PoolOptions {
    PoolOptions { kinds: options.kinds.clone().with(Arc::new(StoreKind)), ..options.clone() }
}

impl Store {
    /// Makes a store in a new pool at `path`, where nothing may be.
    pub fn create(path: &Path, options: &Options) -> Result<Store, Error> {
        let made = Pool::create_with(path, &with_stores(&options.pool), |p| {
            Store::format(p, options.index)
        });
        Store::start(made?, options)
    }

    /// Opens the store at `path`. This is recovery; it does not wait for anything to be rebuilt.
    pub fn open(path: &Path, options: &Options) -> Result<Store, Error> {
        Store::start(Pool::open(path, &with_stores(&options.pool))?, options)
    }

    /// A store in memory, which ends with the process.
    pub fn volatile(options: &Options) -> Result<Store, Error> {
        let made =
            Pool::volatile_with(&with_stores(&options.pool), |p| Store::format(p, options.index));
        Store::start(made?, options)
    }

    /// Makes an empty store in a pool that has none. A part of creation: interrupted, it leaves a pool
    /// that does not open as a store.
    pub fn format(pool: &Pool, index: IndexKind) -> Result<(), Error> {
        open::format(pool, index)
    }

    /// The store in an open pool.
    pub fn start(pool: Pool, options: &Options) -> Result<Store, Error> {
        let (pool, memory) = (Arc::new(pool), options.transaction_memory);
        let entry = open::find(&pool)?;
        let make = || Ok::<_, Error>(Arc::new(open::open(&pool, &entry, memory)?));
        let inner = pool.open_tenant(&entry, make)?;
        let handle = if options.background { open::spawn_recovery(&inner) } else { None };
        let recoverer = Recoverer { wake: inner.wake.clone(), handle };
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
    ///
    /// # Errors
    /// [`Error::KeyspaceName`]: the name has more than [`KEYSPACE_NAME_SIZE_MAX`] bytes; and those of a commit.
    pub fn keyspace(&self, name: &str) -> Result<Keyspace, Error> {
        let mut state = self.inner.lock();
        let known = state.trees.iter().enumerate().find(|(_, tree)| tree.name == name);
        if let Some((id, tree)) = known {
            return Ok(Keyspace { id: id as u32, incarnation: tree.incarnation });
        }
        if name.len() > KEYSPACE_NAME_SIZE_MAX {
            return Err(Error::KeyspaceName { size: name.len() });
        }
        let state = &mut *state;
        let id = state.trees.len() as u64;
        let create = |writer: &mut Writer<'_>| create_tree(&self.inner, name, id, writer);
        let mut tree = self.inner.commit_own(state, create)?;
        let incarnation = state.incarnations;
        tree.incarnation = incarnation;
        state.trees.push(tree);
        self.inner.tell_trees(state, self.inner.pins.visible());
        Ok(Keyspace { id: id as u32, incarnation })
    }

    /// The keyspaces, by number.
    pub fn keyspaces(&self) -> Vec<(String, Keyspace)> {
        let state = self.inner.lock();
        let keyspace = |(id, tree): (usize, &Tree)| {
            (tree.name.clone(), Keyspace { id: id as u32, incarnation: tree.incarnation })
        };
        state.trees.iter().enumerate().map(keyspace).collect()
    }

    /// Begins a transaction: any number may be open, and none waits for another before it commits.
    pub fn transaction(&self, isolation: Isolation) -> Result<Transaction<'_>, Error> {
        Ok(Transaction::begin(&self.inner, isolation))
    }

    /// The one writer; waits for the one before. Dropping it without a commit leaves nothing.
    pub fn exclusive(&self) -> Result<Exclusive<'_>, Error> {
        Exclusive::begin(&self.inner)
    }

    /// Everything that is visible now, for as long as the handle lives.
    pub fn snapshot(&self) -> Result<Snapshot<'_>, Error> {
        Ok(Snapshot::of_visible(&self.inner))
    }

    /// The store as it was at a retained version: one named by [`Store::save_snapshot`], one that
    /// another handle holds, or the visible one.
    pub fn snapshot_at(&self, version: u64) -> Result<Snapshot<'_>, Error> {
        Snapshot::of(&self.inner, version)
    }

    /// Puts one key: a transaction of its own. True if the key was there before. One fence, where the
    /// index can change the key in place, else two.
    ///
    /// Threads do this beside each other where the index takes several writers (the NV-Tree), and one after
    /// the other where it does not. What one of them was told is in every snapshot that begins afterwards.
    ///
    /// Durability point: as `durability` says, capped by the region's sync policy.
    ///
    /// # Errors
    /// As of [`Exclusive::put`] and [`Exclusive::commit`].
    pub fn put(
        &self,
        keyspace: Keyspace,
        key: &[u8],
        value: &[u8],
        durability: Durability,
    ) -> Result<bool, Error> {
        check_sizes(key, &[value])?;
        self.inner.change(keyspace, Op::Put { key, value: &[value] }, durability)
    }

    /// Removes one key; false if it was not there. One fence, where the index can change the key in
    /// place, else two. Several threads as in [`Store::put`].
    ///
    /// Durability point: as `durability` says, capped by the region's sync policy.
    ///
    /// # Errors
    /// As of [`Exclusive::remove`] and [`Exclusive::commit`].
    pub fn remove(
        &self,
        keyspace: Keyspace,
        key: &[u8],
        durability: Durability,
    ) -> Result<bool, Error> {
        self.inner.change(keyspace, Op::Remove { key }, durability)
    }

    /// The value under `key` in the visible version, copied.
    ///
    /// # Errors
    /// As of [`Store::get_with`].
    pub fn get(&self, keyspace: Keyspace, key: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        self.get_with(keyspace, key, |value| value.map(<[u8]>::to_vec))
    }

    /// Calls `read` with the value under `key` in the visible version. No
    /// rollback is possible in the meantime, and no space of that version is given back.
    ///
    /// # Errors
    /// [`Error::NoSuchKeyspace`]; damage.
    pub fn get_with<T>(
        &self,
        keyspace: Keyspace,
        key: &[u8],
        read: impl FnOnce(Option<&[u8]>) -> T,
    ) -> Result<T, Error> {
        let reading = self.inner.begin_reading();
        match reading {
            Some(reading) => Ok(read(reading.get(keyspace, key)?.as_deref())),
            None => Ok(read(self.snapshot()?.get(keyspace, key)?.as_deref())),
        }
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
        self.inner.durable()
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
        self.inner.let_go(version);
        Ok(true)
    }

    /// The named snapshots and their versions.
    pub fn snapshots(&self) -> Vec<(String, u64)> {
        self.inner.lock().named.iter().map(|(name, &version)| (name.clone(), version)).collect()
    }

    /// Takes back everything after a retained version, in O(1); synced when it returns. What is
    /// void is scrubbed in the background. Named snapshots after it are dropped.
    pub fn rollback(&self, version: u64) -> Result<(), Error> {
        self.inner.rollback(version)
    }

    /// Some background work, at most `steps` small steps; by whoever has time. A store with a
    /// thread of its own recovers without it.
    pub fn maintain(&self, steps: usize) -> Result<Progress, Error> {
        if self.background {
            let state = self.inner.lock();
            if state.recovery != Recovery::Done {
                self.inner.wake.want();
            }
            self.inner.offer_to_prepare(&state);
            return Ok(Progress::Idle);
        }
        for _ in 0..steps {
            if self.inner.recovery_step()? == Progress::Idle {
                return Ok(Progress::Idle);
            }
        }
        Ok(Progress::More)
    }
}
