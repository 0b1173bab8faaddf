//! How a store is created or opened.

use std::fmt;
use std::sync::Arc;

use tembo_index::{IndexKind, Records};
use tembo_pmem::{DomainRequest, SyncPolicy, memory_max};
use tembo_pool::{Geometry, PoolOptions};

use crate::tenant::StoreKind;

/// The smallest redo log, in bytes, that has room for the largest operation of a store.
pub const LOG_SIZE_MIN: u64 = 1 << 20;

/// What a transaction keeps in memory unless the options say otherwise.
const TRANSACTION_MEMORY: usize = 32 << 20;

/// How a store is created or opened. Settings that are not given have their defaults.
///
/// ```
/// # use tembo_kv::{IndexKind, Options, SyncPolicy};
/// let options = Options::new().size(1 << 30).index(IndexKind::Nvtree).sync(SyncPolicy::Always);
/// ```
#[derive(Clone)]
#[must_use]
pub struct Options {
    pool: PoolOptions,
    index: IndexKind,
    background: bool,
    transaction_memory: usize,
    checksums: bool,
}

impl Default for Options {
    /// As [`Options::new`].
    fn default() -> Options {
        Options::new()
    }
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Options { pool, index, background, transaction_memory, checksums } = self;
        f.debug_struct("Options")
            .field("size", &pool.size)
            .field("size_max", &pool.region.size_max)
            .field("domain", &pool.region.domain)
            .field("sync", &pool.region.sync)
            .field("index", index)
            .field("background", background)
            .field("transaction_memory", transaction_memory)
            .field("checksums", checksums)
            .finish_non_exhaustive()
    }
}

impl Options {
    /// A file of 64 MiB that grows; an NV-Tree; every strict commit synced; half of the memory that there is may be
    /// private pages of the pool; a transaction keeps at most 32 MiB in memory.
    pub fn new() -> Options {
        let mut pool = PoolOptions::default();
        pool.region.private_max = memory_max().map_or(u64::MAX, |bytes| bytes / 2);
        let (index, transaction_memory) = (IndexKind::default(), TRANSACTION_MEMORY);
        Options { pool, index, background: true, transaction_memory, checksums: true }
    }

    /// Bytes of a store that is created. It grows when they are used.
    pub fn size(mut self, bytes: u64) -> Options {
        self.pool.size = bytes;
        self
    }

    /// Bytes beyond which the store does not grow: then writes are refused, and reads go on.
    pub fn size_max(mut self, bytes: u64) -> Options {
        self.pool.region.size_max = bytes;
        self
    }

    /// Opens the store without ever changing its files: what recovery does stays in memory, what would change the store
    /// is refused with [`Error::ReadOnly`](crate::Error::ReadOnly), and everything else works: reads, snapshots, ranges,
    /// backups, a check. Several programs may have a store open in this way, but none while another has it open to write. The
    /// process needs no permission to write the files. A pool that holds a tenant of an unknown kind, or an unknown feature
    /// that forbids writing, can be opened in this way only.
    pub fn read_only(mut self, read_only: bool) -> Options {
        self.pool.region.read_only = read_only;
        self
    }

    /// The index of a store that is created. One that is opened keeps its own. With [`IndexKind::Hash`] keys have no order: all
    /// of them can be visited, ranges of them are refused ([`Error::Unordered`](crate::Error::Unordered)).
    pub fn index(mut self, index: IndexKind) -> Options {
        self.index = index;
        self
    }

    /// The persistence domain. By default what the file lies on decides.
    pub fn domain(mut self, domain: DomainRequest) -> Options {
        self.pool.region.domain = domain;
        self
    }

    /// What a sync waits for, in the `logged` domain. It caps the durability of every commit.
    pub fn sync(mut self, policy: SyncPolicy) -> Options {
        self.pool.region.sync = policy;
        self
    }

    /// Bytes that the redo log may have, in the `logged` domain; fewer than [`LOG_SIZE_MIN`] count as that. The log begins
    /// with 1 MiB and grows with its use, up to twice the size of the store and to a quarter of the
    /// [memory](Options::memory) (16 MiB at least).
    pub fn log_size(mut self, bytes: u64) -> Options {
        self.pool.region.log_size = bytes.max(LOG_SIZE_MIN);
        self
    }

    /// Bytes of memory that the process may have as its own: private pages of the store, side-cars and inner nodes of its
    /// indexes, and all that the program itself allocates. In the `logged` domain, private pages are given back so that it
    /// stays within that; an eighth is theirs whatever else there is. In every domain, directories of hash indexes take at most
    /// a sixteenth of it: beyond that lookups are as of the NV-Tree. Unless given: half of what the machine has, or of what the
    /// control group may use.
    pub fn memory(mut self, bytes: u64) -> Options {
        self.pool.region.memory = Some(bytes);
        self.pool.region.private_max = bytes;
        self
    }

    /// Bytes of private pages beyond which those that are in the file are given back, in the `logged` domain: so a
    /// store may be larger than memory.
    pub fn private_max(mut self, bytes: u64) -> Options {
        self.pool.region.private_max = bytes;
        self
    }

    /// Sizes of the pieces of a store that is created: for small ones.
    pub fn geometry(mut self, geometry: Geometry) -> Options {
        self.pool.geometry = geometry;
        self
    }

    /// Whether recovery and other upkeep have a thread of the store's own. Otherwise
    /// [`Store::maintain`](crate::Store::maintain) does it step by step.
    pub fn background(mut self, background: bool) -> Options {
        self.background = background;
        self
    }

    /// Bytes of keys and values that a [`Transaction`](crate::Transaction) keeps in memory. What it writes beyond that it keeps
    /// in the pool, which needs space for it twice until the commit. Others go on meanwhile, and wait for its commit.
    pub fn transaction_memory(mut self, bytes: usize) -> Options {
        self.transaction_memory = bytes;
        self
    }

    /// Whether the records of a store that is created have checksums, which are compared when a record that comes
    /// from a disk is first read, by checks and by backups. A store that is opened keeps its choice.
    pub fn checksums(mut self, checksums: bool) -> Options {
        self.checksums = checksums;
        self
    }

    /// Everything about the pool below, in the place of what was said of it before.
    pub fn pool(mut self, pool: PoolOptions) -> Options {
        self.pool = pool;
        self
    }

    /// The pool below, with stores among the kinds of tenants that it knows.
    #[must_use]
    pub fn pool_options(&self) -> PoolOptions {
        PoolOptions {
            kinds: self.pool.kinds.clone().with(Arc::new(StoreKind)),
            ..self.pool.clone()
        }
    }

    pub(crate) fn index_kind(&self) -> IndexKind {
        self.index
    }

    pub(crate) fn records(&self) -> Records {
        if self.checksums { Records::Checked } else { Records::Unchecked }
    }

    pub(crate) fn has_background(&self) -> bool {
        self.background
    }

    pub(crate) fn transaction_memory_max(&self) -> usize {
        self.transaction_memory
    }
}
