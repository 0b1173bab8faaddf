//! A versioned index without a store above it: each operation is a version, and one fence commits it.
//!
//! [`Bare`] takes every [`VersionedIndex`]: another index needs a constructor like
//! [`BareCdds::new`] and a [`Kind`](crate::Kind).

use std::ops::Bound;
use std::path::Path;
use std::sync::Arc;

use tembo_index::{
    Cdds, DeadIntervals, Direction, Error as IndexError, Forest, Op, Retained, Retired, Stamp,
    VersionedIndex, View, Writer,
};
use tembo_pool::Pool;

use super::{nameless_pool, pool_options};
use crate::{Contender, Error};

/// What is retired is given back when so much of it has come together.
const RETIRED_MAX: usize = 64;

/// Lines that an operation may flush: a section's size, which costs nothing in the `flush` domain.
const LINES: u64 = 256;

/// The bare CDDS B-Tree.
pub(super) type BareCdds = Bare<Cdds>;

/// An index with the versions on: every operation is stamped, and old versions are collected.
pub(super) struct Bare<I> {
    index: I,
    pool: Arc<Pool>,
    forest: Arc<Forest>,
    dead: DeadIntervals,
    version: u64,
    retired: Vec<Retired>,
}

impl BareCdds {
    pub(super) fn new(folder: &Path) -> Result<BareCdds, Error> {
        let pool = Arc::new(nameless_pool(folder)?);
        let forest = Arc::new(Forest::new(pool.clone(), pool_options().region.size_max)?);
        let (dead, retained, mut retired) = Default::default();
        let version = 1;
        let stamp = Stamp::single(version, 0);
        let writer = Writer { stamp, dead: &dead, retained: &retained, retired: &mut retired };
        let (index, _) = Cdds::create(forest.clone(), &writer)?;
        Ok(Bare { index, pool, forest, dead, version, retired })
    }
}

impl<I: VersionedIndex> Bare<I> {
    fn view(&self) -> View<'_> {
        View { version: self.version, dead: &self.dead }
    }

    /// One version: applied, fenced, visible.
    fn commit(
        &mut self,
        apply: impl FnOnce(&I, &mut Writer<'_>) -> Result<bool, IndexError>,
    ) -> Result<bool, Error> {
        let retained = Retained::new(self.version, Vec::new());
        let mut writer = Writer {
            stamp: Stamp::single(self.version + 1, 0),
            dead: &self.dead,
            retained: &retained,
            retired: &mut self.retired,
        };
        let region = self.pool.region();
        let section = region.reserve(LINES)?;
        let existed = apply(&self.index, &mut writer)?;
        // ORDER: every entry of the version is durable before the operation returns.
        region.fence("bench.bare.commit");
        drop(section);
        self.version += 1;
        if self.retired.len() >= RETIRED_MAX {
            self.reclaim();
        }
        Ok(existed)
    }

    fn reclaim(&mut self) {
        let retained = Arc::new(Retained::new(self.version, Vec::new()));
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

    fn put(&mut self, key: u64, value: u64) -> Result<bool, Error> {
        let (key, value) = (key.to_be_bytes(), value.to_le_bytes());
        self.commit(|index, writer| index.apply(Op::Put { key: &key, value: &[&value] }, writer))
    }
}

impl<I: VersionedIndex> Contender for Bare<I> {
    fn insert(&mut self, key: u64, value: u64) -> Result<(), Error> {
        self.put(key, value).map(drop)
    }

    fn update(&mut self, key: u64, value: u64) -> Result<bool, Error> {
        self.put(key, value)
    }

    fn remove(&mut self, key: u64) -> Result<bool, Error> {
        let key = key.to_be_bytes();
        self.commit(|index, writer| match index.remove_single(&key, writer)? {
            Some(existed) => Ok(existed),
            None => index.apply(Op::Remove { key: &key }, writer),
        })
    }

    fn get(&mut self, key: u64) -> Result<Option<u64>, Error> {
        Ok(self.index.get(&key.to_be_bytes(), self.view())?.and_then(number))
    }

    fn scan(&mut self, key: u64, len: usize) -> Result<usize, Error> {
        let mut count = 0;
        let mut visit = |key: &[u8], value: &[u8]| {
            std::hint::black_box((key, value));
            count += 1;
            count < len
        };
        let from = key.to_be_bytes();
        let (from, to) = (Bound::Included(&from[..]), Bound::Unbounded);
        self.index.range(from, to, Direction::Forward, self.view(), &mut visit)?;
        Ok(count)
    }

    fn used_bytes(&self) -> u64 {
        self.pool.usage().allocated_bytes
    }
}

/// The value that `put` has written.
pub(super) fn number(bytes: &[u8]) -> Option<u64> {
    bytes.try_into().ok().map(u64::from_le_bytes)
}
