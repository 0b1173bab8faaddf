//! Errors as programs know them.

use fuser::Errno;
use tembo_fs::Error;
use tembo_kv::Error as StoreError;

/// The number that a program gets.
pub(crate) fn errno(error: &Error) -> Errno {
    match error {
        Error::NoSuchInode { .. } | Error::NoSuchName { .. } | Error::NotKept { .. } => {
            Errno::ENOENT
        }
        Error::NameExists { .. } | Error::AttributeExists { .. } => Errno::EEXIST,
        Error::NotADirectory { .. } => Errno::ENOTDIR,
        Error::IsADirectory { .. } => Errno::EISDIR,
        Error::NotEmpty { .. } => Errno::ENOTEMPTY,
        Error::InvalidName { .. } | Error::Invalid { .. } => Errno::EINVAL,
        Error::NameTooLong { .. } => Errno::ENAMETOOLONG,
        Error::NotPermitted { .. } => Errno::EPERM,
        Error::TooManyLinks { .. } => Errno::EMLINK,
        Error::FileTooBig { .. } => Errno::EFBIG,
        Error::NothingThere { .. } => Errno::ENXIO,
        Error::NoSuchAttribute { .. } => Errno::ENODATA,
        Error::AttributeTooLong { .. } => Errno::E2BIG,
        Error::OverLimit { .. } => Errno::EDQUOT,
        // Of the second the content is there and not durable, as behind a `fsync` on a full disk; of a commit see below.
        Error::Store(StoreError::Full(_) | StoreError::NotDurable(_)) => Errno::ENOSPC,
        Error::Store(StoreError::ReadOnly | StoreError::IsReplica) => Errno::EROFS,
        Error::Store(StoreError::Conflict { held_by: Some(_), .. }) => Errno::EBUSY,
        // Programs repeat what gets EAGAIN, and a transaction that has lost stays lost.
        Error::Store(StoreError::Conflict { .. }) | Error::Broken => Errno::ECANCELED,
        Error::Store(StoreError::SnapshotName { .. }) => Errno::ENAMETOOLONG,
        _ => Errno::EIO,
    }
}

/// The number that a program gets of a commit. With `EIO` it may be seen and not be durable; with all others nothing was done.
pub(crate) fn errno_of_commit(error: &Error) -> Errno {
    match error {
        Error::Store(StoreError::NotDurable(_)) => Errno::EIO,
        error => errno(error),
    }
}

#[cfg(test)]
mod tests {
    use tembo_kv::pool;

    use super::*;

    #[test]
    fn a_commit_that_is_seen_and_not_durable_is_none_that_was_not_done() {
        let full = || pool::Error::PoolFull { size: 1, recovering: false };
        let codes = |error: Error| (errno(&error).code(), errno_of_commit(&error).code());
        let (full_disk, failed) = (Errno::ENOSPC.code(), Errno::EIO.code());
        assert_eq!(codes(StoreError::Full(full()).into()), (full_disk, full_disk));
        assert_eq!(codes(StoreError::NotDurable(full()).into()), (full_disk, failed));
        assert_eq!(codes(StoreError::Poisoned.into()), (failed, failed));
    }
}
