//! Who takes part, and how it is made.

mod bare;
mod baseline;
mod btreemap;
mod kv;
mod paper;
mod wall;

use std::path::Path;
use std::sync::Arc;

use serde::Serialize;
use tembo_index::IndexKind;
use tembo_kv::{DomainRequest, PoolOptions, RegionOptions};
use tembo_pmem::{Emulation, Observer};
use tembo_pool::{Geometry, Pool};

use crate::bplus::{Design, Flushed};
use crate::drive::Driven;
use crate::nvtree_paper::{Rebuilds, Strategy};
use crate::{Error, Operation};

/// An ordered map of 8-byte keys to 8-byte values. Each change is durable when it returns, unless the
/// contender's kind says that nothing of it is.
///
/// Structures that know bytes only are given keys in big-endian order.
pub trait Contender {
    /// Puts a key that is not there.
    ///
    /// # Errors
    /// Those of what lies below.
    fn insert(&mut self, key: u64, value: u64) -> Result<(), Error>;

    /// Gives a key that is there another value; false: it was not there.
    ///
    /// # Errors
    /// Those of what lies below.
    fn update(&mut self, key: u64, value: u64) -> Result<bool, Error>;

    /// Removes a key; false: it was not there.
    ///
    /// # Errors
    /// Those of what lies below.
    fn remove(&mut self, key: u64) -> Result<bool, Error>;

    /// The value of a key.
    ///
    /// # Errors
    /// Those of what lies below.
    fn get(&mut self, key: u64) -> Result<Option<u64>, Error>;

    /// Visits up to `len` entries from `key` on, in order; their number.
    ///
    /// # Errors
    /// Those of what lies below.
    fn scan(&mut self, key: u64, len: usize) -> Result<usize, Error>;

    /// Bytes that it takes in its pool.
    fn used_bytes(&self) -> u64;

    /// Puts a value of `size` bytes.
    ///
    /// # Errors
    /// [`Error::Absent`]: it keeps numbers only; those of what lies below.
    fn put_record(&mut self, key: u64, size: usize) -> Result<(), Error> {
        let _ = (key, size);
        Err(Error::Absent("values of any length"))
    }

    /// Itself, if several threads may use it at once.
    fn shared(&self) -> Option<&dyn Shared> {
        None
    }

    /// Rebuilds of its inner nodes so far, if it has any such thing.
    fn rebuilds(&self) -> Option<Rebuilds> {
        None
    }

    /// Lines flushed so far, by what for, if it keeps apart what they were for.
    fn flushed(&self) -> Option<Flushed> {
        None
    }

    /// Whether it has that operation at all.
    fn offers(&self, operation: Operation) -> bool {
        let _ = operation;
        true
    }
}

/// A contender that several threads use at once.
pub trait Shared: Sync {
    /// Whether more than one of them may change it.
    fn takes_writers(&self) -> bool;

    /// Puts a key; whether it was there.
    ///
    /// # Errors
    /// Those of what lies below.
    fn put(&self, key: u64, value: u64) -> Result<bool, Error>;

    /// The value of a key.
    ///
    /// # Errors
    /// Those of what lies below.
    fn get(&self, key: u64) -> Result<Option<u64>, Error>;
}

/// What contenders are made for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Size {
    /// Keys, about.
    pub(crate) keys: u64,
    /// Bytes in a node.
    pub(crate) node_size: u32,
    /// A slower medium than there is.
    pub(crate) emulation: Option<Emulation>,
}

impl Size {
    /// On the medium that there is.
    pub(crate) fn new(keys: u64, node_size: u32) -> Size {
        Size { keys, node_size, emulation: None }
    }
}

/// A contender by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// The one-line persist: a store, a flush and a fence of a random line. Nothing durable is faster.
    Wall,
    /// `std::collections::BTreeMap`: volatile.
    Btreemap,
    /// The CDDS B-Tree, bare: versions, a commit and a fence for each operation.
    Cdds,
    /// The NV-Tree of this house, bare: versions, each operation commits by itself.
    Nvtree,
    /// The store over the CDDS B-Tree, a strict commit for each operation.
    KvCdds,
    /// The store over the NV-Tree, a strict commit for each operation.
    KvNvtree,
    /// The NV-Tree as its paper has it: no versions, two fences for each operation, and keys are not
    /// looked for before they are inserted.
    NvtreePaper,
    /// The same, with sizes that follow the workload by the balanced strategy.
    NvtreePaperAdaptive,
    /// A B+-Tree with nothing flushed.
    Bplus,
    /// A B+-Tree with a log of nodes and flushed shifts.
    Lcb,
    /// The paper's leaves under logged inner nodes.
    NvtA,
    /// CDDS as the documents describe it: each shifted entry flushed by itself.
    CddsPaper,
    /// The same with its flushes off.
    CddsPaperVolatile,
    /// The same with leaves that are appended to.
    CddsUnordered,
    /// The CDDS B-Tree of this house with its flushes off.
    CddsVolatile,
}

impl Kind {
    /// In the order of tables.
    pub const ALL: [Kind; 8] = [
        Kind::Wall,
        Kind::Btreemap,
        Kind::Cdds,
        Kind::Nvtree,
        Kind::KvCdds,
        Kind::KvNvtree,
        Kind::NvtreePaper,
        Kind::NvtreePaperAdaptive,
    ];

    /// The documents' baselines.
    pub const BASELINES: [Kind; 7] = [
        Kind::Bplus,
        Kind::Lcb,
        Kind::NvtA,
        Kind::CddsPaper,
        Kind::CddsPaperVolatile,
        Kind::CddsUnordered,
        Kind::CddsVolatile,
    ];

    /// For tables and for the command line.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Wall => "wall",
            Kind::Btreemap => "btreemap",
            Kind::Cdds => "cdds",
            Kind::Nvtree => "nvtree",
            Kind::KvCdds => "kv-cdds",
            Kind::KvNvtree => "kv-nvtree",
            Kind::NvtreePaper => "nvtree-paper",
            Kind::NvtreePaperAdaptive => "nvtree-paper-adaptive",
            Kind::Bplus => "b+tree",
            Kind::Lcb => "lcb",
            Kind::NvtA => "nvt-a",
            Kind::CddsPaper => "cdds-paper",
            Kind::CddsPaperVolatile => "cdds-paper-volatile",
            Kind::CddsUnordered => "cdds-unordered",
            Kind::CddsVolatile => "cdds-volatile",
        }
    }

    /// The kind of that name.
    pub fn named(name: &str) -> Option<Kind> {
        let mut all = Kind::ALL.into_iter().chain(Kind::BASELINES);
        all.find(|kind| kind.name() == name)
    }

    /// An empty one in a file of its own in `folder`.
    pub(crate) fn make(self, folder: &Path, size: Size) -> Result<Box<dyn Driven>, Error> {
        Ok(match self {
            Kind::Wall => Box::new(wall::Wall::new(folder, size.keys)?),
            Kind::Btreemap => Box::new(btreemap::Volatile::default()),
            Kind::Cdds => Box::new(bare::Bare::new(folder, size, IndexKind::Cdds)?),
            Kind::Nvtree => Box::new(bare::Bare::new(folder, size, IndexKind::Nvtree)?),
            Kind::KvCdds => Box::new(kv::StrictStore::new(folder, size, IndexKind::Cdds)?),
            Kind::KvNvtree => Box::new(kv::StrictStore::new(folder, size, IndexKind::Nvtree)?),
            Kind::NvtreePaper => Box::new(paper::Paper::new(folder, size, None)?),
            Kind::NvtreePaperAdaptive => {
                Box::new(paper::Paper::new(folder, size, Some(Strategy::Balanced))?)
            }
            Kind::Bplus => Box::new(baseline::Baseline::new(folder, size, Design::Plain)?),
            Kind::Lcb => Box::new(baseline::Baseline::new(folder, size, Design::Lcb)?),
            Kind::NvtA => Box::new(baseline::Baseline::new(folder, size, Design::NvtA)?),
            Kind::CddsPaper => Box::new(baseline::Baseline::new(folder, size, Design::Cdds)?),
            Kind::CddsPaperVolatile => Box::new(baseline::Baseline::volatile(size, Design::Cdds)?),
            Kind::CddsUnordered => {
                Box::new(baseline::Baseline::new(folder, size, Design::CddsUnordered)?)
            }
            Kind::CddsVolatile => Box::new(bare::Bare::volatile(size, IndexKind::Cdds)?),
        })
    }
}

impl Kind {
    /// An empty one in memory, where `observer`, if there is one, is told of every store.
    pub(crate) fn in_memory(
        self,
        size: Size,
        observer: Option<Arc<dyn Observer>>,
    ) -> Result<Box<dyn Driven>, Error> {
        let pool = volatile_pool(size, observer)?;
        let size_max = pool.region().size();
        Ok(match self {
            Kind::Cdds => Box::new(bare::Bare::over(pool, size_max, IndexKind::Cdds)?),
            Kind::Nvtree => Box::new(bare::Bare::over(pool, size_max, IndexKind::Nvtree)?),
            Kind::CddsPaper => Box::new(baseline::Baseline::over(pool, size, Design::Cdds)?),
            Kind::Bplus => Box::new(baseline::Baseline::over(pool, size, Design::Plain)?),
            Kind::Lcb => Box::new(baseline::Baseline::over(pool, size, Design::Lcb)?),
            Kind::NvtreePaperAdaptive => {
                Box::new(paper::Paper::over(pool, size, Some(Strategy::Balanced))?)
            }
            _ => return Err(Error::Absent("a way to watch this one")),
        })
    }
}

/// Pools in the `flush` domain, emulated where the medium is not persistent memory.
fn pool_options(size: Size) -> PoolOptions {
    let (domain, emulation) = (DomainRequest::Flush, size.emulation);
    let region = RegionOptions { domain, emulation, ..RegionOptions::default() };
    let geometry = Geometry { node_size: size.node_size, ..Geometry::default() };
    PoolOptions { region, geometry, ..PoolOptions::default() }
}

/// A pool whose file has no name any more, so that it ends with the process, however that ends.
fn nameless_pool(folder: &Path, size: Size) -> Result<Pool, Error> {
    let path = folder.join("pool");
    let pool = Pool::create(&path, &pool_options(size))?;
    forget_name(&path);
    Ok(pool)
}

/// Bytes in a volatile pool beside its keys.
const VOLATILE_MIN: u64 = 256 << 20;

/// Bytes in a volatile pool for each key: more than any structure takes. What is not touched takes no
/// memory.
const VOLATILE_PER_KEY: u64 = 1024;

/// A pool in memory, where flushes do nothing.
fn volatile_pool(size: Size, observer: Option<Arc<dyn Observer>>) -> Result<Pool, Error> {
    let mut options = pool_options(size);
    options.region.observer = observer;
    options.size = VOLATILE_MIN + size.keys * VOLATILE_PER_KEY;
    options.region.size_max = options.size;
    Ok(Pool::volatile(&options)?)
}

/// Of no consequence when it fails: the folder goes in the end, and the file with it.
fn forget_name(path: &Path) {
    let _ = std::fs::remove_file(path);
}

/// Counts the entries that a scan shows, and ends it after `len` of them.
fn counted(
    len: usize,
    scan: impl FnOnce(&mut dyn FnMut(u64, u64) -> bool) -> Result<(), Error>,
) -> Result<usize, Error> {
    let mut count = 0;
    scan(&mut |key, value| {
        std::hint::black_box((key, value));
        count += 1;
        count < len
    })?;
    Ok(count)
}
