//! What a user would otherwise pick: stores of bytes, each made durable operation by operation, in its
//! best documented configuration, on the same medium.
//!
//! Their libraries come with the features `rivals` (from crates) and `rivals-debian` (linked from
//! Debian's packages); servers are started from what is installed. Tembo needs none of them.

#[cfg(feature = "rivals-debian")]
mod berkeley;
mod embedded;
#[cfg(feature = "rivals")]
mod fjall;
mod heap_rival;
#[cfg(feature = "rivals")]
mod lmdb;
mod logged_tree;
mod memcached;
mod opened;
#[cfg(feature = "rivals-debian")]
mod pmemobj;
#[cfg(feature = "rivals")]
mod redb;
mod resp;
#[cfg(feature = "rivals-debian")]
mod rocksdb;
mod server;
#[cfg(feature = "rivals")]
mod sqlite;

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use tembo_index::IndexKind;

use crate::Error;
pub(crate) use heap_rival::{HEAP_SETTINGS, berkeley_keys, on_pmemobj};
pub(crate) use opened::{Change, Client, Medium, Place, Rival, Share, failed};
pub(crate) use server::{RedisLog, TemboServer, server_settings};

/// What stores were given that is not their default, for the page.
static SETTINGS: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());

/// The settings of all stores that were opened since the last call, a line each.
pub(crate) fn take_settings() -> Vec<String> {
    let mut settings = SETTINGS.lock().unwrap_or_else(PoisonError::into_inner);
    std::mem::take(&mut *settings).into_iter().collect()
}

/// A store by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Brand {
    /// Tembo: `flush` in memory, `logged` with `always` on a disk.
    Tembo(IndexKind),
    /// Tembo with the CDDS B-Tree and nothing durable.
    TemboVolatile,
    Redb,
    Fjall,
    Lmdb,
    /// LMDB with `MDB_NORDAHEAD`.
    LmdbNoReadahead,
    /// SQLite with a write-ahead log and `synchronous=FULL`.
    SqliteWal,
    /// SQLite with a rollback journal and `synchronous=FULL`.
    SqliteJournal,
    RocksDb,
    /// RocksDB with `O_DIRECT`.
    RocksDbDirect,
    /// Berkeley DB with transactions.
    Berkeley,
    /// Berkeley DB without transactions and log.
    BerkeleyVolatile,
    /// Tembo's server.
    Server(TemboServer),
    Redis(RedisLog),
    Memcached,
    /// An ordered map with a synced append-only log.
    LoggedTree,
}

impl Brand {
    /// Embedded stores that are durable, Tembo first.
    pub(crate) const EMBEDDED: [Brand; 9] = [
        Brand::Tembo(IndexKind::Nvtree),
        Brand::Tembo(IndexKind::Cdds),
        Brand::Redb,
        Brand::Fjall,
        Brand::Lmdb,
        Brand::SqliteWal,
        Brand::SqliteJournal,
        Brand::RocksDb,
        Brand::Berkeley,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Brand::Tembo(IndexKind::Nvtree) => "Tembo",
            Brand::Tembo(IndexKind::Cdds) => "Tembo, CDDS",
            Brand::Tembo(IndexKind::Hash) => "Tembo, hash",
            Brand::TemboVolatile => "Tembo, CDDS, volatile",
            Brand::Redb => "redb",
            Brand::Fjall => "fjall",
            Brand::Lmdb => "LMDB",
            Brand::LmdbNoReadahead => "LMDB, no readahead",
            Brand::SqliteWal => "SQLite WAL",
            Brand::SqliteJournal => "SQLite journal",
            Brand::RocksDb => "RocksDB",
            Brand::RocksDbDirect => "RocksDB, direct I/O",
            Brand::Berkeley => "Berkeley DB",
            Brand::BerkeleyVolatile => "Berkeley DB, volatile",
            Brand::Server(TemboServer::Durable) => "Tembo server",
            Brand::Server(TemboServer::Cdds) => "Tembo server, CDDS",
            Brand::Redis(RedisLog::Always) => "Redis, always",
            Brand::Redis(RedisLog::EverySecond) => "Redis, everysec",
            Brand::Redis(RedisLog::None) => "Redis, volatile",
            Brand::Memcached => "memcached, volatile",
            Brand::LoggedTree => "tree and log",
        }
    }

    /// With its files in the folder of `place`, empty unless there are any; `None`: not in this build, or not on this machine.
    pub(crate) fn open(self, place: Place<'_>) -> Result<Option<Box<dyn Rival>>, Error> {
        let opened = self.opened(place)?;
        if let Some(settings) = opened.as_ref().map(|rival| rival.settings())
            && !settings.is_empty()
        {
            let line = format!("{}: {}", self.name(), settings.join(", "));
            SETTINGS.lock().unwrap_or_else(PoisonError::into_inner).insert(line);
        }
        Ok(opened)
    }

    fn opened(self, place: Place<'_>) -> Result<Option<Box<dyn Rival>>, Error> {
        Ok(Some(match self {
            Brand::Tembo(index) => Box::new(embedded::Embedded::new(place, index)?),
            Brand::TemboVolatile => Box::new(embedded::Embedded::volatile()?),
            #[cfg(feature = "rivals")]
            Brand::Redb => Box::new(redb::Redb::new(place.folder, place.share)?),
            #[cfg(feature = "rivals")]
            Brand::Fjall => Box::new(fjall::Fjall::new(place.folder, place.share)?),
            #[cfg(feature = "rivals")]
            Brand::Lmdb => Box::new(lmdb::Lmdb::new(place.folder, lmdb::Readahead::Yes)?),
            #[cfg(feature = "rivals")]
            Brand::LmdbNoReadahead => Box::new(lmdb::Lmdb::new(place.folder, lmdb::Readahead::No)?),
            #[cfg(feature = "rivals")]
            Brand::SqliteWal => {
                Box::new(sqlite::Sqlite::new(place.folder, sqlite::Journal::Wal, place.share)?)
            }
            #[cfg(feature = "rivals")]
            Brand::SqliteJournal => {
                Box::new(sqlite::Sqlite::new(place.folder, sqlite::Journal::Rollback, place.share)?)
            }
            #[cfg(feature = "rivals-debian")]
            Brand::RocksDb => {
                Box::new(rocksdb::RocksDb::new(place.folder, rocksdb::Io::Buffered, place.share)?)
            }
            #[cfg(feature = "rivals-debian")]
            Brand::RocksDbDirect => {
                Box::new(rocksdb::RocksDb::new(place.folder, rocksdb::Io::Direct, place.share)?)
            }
            #[cfg(feature = "rivals-debian")]
            Brand::Berkeley => Box::new(berkeley::Berkeley::new(
                place.folder,
                berkeley::Log::Transactions,
                place.share,
            )?),
            #[cfg(feature = "rivals-debian")]
            Brand::BerkeleyVolatile => {
                Box::new(berkeley::Berkeley::new(place.folder, berkeley::Log::None, place.share)?)
            }
            Brand::Server(kind) => return server::tembo(place, kind),
            Brand::Redis(log) => return server::redis(place.folder, log),
            Brand::Memcached => return server::memcached(),
            Brand::LoggedTree => Box::new(logged_tree::LoggedTree::new(place.folder)?),
            #[cfg(not(all(feature = "rivals", feature = "rivals-debian")))]
            _ => return Ok(None),
        }))
    }
}
