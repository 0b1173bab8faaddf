//! The pools that this process has open, each once, whatever the number of connections.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use tembo_array::{Array, Device, DeviceOptions};
use tembo_kv::{self as kv, DomainRequest, Options, Store, pmem};

use crate::code::Code;

/// Bytes of a pool that is made for a database: it grows.
const SIZE: u64 = 4 << 20;

/// An open pool.
pub(crate) struct Pool {
    path: PathBuf,
    store: Store,
    array: Array,
    databases: Mutex<HashMap<String, Weak<Database>>>,
}

/// A database: a device of a pool, and which connection writes to it.
pub(crate) struct Database {
    pool: Option<Arc<Pool>>,
    /// There until it is dropped.
    device: Option<Device>,
    has_writer: AtomicBool,
    /// The version of the last commit that was made by this process.
    last: AtomicU64,
}

/// Where a database is, and how it is opened.
pub(crate) struct Place {
    pub(crate) pool: PathBuf,
    pub(crate) device: String,
    pub(crate) domain: Option<DomainRequest>,
    pub(crate) creates: bool,
    pub(crate) read_only: bool,
}

static POOLS: Mutex<Option<HashMap<PathBuf, Weak<Pool>>>> = Mutex::new(None);

/// The name of the device of a database that has a pool of its own.
const MAIN: &str = "main";

/// The pool and the device of a path: a file in the place of a folder is a pool of several databases.
pub(crate) fn split(path: &Path) -> (PathBuf, String) {
    let name = path.file_name().and_then(|name| name.to_str());
    match (path.parent(), name) {
        (Some(parent), Some(name)) if parent.is_file() => (parent.to_owned(), name.to_owned()),
        _ => (path.to_owned(), MAIN.to_owned()),
    }
}

/// Opens a database, and its pool if need be.
pub(crate) fn open(place: &Place) -> Result<Arc<Database>, Code> {
    let mut pools = POOLS.lock();
    let pools = pools.get_or_insert_default();
    let path = canonical(&place.pool);
    let pool = match pools.get(&path).and_then(Weak::upgrade) {
        Some(pool) => pool,
        None => {
            let pool = Arc::new(start(&path, place)?);
            pools.insert(path, Arc::downgrade(&pool));
            pool
        }
    };
    let mut databases = pool.databases.lock();
    if let Some(database) = databases.get(&place.device).and_then(Weak::upgrade) {
        return Ok(database);
    }
    let found = match place.creates && !pool.store.is_read_only() {
        true => pool.array.open_or_create(&place.device, DeviceOptions::default()),
        false => pool.array.device(&place.device),
    };
    let database = Arc::new(Database {
        pool: Some(pool.clone()),
        device: Some(found?),
        has_writer: AtomicBool::new(false),
        last: AtomicU64::new(0),
    });
    databases.insert(place.device.clone(), Arc::downgrade(&database));
    drop(databases);
    Ok(database)
}

/// A path by which the same file is known whatever the way to it.
fn canonical(path: &Path) -> PathBuf {
    let resolved = path.canonicalize().ok().or_else(|| {
        let folder = path.parent()?.canonicalize().ok()?;
        Some(folder.join(path.file_name()?))
    });
    resolved.unwrap_or_else(|| path.to_owned())
}

fn start(path: &Path, place: &Place) -> Result<Pool, Code> {
    let mut options = Options::new().size(SIZE).read_only(place.read_only);
    if let Some(domain) = place.domain {
        options = options.domain(domain);
    }
    let opened = match place.creates {
        true => Store::open_or_create(path, &options),
        false => Store::open(path, &options),
    };
    let store = opened.map_err(|error| match error {
        kv::Error::Region(pmem::Error::Held { .. }) => Code::BUSY,
        kv::Error::Region(pmem::Error::NotAPool { .. }) => Code::NOTADB,
        kv::Error::Region(pmem::Error::Io { .. }) => Code::CANTOPEN,
        error => error.into(),
    })?;
    let array = Array::open(&store)?;
    let databases = Mutex::default();
    Ok(Pool { path: path.to_owned(), store, array, databases })
}

impl Database {
    pub(crate) fn device(&self) -> Result<&Device, Code> {
        self.device.as_ref().ok_or(Code::IOERR)
    }

    pub(crate) fn array(&self) -> Result<&Array, Code> {
        self.pool.as_ref().map(|pool| &pool.array).ok_or(Code::IOERR)
    }

    pub(crate) fn store(&self) -> Result<&Store, Code> {
        self.pool.as_ref().map(|pool| &pool.store).ok_or(Code::IOERR)
    }

    /// Whether both lie in one pool.
    pub(crate) fn shares_pool(&self, other: &Database) -> bool {
        match (&self.pool, &other.pool) {
            (Some(a), Some(b)) => Arc::ptr_eq(a, b),
            _ => false,
        }
    }

    /// Becomes the one connection that writes; false: another one is.
    pub(crate) fn begin_writing(&self) -> bool {
        !self.has_writer.swap(true, Ordering::SeqCst)
    }

    pub(crate) fn end_writing(&self) {
        self.has_writer.store(false, Ordering::SeqCst);
    }

    pub(crate) fn has_writer(&self) -> bool {
        self.has_writer.load(Ordering::SeqCst)
    }

    /// A commit of the writing connection is visible.
    pub(crate) fn committed(&self, version: u64) {
        self.last.store(version, Ordering::SeqCst);
    }

    /// The version of the last commit.
    pub(crate) fn last(&self) -> u64 {
        self.last.load(Ordering::SeqCst)
    }
}

impl Drop for Database {
    /// The last one of a pool closes it, so that the one file can be copied. No other opens it meanwhile.
    fn drop(&mut self) {
        let Some(pool) = self.pool.take() else { return };
        let mut pools = POOLS.lock();
        let Some(Pool { path, store, array, .. }) = Arc::into_inner(pool) else { return };
        if let Some(pools) = pools.as_mut() {
            pools.remove(&path);
        }
        drop((array, self.device.take()));
        // Nothing depends on a clean end.
        let _ = store.close();
    }
}
