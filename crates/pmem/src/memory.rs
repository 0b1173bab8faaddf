//! How much memory there is for this process.

use std::fs;
use std::path::PathBuf;

/// Bytes of memory that the process may use: what the machine has, or less where its control groups
/// (of either version) say so. `None` where the system does not say it.
pub fn memory_max() -> Option<u64> {
    let machine = fs::read_to_string("/proc/meminfo").ok().and_then(|text| total(&text));
    let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let limits = limit_files(&groups)
        .into_iter()
        .filter_map(|file| fs::read_to_string(file).ok()?.trim().parse().ok());
    limits.chain(machine).min()
}

/// Bytes of memory that belong to the process alone: private copies of pages, and what it allocated. `None` where the
/// system does not say it.
pub fn memory_used() -> Option<u64> {
    let text = fs::read_to_string("/proc/self/statm").ok()?;
    let mut pages = text.split_whitespace().skip(1).map(str::parse::<u64>);
    let (resident, shared) = (pages.next()?.ok()?, pages.next()?.ok()?);
    Some(resident.saturating_sub(shared) * rustix::param::page_size() as u64)
}

/// `MemTotal` of `/proc/meminfo`, in bytes.
fn total(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

/// Where the limits stand of the groups in `/proc/self/cgroup`, and of the groups around them.
fn limit_files(groups: &str) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for line in groups.lines() {
        let (root, group, name) = match line.splitn(3, ':').collect::<Vec<_>>()[..] {
            ["0", "", group] => ("/sys/fs/cgroup", group, "memory.max"),
            [_, "memory", group] => ("/sys/fs/cgroup/memory", group, "memory.limit_in_bytes"),
            _ => continue,
        };
        let group = PathBuf::from(format!("{root}{group}"));
        let around = group.ancestors().take_while(|group| group.starts_with(root));
        files.extend(around.map(|group| group.join(name)));
    }
    files
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_systems_words_are_understood() {
        assert_eq!(total("MemFree: 1 kB\nMemTotal:       24567890 kB\n"), Some(24_567_890 << 10));
        assert_eq!(total("nothing"), None);
        assert!(memory_max().is_none_or(|bytes| bytes > 1 << 20));
        let before = memory_used().unwrap();
        let mine = std::hint::black_box(vec![1_u8; 64 << 20]);
        assert!(memory_used().unwrap() > before + (60 << 20), "{}", mine.len());
    }

    #[test]
    fn the_limits_of_both_versions_are_found() {
        let files = |groups| -> Vec<String> {
            let files = limit_files(groups);
            files.iter().map(|file| file.to_string_lossy().into_owned()).collect()
        };
        assert_eq!(
            files("1:name=systemd:/a\n0::/user.slice/x\n"),
            [
                "/sys/fs/cgroup/user.slice/x/memory.max",
                "/sys/fs/cgroup/user.slice/memory.max",
                "/sys/fs/cgroup/memory.max"
            ]
        );
        assert_eq!(
            files("4:memory:/box\n3:cpu:/y\n"),
            [
                "/sys/fs/cgroup/memory/box/memory.limit_in_bytes",
                "/sys/fs/cgroup/memory/memory.limit_in_bytes"
            ]
        );
        assert!(files("").is_empty());
    }
}
