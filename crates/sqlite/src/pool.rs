//! The pools that this process owns, each open once, whatever the number of connections.

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use parking_lot::Mutex;
use tembo_array::{Array, Device, DeviceOptions};
use tembo_kv::{self as kv, DomainRequest, Options, Store, pmem};

use crate::code::Code;
use crate::file_id::FileId;
use crate::kept_lock::KeptLocks;
use crate::listener::Listener;
use crate::process::{PerProcess, generation};
use crate::recent::{Changes, Recent};
use crate::refused::Refused;
use crate::socket::{self, Stream};

/// Bytes of a pool that is made for a database: it grows.
const SIZE: u64 = 4 << 20;

/// An open pool.
pub(crate) struct Pool {
    /// Of the process that opened it.
    generation: u32,
    path: PathBuf,
    /// What lay at the path when it was opened.
    file: Option<FileId>,
    store: Store,
    array: Array,
    databases: Mutex<HashMap<String, Weak<Database>>>,
    /// Where other processes reach it; none, if the system has refused a socket.
    listener: OnceLock<Listener>,
}

/// A hold on an open pool. The last one closes it, so that the one file can be copied; no other connection opens it
/// meanwhile.
pub(crate) struct PoolRef(Option<Arc<Pool>>);

/// A database: a device of a pool, and which connection writes to it.
pub(crate) struct Database {
    /// It goes before its pool.
    device: Device,
    pool: PoolRef,
    has_writer: AtomicBool,
    /// The version of the last commit that was made by this process.
    last: AtomicU64,
    recent: Recent,
    /// Of clients.
    kept_locks: KeptLocks,
}

/// How a process serves a client of a pool.
pub(crate) type Serve = fn(Stream, &Weak<Pool>);

/// Where a database is, and how it is opened.
pub(crate) struct Place {
    pub(crate) pool: PathBuf,
    pub(crate) device: String,
    pub(crate) domain: Option<DomainRequest>,
    pub(crate) creates: bool,
}

static POOLS: PerProcess<Mutex<HashMap<PathBuf, Weak<Pool>>>> = PerProcess::new();

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

/// The pool of that canonical path, if this process owns it.
pub(crate) fn owned(path: &Path) -> Option<PoolRef> {
    in_place(&POOLS.get().lock(), path)
}

/// The pool that is open at a path, if its file still lies there: one that was removed may be open for some time.
fn in_place(pools: &HashMap<PathBuf, Weak<Pool>>, path: &Path) -> Option<PoolRef> {
    // The lock of the pools is held, so that this is not the last hold that goes.
    let pool = pools.get(path)?.upgrade()?;
    (pool.file == FileId::at(path)).then(|| PoolRef(Some(pool)))
}

/// Opens the pool of a canonical path, and serves it to other processes. `None`: one of them owns it.
pub(crate) fn own(
    path: &Path,
    creates: bool,
    domain: Option<DomainRequest>,
    serve: Serve,
) -> Result<Option<PoolRef>, Code> {
    let mut pools = POOLS.get().lock();
    if let Some(pool) = in_place(&pools, path) {
        return Ok(Some(pool));
    }
    let Some(store) = start(path, creates, domain)? else { return Ok(None) };
    let (pool, _) = serve_at(&mut pools, path, store, serve)?;
    Ok(Some(pool))
}

/// Serves a store that is open; the second: whether the system has given a socket.
pub(crate) fn adopt(
    path: &Path,
    store: Store,
    serve: Serve,
) -> Result<(PoolRef, io::Result<()>), tembo_array::Error> {
    serve_at(&mut POOLS.get().lock(), path, store, serve)
}

/// Without a socket the pool is this process's alone: others find it busy.
fn serve_at(
    pools: &mut HashMap<PathBuf, Weak<Pool>>,
    path: &Path,
    store: Store,
    serve: Serve,
) -> Result<(PoolRef, io::Result<()>), tembo_array::Error> {
    let array = Array::open(&store)?;
    let (databases, listener) = (Mutex::default(), OnceLock::new());
    let (served_at, path) = (socket::path_beside(path), path.to_owned());
    let (generation, file) = (generation(), FileId::at(&path));
    let pool = Arc::new(Pool { generation, path, file, store, array, databases, listener });
    pools.insert(pool.path.clone(), Arc::downgrade(&pool));
    let served = Arc::downgrade(&pool);
    let listener = Listener::new(&served_at, Box::new(move |client| serve(client, &served)));
    let is_served = listener.map(|listener| {
        // It is set here only.
        let _ = pool.listener.set(listener);
    });
    Ok((PoolRef(Some(pool)), is_served))
}

/// A path by which the same file is known whatever the way to it.
pub(crate) fn canonical(path: &Path) -> PathBuf {
    let resolved = path.canonicalize().ok().or_else(|| {
        let folder = path.parent()?.canonicalize().ok()?;
        Some(folder.join(path.file_name()?))
    });
    resolved.unwrap_or_else(|| path.to_owned())
}

fn start(path: &Path, creates: bool, domain: Option<DomainRequest>) -> Result<Option<Store>, Code> {
    let mut options = Options::new().size(SIZE);
    if let Some(domain) = domain {
        options = options.domain(domain);
    }
    let opened = match creates {
        true => Store::open_or_create(path, &options),
        false => Store::open(path, &options),
    };
    match opened {
        Ok(store) => Ok(Some(store)),
        Err(kv::Error::Region(pmem::Error::Held { .. })) => Ok(None),
        Err(kv::Error::Region(pmem::Error::NotAPool { .. })) => Err(Code::NOTADB),
        // It cannot be read or made; `Exists`: the log of a pool that was removed is in the way.
        Err(kv::Error::Region(pmem::Error::Io { .. } | pmem::Error::Exists { .. })) => {
            Err(Code::CANTOPEN)
        }
        Err(error) => Err(error.into()),
    }
}

impl PoolRef {
    /// `None`: it is closed, or about to be.
    pub(crate) fn of(pool: &Weak<Pool>) -> Option<PoolRef> {
        pool.upgrade().map(|pool| PoolRef(Some(pool)))
    }

    /// Whether its file lies where it was opened.
    pub(crate) fn is_in_place(&self) -> bool {
        self.0.as_ref().is_some_and(|pool| pool.file == FileId::at(&pool.path))
    }

    fn pool(&self) -> Result<&Arc<Pool>, Code> {
        self.0.as_ref().ok_or(Code::IOERR)
    }

    /// Makes durable what is visible.
    pub(crate) fn sync(&self) -> Result<(), kv::Error> {
        match &self.0 {
            Some(pool) if pool.generation == generation() => pool.store.sync().map(drop),
            _ => Ok(()),
        }
    }

    /// A database of it, open once.
    pub(crate) fn database(&self, device: &str, creates: bool) -> Result<Arc<Database>, Refused> {
        let pool = self.pool()?;
        let mut databases = pool.databases.lock();
        if let Some(database) = databases.get(device).and_then(Weak::upgrade) {
            return Ok(database);
        }
        let found = match creates && !pool.store.is_read_only() {
            true => pool.array.open_or_create(device, DeviceOptions::default()),
            false => pool.array.device(device),
        };
        let database = Arc::new(Database {
            device: found?,
            pool: PoolRef(Some(pool.clone())),
            has_writer: AtomicBool::new(false),
            last: AtomicU64::new(0),
            recent: Recent::default(),
            kept_locks: KeptLocks::default(),
        });
        databases.retain(|_, known| known.strong_count() > 0);
        databases.insert(device.to_owned(), Arc::downgrade(&database));
        Ok(database)
    }
}

impl Drop for PoolRef {
    fn drop(&mut self) {
        let Some(pool) = self.0.take() else { return };
        if pool.generation != generation() {
            // It is the parent's, whose threads this process does not have.
            std::mem::forget(pool);
            return;
        }
        let mut pools = POOLS.get().lock();
        let Some(pool) = Arc::into_inner(pool) else { return };
        let Pool { path, store, array, listener, .. } = pool;
        // Another pool may have been made at its path.
        if pools.get(&path).is_some_and(|known| known.strong_count() == 0) {
            pools.remove(&path);
        }
        // The socket goes before the lock of the pool: the next owner makes its own.
        drop((listener, array));
        // Nothing depends on a clean end.
        let _ = store.close();
    }
}

impl Database {
    pub(crate) fn device(&self) -> &Device {
        &self.device
    }

    pub(crate) fn array(&self) -> Result<&Array, Code> {
        self.pool.pool().map(|pool| &pool.array)
    }

    pub(crate) fn store(&self) -> Result<&Store, Code> {
        self.pool.pool().map(|pool| &pool.store)
    }

    /// Whether both lie in one pool.
    pub(crate) fn shares_pool(&self, other: &Database) -> bool {
        match (&self.pool.0, &other.pool.0) {
            (Some(a), Some(b)) => Arc::ptr_eq(a, b),
            _ => false,
        }
    }

    /// What its last commits have changed.
    pub(crate) fn recent(&self) -> &Recent {
        &self.recent
    }

    /// The locks that its clients keep.
    pub(crate) fn kept_locks(&self) -> &KeptLocks {
        &self.kept_locks
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

    /// A commit of the writing connection begins: what it changes is known, and no client keeps a lock, before it is visible.
    pub(crate) fn begin_commit(&self, changes: Changes) {
        self.recent.begin(changes);
        self.kept_locks.outdate();
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
