//! The baselines of the documents: one B+-Tree with switches.

use std::path::Path;
use std::sync::Arc;

use tembo_pool::Pool;

use super::ordered_map::counted;
use super::pool::{Size, nameless_pool, volatile_pool};
use crate::bplus::{BplusTree, Design, Flushed};
use crate::{Contender, Error};

/// A tree alone in a pool.
pub(super) struct Baseline(BplusTree);

impl Baseline {
    pub(super) fn new(folder: &Path, size: Size, design: Design) -> Result<Baseline, Error> {
        let pool = match design {
            Design::Plain => volatile_pool(size, None)?,
            _ => nameless_pool(folder, size)?,
        };
        Baseline::over(pool, size, design)
    }

    pub(super) fn over(pool: Pool, size: Size, design: Design) -> Result<Baseline, Error> {
        Ok(Baseline(BplusTree::new(Arc::new(pool), design, size.node_size)?))
    }
}

impl Contender for Baseline {
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
