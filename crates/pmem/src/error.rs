//! What can go wrong below the waist.

use std::io;
use std::path::{Path, PathBuf};

/// An access outside the region, or misaligned: on an opened pool, a sign of damage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "no {len} bytes at offset {offset:#x} (the region has {size}): check the pool, restore a backup if it is damaged"
)]
pub struct Fault {
    /// The offset asked for.
    pub offset: u64,
    /// The length asked for, in bytes.
    pub len: u64,
    /// The region's size, in bytes.
    pub size: u64,
}

/// Errors of creating, opening, growing and syncing a region.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The operating system refused.
    #[error("{action} {path}: {source}", path = path.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// On which file.
        path: PathBuf,
        /// Its answer.
        source: io::Error,
    },
    /// An offset on media led nowhere.
    #[error(transparent)]
    Fault(#[from] Fault),
    /// Creation found a file of that name; it was left alone.
    #[error("{path} exists already: use another path, or open the pool that it belongs to", path = path.display())]
    Exists {
        /// The file.
        path: PathBuf,
    },
    /// Another process, or another handle of this one, has the pool open.
    #[error("{path} is held by {holder}: close the pool there first, or try again later", path = path.display(), holder = holder(*pid))]
    Held {
        /// The file.
        path: PathBuf,
        /// The process that holds it, where the system says it.
        pid: Option<u32>,
    },
    /// The file is something else: too short, empty, or of another magic.
    #[error("{path} is not a pool: check the path, or restore a backup if a pool was there", path = path.display())]
    NotAPool {
        /// The file.
        path: PathBuf,
    },
    /// The file was a pool; its header contradicts itself.
    #[error("{path} is damaged: {what}; restore a backup", path = path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What does not hold.
        what: &'static str,
    },
    /// The file is shorter than its header says.
    #[error("{path} is damaged: it has {len} bytes of {size}; copy it again if it is a copy, or restore a backup", path = path.display())]
    Truncated {
        /// The file.
        path: PathBuf,
        /// Bytes found.
        len: u64,
        /// Bytes that the header promises.
        size: u64,
    },
    /// The file was written by a newer program.
    #[error("{path} has format version {found}, this program knows up to {known}: use a newer program", path = path.display())]
    NewerVersion {
        /// The file.
        path: PathBuf,
        /// The version found.
        found: u32,
        /// The newest version known here.
        known: u32,
    },
    /// The file uses features that this program must know and does not.
    #[error("{path} needs unknown features {bits:#x}: use a newer program", path = path.display())]
    UnknownFeatures {
        /// The file.
        path: PathBuf,
        /// The unknown bits.
        bits: u64,
    },
    /// The redo log that the pool needs is not there.
    #[error("{path} is missing, and the pool needs it (generation {generation}): put it back beside the pool, or restore a backup", path = path.display())]
    LogMissing {
        /// The log's file.
        path: PathBuf,
        /// The generation that the pool names.
        generation: u64,
    },
    /// The redo log beside the pool is not the pool's.
    #[error(
        "{path} is not this pool's log (pool {identity:032x} generation {generation}, log {found_identity:032x} generation {found_generation}): \
         put pool and log of the same moment there, or restore a backup",
        path = path.display()
    )]
    LogForeign {
        /// The log's file.
        path: PathBuf,
        /// The pool's identity.
        identity: u128,
        /// The pool's generation.
        generation: u64,
        /// The identity in the log; zero when it is no log at all.
        found_identity: u128,
        /// The generation in the log; zero when it is no log at all.
        found_generation: u64,
    },
    /// A group that was synced cannot be read back.
    #[error("{path} is damaged at group {sequence} (byte {position}): copy pool and log away, and restore a backup", path = path.display())]
    LogDamaged {
        /// The log's file.
        path: PathBuf,
        /// The first group that is bad.
        sequence: u64,
        /// Where it should begin, in bytes of the file.
        position: u64,
    },
    /// A write or `fdatasync` of the log failed earlier: nothing more can be promised. Open again.
    #[error("{path} is poisoned ({cause}): close the pool, and open it again", path = path.display())]
    Poisoned {
        /// The pool's file.
        path: PathBuf,
        /// What failed.
        cause: String,
    },
    /// No space on the disk, or none for the file, by a quota or the process's limit of file sizes: writes are refused,
    /// reads go on.
    #[error("the disk of {path} is full, or the file may not be larger: make room, or raise the limit", path = path.display())]
    DiskFull {
        /// The file that could not be written.
        path: PathBuf,
    },
    /// Another program has removed the file while it was open: what it holds goes with this process.
    #[error("{path} was removed while it was open: save what this process can still read, and restore a backup", path = path.display())]
    Removed {
        /// The file.
        path: PathBuf,
    },
    /// The process is a child of the one that opened the pool. Open the pool in one process only; the child may
    /// drop what it has inherited.
    #[error("{path} was opened before a fork, by another process than this one: use it in that process only", path = path.display())]
    Forked {
        /// The pool's file.
        path: PathBuf,
    },
    /// The file uses features with which this program may read it only
    /// ([`RegionOptions::read_only`](crate::RegionOptions)).
    #[error("{path} may only be read by this program (features {bits:#x}): open it to be read only, or use a newer program", path = path.display())]
    ReadOnlyFeatures {
        /// The file.
        path: PathBuf,
        /// The unknown bits.
        bits: u64,
    },
    /// More bytes were asked for than there can be.
    #[error("{size} bytes are asked for, and there can be at most {size_max}: ask for less")]
    Oversize {
        /// Bytes asked for.
        size: u64,
        /// Bytes at most.
        size_max: u64,
    },
    /// An operation asked for more of the log than one may have.
    #[error(
        "an operation of {lines} lines is too large, the log grants {lines_max}: make it smaller, or raise `log_size`"
    )]
    TooLarge {
        /// Lines asked for.
        lines: u64,
        /// Lines that one operation may have.
        lines_max: u64,
    },
    /// A pool of emulated persistent memory was not closed before the machine went down: what was
    /// flushed may be gone. Asking for the `flush` domain by name accepts that.
    #[error(
        "{path} emulated persistent memory when the machine went down, so flushed data may be lost; \
         ask for the flush domain explicitly (--domain flush) to open it all the same",
        path = path.display()
    )]
    EmulationLost {
        /// The file.
        path: PathBuf,
    },
    /// What was asked for, a domain or another option, does not exist on this file.
    #[error("{path}: {what}", path = path.display())]
    Unsupported {
        /// The file.
        path: PathBuf,
        /// What is not supported, and what to do.
        what: &'static str,
    },
}

impl Error {
    /// Wraps an answer of the operating system; a full disk becomes its own error.
    pub(crate) fn io(action: &'static str, path: &Path, source: io::Error) -> Error {
        match is_full(&source) {
            true => Error::DiskFull { path: path.to_owned() },
            false => Error::Io { action, path: path.to_owned(), source },
        }
    }
}

/// Whether there is no room: on the disk, by a quota, or in a file of that size.
pub(crate) fn is_full(error: &io::Error) -> bool {
    use io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
    matches!(error.kind(), StorageFull | QuotaExceeded | FileTooLarge)
}

fn holder(pid: Option<u32>) -> String {
    pid.map_or_else(|| "another process".to_owned(), |pid| format!("process {pid}"))
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
            "ask", "begin", "check", "close", "copy", "create", "drop", "free", "give", "hold",
            "lay", "make", "mark", "move", "open", "put", "raise", "read", "remove", "restore",
            "save", "start", "stay", "try", "unlink", "use", "wait",
        ];
        let first = |part: &str| part.split_whitespace().next().unwrap_or_default().to_owned();
        let mut parts = text.split([':', ';']).skip(1);
        parts.any(|part| words.contains(&first(part).as_str()) || part.contains("` lists "))
    }

    /// What to do about an answer of the operating system depends on the answer.
    fn is_plain(error: &Error) -> bool {
        matches!(error, Error::Io { .. })
    }

    #[test]
    fn each_text_says_what_to_do() {
        let path = || PathBuf::from("a.pool");
        // Made where it is refused: what to do depends on what is not supported.
        let options = crate::RegionOptions { read_only: true, ..Default::default() };
        let refused = crate::Region::create(Path::new("none"), 0, &options, |_| Ok::<_, Error>(()));
        let Some(Error::Unsupported { what, .. }) = refused.err() else { panic!() };
        let errors = all! {
            Io { action: "open", path: path(), source: io::Error::other("?") }
            Fault { 0: Fault { offset: 1, len: 2, size: 3 } }
            Exists { path: path() }
            Held { path: path(), pid: None }
            NotAPool { path: path() }
            Damaged { path: path(), what: "?" }
            Truncated { path: path(), len: 1, size: 2 }
            NewerVersion { path: path(), found: 2, known: 1 }
            UnknownFeatures { path: path(), bits: 1 }
            LogMissing { path: path(), generation: 1 }
            LogForeign { path: path(), identity: 1, generation: 1, found_identity: 2, found_generation: 2 }
            LogDamaged { path: path(), sequence: 1, position: 0 }
            Poisoned { path: path(), cause: "?".into() }
            DiskFull { path: path() }
            Removed { path: path() }
            Forked { path: path() }
            ReadOnlyFeatures { path: path(), bits: 1 }
            Oversize { size: 2, size_max: 1 }
            TooLarge { lines: 2, lines_max: 1 }
            EmulationLost { path: path() }
            Unsupported { path: path(), what }
        };
        let wrong = errors.iter().filter(|error| advises(&error.to_string()) == is_plain(error));
        let wrong: Vec<_> = wrong.map(|error| error.to_string()).collect();
        assert!(wrong.is_empty(), "{wrong:#?}");
        assert!(errors.iter().all(|error| !error.to_string().contains('\n')));
    }
}
