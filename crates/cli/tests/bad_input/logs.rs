//! Redo logs that are missing, another's, or damaged.

use std::path::Path;

use crate::folder::{Folder, change};
use crate::server::run;

const LOG_MISSING: i32 = 8;
const LOG_FOREIGN: i32 = 9;
const LOG_DAMAGED: i32 = 10;
const LOG_ORPHANED: i32 = 21;

const KEYS: usize = 200;
/// Bytes of a log before its ring (docs/formats/redo-log.md).
const HEADER: usize = 4096;

#[test]
fn a_missing_log() {
    let folder = Folder::with_crashed_pool(KEYS);
    std::fs::remove_file(folder.log()).unwrap();
    folder.is_refused(LOG_MISSING);
}

#[test]
fn a_log_without_its_pool() {
    let folder = Folder::with_crashed_pool(KEYS);
    std::fs::remove_file(folder.pool()).unwrap();
    folder.is_refused(LOG_ORPHANED);
}

#[test]
fn another_pools_log() {
    let folder = Folder::with_crashed_pool(KEYS);
    let other = Folder::with_crashed_pool(KEYS);
    std::fs::copy(other.log(), folder.log()).unwrap();
    folder.is_refused(LOG_FOREIGN);
}

#[test]
fn a_log_too_small_for_a_store() {
    let folder = Folder::logged();
    for size in ["0", "64K", "256K", "1048575"] {
        for command in [&["serve", "--pool"][..], &["load"]] {
            let pool = folder.pool();
            let output = run(&[command, &[pool.to_str().unwrap(), "--log-size", size]].concat());
            let error = String::from_utf8_lossy(&output.stderr);
            assert_eq!(output.status.code(), Some(2), "{command:?} {size}: {error}");
            assert!(error.contains("1.0 MiB"), "{command:?} {size}: {error}");
        }
    }
    assert!(folder.files().is_empty(), "{:?}", folder.files().keys());
}

#[test]
fn a_log_that_is_no_log() {
    for bytes in [&b""[..], &[0; 1 << 20], b"hello"] {
        let folder = Folder::with_crashed_pool(KEYS);
        std::fs::write(folder.log(), bytes).unwrap();
        folder.is_refused(LOG_FOREIGN);
    }
}

#[test]
fn a_log_damaged_in_its_middle() {
    let folder = Folder::with_crashed_pool(KEYS);
    let (groups, _) = groups(&folder.log());
    assert!(groups.len() > KEYS / 2, "the log holds only {} groups", groups.len());
    change(&folder.log(), |bytes| bytes[groups[groups.len() / 2] + 100] ^= 1);
    folder.is_refused(LOG_DAMAGED);
}

#[test]
fn a_torn_tail_is_no_damage() {
    let folder = Folder::with_crashed_pool(KEYS);
    let (groups, end) = groups(&folder.log());
    let last = *groups.last().unwrap();
    change(&folder.log(), |bytes| {
        // A group that was begun and is not whole, behind the last one.
        let mut begun = bytes[last..last + 64].to_vec();
        begun[40] ^= 1;
        bytes[end..end + begun.len()].copy_from_slice(&begun);
    });
    folder.holds(KEYS);
}

#[test]
fn a_clean_stop_leaves_one_file_that_can_be_copied() {
    let folder = Folder::with_pool(KEYS);
    let copy = Folder::logged();
    std::fs::copy(folder.pool(), copy.pool()).unwrap();
    copy.holds(KEYS);
}

/// Where the groups begin in the file, from the replay's start to the last one; where that ends.
fn groups(log: &Path) -> (Vec<usize>, usize) {
    let bytes = std::fs::read(log).unwrap();
    let word = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap());
    let half = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap()) as usize;
    let newer = if word(32) >= word(2048 + 32) { 0 } else { 2048 };
    let (salt, capacity) = (word(newer + 56), word(newer + 64));
    let (mut position, mut sequence) = (word(newer + 72), word(newer + 80));
    let mut found = Vec::new();
    loop {
        let at = HEADER + (position % capacity) as usize;
        if at + 64 > bytes.len() || word(at) != salt || word(at + 8) != sequence {
            return (found, at);
        }
        found.push(at);
        let (runs, extents) = (half(at + 24), half(at + 28));
        // The first two stand in the header.
        let places = [at + 40, at + 48].into_iter().chain((at + 64..).step_by(8));
        let lines: usize = places.take(runs).map(|at| (word(at) % 1024) as usize + 1).sum();
        let table = (runs.saturating_sub(2) * 8 + extents * 16).next_multiple_of(64);
        position += (64 + table + lines * 64) as u64;
        sequence += 1;
    }
}
