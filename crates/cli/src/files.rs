//! What the commands share that work on a file system.

use std::time::{SystemTime, UNIX_EPOCH};

use tembo_fs::{FileKind, New, Time};

/// Bytes of a file that are copied at a time.
pub(crate) const COPIED: usize = 1 << 20;

/// The time.
pub(crate) fn now() -> Time {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Time { seconds: since.as_secs() as i64, nanoseconds: since.subsec_nanos() }
}

/// A root that belongs to the user that runs this.
pub(crate) fn own_root() -> New {
    New {
        kind: FileKind::Directory,
        permissions: 0o755,
        user: rustix::process::geteuid().as_raw(),
        group: rustix::process::getegid().as_raw(),
        device: 0,
        umask: None,
    }
}
