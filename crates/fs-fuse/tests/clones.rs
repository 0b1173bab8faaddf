//! A program that copies a file on a mount gets a clone.
//!
//! Where FUSE is not permitted, the tests say so and do nothing.

#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stderr)]

#[path = "mounted/served.rs"]
mod mounted;

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::{FileExt, MetadataExt};

use tembo_fs::Fs;

use mounted::Served;

const SIZE: usize = 3 << 20;

/// Pieces of 4 KiB that all files have together.
fn pieces(served: &Served) -> u64 {
    let check = Fs::open(&served.store).unwrap().snapshot().unwrap().check().unwrap();
    assert_eq!(check.findings, []);
    check.pieces
}

#[test]
fn a_copy_of_a_file_shares_its_pieces_until_one_of_them_is_written() {
    let Some(served) = Served::new() else { return };
    let (from, to) = (served.at("from"), served.at("to"));
    let mut expected: Vec<u8> = (0..SIZE).map(|at| (at / 1000) as u8).collect();
    fs::write(&from, &expected).unwrap();
    assert_eq!(pieces(&served), 768);
    fs::copy(&from, &to).unwrap();
    assert_eq!(pieces(&served), 768);
    assert!(fs::read(&to).unwrap() == expected);
    assert_eq!(fs::metadata(&to).unwrap().blocks(), SIZE as u64 / 512);
    // Both are in the kernel's cache.
    let file = OpenOptions::new().write(true).open(&from).unwrap();
    file.write_all_at(b"written later", 10_000).unwrap();
    drop(file);
    assert_eq!(pieces(&served), 769);
    assert!(fs::read(&to).unwrap() == expected);
    expected[10_000..10_013].copy_from_slice(b"written later");
    assert!(fs::read(&from).unwrap() == expected);
    fs::remove_file(&from).unwrap();
    fs::remove_file(&to).unwrap();
    assert_eq!(pieces(&served), 0);
}

#[test]
fn while_a_transaction_is_in_progress_a_copy_has_pieces_of_its_own() {
    let Some(served) = Served::new() else { return };
    let (from, to) = (served.at("from"), served.at("to"));
    fs::write(&from, vec![7; SIZE]).unwrap();
    let begun = File::options().read(true).write(true).open(served.at(".tembo/begin")).unwrap();
    fs::copy(&from, &to).unwrap();
    assert_eq!(pieces(&served), 2 * 768);
    drop(begun);
    assert!(fs::read(&to).unwrap() == fs::read(&from).unwrap());
}
