//! What is explored, and what is wrong with it on purpose.

/// A part of the house that writes persistent memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Structure {
    /// The region itself: creation, opening, growth, redo log, checkpoint, records beside the log.
    Region,
    /// The pool: superblock, roots, allocator, growth, sweep.
    Pool,
    /// The pool's log, by a heap of toys that uses it in all ways.
    Log,
    /// The heap: allocation, counts, destruction, transactions.
    Heap,
    /// The CDDS B-Tree.
    Cdds,
    /// The NV-Tree.
    Nvtree,
    /// The hash index.
    Hash,
    /// The store: commits, keyspaces, snapshots, rollback, recovery; over the NV-Tree.
    Kv,
    /// The store over the CDDS B-Tree.
    KvCdds,
    /// The store over the hash index: ranges are refused.
    KvHash,
    /// A store that follows another one, and is promoted.
    Replica,
    /// A store and a heap of toys in one pool.
    Shared,
    /// Two stores in one pool.
    Stores,
    /// Devices of blocks, over the NV-Tree.
    Array,
    /// Devices of blocks, over the CDDS B-Tree.
    ArrayCdds,
    /// The server's commands, as they change the store.
    Server,
    /// The file system: calls, transactions, files without a name.
    Fs,
}

/// What the medium may do at a crash.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Model {
    /// Each line keeps any prefix of its stores since it was last guaranteed; lines are independent.
    Flush,
    /// All stores of all lines keep one global prefix.
    Eadr,
    /// Sectors of the files, their sizes and their names, between two successful syncs.
    Logged,
}

/// One exploration's subject.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Target {
    /// What is explored.
    pub structure: Structure,
    /// On what medium.
    pub model: Model,
}

/// How a step is broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Twist {
    /// The step is not done.
    Dropped,
    /// The commit store may be durable before older stores to its line and before its fence.
    Early,
    /// The step is done at another place, given by its name and the table of twists.
    Misplaced,
}

/// One named step, broken in one way.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Mutation {
    /// The step's name in the sources.
    pub step: String,
    /// What is wrong with it.
    pub twist: Twist,
}
