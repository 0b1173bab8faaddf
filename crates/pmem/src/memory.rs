//! How much memory there is for this process.

use std::fs;
use std::path::{Path, PathBuf};

/// Bytes of memory that the process may use: what the machine has, or less where its control groups
/// (version 2) say so. `None` where the system does not tell.
pub fn memory_max() -> Option<u64> {
    let machine = fs::read_to_string("/proc/meminfo").ok().and_then(|text| total(&text));
    let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let group = PathBuf::from(format!("/sys/fs/cgroup{}", group(&groups)));
    let limits = group.ancestors().filter_map(limit_of);
    limits.chain(machine).min()
}

/// `MemTotal` of `/proc/meminfo`, in bytes.
fn total(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

/// The group of version 2 in `/proc/self/cgroup`.
fn group(text: &str) -> &str {
    text.lines().find_map(|line| line.strip_prefix("0::")).unwrap_or("/")
}

fn limit_of(group: &Path) -> Option<u64> {
    fs::read_to_string(group.join("memory.max")).ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_systems_words_are_understood() {
        assert_eq!(total("MemFree: 1 kB\nMemTotal:       24567890 kB\n"), Some(24_567_890 << 10));
        assert_eq!(total("nothing"), None);
        assert_eq!(group("1:name=systemd:/a\n0::/user.slice/x\n"), "/user.slice/x");
        assert_eq!(group(""), "/");
        assert!(memory_max().is_none_or(|bytes| bytes > 1 << 20));
    }
}
