//! Inodes and times as FUSE has them.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use fuser::{FileAttr, FileType, INodeNo, TimeOrNow};
use tembo_fs::{Entry, FileKind, Inode, Time};

/// How long the kernel may keep names and attributes: all changes come through it.
pub(crate) const TTL: Duration = Duration::from_secs(60);

/// Bytes of a block, of which `st_blocks` counts.
const BLOCK: u64 = 512;

pub(crate) fn now() -> Time {
    time(SystemTime::now())
}

pub(crate) fn time(time: SystemTime) -> Time {
    match time.duration_since(UNIX_EPOCH) {
        Ok(since) => Time { seconds: since.as_secs() as i64, nanoseconds: since.subsec_nanos() },
        // Before 1970: the nanoseconds count forward too.
        Err(before) => {
            let before = before.duration();
            let (seconds, rest) = (-(before.as_secs() as i64), before.subsec_nanos());
            match rest {
                0 => Time { seconds, nanoseconds: 0 },
                rest => Time { seconds: seconds - 1, nanoseconds: 1_000_000_000 - rest },
            }
        }
    }
}

pub(crate) fn time_or_now(given: TimeOrNow) -> Time {
    match given {
        // Of a time before 1970 the library takes the nanoseconds, which count forward, from the seconds: what it gives is as far
        // before 1970 as both together.
        TimeOrNow::SpecificTime(given) => match given.duration_since(UNIX_EPOCH) {
            Ok(_) => time(given),
            Err(before) => {
                let before = before.duration();
                Time { seconds: -(before.as_secs() as i64), nanoseconds: before.subsec_nanos() }
            }
        },
        TimeOrNow::Now => now(),
    }
}

fn system_time(time: Time) -> SystemTime {
    let seconds = Duration::from_secs(time.seconds.unsigned_abs());
    let whole = match time.seconds {
        0.. => UNIX_EPOCH.checked_add(seconds),
        _ => UNIX_EPOCH.checked_sub(seconds),
    };
    let rest = Duration::from_nanos(u64::from(time.nanoseconds.min(999_999_999)));
    whole.and_then(|whole| whole.checked_add(rest)).unwrap_or(UNIX_EPOCH)
}

pub(crate) fn file_type(kind: FileKind) -> FileType {
    match kind {
        FileKind::Fifo => FileType::NamedPipe,
        FileKind::CharacterDevice => FileType::CharDevice,
        FileKind::Directory => FileType::Directory,
        FileKind::BlockDevice => FileType::BlockDevice,
        FileKind::Regular => FileType::RegularFile,
        FileKind::Symlink => FileType::Symlink,
        FileKind::Socket => FileType::Socket,
    }
}

/// The attributes of an inode, under the number that the kernel knows.
pub(crate) fn attributes(inode: &Inode, number: INodeNo, piece_size: usize) -> FileAttr {
    FileAttr {
        ino: number,
        size: inode.size,
        blocks: inode.pieces_shown(piece_size).saturating_mul(piece_size as u64 / BLOCK),
        atime: system_time(inode.accessed),
        mtime: system_time(inode.modified),
        ctime: system_time(inode.changed),
        crtime: system_time(inode.born),
        kind: file_type(inode.kind),
        perm: inode.permissions,
        nlink: inode.links,
        uid: inode.user,
        gid: inode.group,
        rdev: inode.device as u32,
        blksize: piece_size as u32,
        flags: 0,
    }
}

/// The attributes of an entry whose inode cannot be read.
pub(crate) fn unknown(entry: &Entry) -> FileAttr {
    blank(INodeNo(entry.inode), file_type(entry.kind))
}

/// What the kernel takes for a name that is not there.
pub(crate) fn nothing() -> FileAttr {
    blank(INodeNo(0), FileType::RegularFile)
}

fn blank(number: INodeNo, kind: FileType) -> FileAttr {
    FileAttr {
        ino: number,
        size: 0,
        blocks: 0,
        atime: UNIX_EPOCH,
        mtime: UNIX_EPOCH,
        ctime: UNIX_EPOCH,
        crtime: UNIX_EPOCH,
        kind,
        perm: 0,
        nlink: 1,
        uid: 0,
        gid: 0,
        rdev: 0,
        blksize: 512,
        flags: 0,
    }
}
