//! SQLite's numbers: result codes, flags, locks, file controls.

use std::ffi::c_int;

use tembo_array::Error;
use tembo_kv as kv;

/// A result that is not OK.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Code(pub(crate) c_int);

pub(crate) const OK: c_int = 0;
pub(crate) const OK_LOAD_PERMANENTLY: c_int = 256;

impl Code {
    /// What is not possible, whatever the disk does.
    pub(crate) const REFUSED: Code = Code(1);
    pub(crate) const PERM: Code = Code(3);
    pub(crate) const BUSY: Code = Code(5);
    pub(crate) const READONLY: Code = Code(8);
    pub(crate) const IOERR: Code = Code(10);
    pub(crate) const CORRUPT: Code = Code(11);
    pub(crate) const NOTFOUND: Code = Code(12);
    pub(crate) const FULL: Code = Code(13);
    pub(crate) const CANTOPEN: Code = Code(14);
    pub(crate) const MISUSE: Code = Code(21);
    pub(crate) const NOTADB: Code = Code(26);
    pub(crate) const BUSY_SNAPSHOT: Code = Code(5 | 2 << 8);
    pub(crate) const IOERR_SHORT_READ: Code = Code(10 | 2 << 8);
    pub(crate) const IOERR_FSYNC: Code = Code(10 | 4 << 8);
}

impl Code {
    /// As an error of a commit that is complete: one with which SQLite does not try it again.
    pub(crate) fn of_commit(self) -> Code {
        if self == Code::FULL || self.0 & 0xff == Code::IOERR.0 { self } else { Code::IOERR }
    }
}

impl From<Error> for Code {
    fn from(error: Error) -> Code {
        match error {
            Error::Conflict { .. } => Code::BUSY_SNAPSHOT,
            Error::OutOfRange { .. } | Error::LogFull { .. } => Code::FULL,
            Error::Damaged { .. } => Code::CORRUPT,
            Error::NoSuchDevice { .. } | Error::OriginLost { .. } => Code::CANTOPEN,
            Error::Store(error) => error.into(),
            _ => Code::IOERR,
        }
    }
}

impl From<kv::Error> for Code {
    fn from(error: kv::Error) -> Code {
        match error {
            kv::Error::Full(_) => Code::FULL,
            kv::Error::ReadOnly | kv::Error::IsReplica => Code::READONLY,
            kv::Error::SnapshotName { .. } => Code::REFUSED,
            kv::Error::Conflict { .. } | kv::Error::WouldDeadlock => Code::BUSY,
            kv::Error::Corrupt { .. } | kv::Error::Damaged { .. } => Code::CORRUPT,
            // Visible, and not durable: as after a sync that failed.
            kv::Error::NotDurable(_) | kv::Error::Poisoned => Code::IOERR_FSYNC,
            _ => Code::IOERR,
        }
    }
}

pub(crate) const OPEN_READONLY: c_int = 0x1;
pub(crate) const OPEN_READWRITE: c_int = 0x2;
pub(crate) const OPEN_CREATE: c_int = 0x4;
pub(crate) const OPEN_DELETEONCLOSE: c_int = 0x8;
pub(crate) const OPEN_EXCLUSIVE: c_int = 0x10;
pub(crate) const OPEN_MAIN_DB: c_int = 0x100;
pub(crate) const OPEN_MAIN_JOURNAL: c_int = 0x800;
pub(crate) const OPEN_TEMP_JOURNAL: c_int = 0x1000;
pub(crate) const OPEN_SUPER_JOURNAL: c_int = 0x4000;
pub(crate) const OPEN_WAL: c_int = 0x80000;

pub(crate) const ACCESS_EXISTS: c_int = 0;

/// What can be relied on: writes to the database are atomic and in order, whatever a crash does.
pub(crate) const CHARACTERISTICS: c_int = 0x200 | IOCAP_SEQUENTIAL | 0x800 | 0x1000;

/// With it SQLite does not sync a super-journal.
pub(crate) const IOCAP_SEQUENTIAL: c_int = 0x400;

pub(crate) const LOCK_NONE: c_int = 0;
pub(crate) const LOCK_SHARED: c_int = 1;
pub(crate) const LOCK_RESERVED: c_int = 2;

pub(crate) const FCNTL_LOCK_STATE: c_int = 1;
pub(crate) const FCNTL_SIZE_HINT: c_int = 5;
pub(crate) const FCNTL_OVERWRITE: c_int = 11;
pub(crate) const FCNTL_VFSNAME: c_int = 12;
pub(crate) const FCNTL_PRAGMA: c_int = 14;
pub(crate) const FCNTL_HAS_MOVED: c_int = 20;
pub(crate) const FCNTL_SYNC: c_int = 21;
pub(crate) const FCNTL_COMMIT_PHASETWO: c_int = 22;
pub(crate) const FCNTL_PDB: c_int = 30;
