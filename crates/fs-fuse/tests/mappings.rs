//! What programs store to shared mappings, beside transactions of the same file.
//!
//! Where FUSE is not permitted, the tests say so and do nothing.

#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stderr)]

#[path = "mounted/served.rs"]
mod mounted;

use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use rustix::io::Errno;
use tembo_fs::Fs;

use mounted::Served;

/// Maps a page of a file, stores to the middle of it, and ends when its input does.
const STORES: &str = "
import mmap, os, sys
file = os.open(sys.argv[1], os.O_RDWR)
os.pread(file, 4096, 0)
page = mmap.mmap(file, 4096, mmap.MAP_SHARED)
page[2000] = ord('s')
print('stored', flush=True)
sys.stdin.read()
";

/// A program that has stored to a mapping; `None`: there is no Python here.
fn storing(path: &Path) -> Option<Child> {
    let mut command = Command::new("python3");
    command.args(["-c", STORES]).arg(path).stdin(Stdio::piped()).stdout(Stdio::piped());
    let Ok(mut program) = command.spawn() else {
        eprintln!("skipped: there is no python3 here");
        return None;
    };
    let mut said = [0; 7];
    program.stdout.as_mut().unwrap().read_exact(&mut said).unwrap();
    assert_eq!(&said, b"stored\n");
    Some(program)
}

/// That a transaction is lost to what was stored, whichever file commits it.
fn is_lost_to_a_store(served: &Served, name: &str, commit: impl Fn(&Path) -> std::io::Result<()>) {
    let path = served.at(name);
    fs::write(&path, vec![b'o'; 4096]).unwrap();
    let Some(mut program) = storing(&path) else { return };
    let lost = commit(&path).unwrap_err();
    assert_eq!(lost.raw_os_error(), Some(Errno::CANCELED.raw_os_error()), "{lost}");
    let mut expected = vec![b'o'; 4096];
    expected[2000] = b's';
    assert!(fs::read(&path).unwrap() == expected);
    drop(program.stdin.take());
    assert!(program.wait().unwrap().success());
    assert!(fs::read(&path).unwrap() == expected);
    // Nothing was stored since: the next one is done.
    commit(&path).unwrap();
    assert!(fs::read(&path).unwrap() == [b'n'; 4096]);
}

#[test]
fn what_was_stored_to_a_mapping_is_not_lost_to_a_commit_nor_the_commit_to_it() {
    let Some(served) = Served::new() else { return };
    is_lost_to_a_store(&served, "a", |path| {
        let control = served.at(".tembo");
        let begin = control.join("begin");
        let mut begun = OpenOptions::new().read(true).write(true).open(begin).unwrap();
        let mut number = [0; 32];
        let len = begun.read(&mut number).unwrap();
        let view = control.join("transactions");
        let view = view.join(str::from_utf8(&number[..len]).unwrap().trim());
        let name = path.file_name().unwrap();
        let file = File::options().write(true).open(view.join(name)).unwrap();
        file.write_all_at(&[b'n'; 4096], 0).unwrap();
        begun.write_all(b"commit")
    });
    let check = Fs::open(&served.store).unwrap().snapshot().unwrap().check().unwrap();
    assert_eq!(check.findings, []);
}
