//! A formatted region: superblock, roots, and an allocator that a crash cannot tear.
//!
//! On media there is only the superblock, with a *frontier* below which space may have been handed
//! out. Which of it is in use is volatile: an object is allocated iff something durable refers to
//! it. After an open new space comes from above the frontier, until a [`Sweep`] has marked what is
//! reachable below.
//!
//! ```
//! # use tembo_pool::{Error, Pool, PoolOptions};
//! let pool = Pool::volatile(&PoolOptions::default())?;
//! let section = pool.reserve(64, 2)?;
//! let object = pool.alloc_into::<Error>(pool.root(0)?, 5, |region, object| {
//!     region.write("example.content", object.offset(), &[b"hello"])?;
//!     Ok(())
//! })?;
//! drop(section);
//! assert_eq!(pool.region().media_bytes(object.offset(), 5)?.to_vec(), b"hello");
//! # Ok::<(), Error>(())
//! ```

mod allocator;
mod census;
mod chunk;
mod class;
mod class_lists;
mod error;
mod evacuation;
mod format;
mod fragmentation;
mod frontier;
mod geometry;
mod give_back;
mod growth;
mod holes;
mod log;
mod marks;
mod object;
mod pool;
mod prefault;
mod relief;
mod runs;
mod shared;
mod shrink;
mod space;
mod spare;
mod superblock;
mod sweep;
mod tenant;
mod usage;

pub use census::{Account, Census};
pub use class::OBJECT_SIZE_MAX;
pub use error::{Error, TenantError};
pub use evacuation::Evacuation;
pub use format::{ROOT_COUNT, TENANT_COUNT, TENANT_NAME_SIZE_MAX};
pub use fragmentation::{ClassUsage, Fragmentation};
pub use geometry::Geometry;
pub use give_back::{GivenBack, Sparing};
pub use log::{Committed, Intent, Operation};
pub use object::Object;
pub use pool::{Kinds, Pool, PoolCheck, PoolOptions, TenantKind};
pub use relief::Relief;
pub use superblock::{Checked, FeatureSet, Features};
pub use sweep::{Sweep, SweepReport};
pub use tenant::{
    Kind, KnownKind, Marker, Marking, NewTenant, Still, Tenant, TenantCheck, TenantEntry,
    TenantFeatures, TenantId, TenantStat,
};
pub use usage::Usage;
