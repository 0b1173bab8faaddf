//! A store and two heaps as tenants of one pool, whose process is killed: each changes by a thread of its own, and any of them begins the
//! sweep. What a thread does follows from its part and the number of its change, so that the audit knows what has to be there: a change that
//! was reported is there, at most one more, and nothing in part.

mod audit;
mod heap;
mod process;
mod store;

pub use audit::Audit;
pub use process::serve;

use std::path::Path;
use std::sync::Arc;

use tembo_heap::HeapFile;
use tembo_kv::{DomainRequest, IndexKind, Options, Store};
use tembo_pool::{Error, Pool, PoolOptions};

use crate::judge::text;

/// The heaps by name.
const HEAPS: [&str; 2] = ["first", "second"];

/// Bytes of the pool at first, and at most: it can be full until what a killed process has left is swept.
const SIZE: (u64, u64) = (1 << 20, 8 << 20);

/// What begins the sweep after an opening.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sweeper {
    Store,
    Heap(usize),
    /// The store, before the program opens a heap.
    StoreAlone,
}

impl Sweeper {
    fn of(number: u64) -> Sweeper {
        match number % 4 {
            0 => Sweeper::Store,
            1 => Sweeper::Heap(0),
            2 => Sweeper::Heap(1),
            _ => Sweeper::StoreAlone,
        }
    }
}

fn pool_options(domain: DomainRequest) -> PoolOptions {
    let kinds = tembo_heap::kinds(tembo_kv::kinds());
    let mut options = PoolOptions { size: SIZE.0, kinds, ..PoolOptions::default() };
    (options.region.domain, options.region.size_max) = (domain, SIZE.1);
    options.region.log_size = 1 << 20;
    options
}

/// The pool at `path`, which is made with a store if there is none.
fn open(path: &Path, domain: DomainRequest) -> Result<Arc<Pool>, String> {
    let options = pool_options(domain);
    if !path.exists() {
        let format = |pool: &Arc<Pool>| Store::format(pool, IndexKind::Nvtree).map_err(text);
        Pool::create_with::<Failed>(path, &options, |pool| format(pool).map_err(Failed))
            .map_err(|failed| failed.0)?;
    }
    Pool::open(path, &options).map(Arc::new).map_err(text)
}

struct Failed(String);

impl From<Error> for Failed {
    fn from(error: Error) -> Failed {
        Failed(text(error))
    }
}

fn start(pool: &Arc<Pool>, domain: DomainRequest, has_background: bool) -> Result<Store, String> {
    let options = Options::new().domain(domain).size(SIZE.0).background(has_background);
    Store::start(pool.clone(), &options).map_err(text)
}

/// A heap of the pool; `None`: the process was killed before it was added.
fn find(pool: &Arc<Pool>, name: &str) -> Result<Option<HeapFile>, String> {
    match HeapFile::of(pool, name) {
        Err(tembo_heap::Error::Pool(Error::NoSuchTenant { .. })) => Ok(None),
        found => found.map(Some).map_err(text),
    }
}

fn find_or_add(pool: &Arc<Pool>, name: &str) -> Result<HeapFile, String> {
    match find(pool, name)? {
        Some(heap) => Ok(heap),
        None => HeapFile::add_to(pool, name).map_err(text),
    }
}
