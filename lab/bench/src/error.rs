//! What can go wrong.

use std::path::PathBuf;

/// What ends an experiment.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The pool below a contender.
    #[error("the pool of a contender")]
    Pool(#[from] tembo_pool::Error),
    /// The region below a contender.
    #[error("the region of a contender")]
    Region(#[from] tembo_pmem::Error),
    /// A versioned index.
    #[error("an index")]
    Index(#[from] tembo_index::Error),
    /// The store.
    #[error("the store")]
    Store(#[from] tembo_kv::Error),
    /// A heap.
    #[error("a heap")]
    Heap(#[from] tembo_heap::Error),
    /// The thesis's array, or ARIES on it.
    #[error("the modelled array")]
    Mars(#[from] tembo_mars::Error),
    /// A device of blocks.
    #[error("a device")]
    Array(#[from] tembo_array::Error),
    /// A file system of a store.
    #[error("a file system")]
    FileSystem(#[from] tembo_fs::Error),
    /// A file of a contender.
    #[error("a file")]
    File(#[from] std::io::Error),
    /// A backup.
    #[error("a backup")]
    Backup(#[from] tembo_kv::backup::BackupError),
    /// A contender's answers are wrong: figures of it would mean nothing.
    #[error("{contender} answered {found} of {expected} keys rightly in {operation}")]
    Wrong {
        /// The contender.
        contender: &'static str,
        /// In which operation.
        operation: &'static str,
        /// Right answers that there are.
        expected: u64,
        /// Right answers that it gave.
        found: u64,
    },
    /// A change by one of several threads, to a contender that takes one writer.
    #[error("{contender} takes one writer at a time")]
    OneWriter {
        /// The contender.
        contender: &'static str,
    },
    /// A thread of a pair has panicked.
    #[error("a thread has panicked")]
    Panicked,
    /// The folder for the pools.
    #[error("a folder in {path}")]
    Folder {
        /// Where it was to be.
        path: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
    /// A rival, or a server.
    #[error("{rival}")]
    Rival {
        /// The contender.
        rival: &'static str,
        /// What it says.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// Something that an experiment needs is not here.
    #[error("{0}")]
    Absent(&'static str),
    /// A folder in memory was given for what is measured on a disk.
    #[error("{path} is in memory (a tmpfs): nothing that is measured there holds for a disk")]
    InMemory {
        /// The folder.
        path: PathBuf,
    },
    /// A process that measures could not be started, or does not say what it should.
    #[error("the process that measures {contender}")]
    Process {
        /// The contender.
        contender: String,
        /// What happened.
        source: std::io::Error,
    },
    /// A signal asked for an end.
    #[error("stopped before its end")]
    Stopped,
    /// There are no keys to work on, or no rounds, or more keys than numbers for them.
    #[error("{keys} keys in {rounds} rounds")]
    NothingToDo {
        /// Keys asked for.
        keys: u64,
        /// Rounds asked for.
        rounds: u32,
    },
    /// A histogram of latencies.
    #[error("a histogram")]
    Histogram(#[from] hdrhistogram::CreationError),
    /// A damaged structure.
    #[error("damaged at {offset:#x}: expected {what}")]
    Damaged {
        /// Where, in bytes from the start of the region.
        offset: u64,
        /// What should have been there.
        what: &'static str,
    },
}

impl Error {
    /// The error with all its causes, in one line.
    pub(crate) fn reason(&self) -> String {
        let mut text = self.to_string();
        let mut cause = std::error::Error::source(self);
        while let Some(source) = cause {
            text += &format!(": {source}");
            cause = source.source();
        }
        text
    }
}

impl From<tembo_pmem::Fault> for Error {
    fn from(fault: tembo_pmem::Fault) -> Error {
        Error::Region(fault.into())
    }
}
