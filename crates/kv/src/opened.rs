//! An open store, as its handles hold it.
//!
//! ```text
//!  Store, Snapshot, Transaction, Exclusive, Changes, iterators ──► Opened ──► Engine
//!                                                                     └─────► the background thread ──► Engine
//! ```
//! The store is open as long as any handle is. The last one that is dropped stops the background.

use std::ops::Deref;
use std::sync::{Arc, Weak};

use tembo_pmem::thread::Apart;
use tembo_pool::{Pool, TenantEntry};

use crate::commit::CommitQueue;
use crate::counts::certify;
use crate::maintain::Background;
use crate::open::open;
use crate::version::PinKind;
use crate::write::Engine;
use crate::{Error, Options};

/// An open store, of which every handle has a share. The queue has lines of its own. The other fields, which each step of a
/// transaction reads, lie apart from it and from the reference counts, which each transaction changes.
struct Opened {
    engine: Arc<Engine>,
    queue: Apart<CommitQueue>,
    background: Option<Background>,
    transaction_memory: usize,
}

/// A share of an open store.
#[derive(Clone)]
pub(crate) struct Handle(Arc<Opened>);

/// A reference to an open store that does not keep it open.
pub(crate) struct WeakHandle(Weak<Opened>);

impl WeakHandle {
    /// A share of the store, if it is still open.
    pub(crate) fn upgrade(&self) -> Option<Handle> {
        self.0.upgrade().map(Handle)
    }
}

impl Deref for Handle {
    type Target = Engine;

    #[inline]
    fn deref(&self) -> &Engine {
        &self.0.engine
    }
}

impl Handle {
    /// Opens the store that is this tenant of the pool.
    ///
    /// # Errors
    /// [`Error::Damaged`]; those of the pool.
    pub(crate) fn start(
        pool: &Arc<Pool>,
        tenant: &TenantEntry,
        options: &Options,
    ) -> Result<Handle, Error> {
        let make = || Ok::<_, Error>(Arc::new(open(pool, tenant)?));
        let engine = pool.open_tenant(tenant, make)?;
        // A store that is only read has no background work, unless a caller asks for it.
        let background = options.has_background() && !pool.region().is_read_only();
        Ok(Handle::new(engine, background, options.transaction_memory_max()))
    }

    /// A reference that does not keep the store open.
    pub(crate) fn downgrade(&self) -> WeakHandle {
        WeakHandle(Arc::downgrade(&self.0))
    }

    /// The first share; `background`: whether background work gets a thread of its own.
    fn new(engine: Arc<Engine>, background: bool, transaction_memory: usize) -> Handle {
        let background = background.then(|| Background::start(&engine));
        let queue = Apart::default();
        Handle(Arc::new(Opened { engine, queue, background, transaction_memory }))
    }

    /// Transactions that wait to be committed.
    pub(crate) fn queue(&self) -> &CommitQueue {
        &self.0.queue
    }

    /// Bytes that a transaction keeps in memory.
    pub(crate) fn transaction_memory(&self) -> usize {
        self.0.transaction_memory
    }

    /// Whether background work has a thread of its own.
    pub(crate) fn has_background(&self) -> bool {
        self.0.background.is_some()
    }

    /// Whether both are shares of one store.
    pub(crate) fn is_same(&self, other: &Handle) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Stops the store cleanly, if this is the last share.
    ///
    /// # Errors
    /// [`Error::InUse`] and those of a sync: then the share is given back. Those of the pool.
    pub(crate) fn close(self) -> Result<(), (Option<Handle>, Box<Error>)> {
        if let Err(error) = self.shared.versions.sync(self.shared.region()) {
            return Err((Some(self), error.into()));
        }
        let opened = Arc::try_unwrap(self.0).map_err(|opened| {
            let handle = Handle(opened);
            // Threads that wait for a durable version have to see that the store is to be closed.
            handle.shared.versions.durable_event().interrupt();
            let in_use = handle.in_use();
            (Some(handle), Box::new(in_use))
        })?;
        let Opened { engine, background, .. } = opened;
        // The thread has the other share of the engine.
        drop(background);
        // If this fails, the next open estimates the counts and counts the keys.
        let _ = certify(&engine);
        let forest = Arc::into_inner(engine).map(Engine::into_forest).and_then(Arc::into_inner);
        match forest.and_then(|forest| Arc::into_inner(forest.into_pool())) {
            Some(pool) => pool.close().map_err(|error| (None, Box::new(error.into()))),
            None => Ok(()),
        }
    }

    /// The error that says what is open beside this share.
    fn in_use(&self) -> Error {
        let pins = &self.shared.versions.pins;
        let (snapshots, transactions) =
            (pins.count(PinKind::Snapshot), pins.count(PinKind::Transaction));
        let followers = pins.with_past(|past, _| past.followers().values().sum());
        let exclusive = self.is_owned();
        let others = snapshots + transactions + followers + usize::from(exclusive) + 1;
        let stores = Arc::strong_count(&self.0).saturating_sub(others);
        Error::InUse { stores, snapshots, transactions, followers, exclusive }
    }
}
