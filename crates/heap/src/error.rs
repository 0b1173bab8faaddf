//! What can go wrong in a heap.

/// Errors of opening a heap, of its transactions, and of what it finds on media.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The pool below refused: full, damaged, held by another process.
    #[error(transparent)]
    Pool(#[from] tembo_pool::Error),
    /// Another transaction has changed, or owns, what this one needs. [`Heap::atomic`](crate::Heap::atomic) tries again by
    /// itself: return this error from the closure.
    #[error("another transaction has changed what this one has read, or is changing it")]
    Conflict,
    /// The transaction cannot commit, because a part of it has failed before. Nothing has changed.
    #[error("a part of the transaction has failed: nothing of it is kept")]
    Aborted,
    /// A transaction of the heap is under way on this thread: use that one.
    #[error("a transaction of this heap is under way on this thread")]
    Nested,
    /// The object is of another type, or of another version of it, than the program asks for.
    #[error("a {found} where a {expected} was asked for")]
    WrongType {
        /// What the program asks for.
        expected: String,
        /// What the heap holds.
        found: String,
    },
    /// The heap holds objects of a type of this name that are laid out differently. Give the type a version, and say what it comes
    /// from. A slice, or a collection, of values has the layout of the values, and no version: hold values that get versions by pointer.
    #[error(
        "the type {name} has another layout than the heap holds: give it a version, and say what it comes from; \
         values inside of collections have no versions, but what collections point to has"
    )]
    WrongLayout {
        /// The name of the type.
        name: String,
    },
    /// The type's layout is no layout that a heap can note: it is nested too deep, too large, or contradicts itself.
    #[error(
        "the type {name} has no layout that a heap can keep: it is nested too deep, or too large"
    )]
    NoLayout {
        /// The name of the type.
        name: String,
    },
    /// The transaction that made the object was rolled back, or has not committed: it is no object of the heap.
    #[error("the object was made by a transaction that has not committed")]
    NotCommitted,
    /// The object was freed by hand: see [`Access::free`](crate::Access::free).
    #[error("the object was freed")]
    Freed,
    /// An object that was freed by hand is referred to still. Nothing has changed: unlink it, and take the checkpoint again.
    #[error(
        "the object at {offset:#x} was freed, and is referred to: unlink it before the checkpoint"
    )]
    Referred {
        /// Where the object is, in bytes from the start of the pool.
        offset: u64,
        /// How many pointers of the heap refer to it; 0: only the program does, by a pointer that keeps it.
        count: u64,
    },
    /// An index beyond the end.
    #[error("index {index} of {len}")]
    NoSuchElement {
        /// The index.
        index: u64,
        /// How many there are.
        len: u64,
    },
    /// The heap has no root yet.
    #[error("the heap has no root")]
    NoRoot,
    /// What the heap holds contradicts itself.
    #[error("damaged heap: {what} at {offset:#x}")]
    Damaged {
        /// What is wrong.
        what: &'static str,
        /// Where, in bytes from the start of the pool.
        offset: u64,
    },
    /// The object has no room for the new version of its type.
    #[error("an object of {room} bytes has no room for {size}")]
    NoRoom {
        /// Bytes that it has.
        room: u64,
        /// Bytes that it would need.
        size: u64,
    },
    /// Too many types.
    #[error("a heap has at most {max} types")]
    TooManyTypes {
        /// The most possible.
        max: usize,
    },
    /// The pool is opened for reading only. Nothing has changed.
    #[error("the pool is opened for reading only")]
    ReadOnly,
    /// A tenant stands not still: an operation is under way. Try again.
    #[error("a transaction is under way")]
    Busy,
}

impl From<tembo_pmem::Error> for Error {
    fn from(error: tembo_pmem::Error) -> Self {
        Error::Pool(error.into())
    }
}

impl From<tembo_pmem::Fault> for Error {
    fn from(fault: tembo_pmem::Fault) -> Self {
        Error::Pool(fault.into())
    }
}
