//! The stores of the corpus, and how they are opened.

use tembo_kv::Options;
use tembo_pmem::{DomainRequest, RegionOptions, SyncPolicy};
use tembo_pool::{Geometry, PoolOptions};

/// Bytes in a pool of the corpus.
pub(super) const POOL_SIZE: u64 = 96 << 10;
/// A ring in which the largest operation finds room.
const LOG_SIZE: u64 = 1 << 20;
/// Bytes in a log of the corpus.
pub(super) const LOG_FILE_SIZE: u64 = LOG_SIZE + 4096;

/// Small nodes, no threads; grows to twice its size.
pub(super) fn options() -> Options {
    let region = RegionOptions {
        domain: DomainRequest::Logged,
        sync: SyncPolicy::Os,
        size_max: 2 * POOL_SIZE,
        log_size: LOG_SIZE,
        background: false,
        ..RegionOptions::default()
    };
    let pool =
        PoolOptions { size: POOL_SIZE, region, geometry: Geometry::TINY, ..PoolOptions::default() };
    Options::new().pool(pool).background(false)
}
