//! What can go wrong with a backup.

use std::io;
use std::path::PathBuf;

use crate::Error;

/// Errors of backup and restore.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BackupError {
    /// Something has that name already; it was left as it is.
    #[error("{} exists already: use another name, or move it away", path.display())]
    Exists {
        /// What exists.
        path: PathBuf,
    },
    /// Where the backup is written until it is whole, lies something else than what a backup has begun: a link, a pipe, a
    /// folder. It was left as it is.
    #[error("{} is in the way, and is no file that a backup has begun: remove it", path.display())]
    InTheWay {
        /// What is in the way.
        path: PathBuf,
    },
    /// It was asked to stop; the same backup goes on where it ended.
    #[error("the backup {} was interrupted: start the same backup again, it goes on where it ended", path.display())]
    Interrupted {
        /// The backup.
        path: PathBuf,
    },
    /// Reading or writing a file failed.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// The file is not a backup.
    #[error("{} is not a backup: check the path", path.display())]
    NotABackup {
        /// The file.
        path: PathBuf,
    },
    /// The backup has a newer format.
    #[error("{} has format {version}, which is newer than {known}: use a newer version", path.display())]
    NewerVersion {
        /// The file.
        path: PathBuf,
        /// Its format.
        version: u32,
        /// The newest that is known.
        known: u32,
    },
    /// The backup is damaged, or was cut off.
    #[error("{} is damaged at byte {offset}: {what}; use another copy of it, or the backup before", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Where.
        offset: u64,
        /// What should have been there.
        what: &'static str,
    },
    /// The backup was taken from another pool.
    #[error("{} is a backup of another pool: give one of the same pool", path.display())]
    OtherPool {
        /// The file.
        path: PathBuf,
    },
    /// An incremental backup does not follow what comes before it.
    #[error("{} begins at version {found}, and what comes before ends at {expected}: \
         give a whole backup first, then each that follows it, in order", path.display())]
    NotInARow {
        /// The file.
        path: PathBuf,
        /// The version where what comes before it ends; 0: nothing comes before it.
        expected: u64,
        /// The version since which it has the changes; 0: it is everything.
        found: u64,
    },
    /// Of the store.
    #[error(transparent)]
    Store(#[from] Error),
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each variant with fields; one that is not listed does not compile.
    macro_rules! all {
        ($($variant:ident { $($field:tt)* })*) => {{
            let _ = |error: &BackupError| match error {
                $(BackupError::$variant { .. } => {})*
            };
            [$(BackupError::$variant { $($field)* }),*]
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

    /// What to do about an answer of the operating system depends on the answer.
    fn needs_none(error: &BackupError) -> bool {
        matches!(error, BackupError::Io { .. })
    }

    #[test]
    fn each_text_says_what_to_do() {
        let path = || PathBuf::from("a.backup");
        let errors = all! {
            Exists { path: path() }
            InTheWay { path: path() }
            Interrupted { path: path() }
            Io { path: path(), source: io::Error::other("?") }
            NotABackup { path: path() }
            NewerVersion { path: path(), version: 2, known: 1 }
            Damaged { path: path(), offset: 1, what: "?" }
            OtherPool { path: path() }
            NotInARow { path: path(), expected: 1, found: 2 }
            Store { 0: Error::Poisoned }
        };
        let wrong = errors.iter().filter(|error| advises(&error.to_string()) == needs_none(error));
        let wrong: Vec<_> = wrong.map(|error| error.to_string()).collect();
        assert!(wrong.is_empty(), "{wrong:#?}");
        assert!(errors.iter().all(|error| !error.to_string().contains('\n')));
    }
}
