//! How the commands open a store: the options that they share, and what they do when it is missing.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use clap::ValueEnum;
use tembo_kv::{Error, IndexKind, LOG_SIZE_MIN, Options, Pool, Store};
use tembo_pmem::{DomainRequest, RegionOptions, SyncPolicy};
use tembo_pool::PoolOptions;

use crate::bytes::{self, Bytes};
use crate::exit::{Exit, refuse};

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
    /// Memory only: nothing survives
    Volatile,
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
    /// The hash index: keys have no order. For load, dump, check, stat, backup and programs of your own; nothing can be served
    /// of it
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
    pub(crate) fn kind(self) -> IndexKind {
        match self {
            Index::Cdds => IndexKind::Cdds,
            Index::Nvtree => IndexKind::Nvtree,
            Index::Hash => IndexKind::Hash,
        }
    }
}

/// The store of a pool that was made for one.
pub(crate) const MAIN: &str = "main";

/// Which store of a pool a command is about.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct StoreName {
    /// The store, of a pool that holds several; a pool that is made has `main` only
    #[arg(long = "store", default_value = MAIN, value_name = "NAME")]
    pub(crate) store_name: String,
}

impl StoreName {
    /// As [`open_to_read`], of the store of that name.
    pub(crate) fn open_to_read(&self, path: &Path) -> anyhow::Result<Store> {
        store_of(&pool_to_read(path)?, path, &self.store_name)
    }

    /// As [`open_as_is`], of the store of that name.
    pub(crate) fn open_as_is(&self, path: &Path) -> anyhow::Result<Store> {
        let args = as_it_is();
        store_of(&args.open_pool(path, &args.options())?, path, &self.store_name)
    }
}

/// The options of every command that opens a pool.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct StoreArgs {
    /// What makes the bytes durable
    #[arg(long, value_enum, default_value_t)]
    pub(crate) domain: Domain,
    /// When the redo log is synced, in the domain `logged`
    #[arg(long, value_enum, default_value_t)]
    pub(crate) sync: Sync,
    /// Index of a new pool; one that is there keeps its own
    #[arg(long, value_enum, default_value_t)]
    pub(crate) index: Index,
    /// Size of a new pool, in bytes or with K, M, G or T (powers of 1024); it grows as needed
    #[arg(long, value_parser = bytes::parse, default_value = "64M", value_name = "SIZE")]
    pub(crate) size: u64,
    /// Size beyond which the pool does not grow, as --size
    #[arg(long, value_parser = bytes::parse, default_value = "1T", value_name = "SIZE")]
    pub(crate) size_max: u64,
    /// Size of the redo log at most, as --size, 1M or more; it begins small and grows with its use, to an eighth of
    /// --memory (8M at least) [default: 64M]
    #[arg(long, value_parser = log_size, value_name = "SIZE")]
    pub(crate) log_size: Option<u64>,
    /// Memory of the process's own: pages that differ from the pool file, side-cars, inner nodes, clients; as --size.
    /// Half of the machine's, or of the control group's, unless given
    #[arg(long, value_parser = bytes::parse, value_name = "SIZE")]
    pub(crate) memory: Option<u64>,
    /// Pages that differ from the pool file, of that memory: as --size, all unless given
    #[arg(long, value_parser = bytes::parse, value_name = "SIZE")]
    pub(crate) private_max: Option<u64>,
}

/// Reads the size of a redo log.
fn log_size(text: &str) -> Result<u64, String> {
    let size = bytes::parse(text)?;
    match size {
        LOG_SIZE_MIN.. => Ok(size),
        _ => {
            Err(format!("the largest operation of a store needs a log of {}", Bytes(LOG_SIZE_MIN)))
        }
    }
}

/// How often the log is synced under `--sync interval`.
const SYNC_INTERVAL: Duration = Duration::from_secs(1);

impl StoreArgs {
    fn pool_options(&self) -> PoolOptions {
        let domain = match self.domain {
            Domain::Auto => DomainRequest::Auto,
            Domain::Flush => DomainRequest::Flush,
            Domain::Eadr => DomainRequest::Eadr,
            Domain::Logged => DomainRequest::Logged,
            Domain::Volatile => DomainRequest::Volatile,
        };
        let sync = match self.sync {
            Sync::Always => SyncPolicy::Always,
            Sync::Interval => SyncPolicy::Interval(SYNC_INTERVAL),
            Sync::Os => SyncPolicy::Os,
        };
        let size_max = self.size_max;
        let PoolOptions { region, geometry, .. } = Options::new().pool_options();
        let log_size = self.log_size.unwrap_or(region.log_size);
        let private_max = self.private_max.or(self.memory).unwrap_or(region.private_max);
        let memory = self.memory;
        let region =
            RegionOptions { domain, sync, size_max, log_size, memory, private_max, ..region };
        // A store may have a heap beside it.
        let kinds = tembo_heap::kinds(tembo_kv::kinds());
        PoolOptions { size: self.size.min(size_max), region, geometry, kinds }
    }

    /// The domain, if it is one that leaves no file.
    pub(crate) fn has_no_file(&self) -> Option<&'static str> {
        (self.domain == Domain::Volatile).then_some("volatile")
    }

    pub(crate) fn options(&self) -> Options {
        Options::new().pool(self.pool_options()).index(self.index.kind())
    }

    /// Opens the store of that name in the pool at `path`. Where there is nothing, a pool with the store `main` is made.
    pub(crate) fn open_or_create(&self, path: &Path, name: &str) -> anyhow::Result<Store> {
        let options = self.options();
        let is_volatile = self.domain == Domain::Volatile;
        if !is_volatile && exists(path)? {
            return store_of(&self.open_pool(path, &options)?, path, name);
        }
        if is_volatile && name != MAIN {
            let what = format!("a pool in memory has the store {MAIN:?} only: leave out --store");
            return refuse(Exit::Usage, what);
        }
        if is_volatile {
            return Store::volatile(&options).context("reserving memory");
        }
        let log = log_path(path);
        if exists(&log)? {
            let what = format!("{} exists, and {} does not", log.display(), path.display());
            return refuse(Exit::LogOrphaned, what);
        }
        if name != MAIN {
            let advice = format!("leave out --store to make a pool, which has {MAIN:?} only");
            let what = format!("{} does not exist: {advice}", path.display());
            return refuse(Exit::PoolMissing, what);
        }
        Store::create(path, &options).with_context(|| format!("creating {}", path.display()))
    }

    /// As [`open_or_create`](StoreArgs::open_or_create), for `what`, which needs ranges of keys.
    pub(crate) fn open_or_create_ordered(
        &self,
        path: &Path,
        name: &str,
        what: &str,
    ) -> anyhow::Result<Store> {
        let is_new = self.domain == Domain::Volatile || !exists(path)?;
        if is_new && !self.index.kind().is_ordered() {
            let what =
                format!("{what} needs ranges of keys, and a pool with --index hash has none");
            return refuse(Exit::Unordered, what);
        }
        self.open_or_create(path, name)
    }

    /// Opens the store `main` of the pool at `path`, which is there.
    pub(crate) fn open(&self, path: &Path) -> anyhow::Result<Store> {
        store_of(&self.open_pool(path, &self.options())?, path, MAIN)
    }

    /// Opens the store of that name in the pool at `path`, which is there, to read it.
    pub(crate) fn open_to_read(&self, path: &Path, name: &str) -> anyhow::Result<Store> {
        store_of(&self.open_pool(path, &self.options().read_only(true))?, path, name)
    }

    /// Opens the pool at `path`, which is there.
    fn open_pool(&self, path: &Path, options: &Options) -> anyhow::Result<Pool> {
        if !exists(path)? {
            return refuse(Exit::PoolMissing, format!("{} does not exist", path.display()));
        }
        if !std::fs::metadata(path).is_ok_and(|metadata| metadata.is_file()) {
            return refuse(Exit::NotAPool, format!("{} is not a file", path.display()));
        }
        Pool::open(path, options).with_context(|| format!("opening {}", path.display()))
    }
}

/// The store of that name in the pool, which lies at `path`.
pub(crate) fn store_of(pool: &Pool, path: &Path, name: &str) -> anyhow::Result<Store> {
    let held = match pool.store(name) {
        // A pool that holds nothing is one whose creation was interrupted, or damaged.
        Err(Error::NoSuchStore { .. }) => match held(pool)? {
            held if held.is_empty() => Err(Error::Damaged { what: "a store's root" }),
            held => Ok(held),
        },
        Err(error) => Err(error),
        Ok(store) => return Ok(store),
    };
    let held = held.with_context(|| format!("opening {}", path.display()))?;
    let what =
        format!("{} holds no store named {name:?}; it holds {}", path.display(), listed(&held));
    refuse(Exit::NoStore, what)
}

/// What a pool holds: name and kind of each tenant.
pub(crate) fn held(pool: &Pool) -> Result<Vec<(String, String)>, Error> {
    let tenants = pool.tenants()?.into_iter();
    Ok(tenants.map(|tenant| (tenant.name, tenant.kind.to_string())).collect())
}

/// Tenants in a message.
pub(crate) fn listed(tenants: &[(String, String)]) -> String {
    let each: Vec<String> =
        tenants.iter().map(|(name, kind)| format!("{name}, a {kind}")).collect();
    each.join("; ")
}

/// Whether something has that name, be it only a dangling link: then nothing is created there.
fn exists(path: &Path) -> anyhow::Result<bool> {
    match std::fs::symlink_metadata(path) {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error).with_context(|| format!("looking for {}", path.display())),
    }
}

/// The redo log of the pool at `path`.
fn log_path(path: &Path) -> PathBuf {
    let mut name: OsString = path.as_os_str().to_owned();
    name.push(".log");
    name.into()
}

/// Opens a pool to read it: its files stay as they are. What `stat`, `check` and `dump` need.
pub(crate) fn open_to_read(path: &Path) -> anyhow::Result<Store> {
    as_it_is().open_to_read(path, MAIN)
}

/// Opens a pool to read it, and none of its stores yet.
pub(crate) fn pool_to_read(path: &Path) -> anyhow::Result<Pool> {
    let args = as_it_is();
    args.open_pool(path, &args.options().read_only(true))
}

/// Opens a pool as it is, to note in it what a backup keeps.
pub(crate) fn open_as_is(path: &Path) -> anyhow::Result<Store> {
    as_it_is().open(path)
}

/// The options of a pool that is there, for which its log will do.
fn as_it_is() -> StoreArgs {
    let PoolOptions { size, region, .. } = PoolOptions::default();
    StoreArgs {
        domain: Domain::Auto,
        sync: Sync::Always,
        index: Index::default(),
        size,
        size_max: region.size_max,
        log_size: None,
        memory: None,
        private_max: None,
    }
}

/// What a pool holds beside the store: name and kind of each tenant.
pub(crate) fn beside(store: &Store) -> anyhow::Result<Vec<(String, String)>> {
    let others = store.tenants()?.into_iter().filter(|tenant| tenant.name != store.name());
    Ok(others.map(|tenant| (tenant.name, tenant.kind.to_string())).collect())
}
