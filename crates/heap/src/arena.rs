//! What all parts of an open heap share: the pool, the types, the counts in memory, and what waits.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::Duration;

use rustc_hash::FxHashSet;
use tembo_pmem::Word;
use tembo_pmem::thread::lock;
use tembo_pool::{Object, Pool, TenantEntry};

use crate::Error;
use crate::candidates::Candidates;
use crate::format::{CHUNK_BEFORE, CHUNK_SLOTS, CHUNK_WORDS, MAGIC, ROOT_DOOMED, ROOT_ORPHANS};
use crate::format::{ROOT_TYPES, Root};
use crate::handles::{Handles, Released};
use crate::moving::Moving;
use crate::ownership::Ownership;
use crate::types::Types;

/// How long a transaction that begins waits at most for a sweep that has asked for the heap: it may have given up.
const GAP: Duration = Duration::from_millis(1);

/// How many heaps the process has opened.
static OPENED: AtomicU64 = AtomicU64::new(0);

/// An open heap.
pub(crate) struct Arena {
    /// No other one of the process has it; never 0.
    pub(crate) number: u64,
    pub(crate) pool: Arc<Pool>,
    pub(crate) entry: TenantEntry,
    pub(crate) types: Types,
    pub(crate) handles: Handles,
    pub(crate) ownership: Ownership,
    /// Commits come one after another.
    pub(crate) ledger: Mutex<Ledger>,
    /// Objects to which nothing refers any more, since a pointer of the program was dropped.
    dropped: Mutex<Vec<u64>>,
    /// The layer BASE is in use: pointers of the program are not counted, so nothing may be destroyed.
    by_hand: AtomicBool,
    /// Transactions are inside, side by side; one that runs alone, a sweep or a check keeps them out.
    gate: RwLock<()>,
    /// A sweep or a check waits to come in.
    is_wanted: AtomicBool,
    coming: Mutex<()>,
    has_come: Condvar,
    /// Held while a sweep that the heap drives marks, which ends by itself.
    pub(crate) marking: Mutex<()>,
}

/// See [`Arena::keep_all`].
pub(crate) struct KeepAll<'a>(&'a Arena);

impl Drop for KeepAll<'_> {
    fn drop(&mut self) {
        self.0.by_hand.store(false, Ordering::Relaxed);
    }
}

/// What commits know of the root.
#[derive(Default)]
pub(crate) struct Ledger {
    /// The chunks of the dead-on-open list, the oldest first.
    pub(crate) chunks: Vec<u64>,
    /// Their free places.
    pub(crate) free: Vec<u32>,
    pub(crate) candidates: Candidates,
    /// A compaction is under way.
    pub(crate) compaction: Option<Box<Moving>>,
}

impl Ledger {
    /// An object is destroyed by the commits, or was not made: its place will be another's.
    pub(crate) fn remove(&mut self, bits: u64) {
        self.candidates.remove(bits);
        if let Some(compaction) = &mut self.compaction {
            compaction.remove(bits);
        }
    }
}

impl Arena {
    /// What the root of a tenant names.
    pub(crate) fn open(pool: &Arc<Pool>, entry: &TenantEntry) -> Result<Arena, Error> {
        let root = pool.region().get::<Root>(entry.root.offset())?;
        if root.magic.load() != MAGIC {
            return Err(Error::Damaged { what: "the root", offset: entry.root.offset() });
        }
        let arena = Arena {
            number: OPENED.fetch_add(1, Ordering::Relaxed) + 1,
            pool: pool.clone(),
            entry: entry.clone(),
            types: Types::default(),
            handles: Handles::new(),
            ownership: Ownership::new(),
            ledger: Mutex::default(),
            dropped: Mutex::default(),
            by_hand: AtomicBool::new(false),
            gate: RwLock::new(()),
            is_wanted: AtomicBool::new(false),
            coming: Mutex::default(),
            has_come: Condvar::new(),
            marking: Mutex::default(),
        };
        let types = Types::read(pool, arena.root_word(ROOT_TYPES)?)?;
        let (ledger, orphans) = arena.read_orphans()?;
        for (bits, slot) in orphans {
            arena.handles.set_slot(bits, Some(slot));
            arena.drop_later(bits);
        }
        Ok(Arena { types, ledger: Mutex::new(ledger), ..arena })
    }

    /// The dead-on-open list: its chunks, and what an earlier process has left in it.
    fn read_orphans(&self) -> Result<(Ledger, Vec<(u64, u32)>), Error> {
        let (mut ledger, mut bits) = (Ledger::default(), self.root_word(ROOT_ORPHANS)?);
        let mut seen = FxHashSet::default();
        while bits != 0 {
            if !seen.insert(bits) {
                let offset = Object::from_bits(bits).offset();
                return Err(Error::Damaged { what: "the dead-on-open list", offset });
            }
            ledger.chunks.push(bits);
            bits = self.word(bits, CHUNK_BEFORE)?;
        }
        ledger.chunks.reverse();
        let mut orphans = Vec::new();
        for (number, &chunk) in ledger.chunks.iter().enumerate() {
            let words = self.words(chunk, 1, CHUNK_WORDS - 1)?;
            for (index, word) in words.iter().enumerate() {
                let slot = (number * CHUNK_SLOTS + index) as u32;
                match word.load() {
                    0 => ledger.free.push(slot),
                    bits => orphans.push((bits, slot)),
                }
            }
        }
        Ok((ledger, orphans))
    }

    /// Words of an object, from its head on.
    pub(crate) fn words(&self, bits: u64, first: usize, count: usize) -> Result<&[Word], Error> {
        self.pool.valid(Object::from_bits(bits))?;
        self.words_inside(bits, first, count)
    }

    /// The same of an object of which other words were looked at: it lies where an object can.
    #[inline]
    pub(crate) fn words_inside(
        &self,
        bits: u64,
        first: usize,
        count: usize,
    ) -> Result<&[Word], Error> {
        let object = Object::from_bits(bits);
        let end = (first.saturating_add(count) as u64).saturating_mul(8);
        if end > object.size() {
            return Err(Error::Damaged { what: "the end of an object", offset: object.offset() });
        }
        Ok(self.pool.region().words(object.offset() + 8 * first as u64, count)?)
    }

    /// The words of an object before `end`, the head at least. `None`: it has no such words.
    #[inline]
    pub(crate) fn first_words(&self, bits: u64, end: u64) -> Option<&[Word]> {
        let object = Object::from_bits(bits);
        let count = end.max(1);
        if count > object.size() / 8 {
            return None;
        }
        self.pool.region().words(object.offset(), count as usize).ok()
    }

    pub(crate) fn word(&self, bits: u64, index: usize) -> Result<u64, Error> {
        Ok(self.words(bits, index, 1)?[0].load())
    }

    /// The root's bits: its words are read and changed as those of an object.
    pub(crate) fn root(&self) -> u64 {
        self.entry.root.to_bits()
    }

    pub(crate) fn root_word(&self, index: usize) -> Result<u64, Error> {
        // It was looked at when the heap was opened.
        Ok(self.words_inside(self.root(), index, 1)?[0].load())
    }

    /// Whether objects wait to be destroyed.
    pub(crate) fn has_dead(&self) -> Result<bool, Error> {
        Ok(!lock(&self.dropped).is_empty() || self.root_word(ROOT_DOOMED)? != 0)
    }

    /// Space for an object, which nothing on media refers to.
    pub(crate) fn take(&self, words: u64) -> Result<Object, Error> {
        let size = words.saturating_mul(8);
        if let Some(object) = self.pool.alloc_at_hand(size) {
            return Ok(object);
        }
        let _section = self.pool.reserve(size, 0)?;
        Ok(self.pool.alloc(size)?)
    }

    /// A pointer of the program is dropped.
    #[inline]
    pub(crate) fn release(&self, bits: u64) {
        match self.handles.release(bits) {
            Released::Nothing => {}
            Released::Orphan => self.drop_later(bits),
            Released::Void => self.pool.free_unused(Object::from_bits(bits)),
        }
    }

    /// Nothing is destroyed while what is returned lives. The caller is [alone](Arena::alone).
    pub(crate) fn keep_all(&self) -> KeepAll<'_> {
        self.by_hand.store(true, Ordering::Relaxed);
        KeepAll(self)
    }

    /// Whether nothing may be destroyed.
    pub(crate) fn keeps_all(&self) -> bool {
        self.by_hand.load(Ordering::Relaxed)
    }

    pub(crate) fn drop_later(&self, bits: u64) {
        lock(&self.dropped).push(bits);
    }

    pub(crate) fn take_dropped(&self) -> Vec<u64> {
        std::mem::take(&mut *lock(&self.dropped))
    }

    /// The transactions that have ended come before, and none begins while this lives.
    pub(crate) fn alone(&self) -> RwLockWriteGuard<'_, ()> {
        self.gate.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// The same, if no transaction is under way.
    pub(crate) fn try_alone(&self) -> Option<RwLockWriteGuard<'_, ()>> {
        let guard = match self.gate.try_write() {
            Ok(guard) => guard,
            Err(std::sync::TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(std::sync::TryLockError::WouldBlock) => return None,
        };
        self.is_wanted.store(false, Ordering::Relaxed);
        drop(lock(&self.coming));
        self.has_come.notify_all();
        Some(guard)
    }

    /// A transaction begins, beside others.
    pub(crate) fn enter(&self) -> RwLockReadGuard<'_, ()> {
        if self.is_wanted.load(Ordering::Relaxed) {
            let is_wanted = |_: &mut ()| self.is_wanted.load(Ordering::Relaxed);
            drop(self.has_come.wait_timeout_while(lock(&self.coming), GAP, is_wanted));
            self.is_wanted.store(false, Ordering::Relaxed);
        }
        self.gate.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// The transactions that begin from here on wait until the caller's next [`try_alone`](Arena::try_alone), for a while.
    pub(crate) fn make_way(&self) {
        self.is_wanted.store(true, Ordering::Relaxed);
    }
}
