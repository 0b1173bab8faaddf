//! The options of the tests that open a store.

use std::path::Path;
use std::time::Duration;

use anyhow::Context;
use clap::ValueEnum;
use parse_size::Config;
use tembo_kv::{Error, IndexKind, Options, Pool, Store};
use tembo_pmem::{DomainRequest, RegionOptions, SyncPolicy};
use tembo_pool::PoolOptions;

/// What makes the bytes durable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Domain {
    /// Probe the medium: persistent memory if it is, else a redo log
    #[default]
    Auto,
    /// Flush instructions; emulated where the medium is not persistent memory
    Flush,
    /// As flush, with caches that survive a power failure
    Eadr,
    /// A redo log beside an ordinary file
    Logged,
}

impl Domain {
    pub(crate) fn request(self) -> DomainRequest {
        match self {
            Domain::Auto => DomainRequest::Auto,
            Domain::Flush => DomainRequest::Flush,
            Domain::Eadr => DomainRequest::Eadr,
            Domain::Logged => DomainRequest::Logged,
        }
    }
}

/// When the log reaches the disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Sync {
    /// Before any reply
    #[default]
    Always,
    /// Every second
    Interval,
    /// When the system likes: survives the process, not the power
    Os,
}

/// Which index holds the keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Index {
    /// The CDDS B-Tree: every node is persistent
    Cdds,
    /// The NV-Tree: only its leaves are
    Nvtree,
    /// The hash index: keys have no order
    Hash,
}

impl Default for Index {
    fn default() -> Index {
        match IndexKind::default() {
            IndexKind::Cdds => Index::Cdds,
            IndexKind::Nvtree => Index::Nvtree,
            IndexKind::Hash => Index::Hash,
        }
    }
}

impl Index {
    pub(crate) fn name(self) -> &'static str {
        self.kind().name()
    }

    pub(crate) fn kind(self) -> IndexKind {
        match self {
            Index::Cdds => IndexKind::Cdds,
            Index::Nvtree => IndexKind::Nvtree,
            Index::Hash => IndexKind::Hash,
        }
    }
}

/// The options of a store that a test makes.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct StoreArgs {
    /// What makes the bytes durable
    #[arg(long, value_enum, default_value_t)]
    domain: Domain,
    /// When the redo log is synced, in the domain `logged`
    #[arg(long, value_enum, default_value_t)]
    sync: Sync,
    /// Index of the pool
    #[arg(long, value_enum, default_value_t)]
    index: Index,
    /// Size of the pool at first, in bytes or with K, M, G or T (powers of 1024); it grows as needed
    #[arg(long, value_parser = size, default_value = "64M", value_name = "SIZE")]
    size: u64,
    /// Capacity of the redo log, as --size
    #[arg(long, value_parser = size, default_value = "64M", value_name = "SIZE")]
    log_size: u64,
}

/// How often the log is synced under `--sync interval`.
const SYNC_INTERVAL: Duration = Duration::from_secs(1);

/// Bytes, as a person writes them.
pub(crate) fn size(text: &str) -> Result<u64, parse_size::Error> {
    Config::new().with_binary().parse_size(text)
}

impl StoreArgs {
    fn options(&self) -> Options {
        let domain = self.domain.request();
        let sync = match self.sync {
            Sync::Always => SyncPolicy::Always,
            Sync::Interval => SyncPolicy::Interval(SYNC_INTERVAL),
            Sync::Os => SyncPolicy::Os,
        };
        let pool = Options::new().pool_options();
        let region = RegionOptions { domain, sync, log_size: self.log_size, ..pool.region };
        let pool = PoolOptions { size: self.size, region, ..pool };
        Options::new().pool(pool).index(self.index.kind())
    }

    /// As given; without a domain, that of an ordinary file.
    pub(crate) fn logged(&self) -> Options {
        match self.domain {
            Domain::Auto => StoreArgs { domain: Domain::Logged, ..self.clone() }.options(),
            _ => self.options(),
        }
    }

    /// Opens the store at `path`, or creates it where there is nothing.
    pub(crate) fn open_or_create(&self, path: &Path) -> anyhow::Result<Store> {
        if path.try_exists().with_context(|| format!("looking for {}", path.display()))? {
            return self.open(path);
        }
        Store::create(path, &self.options()).with_context(|| format!("creating {}", path.display()))
    }

    /// Opens so many stores of one pool at `path`, each with its name, and creates what is not there; one: a pool made for it.
    pub(crate) fn open_or_create_all(
        &self,
        path: &Path,
        count: usize,
    ) -> anyhow::Result<Vec<Store>> {
        if count == 1 {
            return Ok(vec![self.open_or_create(path)?]);
        }
        let options = self.options();
        let pool = match path.try_exists()? {
            true => {
                Pool::open(path, &options).with_context(|| format!("opening {}", path.display()))?
            }
            false => Pool::create(path, &options)
                .with_context(|| format!("creating {}", path.display()))?,
        };
        let open = |number: usize| {
            let name = format!("store {number}");
            match pool.store(&name) {
                Err(Error::NoSuchStore { .. }) => pool.create_store(&name, &options),
                opened => opened,
            }
        };
        Ok((0..count).map(open).collect::<Result<_, _>>()?)
    }

    /// Opens the store at `path`, which is there.
    fn open(&self, path: &Path) -> anyhow::Result<Store> {
        Store::open(path, &self.options()).with_context(|| format!("opening {}", path.display()))
    }
}
