//! The CDDS of its thesis.

use std::path::Path;
use std::sync::Arc;

use tembo_pool::Pool;

use super::ordered_map::counted;
use super::pool::{Size, nameless_pool, volatile_pool};
use crate::bplus::Flushed;
use crate::cdds_paper::{CddsTree, LeafOrder};
use crate::{Contender, Error};

/// The thesis's tree, alone in a pool.
pub(super) struct CddsPaper(CddsTree);

impl CddsPaper {
    pub(super) fn new(folder: &Path, size: Size, order: LeafOrder) -> Result<CddsPaper, Error> {
        CddsPaper::over(nameless_pool(folder, size)?, size, order)
    }

    /// A contender without flushes.
    pub(super) fn volatile(size: Size, order: LeafOrder) -> Result<CddsPaper, Error> {
        CddsPaper::over(volatile_pool(size, None)?, size, order)
    }

    pub(super) fn over(pool: Pool, size: Size, order: LeafOrder) -> Result<CddsPaper, Error> {
        Ok(CddsPaper(CddsTree::create(Arc::new(pool), order, size.node_size)?))
    }
}

impl Contender for CddsPaper {
    fn insert(&mut self, key: u64, value: u64) -> Result<(), Error> {
        self.0.insert(key, value)
    }

    fn update(&mut self, key: u64, value: u64) -> Result<bool, Error> {
        self.0.update(key, value)
    }

    fn remove(&mut self, key: u64) -> Result<bool, Error> {
        self.0.remove(key)
    }

    fn get(&mut self, key: u64) -> Result<Option<u64>, Error> {
        self.0.get(key)
    }

    fn scan(&mut self, key: u64, len: usize) -> Result<usize, Error> {
        counted(len, |visit| self.0.scan(key, visit))
    }

    fn used_bytes(&self) -> u64 {
        self.0.pool().usage().allocated_bytes
    }

    fn flushed(&self) -> Option<Flushed> {
        Some(self.0.flushed())
    }
}
