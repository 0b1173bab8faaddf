//! Versioned indexes: ordered maps of bytes to bytes that answer at every retained version.
//!
//! An index never commits. It writes changes that carry a [`Stamp`]; the store above publishes them
//! with one store of its own, or never, and a [`DeadIntervals`] note makes them void.

pub mod cdds;
mod changes;
mod clock;
mod dead;
mod error;
mod forest;
pub mod hash;
mod head;
mod index;
mod key;
pub mod nvtree;
mod range;
mod record;
mod record_prefetcher;
mod retained;
mod sides;
mod simd;
mod stamp;
mod value;
mod verified;
mod versioned;

pub use cdds::Cdds;
pub use changes::{Changed, Period, VisitChanged, VisitDiffering};
pub use clock::{AT_REST, Clock, Ticket};
pub use dead::{DeadInterval, DeadIntervals};
pub use error::Error;
pub use forest::Forest;
pub use hash::HashIndex;
pub use index::{Index, IndexKind};
pub use key::KEY_SIZE_MAX;
pub use nvtree::NvTree;
pub use record::Records;
pub use retained::Retained;
pub use stamp::{LANE_COUNT, Stamp, VERSION_MAX};
pub use value::{Value, ValueRoom};
pub use versioned::{
    CheckReport, Direction, KeyChange, Op, Place, Range, Retired, TreeMarker, VersionedIndex, View,
    Visit, VisitKey, Writer, Written,
};
