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
    #[error(
        "another transaction has changed what this one has read, or is changing it: begin this one again"
    )]
    Conflict,
    /// The transaction cannot commit, because a part of it has failed before. Nothing has changed.
    #[error(
        "a part of the transaction has failed, nothing of it is kept: begin it again, and return the error of the part"
    )]
    Aborted,
    /// A transaction of the heap is under way on this thread: use that one.
    #[error(
        "a transaction of this heap is under way on this thread: use that one, or wait until it ends"
    )]
    Nested,
    /// The object is of another type, or of another version of it, than the program asks for.
    #[error("a {found} where a {expected} was asked for: ask for the type that it has")]
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
        "the type {name} has no layout that a heap can keep, it is nested too deep, or too large: hold parts of it by pointer"
    )]
    NoLayout {
        /// The name of the type.
        name: String,
    },
    /// The transaction that made the object was rolled back, or has not committed: it is no object of the heap.
    #[error(
        "the object was made by a transaction that has not committed: wait until it has, or make the object again"
    )]
    NotCommitted,
    /// The object was freed by hand: see [`Access::free`](crate::Access::free).
    #[error("the object was freed: drop the pointers to it")]
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
    #[error("index {index} of {len}: use one below the length")]
    NoSuchElement {
        /// The index.
        index: u64,
        /// How many there are.
        len: u64,
    },
    /// The heap has no root yet.
    #[error("the heap has no root: make one, and set it with `set_root`")]
    NoRoot,
    /// What the heap holds contradicts itself.
    #[error("damaged heap: {what} at {offset:#x}; check the pool, and restore a copy of it")]
    Damaged {
        /// What is wrong.
        what: &'static str,
        /// Where, in bytes from the start of the pool.
        offset: u64,
    },
    /// The object has no room for the new version of its type.
    #[error(
        "an object of {room} bytes has no room for {size}, which its new version needs: \
         read it as the old version, and put another object in its place"
    )]
    NoRoom {
        /// Bytes that it has.
        room: u64,
        /// Bytes that it would need.
        size: u64,
    },
    /// Too many types.
    #[error("a heap has at most {max} types: use those that it has, or another heap")]
    TooManyTypes {
        /// The most possible.
        max: usize,
    },
    /// The pool is opened for reading only. Nothing has changed.
    #[error("the pool is opened for reading only: open it without `read_only` to change it")]
    ReadOnly,
    /// A tenant stands not still: an operation is under way. Try again.
    #[error("a transaction is under way: try again when it has ended")]
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Each variant with fields; one that is not listed does not compile.
    macro_rules! all {
        ($($variant:ident { $($field:tt)* })*) => {{
            let _ = |error: &Error| match error {
                $(Error::$variant { .. } => {})*
            };
            [$(Error::$variant { $($field)* }),*]
        }};
    }

    /// Whether a part of the text begins with a word that asks for something.
    fn advises(text: &str) -> bool {
        let words = [
            "ask", "begin", "check", "close", "copy", "drop", "free", "give", "hold", "lay",
            "make", "mark", "move", "open", "put", "raise", "read", "remove", "restore", "save",
            "start", "stay", "try", "unlink", "use", "wait",
        ];
        let first = |part: &str| part.split_whitespace().next().unwrap_or_default().to_owned();
        let mut parts = text.split([':', ';']).skip(1);
        parts.any(|part| words.contains(&first(part).as_str()) || part.contains("` lists "))
    }

    #[test]
    fn each_text_says_what_to_do() {
        let name = || String::from("a");
        let errors = all! {
            Pool { 0: tembo_pool::Error::SweepRunning }
            Conflict {}
            Aborted {}
            Nested {}
            WrongType { expected: name(), found: name() }
            WrongLayout { name: name() }
            NoLayout { name: name() }
            NotCommitted {}
            Freed {}
            Referred { offset: 1, count: 1 }
            NoSuchElement { index: 1, len: 1 }
            NoRoot {}
            Damaged { what: "?", offset: 1 }
            NoRoom { room: 1, size: 2 }
            TooManyTypes { max: 1 }
            ReadOnly {}
            Busy {}
        };
        let silent = errors.iter().map(|error| error.to_string());
        let silent: Vec<_> = silent.filter(|text| !advises(text) || text.contains('\n')).collect();
        assert!(silent.is_empty(), "{silent:#?}");
    }
}
