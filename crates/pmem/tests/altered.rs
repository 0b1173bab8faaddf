//! Logs with runs, extents and pages that are known, altered, with their checksums made right: refused or replayed, without a panic.
//!
//! `TEMBO_ALTERED_SEED` is where the seeds begin, `TEMBO_ALTERED_CASES` how many there are.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::Arc;

use crc32c::{crc32c, crc32c_append};
use tembo_pmem::{DomainRequest, Error, OuterChecksum, Region, RegionOptions};
use tembo_sim::{Random, SimDisk};

const SIZE: u64 = 256 << 10;
const PAGE: u64 = 4096;
const OBJECTS: u64 = 64 << 10;

fn options(disk: &SimDisk) -> RegionOptions {
    RegionOptions {
        domain: DomainRequest::Logged,
        size_max: 2 * SIZE,
        log_size: 256 << 10,
        disk: Arc::new(disk.clone()),
        background: false,
        ..RegionOptions::default()
    }
}

fn pool() -> PathBuf {
    PathBuf::from("/disk/pool")
}

fn log() -> PathBuf {
    PathBuf::from("/disk/pool.log")
}

fn word(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..at + 8).map_or(0, |word| u64::from_le_bytes(word.try_into().unwrap()))
}

fn half(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap())
}

/// A pool that was in use, and its log.
fn used() -> (Vec<u8>, Vec<u8>) {
    let disk = SimDisk::default();
    let region = Region::create(&pool(), SIZE, &options(&disk), |_| Ok::<(), Error>(())).unwrap();
    let write = |at: u64, bytes: &[u8]| {
        let len = bytes.len() as u64;
        let _section = region.reserve(region.write_lines(at, len)).unwrap();
        region.write_object("test.object", at, &[bytes], len).unwrap();
        region.fence("test.fence");
    };
    for round in 0..5_u64 {
        write(OBJECTS, &vec![1; PAGE as usize]);
        write(OBJECTS + 16 * PAGE + round * 5 * PAGE, &vec![round as u8; 5 * PAGE as usize]);
        {
            let _section = region.reserve(20).unwrap();
            for number in 0..12 {
                let at = 4096 + number * number * 64 + round * 64;
                region.store(&region.words(at, 1).unwrap()[0], round + number);
                region.flush("test.put", at, 8);
            }
            let at = OBJECTS + 64 * (round * 7 % 64);
            region.store(&region.words(at, 1).unwrap()[0], round);
            region.flush("test.hot", at, 8);
            region.fence("test.fence");
        }
        region.sync().unwrap();
    }
    drop(region);
    (disk.content(&pool()).unwrap(), disk.content(&log()).unwrap())
}

/// Makes the checksums of a log right, as far as it has groups; of how many.
fn seal(bytes: &mut [u8]) -> usize {
    for at in [0, 2048] {
        let crc = crc32c(&bytes[at..at + 508]);
        bytes[at + 508..at + 512].copy_from_slice(&crc.to_le_bytes());
    }
    let newer = if word(bytes, 32) >= word(bytes, 2048 + 32) { 0 } else { 2048 };
    let (salt, mut chain) = (word(bytes, newer + 56), half(bytes, newer + 12));
    let capacity = word(bytes, newer + 64);
    let Some(start) = word(bytes, newer + 72).checked_rem(capacity) else { return 0 };
    let (mut at, mut groups) = ((4096 + start) as usize, 0);
    while at + 64 <= bytes.len() && word(bytes, at) == salt {
        let (names, extents) = (half(bytes, at + 24) as usize, half(bytes, at + 28) as usize);
        if names > 1024 || extents > 1024 {
            break;
        }
        let words = names.saturating_sub(2);
        let first = [40, 48].into_iter().take(names).map(|first| word(bytes, at + first));
        let behind = (0..words).map(|number| word(bytes, at + 64 + number * 8));
        let lines: usize = first.chain(behind).map(|run| 1 + run as usize % 1024).sum();
        let size = 64 + (words * 8 + extents * 16).next_multiple_of(64) + lines * 64;
        if lines > 1024 || at + size > bytes.len() {
            break;
        }
        let group = &mut bytes[at..at + size];
        chain = OuterChecksum::Xxh3.chain(crc32c_append(chain, &group[..56]), &group[64..]);
        group[56..60].copy_from_slice(&chain.to_le_bytes());
        let crc = crc32c(&group[..60]);
        group[60..64].copy_from_slice(&crc.to_le_bytes());
        at += size;
        groups += 1;
    }
    groups
}

/// One to four changes, most of them in the heads of groups.
fn alter(bytes: &mut [u8], random: &mut Random) {
    for _ in 0..1 + random.below(4) {
        let header = random.below(12) == 0;
        let end = 40_000.min(bytes.len() - 8);
        let at = match header {
            true => [0, 2048][random.below(2)] + 8 * random.below(15),
            false => {
                let mut at = 4096 + 64 * random.below((end - 4096) / 64);
                let salt = word(bytes, 56).max(word(bytes, 2048 + 56));
                for _ in 0..400 {
                    if word(bytes, at) == salt {
                        break;
                    }
                    at = 4096 + 64 * random.below((end - 4096) / 64);
                }
                at + 8 * (1 + random.below(16))
            }
        };
        let old = word(bytes, at);
        let other = word(bytes, 4096 + 8 * random.below((end - 4096) / 8));
        let value = match random.below(12) {
            0 => 0,
            1 => u64::MAX - random.below(3) as u64,
            2 => old.wrapping_add(1 + random.below(4) as u64),
            3 => old.wrapping_sub(1 + random.below(4) as u64),
            4 | 5 => old ^ 1 << random.below(64),
            6 => 1 << random.below(64),
            7 => random.below(512) as u64,
            8 => (random.below(8192) as u64) << 10 | random.below(1024) as u64,
            9 => old & 0xffff_ffff | (random.below(4) as u64) << 32,
            10 => old & !0xffff_ffff | random.below(6) as u64,
            _ => other,
        };
        bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
    }
}

#[test]
fn altered_logs_are_refused_or_replayed() {
    let (pool_bytes, log_bytes) = used();
    let mut sound = log_bytes.clone();
    let groups = seal(&mut sound);
    assert!(sound[4096..] == log_bytes[4096..], "the seal is that of the log");
    // Five rounds of a page, of pages beside the log, and of lines.
    assert_eq!(groups, 15);
    let number = |name: &str, otherwise: u64| {
        std::env::var(name).map_or(otherwise, |number| number.parse().unwrap())
    };
    let (seed, cases) = (number("TEMBO_ALTERED_SEED", 1), number("TEMBO_ALTERED_CASES", 1000));
    let (mut refused, mut replayed, mut panics) = (0, 0, Vec::new());
    for case in seed..seed + cases {
        let mut random = Random::new(case);
        let mut altered = log_bytes.clone();
        alter(&mut altered, &mut random);
        seal(&mut altered);
        let disk = SimDisk::default();
        disk.put(&pool(), &pool_bytes);
        disk.put(&log(), &altered);
        let done = catch_unwind(AssertUnwindSafe(|| {
            let Ok(region) = Region::open(&pool(), &options(&disk)) else { return false };
            let size = region.size();
            let _ = region.media_bytes(4096, size - 4096).unwrap().to_vec();
            let _ = region.checkpoint();
            drop(region);
            let _ = Region::open(&pool(), &options(&disk)).map(|region| region.close());
            true
        }));
        match done {
            Ok(true) => replayed += 1,
            Ok(false) => refused += 1,
            Err(_) => panics.push(case),
        }
    }
    println!("{refused} refused, {replayed} replayed");
    assert!(panics.is_empty(), "seeds {panics:?}");
    assert!(refused.min(replayed) > cases / 10, "{refused} refused, {replayed} replayed");
}
