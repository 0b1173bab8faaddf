//! Tembo, a single-level store: one copy of the data, in persistent memory or an ordinary file,
//! changed in place, and consistent after a crash at any instruction.
//!
//! ```
//! use tembo::{Durability, Options, Store};
//!
//! # fn main() -> Result<(), tembo::Error> {
//! # let directory = std::env::temp_dir().join(format!("tembo-doc-{}", std::process::id()));
//! # let _ = std::fs::create_dir(&directory);
//! # let path = directory.join("animals.pool");
//! let store = Store::create(&path, &Options::default())?;
//! let animals = store.keyspace("animals")?;
//! let before = store.snapshot()?;
//!
//! let mut tx = store.exclusive()?;
//! tx.put(animals, b"elephant", &[b"does not forget"])?;
//! tx.put(animals, b"goldfish", &[b"does"])?;
//! tx.commit(Durability::Strict)?;
//!
//! assert_eq!(store.get(animals, b"goldfish")?.as_deref(), Some(&b"does"[..]));
//! assert!(before.get(animals, b"goldfish")?.is_none());
//! # drop(before);
//! store.close()?;
//! # let _ = std::fs::remove_dir_all(&directory);
//! # Ok(())
//! # }
//! ```

pub use tembo_kv::{
    ATTEMPTS_MAX, Change, Changes, Check, CheckReport, Direction, DomainRequest, Durability, Error,
    Event, Exclusive, Holder, HolderKind, Horizon, IndexKind, Isolation, KEY_SIZE_MAX, Keyspace,
    Options, PoolOptions, Progress, RegionOptions, Report, Retention, Savepoint, Snapshot, Store,
    SyncPolicy, Transaction, VALUE_SIZE_MAX, Value, backup,
};
