//! NV-heaps: plain Rust structs that survive, and a compiler that refuses the pointers that would not.
//!
//! A heap holds objects: structs and enums with `#[derive(Persist)]`, which refer to each other by [`Ptr`] and [`Weak`]. They are
//! reached from a typed root, changed by [transactions](Heap::atomic), and freed when nothing refers to them. After a crash at any
//! instruction each transaction has happened or has not. (Coburn, *NV-heaps*, ASPLOS 2011; PhD thesis 2012, chapters 4 and 5.)
//!
//! ```text
//!   Heap<'h>        one use of a heap; 'h is its brand
//!     │ atomic(|tx| …)                     HeapFile::base(|heap| …), Heap::safe(|heap| …)
//!   Transaction<'h> reads and changes; redo in memory                    access.rs, notes.rs, isolation.rs; layer.rs, session.rs
//!     │ view()                             reads only, and follows pointers without counting them    plain.rs, view.rs, look.rs
//!     │ commit                             checkpoint                    commit.rs
//!   settlement      counts, orphans, the doomed: what follows            settlement.rs, upkeep.rs
//!     │             cycles go; objects move together                     cycles.rs; compaction.rs, moving.rs
//!     │ one operation of the pool's log
//!   pool
//! ```
//!
//! A program that does not need atomic sections pays less: the [layers](Layer) BASE and SAFE keep what it changes in memory until a
//! [checkpoint](Access::checkpoint).
//!
//! The two invariants of NV-heaps are compile errors: what is in memory only is not [`Persist`], and a pointer into one heap has
//! another brand than a pointer into another. The crate has no `unsafe`: values are copied to and from the words of the
//! region, which checks every place, and a pointer is followed only to an object of its type.
#![forbid(unsafe_code)]

// The derive macro names the crate, in the crate too.
#[allow(unused_extern_crates)]
extern crate self as tembo_heap;

mod access;
#[doc(hidden)]
pub mod advice;
mod appended;
mod arena;
mod candidates;
mod change;
mod collection;
mod commit;
mod compaction;
mod cycles;
mod error;
mod field;
mod format;
mod hand;
mod handles;
mod heap;
mod isolation;
mod keyed;
mod known;
mod layer;
mod look;
mod mark;
mod moving;
mod noted;
mod notes;
mod ownership;
mod persist;
mod plain;
mod pointer;
mod proxy;
mod records;
mod refused;
mod report;
mod session;
mod settlement;
mod shape;
mod slice;
mod sync;
mod tenant;
mod types;
mod under_way;
mod upkeep;
mod view;
mod weak;

pub use access::{Access, Transaction};
pub use collection::{KeyRange, PBox, PDeque, PHashMap, PList, PMap, PString, PVec, Persistent};
pub use error::Error;
pub use field::{Field, Place};
pub use heap::{Heap, HeapFile};
pub use layer::{Atomic, Base, Checkpointed, Counted, Layer, Safe};
pub use mark::FROM_CYCLES;
pub use moving::Compaction;
pub use persist::{Object, Persist, Reader, Writer};
pub use pointer::{Ptr, Weak};
pub use report::{ObjectReport, Referral, TypeReport};
pub use shape::{Shape, hash, mix};
pub use slice::{Bytes, Slice};
pub use tembo_heap_derive::Persist;
pub use tembo_pool::PoolOptions;
pub use tenant::kinds;
pub use types::{TypeEntry, TypeInfo};
pub use view::{Link, Ref, Seen, View};
