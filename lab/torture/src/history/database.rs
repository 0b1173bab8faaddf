//! What a history is taken of.

use std::fmt;

/// A key: a number, so that millions of them are short and dense.
pub type Key = u32;

/// A value: a number that is never written twice, or [`ABSENT`](super::ABSENT).
pub type Value = u64;

/// What transactions promise each other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Isolation {
    /// Each sees one version; of two that write the same key at the same time one is refused.
    #[default]
    Snapshot,
    /// As if one ran after the other.
    Serialisable,
}

impl Isolation {
    /// Both.
    pub const ALL: [Isolation; 2] = [Isolation::Snapshot, Isolation::Serialisable];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Isolation::Snapshot => "snapshot",
            Isolation::Serialisable => "serialisable",
        }
    }
}

impl fmt::Display for Isolation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Why an operation did not succeed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// Another transaction committed first: this key, in this version.
    Conflict {
        /// The key.
        key: Key,
        /// The version that was committed first.
        version: u64,
    },
    /// The store has crashed: whether a commit that was under way is there is unknown.
    Crashed,
    /// Something that never happens.
    Broken(String),
}

/// A store that runs transactions for several threads.
pub trait Database: Sync {
    /// Its transactions.
    type Transaction<'d>: Transact
    where
        Self: 'd;

    /// Begins a transaction.
    fn begin(&self, isolation: Isolation) -> Result<Self::Transaction<'_>, Failure>;

    /// Whether its transactions read ranges of keys.
    fn has_ranges(&self) -> bool {
        true
    }
}

/// A store whose keys several threads read and write, one at a time.
pub trait Registers: Sync {
    /// Reads one key: [`ABSENT`](super::ABSENT) if it is not there.
    fn get(&self, key: Key) -> Result<Value, Failure>;

    /// Puts one key; true if it was there.
    fn put(&self, key: Key, value: Value) -> Result<bool, Failure>;

    /// Removes one key; true if it was there.
    fn remove(&self, key: Key) -> Result<bool, Failure>;

    /// After a crash: waits until it has recovered. False: it never does.
    fn is_there_again(&self) -> bool {
        false
    }
}

/// A transaction. Dropped, it leaves nothing.
pub trait Transact {
    /// Where it can go back to.
    type Savepoint;

    /// The version of its snapshot.
    fn version(&self) -> u64;

    /// Reads one key: [`ABSENT`](super::ABSENT) if it is not there.
    fn get(&mut self, key: Key) -> Result<Value, Failure>;

    /// Reads the keys from `from` to `to`, both included, at most `limit` of them; backwards if asked.
    fn range(
        &mut self,
        from: Key,
        to: Key,
        backwards: bool,
        limit: usize,
    ) -> Result<Vec<(Key, Value)>, Failure>;

    /// Puts one key.
    fn put(&mut self, key: Key, value: Value) -> Result<(), Failure>;

    /// Removes one key.
    fn remove(&mut self, key: Key) -> Result<(), Failure>;

    /// Where it is.
    fn savepoint(&mut self) -> Self::Savepoint;

    /// Forgets what it wrote since.
    fn roll_back(&mut self, savepoint: &Self::Savepoint) -> Result<(), Failure>;

    /// Commits durably, and returns its version; that of its snapshot if it wrote nothing.
    fn commit(self) -> Result<u64, Failure>;
}
