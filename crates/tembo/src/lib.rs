//! Tembo, a single-level store: one copy of the data, in persistent memory or an ordinary file,
//! changed in place, and consistent after a crash at any instruction.
//!
//! ```
//! use tembo::{Durability, Isolation, Options, Retention, Store};
//!
//! # fn main() -> Result<(), tembo::Error> {
//! # let directory = std::env::temp_dir().join(format!("tembo-doc-{}", std::process::id()));
//! # let _ = std::fs::create_dir(&directory);
//! # let path = directory.join("bank.pool");
//! let store = Store::open_or_create(&path, &Options::new())?;
//! let accounts = store.keyspace("accounts")?;
//! store.put(accounts, b"alice", b"100", Durability::Strict)?;
//! store.retain(Retention::Versions(1000))?;
//! let before = store.visible();
//!
//! // The natural way to change several keys: a transaction, which is tried again after a conflict. What is
//! // returned is on the disk.
//! let number = |bytes: Option<Vec<u8>>| {
//!     bytes.and_then(|bytes| String::from_utf8(bytes).ok()?.parse().ok()).unwrap_or(0)
//! };
//! store.with_retry(Isolation::Snapshot, Durability::Strict, |tx| {
//!     let (alice, bob): (u32, u32) =
//!         (number(tx.get(accounts, b"alice")?), number(tx.get(accounts, b"bob")?));
//!     tx.put(accounts, b"alice", (alice - 30).to_string().as_bytes())?;
//!     tx.put(accounts, b"bob", (bob + 30).to_string().as_bytes())
//! })?;
//!
//! // A snapshot does not change while others write. It owns what it needs: keep it, or send it to another thread.
//! let snapshot = store.snapshot()?;
//! store.remove(accounts, b"bob", Durability::Buffered)?;
//! assert_eq!(snapshot.get(accounts, b"bob")?.map(|value| value.to_vec()), Some(b"30".to_vec()));
//!
//! // Ranges are iterators, from both ends.
//! let first = snapshot.range(accounts, "a".."b")?.next().transpose()?;
//! assert_eq!(first, Some((b"alice".to_vec(), b"70".to_vec())));
//! let last = snapshot.range::<[u8]>(accounts, ..)?.next_back().transpose()?;
//! assert_eq!(last, Some((b"bob".to_vec(), b"30".to_vec())));
//!
//! // The past stays readable, as long as the window reaches that was asked for above.
//! let then = store.snapshot_at(before)?;
//! assert_eq!(then.get(accounts, b"alice")?.map(|value| value.to_vec()), Some(b"100".to_vec()));
//! # drop((snapshot, then));
//! # store.close()?;
//! # let _ = std::fs::remove_dir_all(&directory);
//! # Ok(())
//! # }
//! ```
//!
//! # Which handle for what
//! | wanted | handle |
//! |---|---|
//! | one key | [`Store::get`], [`Store::put`], [`Store::remove`] |
//! | several keys, beside others | [`Store::with_retry`], [`Transaction`] |
//! | many changes at once, alone | [`Exclusive`] |
//! | one version, for a while | [`Snapshot`] |
//! | what happened since | [`Changes`] |
//! | a part of a large value: a file, a database of pages | [`LargeValue`], through one of these |
//! | several stores in one file | [`Pool`], alone or over an open [`pool::Pool`] |
//! | structs and pointers instead of keys | [`heap`] |
//! | files and directories | [`fs`] |
//! | blocks of a disk, written together | [`mod@array`] |
//!
//! Each of them owns what it needs, and all but [`Exclusive`] are `Send`; a [`Store`] is cloned for next to nothing. The store closes when the
//! last handle is dropped.
//!
//! # When a change is durable
//! Each commit says how durable it is when it returns: [`Durability`]. The store's [sync policy](SyncPolicy) caps that.
//! A keyspace, a named snapshot and a rollback are durable when the call returns.

#[doc(no_inline)]
pub use tembo_array as array;
#[doc(no_inline)]
pub use tembo_fs as fs;
/// Plain Rust structs that survive.
pub use tembo_heap as heap;
#[doc(no_inline)]
pub use tembo_kv::{pmem, pool};

pub use tembo_kv::{
    ATTEMPTS_MAX, Access, Account, BackupError, BackupInfo, Change, Changes, Check, CheckReport,
    ClassUsage, CloseError, Direction, DomainRequest, Durability, Entries, Entry, Error, Event,
    Exclusive, Fragmentation, Geometry, Holder, HolderKind, Horizon, IndexError, IndexKind,
    Isolation, KEY_SIZE_MAX, KEYSPACE_NAME_SIZE_MAX, KeyCount, Keyspace, Kind,
    LARGE_VALUE_SIZE_MAX, LOG_SIZE_MIN, LargeValue, LargeValueRead, LargeValueWrite, LogReport,
    Options, PIECE_SIZE_MAX, PIECE_SIZE_MIN, PREPARED_COUNT_MAX, PREPARED_ID_SIZE_MAX, Pool,
    PoolCheck, PoolOptions, Prepared, Progress, Readiness, RegionOptions, Replica, Report,
    Retention, SaveOptions, Savepoint, Since, Snapshot, Store, SyncPolicy, TenantCheck, TenantStat,
    Transaction, VALUE_SIZE_MAX, Value, Visit, backup,
};

/// The Rust programs of README.md, which `cargo test --doc` compiles.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;
