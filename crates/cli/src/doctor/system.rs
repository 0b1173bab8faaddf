//! What the system says about itself.

use std::fs;
use std::path::Path;

use anyhow::Context;
use serde::Serialize;

/// Numbers of file systems (`statfs`), with whether they are memory only.
const FILESYSTEMS: &[(i64, &str, bool)] = &[
    (0x0102_1994, "tmpfs", true),
    (0x8584_58f6, "ramfs", true),
    (0x9584_58f6, "hugetlbfs", true),
    (0xef53, "ext4", false),
    (0x5846_5342, "xfs", false),
    (0x9123_683e, "btrfs", false),
    (0x2fc1_2fc1, "zfs", false),
    (0x794c_7630, "overlayfs", false),
    (0x6969, "nfs", false),
    (0x6573_5546, "fuse", false),
    (0x0102_1997, "9p", false),
];

/// The file system at `path`, and whether it is memory only.
pub(super) fn filesystem(path: &Path) -> anyhow::Result<(String, bool)> {
    let kind = rustix::fs::statfs(path).context("statfs")?.f_type;
    let known = FILESYSTEMS.iter().find(|(number, ..)| *number == kind);
    Ok(known.map_or((format!("{kind:#x}"), false), |(_, name, memory)| ((*name).into(), *memory)))
}

/// The flags in the description of the first processor.
pub(super) fn processor_flags() -> Vec<String> {
    let text = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let flags = text.lines().find(|line| line.starts_with("flags"));
    flags.map(|line| line.split_whitespace().map(str::to_owned).collect()).unwrap_or_default()
}

/// Large pages.
#[derive(Serialize)]
pub(super) struct Pages {
    /// For private memory.
    pub(super) transparent: String,
    /// For shared memory and tmpfs.
    pub(super) shared: String,
    /// Reserved for hugetlbfs.
    pub(super) reserved: u64,
}

impl Pages {
    pub(super) fn read() -> Pages {
        let memory = fs::read_to_string("/proc/meminfo").unwrap_or_default();
        let reserved = memory.lines().find_map(|line| line.strip_prefix("HugePages_Total:"));
        Pages {
            transparent: chosen("/sys/kernel/mm/transparent_hugepage/enabled"),
            shared: chosen("/sys/kernel/mm/transparent_hugepage/shmem_enabled"),
            reserved: reserved.and_then(|count| count.trim().parse().ok()).unwrap_or(0),
        }
    }
}

/// The word in brackets, as in `always [madvise] never`.
fn chosen(path: &str) -> String {
    let text = fs::read_to_string(path).unwrap_or_default();
    let word = text.split_once('[').and_then(|(_, rest)| rest.split_once(']'));
    word.map_or("unknown", |(word, _)| word).to_owned()
}
