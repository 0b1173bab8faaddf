//! The contenders by name, and how each is made.

mod bare;
mod baseline;
mod btreemap;
mod cdds_paper;
mod kv;
mod ordered_map;
mod paper;
mod pool;
mod wall;

use std::path::Path;
use std::sync::Arc;

use serde::Serialize;
use tembo_index::IndexKind;
use tembo_pmem::Observer;
use tembo_pool::Pool;

use crate::Error;
use crate::bplus::Design;
use crate::cdds_paper::LeafOrder;
use crate::drive::Driven;
use crate::nvtree_paper::Strategy;
pub use ordered_map::{Contender, Shared};
pub(crate) use pool::{Size, create_prepared, prepared_bytes, volatile_pool};

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
    /// The hash index, bare: as the NV-Tree.
    Hash,
    /// The store over the CDDS B-Tree, a strict commit for each operation.
    KvCdds,
    /// The store over the NV-Tree, a strict commit for each operation.
    KvNvtree,
    /// The store over the hash index, a strict commit for each operation.
    KvHash,
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
    /// CDDS as its thesis has it, algorithms 1 to 6: each shifted entry flushed by itself.
    CddsPaper,
    /// The same with its flushes off.
    CddsPaperVolatile,
    /// The same with leaves that are appended to.
    CddsUnordered,
    /// The CDDS B-Tree of this house with its flushes off.
    CddsVolatile,
}

impl Kind {
    /// All kinds, in the order of tables.
    pub const ALL: [Kind; 10] = [
        Kind::Wall,
        Kind::Btreemap,
        Kind::Cdds,
        Kind::Nvtree,
        Kind::Hash,
        Kind::KvCdds,
        Kind::KvNvtree,
        Kind::KvHash,
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

    /// The name in tables and on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Wall => "wall",
            Kind::Btreemap => "btreemap",
            Kind::Cdds => "cdds",
            Kind::Nvtree => "nvtree",
            Kind::Hash => "hash",
            Kind::KvCdds => "kv-cdds",
            Kind::KvNvtree => "kv-nvtree",
            Kind::KvHash => "kv-hash",
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
            Kind::Hash => Box::new(bare::Bare::new(folder, size, IndexKind::Hash)?),
            Kind::KvCdds => Box::new(kv::StrictStore::new(folder, size, IndexKind::Cdds)?),
            Kind::KvNvtree => Box::new(kv::StrictStore::new(folder, size, IndexKind::Nvtree)?),
            Kind::KvHash => Box::new(kv::StrictStore::new(folder, size, IndexKind::Hash)?),
            Kind::NvtreePaper => Box::new(paper::Paper::new(folder, size, None)?),
            Kind::NvtreePaperAdaptive => {
                Box::new(paper::Paper::new(folder, size, Some(Strategy::Balanced))?)
            }
            Kind::Bplus => Box::new(baseline::Baseline::new(folder, size, Design::Plain)?),
            Kind::Lcb => Box::new(baseline::Baseline::new(folder, size, Design::Lcb)?),
            Kind::NvtA => Box::new(baseline::Baseline::new(folder, size, Design::NvtA)?),
            Kind::CddsPaper => {
                Box::new(cdds_paper::CddsPaper::new(folder, size, LeafOrder::Sorted)?)
            }
            Kind::CddsPaperVolatile => {
                Box::new(cdds_paper::CddsPaper::volatile(size, LeafOrder::Sorted)?)
            }
            Kind::CddsUnordered => {
                Box::new(cdds_paper::CddsPaper::new(folder, size, LeafOrder::Unordered)?)
            }
            Kind::CddsVolatile => Box::new(bare::Bare::volatile(size, IndexKind::Cdds)?),
        })
    }
}

impl Kind {
    /// An empty one in memory, where `observer`, if there is one, sees every store.
    pub(crate) fn in_memory(
        self,
        size: Size,
        observer: Option<Arc<dyn Observer>>,
    ) -> Result<Box<dyn Driven>, Error> {
        let size_max = size.volatile_bytes();
        match self {
            Kind::KvNvtree if observer.is_none() => {
                Ok(Box::new(kv::StrictStore::in_memory(size_max, IndexKind::Nvtree)?))
            }
            Kind::KvHash if observer.is_none() => {
                Ok(Box::new(kv::StrictStore::in_memory(size_max, IndexKind::Hash)?))
            }
            _ => self.over(volatile_pool(size, observer)?, size),
        }
    }

    /// An empty one in a pool that was made for it.
    pub(crate) fn over(self, pool: Pool, size: Size) -> Result<Box<dyn Driven>, Error> {
        let size_max = pool.region().size();
        Ok(match self {
            Kind::Cdds => Box::new(bare::Bare::over(pool, size_max, IndexKind::Cdds)?),
            Kind::Nvtree => Box::new(bare::Bare::over(pool, size_max, IndexKind::Nvtree)?),
            Kind::Hash => Box::new(bare::Bare::over(pool, size_max, IndexKind::Hash)?),
            Kind::CddsPaper => {
                Box::new(cdds_paper::CddsPaper::over(pool, size, LeafOrder::Sorted)?)
            }
            Kind::Bplus => Box::new(baseline::Baseline::over(pool, size, Design::Plain)?),
            Kind::Lcb => Box::new(baseline::Baseline::over(pool, size, Design::Lcb)?),
            Kind::NvtreePaperAdaptive => {
                Box::new(paper::Paper::over(pool, size, Some(Strategy::Balanced))?)
            }
            _ => return Err(Error::Absent("a way to watch this one")),
        })
    }
}
