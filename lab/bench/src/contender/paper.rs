//! The NV-Tree of its paper.

use std::path::Path;
use std::sync::Arc;

use tembo_pool::Pool;

use super::ordered_map::counted;
use super::pool::{Size, nameless_pool};
use crate::nvtree_paper::{NvTree, Options, Rebuilds, Strategy};
use crate::{Contender, Error};

/// The paper's tree, alone in a pool.
pub(super) struct Paper(NvTree);

impl Paper {
    pub(super) fn new(
        folder: &Path,
        size: Size,
        strategy: Option<Strategy>,
    ) -> Result<Paper, Error> {
        Paper::over(nameless_pool(folder, size)?, size, strategy)
    }

    pub(super) fn over(pool: Pool, size: Size, strategy: Option<Strategy>) -> Result<Paper, Error> {
        let pool = Arc::new(pool);
        let leaf_size = size.node_size.into();
        Ok(Paper(NvTree::create(pool, &Options { leaf_size, strategy, ..Options::default() })?))
    }
}

impl Contender for Paper {
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

    fn rebuilds(&self) -> Option<Rebuilds> {
        Some(self.0.rebuilds())
    }

    fn used_bytes(&self) -> u64 {
        self.0.pool().usage().allocated_bytes
    }
}
