//! Pools made for tests, and what a process would find that opens one after a crash.

use std::sync::Arc;

use tembo_pmem::{HEADER_SIZE, Observer, Region, RegionOptions};
use tembo_pool::{Error, Geometry, Pool, PoolOptions};

/// A pool in memory that does not grow.
pub(crate) fn pool(size: u64, geometry: Geometry) -> Pool {
    let region = RegionOptions { size_max: size, ..RegionOptions::default() };
    Pool::volatile(&PoolOptions { size, geometry, region, ..PoolOptions::default() }).unwrap()
}

pub(crate) fn tiny() -> Pool {
    pool(128 << 10, Geometry::TINY)
}

/// A region with these bytes behind its header, which does not grow.
pub(crate) fn region(bytes: &[u8]) -> Region {
    observed_region(bytes, None)
}

/// The same, watched by an observer.
pub(crate) fn observed_region(bytes: &[u8], observer: Option<Arc<dyn Observer>>) -> Region {
    let size = HEADER_SIZE + bytes.len() as u64;
    let options = RegionOptions { size_max: size, observer, ..RegionOptions::default() };
    let region = Region::volatile(size, &options).unwrap();
    region.write("test.image", HEADER_SIZE, &[bytes]).unwrap();
    region
}

/// The bytes of a pool behind its region's header.
pub(crate) fn bytes(pool: &Pool) -> Vec<u8> {
    let region = pool.region();
    region.media_bytes(HEADER_SIZE, region.size() - HEADER_SIZE).unwrap().to_vec()
}

/// Opens a copy of a pool, which itself goes on.
pub(crate) fn reopen(pool: &Pool) -> Result<Pool, Error> {
    Pool::from_region(region(&bytes(pool)))
}
