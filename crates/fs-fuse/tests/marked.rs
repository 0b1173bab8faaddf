//! Files of which each open to write is a transaction: what ends it, and what it is of.
//!
//! Where FUSE is not permitted, the tests say so and do nothing.

#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stderr, clippy::print_stdout)]

#[path = "mounted/served.rs"]
mod mounted;

use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use rustix::fs::{XattrFlags, setxattr};
use rustix::io::Errno;
use tembo_fs::Fs;

use mounted::Served;

/// Which file a program of a test changes, and how.
const PATH: &str = "TEMBO_TEST_PATH";
const HOW: &str = "TEMBO_TEST_HOW";

fn marked(served: &Served, content: &str) -> PathBuf {
    let path = served.at("a");
    fs::write(&path, content).unwrap();
    setxattr(&path, "user.tembo.transaction", b"1", XattrFlags::empty()).unwrap();
    path
}

/// That all parts of the file system fit to each other. Nothing has a file open.
fn is_sound(served: &Served) {
    let check = Fs::open(&served.store).unwrap().snapshot().unwrap().check().unwrap();
    assert_eq!(check.findings, []);
}

fn open(path: &Path) -> File {
    OpenOptions::new().read(true).write(true).open(path).unwrap()
}

#[test]
fn a_duplicate_that_is_closed_before_the_first_write_ends_nothing() {
    let Some(served) = Served::new() else { return };
    let path = marked(&served, "1");
    let mut file = open(&path);
    let mut seen = String::new();
    file.read_to_string(&mut seen).unwrap();
    drop(file.try_clone().unwrap());
    fs::write(&path, "2").unwrap();
    // What it has read is not so any more.
    let lost = file.write_all(seen.as_bytes()).unwrap_err();
    assert_eq!(lost.raw_os_error(), Some(Errno::CANCELED.raw_os_error()), "{lost}");
    drop(file);
    assert_eq!(fs::read(&path).unwrap(), b"2");
    // A change by a path, behind the close of one that has written nothing, is made at once.
    drop(open(&path));
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o600);
    fs::set_permissions(&path, mode).unwrap();
    let metadata = fs::metadata(&path).unwrap();
    assert_eq!(std::os::unix::fs::MetadataExt::mode(&metadata) & 0o777, 0o600);
}

#[test]
fn what_is_copied_into_it_is_what_the_source_has_now() {
    let Some(served) = Served::new() else { return };
    let (path, from) = (marked(&served, ""), served.at("source"));
    fs::write(&from, "one").unwrap();
    let (mut source, mut file) = (File::open(&from).unwrap(), open(&path));
    fs::write(&from, "two, and longer").unwrap();
    std::io::copy(&mut source, &mut file).unwrap();
    drop(file);
    assert_eq!(fs::read(&path).unwrap(), b"two, and longer");
}

/// The program that is killed: a thread of it, which ends, changes the file, and leaves it open.
#[test]
fn as_a_program_whose_thread_changes_a_file() {
    let (Some(path), Some(how)) = (std::env::var_os(PATH), std::env::var_os(HOW)) else { return };
    let change = move || {
        let file = match how.to_str().unwrap() {
            "cut by the open" => File::create(&path).unwrap(),
            "cut" => {
                let file = open(Path::new(&path));
                file.set_len(1).unwrap();
                file
            }
            _ => {
                let file = open(Path::new(&path));
                rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), 0, 10).unwrap();
                file
            }
        };
        std::mem::forget(file);
    };
    thread::spawn(change).join().unwrap();
    println!("changed!");
    thread::sleep(Duration::from_secs(60));
}

#[test]
fn of_a_program_that_is_killed_no_thread_leaves_anything() {
    let Some(served) = Served::new() else { return };
    let path = marked(&served, "old");
    for how in ["cut by the open", "cut", "allocated"] {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "as_a_program_whose_thread_changes_a_file", "--nocapture"]);
        command.env(PATH, &path).env(HOW, how).stdout(Stdio::piped());
        let mut program = command.spawn().unwrap();
        let (mut said, mut word) = (Vec::new(), [0; 64]);
        let mut output = program.stdout.take().unwrap();
        while !said.ends_with(b"changed!\n") {
            let len = output.read(&mut word).unwrap();
            assert!(len > 0, "{}", String::from_utf8_lossy(&said));
            said.extend(&word[..len]);
        }
        program.kill().unwrap();
        program.wait().unwrap();
        // The last close of a file comes behind the end of the program.
        for _ in 0..20 {
            assert_eq!(fs::read_to_string(&path).unwrap(), "old", "{how}");
            thread::sleep(Duration::from_millis(10));
        }
    }
    is_sound(&served);
}
