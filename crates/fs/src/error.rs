//! What can go wrong in a file system.

use crate::time::Time;

/// Errors of a file system. But for [`Error::Store`] and [`Error::Damaged`], nothing has changed after one.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// There is no such inode (any more). `ENOENT`; `ESTALE` where a name has led to it, which is to be looked for again.
    #[error("there is no inode {inode}")]
    NoSuchInode {
        /// Its number.
        inode: u64,
    },
    /// The directory has no such entry. `ENOENT`.
    #[error("directory {directory} has no entry \"{}\"", name.escape_ascii())]
    NoSuchName {
        /// Inode number of the directory.
        directory: u64,
        /// The name.
        name: Vec<u8>,
    },
    /// The directory has an entry of that name; of directory 0: the store holds a file system. `EEXIST`.
    #[error("{}", name_exists(*directory, name))]
    NameExists {
        /// Inode number of the directory.
        directory: u64,
        /// The name.
        name: Vec<u8>,
    },
    /// `ENOTDIR`.
    #[error("inode {inode} is not a directory")]
    NotADirectory {
        /// Its number.
        inode: u64,
    },
    /// `EISDIR`.
    #[error("inode {inode} is a directory")]
    IsADirectory {
        /// Its number.
        inode: u64,
    },
    /// `ENOTEMPTY`.
    #[error("directory {inode} is not empty: remove its entries first")]
    NotEmpty {
        /// Its number.
        inode: u64,
    },
    /// It is empty, `.` or `..`, or has a slash or a zero byte. `EINVAL`.
    #[error("\"{}\" is no name of a directory entry: use another", name.escape_ascii())]
    InvalidName {
        /// The name.
        name: Vec<u8>,
    },
    /// A name or the target of a symbolic link. `ENAMETOOLONG`.
    #[error("a name of {len} bytes is longer than {max}: use a shorter one")]
    NameTooLong {
        /// Its length, in bytes.
        len: usize,
        /// The longest one.
        max: usize,
    },
    /// What is asked for does not fit to the inode, or to another part of what is asked for. `EINVAL`.
    #[error("inode {inode}: {what}")]
    Invalid {
        /// Its number.
        inode: u64,
        /// What is wrong.
        what: &'static str,
    },
    /// `EPERM`.
    #[error("inode {inode}: {what}")]
    NotPermitted {
        /// Its number.
        inode: u64,
        /// What is not.
        what: &'static str,
    },
    /// `EMLINK`.
    #[error(
        "inode {inode} has as many links as there may be: make a copy of it instead, or remove a link"
    )]
    TooManyLinks {
        /// Its number.
        inode: u64,
    },
    /// `EFBIG`.
    #[error("a file of {size} bytes is larger than a file may be: lay it out as several files")]
    FileTooBig {
        /// The size asked for, in bytes.
        size: u64,
    },
    /// No byte of the wanted kind is at or behind the offset. `ENXIO`.
    #[error("inode {inode} has nothing of that kind at or behind byte {offset}")]
    NothingThere {
        /// Its number.
        inode: u64,
        /// Where it was looked for.
        offset: u64,
    },
    /// No version is kept that was there then. `ENOENT`.
    #[error(
        "no version is kept of what was there at {time}: ask for a later time, or keep more versions (`retain`)"
    )]
    NotKept {
        /// The time asked for.
        time: Time,
    },
    /// `ENODATA`.
    #[error("inode {inode} has no attribute \"{}\"", name.escape_ascii())]
    NoSuchAttribute {
        /// Its number.
        inode: u64,
        /// The name.
        name: Vec<u8>,
    },
    /// `EEXIST`.
    #[error("inode {inode} has an attribute \"{}\" already", name.escape_ascii())]
    AttributeExists {
        /// Its number.
        inode: u64,
        /// The name.
        name: Vec<u8>,
    },
    /// The value of an extended attribute is too long. `E2BIG`.
    #[error("an attribute of {size} bytes is longer than {max}: make it shorter")]
    AttributeTooLong {
        /// Its length, in bytes.
        size: usize,
        /// The longest one.
        max: usize,
    },
    /// The file system may not take so much. `EDQUOT`.
    #[error(
        "{used} bytes are to be written, and {limit} are left of what the file system may have: remove files, or raise the limit"
    )]
    OverLimit {
        /// Bytes that are to be written, in whole pieces.
        used: u64,
        /// Bytes that are left.
        limit: u64,
    },
    /// The store holds no file system: make one with [`Fs::format`](crate::Fs::format).
    #[error("the store holds no file system: make one with `format`")]
    NoFileSystem,
    /// A release that is newer has made it. Nothing was changed.
    #[error(
        "the file system has format version {found}, this release knows {known}: use a newer release"
    )]
    NewerVersion {
        /// The version found.
        found: u32,
        /// The newest one known.
        known: u32,
    },
    /// The size of a piece is a power of two from 512 to 65,536 bytes.
    #[error("pieces of {size} bytes: use a power of two from 512 to 65536")]
    PieceSize {
        /// The size asked for, in bytes.
        size: usize,
    },
    /// A change of the transaction has failed in its middle: it can only be dropped.
    #[error("an earlier change of the transaction has failed: drop it, and begin it again")]
    Broken,
    /// What is on media contradicts itself. Only this inode is affected. `EIO`.
    #[error("inode {inode} is damaged: {what}; restore it from a backup or a snapshot")]
    Damaged {
        /// Its number.
        inode: u64,
        /// What is wrong.
        what: &'static str,
    },
    /// Of the store below.
    #[error(transparent)]
    Store(#[from] tembo_kv::Error),
}

/// Directory 0, which there is not, stands for the store.
fn name_exists(directory: u64, name: &[u8]) -> String {
    match directory {
        0 => "the store holds a file system already: open it".to_owned(),
        _ => format!("directory {directory} has an entry \"{}\" already", name.escape_ascii()),
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

    /// A plain condition of POSIX, whose text says all: a program asks for something else.
    fn is_plain(error: &Error) -> bool {
        matches!(
            error,
            Error::NoSuchInode { .. }
                | Error::NoSuchName { .. }
                | Error::NotADirectory { .. }
                | Error::IsADirectory { .. }
                | Error::Invalid { .. }
                | Error::NotPermitted { .. }
                | Error::NothingThere { .. }
                | Error::NoSuchAttribute { .. }
                | Error::NameExists { directory: 1.., .. }
                | Error::AttributeExists { .. }
        )
    }

    #[test]
    fn each_text_says_what_to_do() {
        let name = || b"a".to_vec();
        let (inode, what) = (2, "?");
        let errors = all! {
            NoSuchInode { inode }
            NoSuchName { directory: 1, name: name() }
            NameExists { directory: 1, name: name() }
            NotADirectory { inode }
            IsADirectory { inode }
            NotEmpty { inode }
            InvalidName { name: name() }
            NameTooLong { len: 2, max: 1 }
            Invalid { inode, what }
            NotPermitted { inode, what }
            TooManyLinks { inode }
            FileTooBig { size: 1 }
            NothingThere { inode, offset: 1 }
            NotKept { time: Time::default() }
            NoSuchAttribute { inode, name: name() }
            AttributeExists { inode, name: name() }
            AttributeTooLong { size: 2, max: 1 }
            OverLimit { used: 2, limit: 1 }
            NoFileSystem {}
            NewerVersion { found: 2, known: 1 }
            PieceSize { size: 1 }
            Broken {}
            Damaged { inode, what }
            Store { 0: tembo_kv::Error::Poisoned }
        };
        let wrong = errors.iter().filter(|error| advises(&error.to_string()) == is_plain(error));
        let wrong: Vec<_> = wrong.map(|error| error.to_string()).collect();
        assert!(wrong.is_empty(), "{wrong:#?}");
        assert!(errors.iter().all(|error| !error.to_string().contains('\n')));
        let made_twice = Error::NameExists { directory: 0, name: name() };
        assert!(advises(&made_twice.to_string()));
    }
}
