//! Why a command failed.

use std::borrow::Cow;

use tembo_kv::Error;

use crate::format::UnknownLayout;

/// Why a command failed: an error reply, or the store.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The reply's text, code included, without the leading `-`.
    Reply(Cow<'static, [u8]>),
    /// The store refused.
    Store(Error),
    /// The store lost what the turn wrote so far.
    Turn(Error),
    /// A value that this version of the server did not write.
    UnknownLayout,
}

/// The result of a command; the reply of a successful one is appended already.
pub(crate) type Outcome = Result<(), Failure>;

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        Failure::Store(error)
    }
}

impl From<&'static str> for Failure {
    fn from(text: &'static str) -> Failure {
        Failure::Reply(Cow::Borrowed(text.as_bytes()))
    }
}

impl From<String> for Failure {
    fn from(text: String) -> Failure {
        Failure::Reply(Cow::Owned(text.into_bytes()))
    }
}

impl From<UnknownLayout> for Failure {
    fn from(_: UnknownLayout) -> Failure {
        Failure::UnknownLayout
    }
}

impl Failure {
    /// The text of the error reply.
    pub(crate) fn text(&self) -> Cow<'_, [u8]> {
        match self {
            Failure::Reply(text) => Cow::Borrowed(text),
            Failure::Store(error) | Failure::Turn(error) => store_text(error),
            Failure::UnknownLayout => Cow::Borrowed(UNKNOWN_LAYOUT.as_bytes()),
        }
    }
}

/// The text of the error reply for an error of the store.
pub(crate) fn store_text(error: &Error) -> Cow<'static, [u8]> {
    match error {
        Error::Full { .. } => Cow::Borrowed(OUT_OF_MEMORY.as_bytes()),
        Error::Poisoned => Cow::Borrowed(POISONED.as_bytes()),
        other => Cow::Owned(format!("ERR {other}").into_bytes()),
    }
}

/// The pool has no room left for a write.
pub(crate) const OUT_OF_MEMORY: &str = "OOM command not allowed when used memory > 'maxmemory'.";
/// The server was started to read its pool only.
pub(crate) const READ_ONLY: &str =
    "READONLY You can't write against a server that serves its pool read-only.";
/// A file of the pool was removed while the server runs.
pub(crate) const REMOVED: &str = "MISCONF a file of the pool was removed: what is written would be gone with the server. \
     Save what it holds (TEMBO.BACKUP, a replica), then stop it.";
/// The disk had no room when what was executed before was to be synced.
pub(crate) const DISK_FULL: &str = "MISCONF the disk is full, and what was written before is not durable yet. Make room on the disk of the pool: \
     until then writes are refused, and replies that show it wait.";
/// Fewer replicas have been heard of than the operator wants.
pub(crate) const NO_REPLICAS: &str = "NOREPLICAS Not enough good replicas to write.";
/// The server is a replica.
pub(crate) const READ_ONLY_REPLICA: &str = "READONLY You can't write against a read only replica.";
/// A command waited when the server became a replica.
pub(crate) const DEMOTED: &str =
    "UNBLOCKED force unblock from blocking operation, instance state changed (master -> replica?)";
/// The server is a replica, its primary is out of reach, and it is not to show what may be old.
pub(crate) const OUT_OF_REACH: &str =
    "MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.";
/// The server is a replica, and does not hold all of a version yet.
pub(crate) const LOADING: &str = "LOADING Redis is loading the dataset in memory";
/// A sync failed: what was executed may not be durable.
pub(crate) const POISONED: &str =
    "MISCONF Tembo could not make this write durable: syncing the pool failed. The server stops.";
/// An argument is not a 64-bit number.
pub(crate) const NOT_AN_INTEGER: &str = "ERR value is not an integer or out of range";
/// Options that do not fit together, or are not known.
pub(crate) const SYNTAX: &str = "ERR syntax error";
/// A key holds a value of another type than the command works on.
pub(crate) const WRONG_TYPE: &str =
    "WRONGTYPE Operation against a key holding the wrong kind of value";
/// A value was written by a later version of the server, or is damaged.
const UNKNOWN_LAYOUT: &str = "ERR the key holds a value that this version of Tembo does not know";
/// RENAME and its like: the key does not exist.
pub(crate) const NO_SUCH_KEY: &str = "ERR no such key";
