//! A pool that holds several stores, and perhaps other tenants.
//!
//! ```text
//!  Pool ──► pool of crate `pool` ◄── Opened ◄── Store, Snapshot, Transaction, …   (of store "a")
//!    ┊                            ◄── Opened ◄── Store, Snapshot, Transaction, …   (of store "b")
//!    └┄ which stores are open (keeps none of them open)
//! ```
//! All handles own the pool together; it closes with the last. The stores share the space, its growth, and the redo log,
//! whose sync one does for all. Each has its own versions, writer and background; a sweep, which one of them drives,
//! goes over all tenants (see [`Tenant`](tembo_pool::Tenant)).

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex};

use tembo_pmem::thread::lock;
use tembo_pool::{
    Error as PoolError, Kind, Pool as Space, PoolCheck, TenantEntry, TenantId, TenantStat,
};

use crate::opened::{Handle, WeakHandle};
use crate::{Error, Options, Store, open};

/// A pool, open, with its stores by name. A clone is another handle of the same pool.
///
/// The store of a pool that [`Store::create`] has made has the name `main`.
#[derive(Clone)]
pub struct Pool(Arc<Inner>);

struct Inner {
    space: Arc<Space>,
    options: Options,
    /// What is open here.
    open: Mutex<BTreeMap<TenantId, WeakHandle>>,
}

impl Pool {
    /// The stores of a pool that is open already, for a program that has other tenants beside them. Only one of these is to
    /// be made of a pool.
    pub fn of(space: impl Into<Arc<Space>>, options: &Options) -> Pool {
        let (space, options, open) = (space.into(), options.clone(), Mutex::default());
        Pool(Arc::new(Inner { space, options, open }))
    }

    /// Makes a pool without any store at `path`, where nothing may be.
    ///
    /// # Errors
    /// Those of the pool.
    pub fn create(path: &Path, options: &Options) -> Result<Pool, Error> {
        Ok(Pool::of(Space::create(path, &options.pool_options())?, options))
    }

    /// Opens the pool at `path`, and none of its stores yet.
    ///
    /// # Errors
    /// Those of the pool; [`Error::Pool`] also if it holds a tenant of an unknown kind, and is not to be
    /// [read only](Options::read_only).
    pub fn open(path: &Path, options: &Options) -> Result<Pool, Error> {
        Ok(Pool::of(Space::open(path, &options.pool_options())?, options))
    }

    /// A pool in memory, without any store, which ends with the process.
    ///
    /// # Errors
    /// Those of the pool.
    pub fn volatile(options: &Options) -> Result<Pool, Error> {
        Ok(Pool::of(Space::volatile(&options.pool_options())?, options))
    }

    /// The store of that name, opened with the options of the pool if it is not open; a handle of the same store if it is.
    ///
    /// # Errors
    /// [`Error::NoSuchStore`]; as of [`Store::open`].
    pub fn store(&self, name: &str) -> Result<Store, Error> {
        match self.0.space.tenant(name) {
            Ok(entry) if entry.kind == Kind::STORE => self.start(&entry, &self.0.options),
            Ok(_) | Err(PoolError::NoSuchTenant { .. }) => {
                Err(Error::NoSuchStore { name: name.to_owned() })
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Makes an empty store of that name, of 1 to 32 bytes, and opens it. A pool that an older release has made is raised to
    /// format version 2, which older releases refuse.
    ///
    /// Durability point: when it returns. Interrupted, the store is there, whole, or not at all.
    ///
    /// # Errors
    /// [`Error::ReadOnly`]; [`Error::Pool`] if the name is taken or too long, or the table of tenants is full;
    /// [`Error::Full`]; [`Error::NotDurable`]: it is there; [`Pool::store`] opens it, and makes it durable.
    pub fn create_store(&self, name: &str, options: &Options) -> Result<Store, Error> {
        let space = &self.0.space;
        if space.region().is_read_only() {
            return Err(Error::ReadOnly);
        }
        let entry = open::format(space, name, (options.index_kind(), options.records()))?;
        space.region().sync().map_err(Error::of_sync)?;
        self.start(&entry, options)
    }

    fn start(&self, entry: &TenantEntry, options: &Options) -> Result<Store, Error> {
        let mut open = lock(&self.0.open);
        if let Some(handle) = open.get(&entry.id).and_then(WeakHandle::upgrade) {
            return Ok(Store::of(handle));
        }
        let handle = Handle::start(&self.0.space, entry, options)?;
        open.insert(entry.id, handle.downgrade());
        Ok(Store::of(handle))
    }

    /// What the pool holds, of whatever kind.
    ///
    /// # Errors
    /// [`Error::Pool`] if the table of tenants is damaged.
    pub fn tenants(&self) -> Result<Vec<TenantStat>, Error> {
        Ok(self.0.space.stat()?)
    }

    /// Verifies all tenants, and accounts for every byte. Meanwhile nothing is changed.
    ///
    /// # Errors
    /// [`Error::Pool`]: an operation is under way, try again; or the first damage found.
    pub fn check(&self) -> Result<PoolCheck, Error> {
        Ok(self.0.space.check()?)
    }

    /// A clean stop, as [`Store::close`]. The pool also closes when the last of all handles is dropped.
    ///
    /// # Errors
    /// [`Error::InUse`]: stores are open, or other handles of the pool, which goes on; those of the pool.
    pub fn close(self) -> Result<(), Error> {
        let in_use = |stores| Error::InUse {
            stores,
            snapshots: 0,
            transactions: 0,
            followers: 0,
            exclusive: false,
        };
        let open = |inner: &Inner| {
            lock(&inner.open).values().filter(|handle| handle.upgrade().is_some()).count()
        };
        let inner = Arc::try_unwrap(self.0).map_err(|inner| in_use(open(&inner) + 1))?;
        let stores = open(&inner);
        let space = Arc::into_inner(inner.space).ok_or_else(|| in_use(stores.max(1)))?;
        Ok(space.close()?)
    }
}
