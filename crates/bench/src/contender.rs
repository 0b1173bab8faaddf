//! Who takes part, and how it is made.

mod bare;
mod btreemap;
mod kv;
mod paper;
mod wall;

use std::path::Path;

use serde::Serialize;
use tembo_index::IndexKind;
use tembo_kv::{DomainRequest, PoolOptions, RegionOptions};
use tembo_pool::{Geometry, Pool};

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

    /// Itself, if several threads may use it at once.
    fn shared(&self) -> Option<&dyn Shared> {
        None
    }

    /// Rebuilds of its inner nodes so far, if it has any such thing.
    fn rebuilds(&self) -> Option<Rebuilds> {
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
        }
    }

    /// The kind of that name.
    pub fn named(name: &str) -> Option<Kind> {
        Kind::ALL.into_iter().find(|kind| kind.name() == name)
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
        })
    }
}

/// Pools in the `flush` domain, emulated where the medium is not persistent memory.
fn pool_options(size: Size) -> PoolOptions {
    let region = RegionOptions { domain: DomainRequest::Flush, ..RegionOptions::default() };
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

/// Of no consequence when it fails: the folder goes in the end, and the file with it.
fn forget_name(path: &Path) {
    let _ = std::fs::remove_file(path);
}
