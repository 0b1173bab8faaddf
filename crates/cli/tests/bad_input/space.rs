//! Disks and pools that are full.

use std::path::Path;
use std::process::Command;

use crate::folder::{Folder, holds, key, value};
use crate::resp::{Client, Reply};
use crate::server::run;

const DISK_FULL: i32 = 13;
const POOL_FULL: i32 = 14;

#[test]
fn a_full_pool_refuses_writes_and_serves_reads() {
    let folder = Folder::logged();
    let mut setup = folder.setup();
    setup.words.extend(["--size-max".into(), "2M".into()]);
    let server = setup.start();
    let mut client = server.client();
    let count = fill(&mut client, 200_000);
    assert!(count > 1000, "only {count} keys fit");
    holds(&server, count);
    // What takes no room works, and gives some.
    for number in 0..count / 2 {
        assert_eq!(client.call(&[b"DEL", &key(number)]).unwrap(), Reply::Integer(1), "{number}");
    }
    server.kill();
    let server = setup.start();
    let mut client = server.client();
    for number in count / 2..count {
        assert_eq!(client.call(&[b"GET", &key(number)]).unwrap(), Reply::Bulk(value(number)));
    }
    assert!(server.stop().success());
    let output = run(&["check", folder.pool().to_str().unwrap()]);
    assert!(output.status.success(), "{output:?}");
}

#[test]
fn loading_more_than_the_pool_takes() {
    let folder = Folder::logged();
    let lines: String = (0..20_000)
        .map(|number| {
            format!("{{\"keyspace\":\"0\",\"key\":\"{number}\",\"value\":\"{number:0300}\"}}\n")
        })
        .collect();
    let input = folder.path().join("lines");
    std::fs::write(&input, lines).unwrap();
    let (pool, input) = (folder.pool(), input.to_str().unwrap().to_owned());
    let words = ["load", pool.to_str().unwrap(), &input, "--size", "1M", "--size-max", "2M"];
    let output = run(&words);
    assert_eq!(output.status.code(), Some(POOL_FULL), "{output:?}");
    let output = run(&["check", folder.pool().to_str().unwrap()]);
    assert!(output.status.success(), "{output:?}");
}

#[test]
fn no_room_for_a_new_pool() {
    let Some(disk) = SmallDisk::mount("4M") else { return };
    let mut setup = disk.folder.setup();
    setup.words.extend(["--size".into(), "64M".into()]);
    let status = setup.try_start().unwrap_err();
    assert_eq!(status.code(), Some(DISK_FULL), "{}", setup.errors());
    assert!(disk.folder.files().is_empty(), "{:?}", disk.folder.files().keys());
}

#[test]
fn a_disk_that_becomes_full() {
    let Some(disk) = SmallDisk::mount("24M") else { return };
    let setup = disk.folder.setup();
    let server = setup.start();
    let mut client = server.client();
    let ballast = disk.folder.path().join("ballast.stderr");
    fill_disk(&ballast);
    let count = fill(&mut client, 200_000);
    holds(&server, count);
    server.kill();
    // Recovery writes what it replayed to a fresh log. Where there is no room for one it says so,
    // and leaves all as it is.
    let before = disk.folder.files();
    if let Err(status) = setup.try_start() {
        assert_eq!(status.code(), Some(DISK_FULL), "{}", setup.errors());
        disk.folder.is_as_it_was(&before);
    }
    std::fs::remove_file(&ballast).unwrap();
    let server = setup.start();
    holds(&server, count);
    let mut client = server.client();
    let more: [&[u8]; 3] = [b"SET", b"more", &[b'x'; 5000]];
    assert_eq!(client.call(&more).unwrap(), Reply::Simple("OK".into()));
    assert!(server.stop().success());
    let output = run(&["check", disk.folder.pool().to_str().unwrap()]);
    assert!(output.status.success(), "{output:?}");
}

#[test]
fn a_disk_for_backups_that_becomes_full() {
    let Some(disk) = SmallDisk::mount("4M") else { return };
    let folder = Folder::logged();
    let mut setup = folder.setup();
    setup.words.extend(["--backup-dir".into(), disk.folder.path().to_str().unwrap().into()]);
    let server = setup.start();
    let mut client = server.client();
    for number in 0..60 {
        let set: [&[u8]; 3] = [b"SET", &key(number), &[b'x'; 50_000]];
        assert_eq!(client.call(&set).unwrap(), Reply::Simple("OK".into()));
    }
    let address = server.address.to_string();
    let backup = || run(&["backup", "--server", &address, "a.bak"]);
    let ballast = disk.folder.path().join("ballast");
    std::fs::write(&ballast, vec![1; 2 << 20]).unwrap();
    let full = backup();
    assert_eq!(full.status.code(), Some(DISK_FULL), "{full:?}");
    let set: [&[u8]; 3] = [b"SET", b"more", b"1"];
    assert_eq!(client.call(&set).unwrap(), Reply::Simple("OK".into()));
    std::fs::remove_file(&ballast).unwrap();
    let done = backup();
    assert!(done.status.success(), "{done:?}");
    assert!(server.stop().success());
    let (pool, file) = (folder.path().join("b.pool"), disk.folder.path().join("a.bak"));
    let restored = run(&["restore", pool.to_str().unwrap(), file.to_str().unwrap(), "--json"]);
    // It was gone on with: what was written in between is not in it.
    assert!(String::from_utf8_lossy(&restored.stdout).contains("\"entries\":60,"), "{restored:?}");
}

/// Writes keys until the server refuses one; how many it took.
pub(super) fn fill(client: &mut Client, count_max: usize) -> usize {
    for number in 0..count_max {
        match client.call(&[b"SET", &key(number), &value(number)]).unwrap() {
            Reply::Simple(_) => {}
            Reply::Error(_) => return number,
            other => panic!("SET: {other:?}"),
        }
    }
    panic!("{count_max} keys did not fill it");
}

fn fill_disk(path: &Path) {
    use std::io::Write;
    let mut file = std::fs::File::create(path).unwrap();
    for size in [1 << 16, 1 << 12, 1] {
        while file.write(&vec![1; size]).is_ok_and(|written| written > 0) {}
    }
}

/// A small file system in memory, gone when it is forgotten.
struct SmallDisk {
    folder: Folder,
}

impl SmallDisk {
    /// None, and a line that says so, where it may not be mounted.
    fn mount(size: &str) -> Option<SmallDisk> {
        let place = tempfile::tempdir().unwrap();
        let options = format!("size={size}");
        let mount = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &options, "tembo-test"])
            .arg(place.path())
            .output();
        if mount.is_ok_and(|output| output.status.success()) {
            return Some(SmallDisk { folder: Folder::at(place, &["--domain", "logged"]) });
        }
        println!("SKIPPED: mounting a small file system needs the superuser");
        None
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // A failure leaves an empty file system in memory behind, and the test fails in other ways.
        let _ = Command::new("umount").arg("--lazy").arg(self.folder.path()).status();
    }
}
