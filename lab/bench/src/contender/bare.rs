//! A versioned index without a store above it: each operation is a version, and one fence commits it.

use std::ops::Bound;
use std::path::Path;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, PoisonError, mpsc};

use tembo_index::{
    AT_REST, Clock, DeadIntervals, Direction, Forest, Index, IndexKind, Op, Retained, Retired,
    Stamp, Value, VersionedIndex, View, Writer,
};
use tembo_pool::Pool;

use super::pool::{Size, nameless_pool, pool_options, volatile_pool};
use crate::{Contender, Error, Operation, Shared};

/// Number of retired objects at which they are given back.
const RETIRED_MAX: usize = 64;

/// Lines that an operation may flush: a section's size, which costs nothing in the `flush` domain.
const LINES: u64 = 256;

/// The lane of all changes.
const LANE: u8 = 0;

/// An index with the versions on: every operation is stamped, and old versions are collected.
pub(super) struct Bare {
    index: Index,
    pool: Arc<Pool>,
    forest: Arc<Forest>,
    dead: DeadIntervals,
    clock: Clock,
    retired: Vec<Retired>,
    /// Objects that several writers have retired. They are kept, because a reader may still use them.
    retired_by_many: Mutex<Vec<Retired>>,
}

impl Bare {
    pub(super) fn new(folder: &Path, size: Size, kind: IndexKind) -> Result<Bare, Error> {
        Bare::over(nameless_pool(folder, size)?, pool_options(size).region.size_max, kind)
    }

    /// A contender without flushes.
    pub(super) fn volatile(size: Size, kind: IndexKind) -> Result<Bare, Error> {
        let pool = volatile_pool(size, None)?;
        let size_max = pool.region().size();
        Bare::over(pool, size_max, kind)
    }

    pub(super) fn over(pool: Pool, size_max: u64, kind: IndexKind) -> Result<Bare, Error> {
        let pool = Arc::new(pool);
        let forest = Arc::new(Forest::new(pool.clone(), size_max)?);
        prepare_beside(&forest);
        let (dead, retained, mut retired) = Default::default();
        let clock = Clock::new(0);
        let stamp = Stamp::grouped(clock.draw(), LANE);
        let writer = Writer { stamp, dead: &dead, retained: &retained, retired: &mut retired };
        let (index, _) = Index::create(forest.clone(), kind, &writer)?;
        let retired_by_many = Mutex::default();
        Ok(Bare { index, pool, forest, dead, clock, retired, retired_by_many })
    }

    fn view(&self) -> View<'_> {
        View { version: self.clock.last(), dead: &self.dead }
    }

    /// Makes a change of one version: it commits by itself if the index can do that, else in a group of one, which
    /// is fenced.
    fn commit(&mut self, op: Op<'_>) -> Result<bool, Error> {
        let last = self.clock.last();
        let retained = Retained::new(last, Vec::new());
        let mut writer = Writer {
            stamp: Stamp::single(last, LANE),
            dead: &self.dead,
            retained: &retained,
            retired: &mut self.retired,
        };
        let region = self.pool.region();
        let section = region.reserve(LINES)?;
        let existed = match self.index.apply_single(op, &self.clock.ticket(), &mut writer)? {
            Some(existed) => existed,
            None => {
                writer.stamp = Stamp::grouped(self.clock.draw(), LANE);
                let existed = self.index.apply(op, &mut writer)?;
                // ORDER: every entry of the version is durable before the operation returns.
                region.fence("bench.bare.commit");
                existed
            }
        };
        drop(section);
        if self.retired.len() >= RETIRED_MAX {
            self.reclaim();
        }
        Ok(existed)
    }

    fn reclaim(&mut self) {
        let retained = Arc::new(Retained::new(self.clock.last(), Vec::new()));
        self.forest.set_retained(retained.clone());
        let pool = &self.pool;
        self.retired.retain(|retired| {
            let needed = retained.needs(retired.start, retired.end);
            if !needed {
                pool.free(retired.object);
            }
            needed
        });
    }

    fn put_alone(&mut self, key: u64, value: u64) -> Result<bool, Error> {
        let (key, value) = (key.to_be_bytes(), value.to_le_bytes());
        self.commit(Op::Put { key: &key, value: &[&value] })
    }
}

impl Shared for Bare {
    /// The clock gives each change its version; the CDDS B-Tree takes one writer at a time all the
    /// same.
    fn takes_writers(&self) -> bool {
        self.index.kind() != IndexKind::Cdds
    }

    fn put(&self, key: u64, value: u64) -> Result<bool, Error> {
        let (key, value) = (key.to_be_bytes(), value.to_le_bytes());
        let last = self.clock.last();
        let (retained, mut retired) = (Retained::new(last, Vec::new()), Vec::new());
        let stamp = Stamp::single(last, LANE);
        let dead = &self.dead;
        let mut writer = Writer { stamp, dead, retained: &retained, retired: &mut retired };
        let section = self.pool.region().reserve(LINES)?;
        let op = Op::Put { key: &key, value: &[&value] };
        let below = AtomicU64::new(AT_REST);
        let existed = self.index.apply_single(
            op,
            &self.clock.ticket_of(&below, self.clock.last()),
            &mut writer,
        )?;
        drop(section);
        if !retired.is_empty() {
            let mut all = self.retired_by_many.lock().unwrap_or_else(PoisonError::into_inner);
            all.append(&mut retired);
        }
        existed.ok_or(Error::OneWriter { contender: self.index.kind().name() })
    }

    fn get(&self, key: u64) -> Result<Option<u64>, Error> {
        Ok(self.index.get(&key.to_be_bytes(), self.view())?.and_then(number))
    }
}

impl Contender for Bare {
    fn insert(&mut self, key: u64, value: u64) -> Result<(), Error> {
        self.put_alone(key, value).map(drop)
    }

    fn update(&mut self, key: u64, value: u64) -> Result<bool, Error> {
        self.put_alone(key, value)
    }

    fn remove(&mut self, key: u64) -> Result<bool, Error> {
        let key = key.to_be_bytes();
        self.commit(Op::Remove { key: &key })
    }

    fn get(&mut self, key: u64) -> Result<Option<u64>, Error> {
        Shared::get(self, key)
    }

    fn shared(&self) -> Option<&dyn Shared> {
        Some(self)
    }

    fn scan(&mut self, key: u64, len: usize) -> Result<usize, Error> {
        let mut count = 0;
        let mut visit = |key: &[u8], value: Value<'_>| {
            std::hint::black_box((key, value));
            count += 1;
            count < len
        };
        let from = key.to_be_bytes();
        let (from, to) = (Bound::Included(&from[..]), Bound::Unbounded);
        self.index.range(from, to, Direction::Forward, self.view(), &mut visit)?;
        Ok(count)
    }

    fn put_record(&mut self, key: u64, size: usize) -> Result<(), Error> {
        let value = vec![7; size];
        self.commit(Op::Put { key: &key.to_be_bytes(), value: &[&value] }).map(drop)
    }

    fn offers(&self, operation: Operation) -> bool {
        operation != Operation::Scan || self.index.kind().is_ordered()
    }

    fn used_bytes(&self) -> u64 {
        self.pool.usage().allocated_bytes
    }
}

/// A thread that makes memory ready for the forest while others work, as the store's own does. It ends
/// with the forest.
fn prepare_beside(forest: &Arc<Forest>) {
    let (call, calls) = mpsc::sync_channel(1);
    forest.call_to_prefault(move || {
        // Full: the thread was called already.
        let _ = call.try_send(());
    });
    let forest = Arc::downgrade(forest);
    std::thread::spawn(move || {
        while let (Ok(()), Some(forest)) = (calls.recv(), forest.upgrade()) {
            forest.prefault();
        }
    });
}

/// The value that `put` has written.
pub(super) fn number(value: Value<'_>) -> Option<u64> {
    value.array(0).map(u64::from_le_bytes)
}
