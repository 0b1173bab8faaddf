//! Pool files that are something else, damaged, too new, or cut short.

use crate::folder::{Folder, change};
use crate::random::Random;

/// Where the two media headers begin (docs/formats/media-header.md).
const HEADERS: [usize; 2] = [0, 2048];
const HEADER_SIZE: usize = 512;
/// Where the superblock's label lies (docs/formats/superblock.md).
const LABEL: usize = 4096;
const LABEL_SIZE: usize = 64;

const NOT_A_POOL: i32 = 3;
const DAMAGED: i32 = 4;
const NEWER_VERSION: i32 = 5;
const UNKNOWN_FEATURE: i32 = 6;
const TRUNCATED: i32 = 7;

#[test]
fn another_file_is_not_a_pool() {
    for bytes in [&b""[..], b"x", &[0; 100_000], &b"#!/bin/sh\necho a script\n".repeat(1000)] {
        let folder = Folder::logged();
        std::fs::write(folder.pool(), bytes).unwrap();
        folder.is_refused(NOT_A_POOL);
    }
}

#[test]
fn a_directory_is_not_a_pool() {
    let folder = Folder::logged();
    std::fs::create_dir(folder.pool()).unwrap();
    folder.is_refused(NOT_A_POOL);
}

#[test]
fn a_dangling_link_is_not_a_place_for_a_pool() {
    let folder = Folder::logged();
    std::os::unix::fs::symlink("nowhere", folder.pool()).unwrap();
    assert!(folder.setup().try_start().is_err());
    assert!(!folder.path().join("nowhere").exists());
}

#[test]
fn a_wrong_magic_in_the_headers() {
    let folder = Folder::with_pool(10);
    change_headers(&folder, |header| header[0] ^= 1);
    folder.is_refused(NOT_A_POOL);
}

#[test]
fn a_wrong_magic_in_the_superblock() {
    let folder = Folder::with_pool(10);
    change_label(&folder, |label| label[0] ^= 1);
    folder.is_refused(NOT_A_POOL);
}

#[test]
fn a_newer_version_of_the_headers() {
    let folder = Folder::with_pool(10);
    change_headers(&folder, |header| header[8] = 99);
    folder.is_refused(NEWER_VERSION);
}

#[test]
fn a_newer_version_of_the_superblock() {
    let folder = Folder::with_pool(10);
    change_label(&folder, |label| label[8] = 99);
    folder.is_refused(NEWER_VERSION);
}

#[test]
fn an_unknown_feature_that_must_be_known() {
    let folder = Folder::with_pool(10);
    change_headers(&folder, |header| header[16 + 7] = 0x40);
    folder.is_refused(UNKNOWN_FEATURE);
    let folder = Folder::with_pool(10);
    change_label(&folder, |label| label[24 + 7] = 0x40);
    folder.is_refused(UNKNOWN_FEATURE);
}

#[test]
fn an_unknown_feature_that_may_be_ignored() {
    let folder = Folder::with_pool(10);
    change_label(&folder, |label| label[16 + 7] = 0x40);
    folder.holds(10);
}

#[test]
fn a_wrong_checksum_in_both_headers() {
    let folder = Folder::with_pool(10);
    change(&folder.pool(), |bytes| HEADERS.iter().for_each(|at| bytes[at + 300] ^= 1));
    folder.is_refused(DAMAGED);
}

#[test]
fn a_wrong_checksum_in_the_superblock() {
    let folder = Folder::with_pool(10);
    change(&folder.pool(), |bytes| bytes[LABEL + 40] ^= 1);
    folder.is_refused(DAMAGED);
}

#[test]
fn a_damaged_word_of_the_superblock() {
    let folder = Folder::with_pool(10);
    change(&folder.pool(), |bytes| bytes[LABEL + 64] ^= 1);
    folder.is_refused(DAMAGED);
}

/// The most dangerous damage: what is left looks like a pool that was just made.
#[test]
fn a_lost_tenant_is_not_an_empty_store() {
    for lost in [LABEL + 256..LABEL + 320, LABEL + 256..LABEL + 2304, LABEL + 312..LABEL + 320] {
        let folder = Folder::with_pool(10);
        change(&folder.pool(), |bytes| bytes[lost.clone()].fill(0));
        let started = folder.setup().try_start();
        assert!(started.is_err(), "an empty store took the place of a damaged one: {lost:?}");
    }
}

/// A header is written in one place while the other is whole: a crash can tear one.
#[test]
fn one_torn_header_is_survived() {
    for at in HEADERS {
        let folder = Folder::with_pool(10);
        change(&folder.pool(), |bytes| bytes[at..at + 256].fill(0));
        folder.holds(10);
    }
}

#[test]
fn a_truncated_pool() {
    let folder = Folder::with_pool(100);
    let whole = std::fs::read(folder.pool()).unwrap();
    for len in [whole.len() - 1, whole.len() / 2, 8192, 5000] {
        std::fs::write(folder.pool(), &whole[..len]).unwrap();
        folder.is_refused(TRUNCATED);
    }
    std::fs::write(folder.pool(), &whole[..100]).unwrap();
    folder.is_refused(NOT_A_POOL);
    // Growth was interrupted before the durable size: that is no damage.
    std::fs::write(folder.pool(), [&whole[..], &[0; 4096]].concat()).unwrap();
    folder.holds(100);
}

/// Any bytes open or are refused: never a panic, never a signal.
#[test]
fn any_bytes_open_or_are_refused() {
    let folder = Folder::with_pool(100);
    let whole = std::fs::read(folder.pool()).unwrap();
    let mut random = Random::new(20_261_121);
    for _ in 0..60 {
        let mut bytes = whole.clone();
        // The headers and the superblock get half of all changes.
        let end = if random.once_in(2) { 3 * 4096 } else { bytes.len() as u64 };
        for _ in 0..1 + random.below(64) {
            let at = random.below(end) as usize;
            bytes[at] = random.next() as u8;
        }
        std::fs::write(folder.pool(), bytes).unwrap();
        let output = crate::server::run(&["check", folder.pool().to_str().unwrap()]);
        let code = output.status.code();
        assert!(code.is_some_and(|code| code < 100), "{:?}: {output:?}", output.status);
    }
}

/// Changes both headers and makes their checksums right again.
fn change_headers(folder: &Folder, how: impl Fn(&mut [u8])) {
    change(&folder.pool(), |bytes| {
        for at in HEADERS {
            let header = &mut bytes[at..at + HEADER_SIZE];
            how(header);
            let (body, checksum) = header.split_at_mut(HEADER_SIZE - 4);
            checksum.copy_from_slice(&crc32c::crc32c(body).to_le_bytes());
        }
    });
}

/// Changes the superblock's label and makes its checksum right again.
fn change_label(folder: &Folder, how: impl Fn(&mut [u8])) {
    change(&folder.pool(), |bytes| {
        let label = &mut bytes[LABEL..LABEL + LABEL_SIZE];
        how(label);
        label[12..16].fill(0);
        let checksum = crc32c::crc32c(label);
        label[12..16].copy_from_slice(&checksum.to_le_bytes());
    });
}
