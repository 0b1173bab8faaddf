//! What is tried over a `logged` region on a disk, in a pool that is made there.

use std::io::ErrorKind;
use std::path::Path;

use tembo_kv::{IndexKind, Options, Store};
use tembo_pmem::Error as RegionError;
use tembo_pool::PoolOptions;

use crate::judge::text;
use crate::subject::Subject;

/// What there is after an interruption.
pub(crate) enum Found<L> {
    /// It is open.
    Live(L),
    /// There is a pool, and its making was interrupted.
    Pool,
    /// There is no pool.
    Nothing,
}

/// What has a pool on a disk to itself.
pub(crate) trait Stacked: Subject {
    /// Makes an empty one in a new pool.
    fn create_at(&self, path: &Path, options: &PoolOptions) -> Result<Self::Live, String>;

    /// Opens it.
    fn open_at(&self, path: &Path, options: &PoolOptions) -> Result<Found<Self::Live>, String>;

    /// All that was done is durable.
    fn sync(&self, live: &Self::Live) -> Result<(), String>;

    /// A clean stop.
    fn close(&self, live: Self::Live) -> Result<(), String>;

    /// How many objects have leaked.
    fn leaked(&self, live: &Self::Live) -> Result<u64, String>;

    /// The first operation, if chance does not choose it.
    fn first_op(&self) -> Option<Self::Op>;

    /// What lies in the pool fits together.
    fn check_over(&self, live: &mut Self::Live) -> Result<(), String>;
}

/// Whether a region was not there.
pub(crate) fn is_missing(error: &RegionError) -> bool {
    matches!(error, RegionError::Io { source, .. } if source.kind() == ErrorKind::NotFound)
}

/// A store, or what lies over one.
pub(crate) trait InStore: Subject {
    /// Makes an empty one in a store that was just made.
    fn make_in(&self, store: Store) -> Result<Self::Live, String>;

    /// Opens it in a store; `None`: its making was interrupted.
    fn open_in(&self, store: Store) -> Result<Option<Self::Live>, String>;

    /// The store.
    fn store_of(&self, live: &Self::Live) -> Store;

    /// As [`Stacked::first_op`].
    fn first(&self) -> Option<Self::Op>;

    /// What lies over the store fits together.
    fn check_in(&self, live: &mut Self::Live) -> Result<(), String>;
}

fn with(options: &PoolOptions) -> Options {
    Options::new().pool(options.clone()).index(IndexKind::Nvtree).background(false)
}

impl<S: InStore> Stacked for S {
    fn create_at(&self, path: &Path, options: &PoolOptions) -> Result<S::Live, String> {
        self.make_in(Store::create(path, &with(options)).map_err(text)?)
    }

    fn open_at(&self, path: &Path, options: &PoolOptions) -> Result<Found<S::Live>, String> {
        let store = match Store::open(path, &with(options)) {
            Err(tembo_kv::Error::Region(error)) if is_missing(&error) => return Ok(Found::Nothing),
            opened => opened.map_err(text)?,
        };
        Ok(self.open_in(store)?.map_or(Found::Pool, Found::Live))
    }

    fn sync(&self, live: &S::Live) -> Result<(), String> {
        self.store_of(live).sync().map(drop).map_err(text)
    }

    fn close(&self, live: S::Live) -> Result<(), String> {
        let store = self.store_of(&live);
        drop(live);
        store.close().map(drop).map_err(text)
    }

    fn leaked(&self, live: &S::Live) -> Result<u64, String> {
        Ok(self.store_of(live).check().map_err(text)?.leaked)
    }

    fn first_op(&self) -> Option<S::Op> {
        self.first()
    }

    fn check_over(&self, live: &mut S::Live) -> Result<(), String> {
        self.check_in(live)
    }
}
