//! Traffic between a process and the disk, as the kernel counts it.

use std::fs;
use std::path::Path;

use rustix::fs::{major, minor, stat};
use serde::{Deserialize, Serialize};

/// Bytes read and written since some moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Traffic {
    /// Read from the disk.
    pub read: u64,
    /// Written to it, or to pages that go to it later.
    pub written: u64,
}

impl Traffic {
    /// The traffic of a process with all its threads. It does not include what the file system writes for itself, like its
    /// journal.
    pub(super) fn of_process(id: u32) -> Option<Traffic> {
        let text = fs::read_to_string(format!("/proc/{id}/io")).ok()?;
        let field = |name| {
            let line = text.lines().find_map(|line| line.strip_prefix(name));
            line.and_then(|bytes| bytes.trim().parse().ok())
        };
        Some(Traffic { read: field("read_bytes:")?, written: field("write_bytes:")? })
    }

    /// The traffic of the disk below a folder, by all that use it. `None`: the folder has no block device of its own.
    pub(crate) fn of_disk(folder: &Path) -> Option<Traffic> {
        let device = stat(folder).ok()?.st_dev;
        let path = format!("/sys/dev/block/{}:{}/stat", major(device), minor(device));
        let text = fs::read_to_string(path).ok()?;
        let fields: Vec<u64> = text.split_whitespace().map_while(|f| f.parse().ok()).collect();
        // In sectors of 512 bytes, whatever the disk has.
        Some(Traffic { read: fields.get(2)? * 512, written: fields.get(6)? * 512 })
    }

    pub(super) fn since(self, before: Traffic) -> Traffic {
        Traffic {
            read: self.read.saturating_sub(before.read),
            written: self.written.saturating_sub(before.written),
        }
    }
}

/// Bytes that a process has in memory.
pub(super) fn resident_bytes() -> u64 {
    let text = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok());
    kib.unwrap_or_default() * 1024
}

/// Bytes that the files of a folder take on the disk.
pub(super) fn folder_bytes(folder: &Path) -> u64 {
    let Ok(entries) = fs::read_dir(folder) else { return 0 };
    let bytes = entries.flatten().map(|entry| match entry.file_type() {
        Ok(kind) if kind.is_dir() => folder_bytes(&entry.path()),
        _ => stat(entry.path()).map_or(0, |stat| stat.st_blocks.unsigned_abs() * 512),
    });
    bytes.sum()
}
