//! SQLite's locks of a database file: ranges of bytes far behind its begin (`os_unix.c`).

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

/// One that waits to write keeps new readers out.
const PENDING: (i64, i64) = (0x4000_0000, 1);

/// One that will write, and does not yet.
const RESERVED: (i64, i64) = (0x4000_0001, 1);

/// Readers lock it for reading, the writer for writing.
const SHARED: (i64, i64) = (0x4000_0002, 510);

fn lock_of(kind: i32, (start, len): (i64, i64)) -> libc::flock {
    libc::flock {
        l_type: kind as libc::c_short,
        l_whence: libc::SEEK_SET as libc::c_short,
        l_start: start,
        l_len: len,
        l_pid: 0,
    }
}

/// Locks a range until the file is closed; false: another process is in the way.
fn lock(file: &File, kind: i32, range: (i64, i64)) -> io::Result<bool> {
    let lock = lock_of(kind, range);
    // SAFETY: the file is open, and the lock is one.
    if unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_SETLK, &raw const lock) } == 0 {
        return Ok(true);
    }
    match io::Error::last_os_error() {
        error if error.kind() == io::ErrorKind::WouldBlock => Ok(false),
        error if error.kind() == io::ErrorKind::PermissionDenied => Ok(false),
        error => Err(error),
    }
}

/// Whether another process has a lock in a range.
fn is_locked(file: &File, range: (i64, i64)) -> io::Result<bool> {
    let mut lock = lock_of(libc::F_WRLCK, range);
    // SAFETY: the file is open, and the lock is one.
    match unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_GETLK, &raw mut lock) } {
        0 => Ok(i32::from(lock.l_type) != libc::F_UNLCK),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Keeps others from changing the database until the file is closed, and from beginning to read it if the file is open for
/// writing; false: another process is about to change it.
pub(super) fn keep_writers_out(file: &File, is_writable: bool) -> io::Result<bool> {
    let is_pending = match is_writable {
        true => !lock(file, libc::F_WRLCK, PENDING)?,
        false => is_locked(file, PENDING)?,
    };
    Ok(!is_pending && lock(file, libc::F_RDLCK, SHARED)?)
}

/// Whether another process is in a transaction that writes, or will.
pub(super) fn has_writer(file: &File) -> io::Result<bool> {
    is_locked(file, RESERVED)
}

/// Whether another process reads the database, or has it open with a WAL.
pub(super) fn has_readers(file: &File) -> io::Result<bool> {
    is_locked(file, SHARED)
}
