//! Devices of blocks over a store: multi-part atomic writes, snapshots, clones, lists of changes.
//!
//! It is the interface of Coburn's thesis (2012, chapter 3: multi-part atomic writes) without its machine. A device is
//! a named, thin, growing array of blocks. A [`Transaction`] writes any ranges of any devices, reads what it has written, goes
//! back to savepoints, and commits all or nothing; it is one commit of the store below, in which the blocks are written
//! once. Versions of the store give the rest: snapshots and clones in constant time, reading the past, and what has changed.
//!
//! ```
//! use tembo_array::{Array, DeviceOptions, Isolation};
//! use tembo_kv::{Durability, Options, Store};
//!
//! # fn main() -> Result<(), tembo_array::Error> {
//! let store = Store::volatile(&Options::new().size(8 << 20))?;
//! let array = Array::open(&store)?;
//! let disk = array.create("disk", DeviceOptions { len: 1 << 30, ..DeviceOptions::default() })?;
//!
//! let mut tx = array.transaction(Isolation::FirstCommitter)?;
//! tx.write(&disk, 4090, b"over two blocks")?;
//! tx.write(&disk, 1 << 29, b"and far away")?;
//! tx.commit(Durability::Strict)?;
//!
//! let monday = disk.snapshot()?;
//! array.write(&disk, 4090, b"later", Durability::Strict)?;
//! let copy = array.clone_device(&monday, "copy")?;
//! let mut bytes = [0; 15];
//! copy.read_at(4090, &mut bytes)?;
//! assert_eq!(&bytes, b"over two blocks");
//! assert_eq!(disk.snapshot()?.changed_since(&monday)?, [0..4096]);
//! # Ok(())
//! # }
//! ```

mod array;
mod bounds;
mod commit;
mod detach;
mod device;
mod error;
mod format;
mod image;
mod isolation;
mod latch;
mod origins;
mod ranges;
mod shape;
mod shared;
mod snapshot;
mod transaction;
mod within;
mod write_log;

pub use array::{Array, DeviceCheck, DeviceOptions};
pub use bounds::{BLOCK_SIZE_MAX, BLOCK_SIZE_MIN, NAME_SIZE_MAX, RUN_SIZE_MAX};
pub use device::Device;
pub use error::Error;
pub use isolation::Isolation;
pub use snapshot::DeviceSnapshot;
pub use transaction::{Committed, Savepoint, Transaction};
