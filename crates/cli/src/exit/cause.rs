//! Which error has which exit code.

use std::io;

use tembo_heap as heap;
use tembo_kv as kv;
use tembo_pmem as pmem;
use tembo_pool as pool;
use tembo_server as server;

use super::code::Exit;
use super::refusal::Refusal;

/// The exit code that stands for one cause of an error, if one does.
pub(super) fn exit(cause: &(dyn std::error::Error + 'static)) -> Option<Exit> {
    if let Some(refusal) = cause.downcast_ref::<Refusal>() {
        return Some(refusal.exit);
    }
    if let Some(error) = cause.downcast_ref::<server::Error>() {
        return of_server(error);
    }
    if let Some(error) = cause.downcast_ref::<kv::BackupError>() {
        return of_backup(error);
    }
    if let Some(error) = cause.downcast_ref::<tembo_fs::Error>() {
        return of_fs(error);
    }
    if let Some(error) = cause.downcast_ref::<tembo_array::Error>() {
        return of_array(error);
    }
    if let Some(tembo_nbd::Error::Bind { source, .. }) = cause.downcast_ref() {
        return of_io(source);
    }
    if let Some(error) = cause.downcast_ref::<tembo_sqlite::FileError>() {
        return of_database(error);
    }
    if let Some(tembo_sqlite::OwnerError::Socket { source, .. }) = cause.downcast_ref() {
        return of_io(source);
    }
    if let Some(error) = cause.downcast_ref::<heap::Error>() {
        return of_heap(error);
    }
    if let Some(error) = cause.downcast_ref::<kv::Error>() {
        return of_kv(error);
    }
    if let Some(error) = cause.downcast_ref::<pool::Error>() {
        return of_pool(error);
    }
    if let Some(error) = cause.downcast_ref::<pmem::Error>() {
        return of_pmem(error);
    }
    of_io(cause.downcast_ref::<io::Error>()?)
}

fn of_server(error: &server::Error) -> Option<Exit> {
    match error {
        server::Error::Bind { source, .. }
        | server::Error::UnixSocket { source, .. }
        | server::Error::ConfigFile { source, .. }
        | server::Error::Io { source, .. } => of_io(source),
        server::Error::Unprotected { .. } => Some(Exit::Unprotected),
        server::Error::Config(_) | server::Error::Directive { .. } | server::Error::Tls { .. } => {
            Some(Exit::Usage)
        }
        server::Error::NotServed { .. } => Some(Exit::ReadOnly),
        server::Error::Poisoned => Some(Exit::Poisoned),
        server::Error::Store(error) => of_kv(error),
        _ => None,
    }
}

fn of_backup(error: &kv::BackupError) -> Option<Exit> {
    match error {
        kv::BackupError::Exists { .. } | kv::BackupError::InTheWay { .. } => Some(Exit::Exists),
        kv::BackupError::Io { source, .. } => of_io(source),
        kv::BackupError::NotABackup { .. } | kv::BackupError::Damaged { .. } => {
            Some(Exit::BackupDamaged)
        }
        kv::BackupError::NewerVersion { .. } => Some(Exit::NewerVersion),
        kv::BackupError::OtherPool { .. } | kv::BackupError::NotInARow { .. } => {
            Some(Exit::NotInARow)
        }
        kv::BackupError::Store(error) => of_kv(error),
        _ => None,
    }
}

fn of_fs(error: &tembo_fs::Error) -> Option<Exit> {
    match error {
        tembo_fs::Error::Store(error) => of_kv(error),
        tembo_fs::Error::Damaged { .. } => Some(Exit::Damaged),
        tembo_fs::Error::NoFileSystem => Some(Exit::NotAPool),
        tembo_fs::Error::NotKept { .. } => Some(Exit::NotKept),
        _ => None,
    }
}

fn of_array(error: &tembo_array::Error) -> Option<Exit> {
    match error {
        tembo_array::Error::Store(error) => of_kv(error),
        // Another device of the name is not the one that was asked for.
        tembo_array::Error::NoSuchDevice { .. } | tembo_array::Error::NotComparable => {
            Some(Exit::NoDevice)
        }
        tembo_array::Error::DeviceExists { .. } => Some(Exit::Exists),
        tembo_array::Error::BlockSize { .. }
        | tembo_array::Error::DeviceName { .. }
        | tembo_array::Error::OutOfRange { .. } => Some(Exit::Usage),
        tembo_array::Error::OriginLost { .. } => Some(Exit::NotKept),
        tembo_array::Error::Damaged { .. } => Some(Exit::CheckFailed),
        _ => None,
    }
}

fn of_database(error: &tembo_sqlite::FileError) -> Option<Exit> {
    match error {
        tembo_sqlite::FileError::NotADatabase { .. } | tembo_sqlite::FileError::Damaged { .. } => {
            Some(Exit::NotADatabase)
        }
        tembo_sqlite::FileError::Busy { .. } => Some(Exit::FileBusy),
        tembo_sqlite::FileError::Io { source, .. } => match source.kind() {
            io::ErrorKind::AlreadyExists => Some(Exit::Exists),
            _ => of_io(source),
        },
        tembo_sqlite::FileError::Device(error) => of_array(error),
        _ => None,
    }
}

fn of_heap(error: &heap::Error) -> Option<Exit> {
    match error {
        heap::Error::Pool(error) => of_pool(error),
        heap::Error::Damaged { .. } => Some(Exit::CheckFailed),
        _ => None,
    }
}

fn of_kv(error: &kv::Error) -> Option<Exit> {
    match error {
        kv::Error::Full(error) | kv::Error::NotDurable(error) => of_pool(error),
        kv::Error::Poisoned => Some(Exit::Poisoned),
        kv::Error::Pool(error) => of_pool(error),
        kv::Error::Region(error) => of_pmem(error),
        kv::Error::Index(_) | kv::Error::Corrupt { .. } | kv::Error::Damaged { .. } => {
            Some(Exit::CheckFailed)
        }
        kv::Error::NoSuchStore { .. } => Some(Exit::NoStore),
        kv::Error::ReadOnly => Some(Exit::ReadOnly),
        kv::Error::Unordered => Some(Exit::Unordered),
        kv::Error::NotRetained { .. }
        | kv::Error::NoSuchName { .. }
        | kv::Error::HistoryForgotten { .. } => Some(Exit::NotKept),
        _ => None,
    }
}

fn of_pool(error: &pool::Error) -> Option<Exit> {
    match error {
        pool::Error::Region(error) => of_pmem(error),
        pool::Error::NotAPool { .. } => Some(Exit::NotAPool),
        pool::Error::NewerVersion { .. } | pool::Error::NewerTenant { .. } => {
            Some(Exit::NewerVersion)
        }
        pool::Error::UnknownFeature { .. }
        | pool::Error::UnknownTenant { .. }
        | pool::Error::UnknownTenantFeature { .. } => Some(Exit::UnknownFeature),
        pool::Error::Checksum { .. }
        | pool::Error::Damaged { .. }
        | pool::Error::DamagedTenant { .. }
        | pool::Error::BadGeometry { .. } => Some(Exit::Damaged),
        pool::Error::Truncated { .. } => Some(Exit::Truncated),
        pool::Error::PoolFull { .. } => Some(Exit::PoolFull),
        pool::Error::OutOfBounds { .. }
        | pool::Error::Misplaced { .. }
        | pool::Error::NoSuchWord { .. }
        | pool::Error::Dangling { .. }
        | pool::Error::Overlap { .. } => Some(Exit::CheckFailed),
        _ => None,
    }
}

fn of_pmem(error: &pmem::Error) -> Option<Exit> {
    match error {
        pmem::Error::Io { source, .. } => of_io(source),
        pmem::Error::Fault(_) => Some(Exit::CheckFailed),
        pmem::Error::Held { .. } => Some(Exit::Held),
        pmem::Error::NotAPool { .. } => Some(Exit::NotAPool),
        pmem::Error::Damaged { .. } => Some(Exit::Damaged),
        pmem::Error::Truncated { .. } => Some(Exit::Truncated),
        pmem::Error::NewerVersion { .. } => Some(Exit::NewerVersion),
        pmem::Error::UnknownFeatures { .. } | pmem::Error::ReadOnlyFeatures { .. } => {
            Some(Exit::UnknownFeature)
        }
        pmem::Error::LogMissing { .. } => Some(Exit::LogMissing),
        pmem::Error::LogForeign { .. } => Some(Exit::LogForeign),
        pmem::Error::LogDamaged { .. } => Some(Exit::LogDamaged),
        pmem::Error::Removed { .. } => Some(Exit::Removed),
        pmem::Error::Poisoned { .. } => Some(Exit::Poisoned),
        pmem::Error::DiskFull { .. } => Some(Exit::DiskFull),
        pmem::Error::EmulationLost { .. } => Some(Exit::EmulationLost),
        pmem::Error::Unsupported { .. } => Some(Exit::Unsupported),
        _ => None,
    }
}

fn of_io(error: &io::Error) -> Option<Exit> {
    match error.kind() {
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
            Some(Exit::NoPermission)
        }
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge => {
            Some(Exit::DiskFull)
        }
        io::ErrorKind::AddrInUse => Some(Exit::AddressInUse),
        io::ErrorKind::AlreadyExists => Some(Exit::Exists),
        _ => None,
    }
}
