//! The pools that contenders lie in.

use std::path::Path;
use std::sync::Arc;

use tembo_kv::{DomainRequest, Options, PoolOptions, RegionOptions, Store};
use tembo_pmem::{Emulation, Observer, Region};
use tembo_pool::{Geometry, Pool};

use crate::Error;

/// The size of the work for which contenders are made.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Size {
    /// Keys, about.
    pub(crate) keys: u64,
    /// Bytes in a node.
    pub(crate) node_size: u32,
    /// A slower medium than there is.
    pub(crate) emulation: Option<Emulation>,
    /// Bytes of the pool for which there are large pages before anything is timed; 0: as they are used, in the background.
    pub(crate) prepared: u64,
}

impl Size {
    /// On the medium that there is.
    pub(crate) fn new(keys: u64, node_size: u32) -> Size {
        Size { keys, node_size, emulation: None, prepared: 0 }
    }

    /// As `new`, with a pool whose pages are there before anything is timed.
    pub(crate) fn prepared(keys: u64, node_size: u32) -> Size {
        let prepared = prepared_bytes(keys, PREPARED_PER_KEY);
        Size { prepared, ..Size::new(keys, node_size) }
    }

    /// Bytes of a volatile pool for it.
    pub(crate) fn volatile_bytes(self) -> u64 {
        VOLATILE_MIN + self.keys * VOLATILE_PER_KEY
    }
}

/// Pools in the `flush` domain, emulated where the medium is not persistent memory.
pub(super) fn pool_options(size: Size) -> PoolOptions {
    let (domain, emulation) = (DomainRequest::Flush, size.emulation);
    let region = RegionOptions { domain, emulation, ..RegionOptions::default() };
    let geometry = Geometry { node_size: size.node_size, ..Geometry::default() };
    let mut options = PoolOptions { region, geometry, ..PoolOptions::default() };
    options.size = options.size.max(size.prepared);
    options
}

/// Creates a store in a file in memory, all of whose pages are large and there when it returns.
pub(crate) fn create_prepared(
    path: &Path,
    options: &Options,
    region: &RegionOptions,
) -> Result<Store, Error> {
    drop(Store::create(path, options)?);
    let whole = Region::open(path, region)?;
    whole.make_large_pages(0, whole.size());
    drop(whole);
    Ok(Store::open(path, options)?)
}

/// Bytes that are prepared in a pool for so many keys.
pub(crate) fn prepared_bytes(keys: u64, per_key: u64) -> u64 {
    PREPARED_MIN + keys * per_key
}

/// Bytes that are prepared in a pool beside its keys.
const PREPARED_MIN: u64 = 64 << 20;

/// Bytes that are prepared for a key and a value of eight bytes: more than the index or the store take.
const PREPARED_PER_KEY: u64 = 128;

/// A pool whose file has no name any more, so that it ends with the process, however that ends.
pub(super) fn nameless_pool(folder: &Path, size: Size) -> Result<Pool, Error> {
    let path = folder.join("pool");
    let pool = Pool::create(&path, &pool_options(size))?;
    if size.prepared > 0 {
        pool.region().make_large_pages(0, pool.region().size());
    }
    forget_name(&path);
    Ok(pool)
}

/// Bytes in a volatile pool beside its keys.
const VOLATILE_MIN: u64 = 256 << 20;

/// Bytes in a volatile pool for each key: more than any structure takes. What is not touched takes no
/// memory.
const VOLATILE_PER_KEY: u64 = 1024;

/// A pool in memory, where flushes do nothing.
pub(crate) fn volatile_pool(
    size: Size,
    observer: Option<Arc<dyn Observer>>,
) -> Result<Pool, Error> {
    let mut options = pool_options(size);
    options.region.observer = observer;
    options.size = size.volatile_bytes();
    options.region.size_max = options.size;
    Ok(Pool::volatile(&options)?)
}

/// Removes the name of a file. An error does no harm: the folder is removed at the end, with the file.
pub(super) fn forget_name(path: &Path) {
    let _ = std::fs::remove_file(path);
}
