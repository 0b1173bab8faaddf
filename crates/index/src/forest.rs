//! What the trees of one pool share.

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, PoisonError, RwLock};

use tembo_pmem::thread::{Apart, write};
use tembo_pmem::{Region, Table};
use tembo_pool::{Object, Pool};

use crate::cdds::{Side, capacity};
use crate::error::damaged;
use crate::nvtree::{self, Arena, DirectoryMemory, lines_in};
use crate::sides::SideTable;
use crate::verified::Verified;
use crate::{DeadIntervals, Error, Records, Retained};

/// What the trees of a pool share: the pool, the volatile side-cars of their nodes, and which versions are dead and
/// which are retained.
pub struct Forest {
    pool: Arc<Pool>,
    pub(crate) sides: SideTable<Side>,
    /// Side-cars of leaves.
    pub(crate) leaves: Table<nvtree::Side>,
    /// Inner nodes above leaves.
    pub(crate) nodes: Arc<Arena>,
    /// Memory of the directories of hash indexes. It is made with the first hash index.
    directories: OnceLock<Arc<DirectoryMemory>>,
    /// Bits by which a leaf's offset is shifted to give its number.
    pub(crate) leaf_bits: u32,
    /// Lines of elements in a leaf.
    pub(crate) lines: u8,
    /// A bit for each slot of a leaf.
    pub(crate) all_slots: u64,
    /// Entries in a node.
    pub(crate) capacity: usize,
    /// Side-cars made in an earlier dead epoch are made anew: raised when versions die.
    dead_epoch: AtomicU32,
    /// Whether records have checksums: [`Records`] plus one, 0 while no tree was opened or made.
    records: AtomicU8,
    pub(crate) verified: Verified,
    /// The dead intervals and the retained versions. Each snapshot locks this, so it lies apart from what each search reads.
    horizon: Apart<RwLock<Horizon>>,
    /// Whether the horizon has dead intervals.
    has_dead: AtomicBool,
    /// What the trees keep for old versions only: see [`Forest::kept`].
    pub(crate) kept: AtomicU64,
    /// Leaves of trees that were opened, as many as they had then.
    old_leaves: AtomicUsize,
    /// The function that has pages prefaulted, if some thread does that.
    prefaulter: OnceLock<Box<dyn Fn() + Send + Sync>>,
    /// Whether it was called and the thread has not yet begun.
    is_called: AtomicBool,
}

#[derive(Clone, Default)]
struct Horizon {
    dead: Arc<DeadIntervals>,
    retained: Arc<Retained>,
}

impl Forest {
    /// The forest of an open pool.
    ///
    /// # Errors
    /// [`Error::Damaged`] if the geometry's nodes hold fewer than two entries; [`Error::Pool`] if the
    /// system has no address space for the side-cars of `size_max` bytes.
    pub fn new(pool: Arc<Pool>, size_max: u64) -> Result<Forest, Error> {
        if capacity(pool.geometry().node_size.into()) < 2 {
            return damaged(0, "nodes of at least 128 bytes");
        }
        let leaf_bits = pool.geometry().node_size.trailing_zeros();
        let leaves = |bytes: u64| (bytes >> leaf_bits) as usize;
        let old_end = pool.usage().frontier;
        let (len, old) = (leaves(size_max), leaves(old_end));
        let lines = lines_in(pool.geometry().node_size.into());
        Ok(Forest {
            sides: SideTable::new(leaf_bits, size_max),
            nodes: Arc::new(Arena::new(len, old)?),
            directories: OnceLock::new(),
            leaves: Table::new(len).map_err(tembo_pool::Error::from)?,
            leaf_bits,
            // `lines` is at most the number of lines that a leaf can have.
            lines: lines as u8,
            all_slots: nvtree::all_slots(lines),
            capacity: capacity(pool.geometry().node_size.into()),
            pool,
            dead_epoch: AtomicU32::new(1),
            records: AtomicU8::new(0),
            verified: Verified::below(old_end),
            horizon: Apart(RwLock::new(Horizon::default())),
            has_dead: AtomicBool::new(false),
            kept: AtomicU64::new(0),
            old_leaves: AtomicUsize::new(0),
            prefaulter: OnceLock::new(),
            is_called: AtomicBool::new(false),
        })
    }

    /// Sets the function `call`, which has some thread that nothing waits for call [`Forest::prefault`] soon. A thread that
    /// is about to use memory that is not ready calls it, so it must not take long. It can be set once. Without it the
    /// forest's memory has small pages.
    pub fn call_to_prefault(&self, call: impl Fn() + Send + Sync + 'static) {
        // If one was set before, that one stays.
        let _ = self.prefaulter.set(Box::new(call));
    }

    /// Prefaults the memory that the trees will need next, if too little of it is ready. That takes milliseconds, for the
    /// system gives out large pages slowly.
    pub fn prefault(&self) {
        self.is_called.store(false, Ordering::SeqCst);
        self.leaves.prefault(nvtree::Side::touch);
        self.nodes.prefault();
        self.pool.prefault();
    }

    /// The pool.
    pub fn pool(&self) -> &Arc<Pool> {
        &self.pool
    }

    /// Gives the pool back. No tree exists any more.
    pub fn into_pool(self) -> Arc<Pool> {
        self.pool
    }

    /// Entries that only old versions needed when space was taken because of them, since the last walk
    /// through each tree.
    #[inline]
    pub fn kept(&self) -> u64 {
        self.kept.load(Ordering::Relaxed)
    }

    /// Bytes of memory that the directories of hash indexes take, and how many they may take: a sixteenth of what the process
    /// may have. Zero where there is no hash index.
    pub fn directory_bytes(&self) -> (u64, u64) {
        self.directories.get().map_or((0, 0), |memory| (memory.taken(), memory.most()))
    }

    pub(crate) fn directory_memory(&self) -> Arc<DirectoryMemory> {
        let of_process = || Arc::new(DirectoryMemory::of(self.region().own_memory()));
        self.directories.get_or_init(of_process).clone()
    }

    pub(crate) fn region(&self) -> &Region {
        self.pool.region()
    }

    /// Whether the records of its trees have checksums.
    #[inline]
    pub(crate) fn records(&self) -> Records {
        match self.records.load(Ordering::Relaxed) {
            1 => Records::Unchecked,
            _ => Records::Checked,
        }
    }

    /// Notes the kind of records of a tree that is opened or made. All trees of a forest have the same kind.
    ///
    /// # Errors
    /// Damage, if another tree has the other kind.
    pub(crate) fn agree(&self, records: Records, cell: Object) -> Result<(), Error> {
        let wanted = if records == Records::Unchecked { 1 } else { 2 };
        let (set, read) = (Ordering::AcqRel, Ordering::Acquire);
        match self.records.compare_exchange(0, wanted, set, read) {
            Err(other) if other != wanted => {
                damaged(cell.offset(), "a tree with records as those of the others")
            }
            _ => Ok(()),
        }
    }

    /// The number of a leaf.
    pub(crate) fn leaf_id(&self, object: Object) -> Result<u32, Error> {
        match u32::try_from(object.offset() >> self.leaf_bits) {
            Ok(id) => Ok(id),
            Err(_) => damaged(object.offset(), "a leaf whose number has 32 bits"),
        }
    }

    /// Notes that a tree with so many leaves is opened.
    pub(crate) fn expect_leaves(&self, count: usize) {
        let count = count + self.old_leaves.fetch_add(count, Ordering::Relaxed);
        let end = self.pool.usage().frontier >> self.leaf_bits;
        self.leaves.expect(count, end as usize);
    }

    /// The number of a leaf that is being made.
    pub(crate) fn new_leaf_id(&self, object: Object) -> Result<u32, Error> {
        let id = self.leaf_id(object)?;
        if self.leaves.reach(id as usize) || self.nodes.is_short() || self.pool.wants_prefault() {
            self.call_prefaulter();
        }
        Ok(id)
    }

    #[cold]
    fn call_prefaulter(&self) {
        if let Some(call) = self.prefaulter.get()
            && !self.is_called.swap(true, Ordering::SeqCst)
        {
            call();
        }
    }

    pub(crate) fn dead_epoch(&self) -> u32 {
        self.dead_epoch.load(Ordering::Acquire)
    }

    /// Calls `with` while nothing can set a new horizon, so that what the horizon protects stays.
    pub(crate) fn with_horizon<T>(&self, with: impl FnOnce(&DeadIntervals, &Retained) -> T) -> T {
        let horizon = self.horizon.read().unwrap_or_else(PoisonError::into_inner);
        with(&horizon.dead, &horizon.retained)
    }

    /// The dead intervals in force.
    pub fn dead(&self) -> Arc<DeadIntervals> {
        self.horizon.read().unwrap_or_else(PoisonError::into_inner).dead.clone()
    }

    /// Whether any dead interval is in force.
    #[inline]
    pub fn has_dead(&self) -> bool {
        self.has_dead.load(Ordering::Acquire)
    }

    fn put_dead(&self, dead: Arc<DeadIntervals>) {
        let has_dead = !dead.intervals().is_empty();
        write(&self.horizon).dead = dead;
        self.has_dead.store(has_dead, Ordering::Release);
    }

    /// Sets which versions are dead. The caller is the writer, and no reader holds a version that has died.
    pub fn set_dead(&self, dead: Arc<DeadIntervals>) {
        self.put_dead(dead);
        self.dead_epoch.fetch_add(1, Ordering::AcqRel);
    }

    /// Sets which versions are still dead after a scrub. The orders of nodes do not change by that.
    pub fn forget_dead(&self, dead: Arc<DeadIntervals>) {
        self.put_dead(dead);
    }

    /// Sets which versions are retained. The caller does this before it frees what is not needed. A version that was given
    /// up is never retained again.
    pub fn set_retained(&self, retained: Arc<Retained>) {
        write(&self.horizon).retained = retained;
    }

    /// As [`Forest::set_retained`], where `retained` may have older versions that nothing has retained in this life of the
    /// process. Side-cars, which may lack what only those versions need, are made again. Nothing was changed or freed before.
    pub fn set_retained_at_open(&self, retained: Arc<Retained>) {
        self.set_retained(retained);
        self.dead_epoch.fetch_add(1, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests;
