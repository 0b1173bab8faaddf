//! The wall: one store, one flush, one fence. What is durable at all costs this much.

use std::path::Path;

use tembo_kv::{DomainRequest, RegionOptions};
use tembo_pmem::{HEADER_SIZE, LINE, Region};

use super::pool::forget_name;
use crate::{Contender, Error, Operation, Shared};

/// A line for so many keys: about what a dense leaf has.
const KEYS_PER_LINE: u64 = 2;

/// The least number of lines.
const LINES_MIN: u64 = 1024;

/// Lines, each persisted by whoever's key it is.
pub(super) struct Wall {
    region: Region,
    lines: u64,
}

impl Wall {
    pub(super) fn new(folder: &Path, keys: u64) -> Result<Wall, Error> {
        let lines = (keys / KEYS_PER_LINE).max(LINES_MIN);
        let options = RegionOptions { domain: DomainRequest::Flush, ..RegionOptions::default() };
        let path = folder.join("pool");
        let size = HEADER_SIZE + lines * LINE;
        let region = Region::create(&path, size, &options, |_| Ok::<(), tembo_pmem::Error>(()))?;
        forget_name(&path);
        // It is the measure of others: no page of it is touched for the first time while it is timed.
        region.prefault(HEADER_SIZE, lines * LINE);
        Ok(Wall { region, lines })
    }

    #[inline]
    fn persist(&self, key: u64, value: u64) -> Result<(), Error> {
        // Sequential keys are scattered too; scrambled ones lose nothing.
        let mixed = key.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let line = ((u128::from(mixed) * u128::from(self.lines)) >> 64) as u64;
        let offset = HEADER_SIZE + line * LINE;
        let section = self.region.reserve(1)?;
        self.region.store(&self.region.words(offset, 1)?[0], value);
        // ORDER: durable before the operation returns.
        self.region.flush("bench.wall.flush", offset, 8);
        // ORDER: as above.
        self.region.fence("bench.wall.fence");
        drop(section);
        Ok(())
    }
}

impl Shared for Wall {
    fn takes_writers(&self) -> bool {
        true
    }

    fn put(&self, key: u64, value: u64) -> Result<bool, Error> {
        self.persist(key, value).map(|()| true)
    }

    fn get(&self, _: u64) -> Result<Option<u64>, Error> {
        Ok(None)
    }
}

impl Contender for Wall {
    fn insert(&mut self, key: u64, value: u64) -> Result<(), Error> {
        self.persist(key, value)
    }

    fn update(&mut self, key: u64, value: u64) -> Result<bool, Error> {
        self.persist(key, value).map(|()| true)
    }

    fn remove(&mut self, key: u64) -> Result<bool, Error> {
        self.persist(key, 0).map(|()| true)
    }

    fn get(&mut self, _: u64) -> Result<Option<u64>, Error> {
        Ok(None)
    }

    fn scan(&mut self, _: u64, _: usize) -> Result<usize, Error> {
        Ok(0)
    }

    fn used_bytes(&self) -> u64 {
        self.lines * LINE
    }

    fn shared(&self) -> Option<&dyn Shared> {
        Some(self)
    }

    fn offers(&self, operation: Operation) -> bool {
        operation.is_write()
    }
}
