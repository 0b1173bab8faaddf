//! The memory of the process.

/// The process's resident bytes, as the system counts them, and those of them that are of files.
pub(crate) fn resident_bytes() -> (u64, u64) {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let mut pages = text.split(' ').skip(1).map_while(|pages| pages.parse::<u64>().ok());
    let mut bytes = || pages.next().unwrap_or(0) * rustix::param::page_size() as u64;
    (bytes(), bytes())
}
