//! What can go wrong in a store.

use std::{fmt, io};

use tembo_pmem as pmem;
use tembo_pool as pool;

use crate::bounds::{
    KEY_SIZE_MAX, KEYSPACE_NAME_SIZE_MAX, LARGE_VALUE_SIZE_MAX, PIECE_SIZE_MAX, PIECE_SIZE_MIN,
    PREPARED_ID_SIZE_MAX, VALUE_SIZE_MAX,
};

/// Errors of a store. After [`Error::Full`] and the size errors the store goes on as before.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Nothing was written.
    #[error("a key of {size} bytes is longer than {KEY_SIZE_MAX}: use a shorter one")]
    KeyTooLong {
        /// Its length, in bytes.
        size: usize,
    },
    /// Nothing was written.
    #[error(
        "a value of {size} bytes is longer than {VALUE_SIZE_MAX}: lay it out under several keys"
    )]
    ValueTooLong {
        /// Its length, in bytes.
        size: usize,
    },
    /// Nothing was written: choose a power of two between the bounds.
    #[error(
        "pieces of {size} bytes: a power of two from {PIECE_SIZE_MIN} to {PIECE_SIZE_MAX} is needed"
    )]
    PieceSize {
        /// The size asked for, in bytes.
        size: usize,
    },
    /// Nothing was written: open that one, or use another name.
    #[error(
        "there is a large value \"{}\" already: open that one, or use another name",
        name.escape_ascii()
    )]
    LargeValueExists {
        /// Its name.
        name: Vec<u8>,
    },
    /// Nothing was written: lay it out as several large values.
    #[error(
        "a large value of {size} bytes is longer than {LARGE_VALUE_SIZE_MAX}: lay it out as several"
    )]
    LargeValueTooLong {
        /// Its length, in bytes.
        size: u64,
    },
    /// Nothing was written: choose a shorter name.
    #[error(
        "a keyspace name of {size} bytes is longer than {KEYSPACE_NAME_SIZE_MAX}: use a shorter one"
    )]
    KeyspaceName {
        /// Its length, in bytes.
        size: usize,
    },
    /// What was changed (a commit, a name, the window, a store) is in force, and is not durable: the disk is so full that the
    /// log could not be written. Make room and call [`Store::sync`](crate::Store::sync), which writes it (of a new store: open it). To make the change
    /// once more would apply it twice.
    #[error("it is in force and not durable yet: do not repeat it, sync when there is room ({0})")]
    NotDurable(#[source] pool::Error),
    /// The pool or its disk has no room left: writes are refused, reads go on. Nothing has changed. Remove keys, drop
    /// snapshots, or open the pool with a larger [`Options::size_max`](crate::Options::size_max); on a full disk make room.
    #[error("no room, nothing has changed: remove keys, drop snapshots, or do what follows ({0})")]
    Full(#[source] pool::Error),
    /// A sync failed: the store takes no more writes, and nothing unsynced may be shown.
    #[error("a sync has failed, the store takes no more writes: open it again")]
    Poisoned,
    /// The store is open to be read, and nothing of it changes. Open it without
    /// [`Options::read_only`](crate::Options::read_only) to change it.
    #[error("the store is open to be read only; open it without `read_only` to change it")]
    ReadOnly,
    /// Of the pool below.
    #[error(transparent)]
    Pool(pool::Error),
    /// Of the region below.
    #[error(transparent)]
    Region(pmem::Error),
    /// A record of a pool that was opened is not as it was written: its checksum is another. All else can be read, also
    /// behind this key, and changed; restore the key from a backup, or put or remove it.
    #[error(
        "the record of key {} of {}, at offset {offset:#x}, is corrupt: restore it from a backup, or put it again",
        shown(key), place(keyspace.as_deref())
    )]
    Corrupt {
        /// Name of the keyspace; `None`: the catalogue, which names them.
        keyspace: Option<String>,
        /// The key, as it stands in the record, which may be what is corrupt.
        key: Vec<u8>,
        /// Where the record lies in the pool, in bytes.
        offset: u64,
    },
    /// An index is damaged.
    #[error(transparent)]
    Index(tembo_index::Error),
    /// What stands in the pool is not a store, or a damaged one.
    #[error("the pool holds no sound store, there should be {what}: restore a backup")]
    Damaged {
        /// What should have been there.
        what: &'static str,
    },
    /// So many transactions were aborted between others, faster than recovery makes them forgotten,
    /// that there is no place to note them. Nothing has changed; try again.
    #[error("too many aborted transactions wait to be forgotten; try again")]
    TooManyAborts,
    /// Another transaction has committed, since this one began, what it writes or, if it is serialisable,
    /// has read; or a prepared transaction holds it. Nothing of it was written: begin it again
    /// ([`Store::with_retry`](crate::Store::with_retry) does), or decide the prepared one first
    /// ([`Store::commit_prepared`](crate::Store::commit_prepared), [`Store::drop_prepared`](crate::Store::drop_prepared)).
    #[error(
        "key {} of keyspace {keyspace:?}, which {access}, {}",
        shown(key), why(*version, held_by.as_deref())
    )]
    Conflict {
        /// Name of the keyspace.
        keyspace: String,
        /// The key; of a range that was read, the first that was changed.
        key: Vec<u8>,
        /// What the transaction has done with it.
        access: Access,
        /// The version that was committed first; over the CDDS B-Tree, one by which it was. Of a held key, the
        /// version in which its holder was prepared.
        version: u64,
        /// The id of the prepared transaction that holds the key; `None`: it was changed.
        held_by: Option<Vec<u8>>,
    },
    /// The store was made with [`IndexKind::Hash`](crate::IndexKind::Hash), and its keys have
    /// [no order](crate::Store::is_ordered). Ask for all of them by a snapshot, or make the store with another index. Nothing
    /// was read or written.
    #[error(
        "the keys of this store have no order, for its index is `hash`: visit all of them by a snapshot, \
         or make the store with the index `nvtree`"
    )]
    Unordered,
    /// The id of a prepared transaction has 1 to [`PREPARED_ID_SIZE_MAX`] bytes. Nothing
    /// was prepared.
    #[error(
        "the id of a prepared transaction has 1 to {PREPARED_ID_SIZE_MAX} bytes, not {size}: use another id"
    )]
    PreparedId {
        /// The length of the id, in bytes.
        size: usize,
    },
    /// A transaction that has removed a range of keys cannot be prepared: remove the keys one by one. Nothing was prepared.
    #[error(
        "a transaction that has removed a range of keys cannot be prepared; remove the keys one by one"
    )]
    PreparedRange,
    /// A transaction of that id is prepared and not decided: nothing was prepared. Use another id, or decide that one first.
    #[error(
        "a transaction \"{}\" is prepared already: use another id, or commit or drop that one first",
        id.escape_ascii()
    )]
    PreparedExists {
        /// The id.
        id: Vec<u8>,
    },
    /// No transaction of that id is prepared: it was never, it is decided, or a rollback has dropped it.
    /// [`Store::prepared`](crate::Store::prepared) lists those that are.
    #[error(
        "no transaction \"{}\" is prepared: `prepared` lists those that are",
        id.escape_ascii()
    )]
    NoSuchPrepared {
        /// The id.
        id: Vec<u8>,
    },
    /// So many transactions are prepared that there is no place for another: decide some first. Nothing was prepared.
    #[error(
        "{count} transactions are prepared, and no more can be: commit or drop some of them first"
    )]
    TooManyPrepared {
        /// How many are prepared: [`PREPARED_COUNT_MAX`](crate::PREPARED_COUNT_MAX).
        count: usize,
    },
    /// The calling thread has an [`Exclusive`](crate::Exclusive), and would wait for itself. Commit or drop that first, or
    /// use another thread.
    #[error(
        "this thread has the writer's lock, and would wait for itself: commit or drop the exclusive writer first"
    )]
    WouldDeadlock,
    /// The store was not closed, because other handles are open. Drop them first; or drop this one: the store closes with
    /// the last.
    #[error(
        "the store is in use by {stores} other handles of it, {snapshots} snapshots and iterators, \
         {transactions} transactions, {followers} followers of changes{}; drop them first",
        if *exclusive { ", and an exclusive writer" } else { "" }
    )]
    InUse {
        /// Clones of the store.
        stores: usize,
        /// Snapshots and iterators.
        snapshots: usize,
        /// Transactions.
        transactions: usize,
        /// Followers of changes.
        followers: usize,
        /// Whether there is an exclusive writer.
        exclusive: bool,
    },
    /// The pool holds no store of that name: [`Pool::tenants`](crate::Pool::tenants) lists what it holds, and
    /// [`Pool::store`](crate::Pool::store) opens a store by its name.
    #[error(
        "the pool holds no store named {name:?}: `Pool::tenants` lists what it holds, `Pool::store` opens one of them"
    )]
    NoSuchStore {
        /// The name.
        name: String,
    },
    /// No snapshot has that name: [`Store::snapshots`](crate::Store::snapshots) lists those that there are.
    #[error("there is no snapshot named {name:?}: `snapshots` lists those that there are")]
    NoSuchName {
        /// The name.
        name: String,
    },
    /// The transaction has gone back behind the savepoint, or it is another's.
    #[error(
        "the transaction has no such savepoint any more: go back to an earlier one, or begin again"
    )]
    NoSuchSavepoint,
    /// The catalogue knows no such keyspace in that version.
    #[error("there is no such keyspace in version {version}: ask for it by its name again")]
    NoSuchKeyspace {
        /// The version that was read.
        version: u64,
    },
    /// The name is longer than 48 bytes, or there are 64 named snapshots already.
    #[error(
        "no place for a snapshot of that name, at most {count} names of {size} bytes: drop one, or use a shorter one"
    )]
    SnapshotName {
        /// Names that fit.
        count: usize,
        /// Bytes in a name.
        size: usize,
    },
    /// Only a retained version can be read or rolled back to.
    #[error(
        "version {version} is not retained: keep a window of versions (`retain`), name a snapshot, or hold one"
    )]
    NotRetained {
        /// The version asked for.
        version: u64,
    },
    /// Not all that happened after the version is known any more, or it is not visible yet.
    #[error(
        "what happened after version {version} is not known from then on, only after {oldest}: begin anew from a snapshot"
    )]
    HistoryForgotten {
        /// The version asked for.
        version: u64,
        /// The oldest one after which everything is known.
        oldest: u64,
    },
    /// Some of what came up to the version was rolled back: a follower that has it goes back, or begins anew; a snapshot of it
    /// gets no name, and no incremental backup follows it. Of rollbacks before the store was opened, once their scrub has
    /// ended, only the range is known that they lie in ([`Store::rolled_back`](crate::Store::rolled_back)): followers,
    /// names and, of versions without a name, backups are refused there.
    #[error("version {version} was rolled back to {to}: go back to that version, or begin anew")]
    RolledBack {
        /// The version asked for.
        version: u64,
        /// What came up to this one is sure to have happened.
        to: u64,
    },
    /// The store is a replica: it takes the changes of another store only, until
    /// [`Replica::promote`](crate::Replica::promote).
    #[error("the store is a replica, and takes no writes of its own; promote it first")]
    IsReplica,
    /// Changes are made at a version above the visible one only. Nothing has changed.
    #[error(
        "version {version} is not above {visible}, the last one that was made: go on with what follows it"
    )]
    VersionTaken {
        /// The version that was given.
        version: u64,
        /// The visible one.
        visible: u64,
    },
    /// Changes are made at a version below two to the power of 55 only: behind a higher one too few would be left for what the store
    /// does itself, and it could not be opened again. Nothing has changed.
    #[error(
        "version {version} is too high: give the version at which the other store has made the changes"
    )]
    VersionTooHigh {
        /// The version that was given.
        version: u64,
    },
    /// A keyspace is to be made that is there, or one to be changed that is not there: the store was not what the other
    /// one was before the version. Nothing has changed; begin the replica anew.
    #[error(
        "keyspace {keyspace:?} is not as the changes of version {version} expect it: begin the replica anew"
    )]
    Diverged {
        /// Name of the keyspace.
        keyspace: String,
        /// The version that was given.
        version: u64,
    },
    /// The system gave no file descriptor: close some, or raise the limit of open files.
    #[error(
        "no file descriptor for an event loop: close some, or raise the limit of open files ({0})"
    )]
    Descriptor(#[source] io::Error),
    /// A rollback would take a version away from under a snapshot that is open.
    #[error("version {version} is being read; drop its snapshots first")]
    VersionInUse {
        /// The youngest version that is read.
        version: u64,
    },
}

/// What a transaction has done with a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Access {
    /// It has read the key, or a range with it.
    Read,
    /// It has written the key.
    Write,
}

impl fmt::Display for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Access::Read => "was read",
            Access::Write => "was to be written",
        })
    }
}

/// Why a key is in conflict, and what to do.
fn why(version: u64, held_by: Option<&[u8]>) -> String {
    match held_by {
        None => format!(
            "was changed in version {version} by a transaction that committed first; begin this one again"
        ),
        Some(id) => format!(
            "is held by the transaction \"{}\", prepared in version {version}, until that is committed or dropped",
            id.escape_ascii()
        ),
    }
}

/// Bytes of a key that a message shows.
const SHOWN_MAX: usize = 32;

/// A key as a message shows it: its begin, what is not ASCII escaped.
fn shown(key: &[u8]) -> String {
    let begin = &key[..key.len().min(SHOWN_MAX)];
    let more = if key.len() > SHOWN_MAX { "…" } else { "" };
    format!("\"{}{more}\"", begin.escape_ascii())
}

impl Error {
    /// Of a sync, before which changes have become visible.
    pub(crate) fn of_sync(error: pmem::Error) -> Error {
        match error.into() {
            Error::Full(full) => Error::NotDurable(full),
            other => other,
        }
    }
}

impl From<pmem::Error> for Error {
    fn from(error: pmem::Error) -> Error {
        match error {
            pmem::Error::Poisoned { .. } => Error::Poisoned,
            full @ pmem::Error::DiskFull { .. } => Error::Full(pool::Error::Region(full)),
            other => Error::Region(other),
        }
    }
}

impl From<pmem::Fault> for Error {
    fn from(fault: pmem::Fault) -> Error {
        Error::Region(fault.into())
    }
}

impl From<pool::Error> for Error {
    fn from(error: pool::Error) -> Error {
        match error {
            pool::Error::Region(error) => error.into(),
            full @ pool::Error::PoolFull { .. } => Error::Full(full),
            other => Error::Pool(other),
        }
    }
}

/// What an index answers, which does not know its keyspace.
pub(crate) trait InKeyspace<T> {
    /// Names the keyspace in an error that is of one of its records.
    fn in_keyspace(self, name: &str) -> Result<T, Error>;
}

impl<T, E: Into<Error>> InKeyspace<T> for Result<T, E> {
    #[inline]
    fn in_keyspace(self, name: &str) -> Result<T, Error> {
        self.map_err(|error| named(error.into(), name))
    }
}

#[cold]
fn named(error: Error, name: &str) -> Error {
    match error {
        Error::Corrupt { keyspace: None, key, offset } => {
            Error::Corrupt { keyspace: Some(name.to_owned()), key, offset }
        }
        other => other,
    }
}

/// The keyspace in a message.
fn place(keyspace: Option<&str>) -> String {
    keyspace.map_or_else(|| "the catalogue".to_owned(), |name| format!("keyspace {name:?}"))
}

impl From<tembo_index::Error> for Error {
    fn from(error: tembo_index::Error) -> Error {
        match error {
            tembo_index::Error::Pool(error) => error.into(),
            // Its caller adds the keyspace, by `InKeyspace`.
            tembo_index::Error::Corrupt { offset, key } => {
                Error::Corrupt { keyspace: None, key, offset }
            }
            other => Error::Index(other),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sync_that_finds_the_disk_full_does_not_say_that_nothing_has_changed() {
        let full = || pmem::Error::DiskFull { path: "pool.log".into() };
        assert!(matches!(Error::of_sync(full()), Error::NotDurable(_)));
        assert!(matches!(Error::from(full()), Error::Full(_)));
    }
}
