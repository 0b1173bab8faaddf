//! Growth: online, in steps, up to a bound.

use tembo_pmem::RegionOptions;
use tembo_pool::{Error, Geometry, PoolOptions};

use crate::image;

#[test]
fn a_reservation_is_refused_before_anything_is_stored() {
    let pool = image::tiny();
    drop(pool.reserve(100 << 10, 10).unwrap());
    let big = pool.alloc(112 << 10).unwrap();
    assert!(matches!(
        pool.reserve(9 << 10, 1),
        Err(Error::PoolFull { size: 9216, recovering: false })
    ));
    drop(pool.reserve(8 << 10, 1).unwrap());
    drop(pool.reserve(0, 1).unwrap());
    assert!(matches!(pool.reserve(u64::MAX, 1), Err(Error::PoolFull { .. })));
    pool.free(big);
    drop(pool.reserve(100 << 10, 1).unwrap());
    let _ = (RegionOptions::default(), Geometry::TINY, PoolOptions::default());
}
