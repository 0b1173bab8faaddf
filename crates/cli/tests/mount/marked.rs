//! Files of which each open to write is a transaction.

use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::fs::{XattrFlags, removexattr, setxattr};
use rustix::io::Errno;

use crate::mounted::{Mounted, done};

const MARK: &str = "user.tembo.transaction";

/// A file with the mark.
fn marked(at: &Path, content: &str) -> PathBuf {
    let path = at.join("a");
    fs::write(&path, content).unwrap();
    setxattr(&path, MARK, b"1", XattrFlags::empty()).unwrap();
    path
}

/// That others see this of a file.
fn is_seen(path: &Path, content: &str) {
    assert_eq!(fs::read_to_string(path).unwrap(), content);
    assert_eq!(fs::metadata(path).unwrap().len(), content.len() as u64);
    assert_eq!(done(Command::new("cat").arg(path)), content);
}

fn waits_for(path: &Path, content: &[u8]) {
    let patience = Instant::now() + Duration::from_secs(10);
    while fs::read(path).unwrap() != content {
        assert!(Instant::now() < patience, "it is {:?}", fs::read(path).unwrap());
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn others_see_the_old_content_until_the_close() {
    let Some(mounted) = Mounted::new() else { return };
    let path = marked(&mounted.at(), "old");
    let cached = File::open(&path).unwrap();
    let mut file = File::options().read(true).write(true).open(&path).unwrap();
    file.write_all(b"new and longer").unwrap();
    is_seen(&path, "old");
    file.write_all_at(b"far away", 20_000).unwrap();
    file.sync_all().unwrap();
    is_seen(&path, "old");
    let mut own = [0; 14];
    file.read_exact_at(&mut own, 0).unwrap();
    assert_eq!(&own, b"new and longer");
    file.set_len(14).unwrap();
    is_seen(&path, "old");
    assert_eq!(file.read_at(&mut [0; 100], 10).unwrap(), 4);
    drop(file);
    is_seen(&path, "new and longer");
    let mut before = [0; 100];
    assert_eq!(cached.read_at(&mut before, 0).unwrap(), 14);
    // Cut by the open.
    let mut file = File::create(&path).unwrap();
    is_seen(&path, "new and longer");
    file.write_all(b"third").unwrap();
    is_seen(&path, "new and longer");
    drop(file);
    is_seen(&path, "third");
    drop(File::create(&path).unwrap());
    waits_for(&path, b"");
    // Appended to, whatever others ask meanwhile.
    for words in ["one ", "two "] {
        let mut file = OpenOptions::new().append(true).open(&path).unwrap();
        let before = fs::read_to_string(&path).unwrap();
        file.write_all(words.as_bytes()).unwrap();
        is_seen(&path, &before);
        file.write_all(b"and ").unwrap();
        is_seen(&path, &before);
    }
    is_seen(&path, "one and two and ");
    // Without the mark.
    removexattr(&path, MARK).unwrap();
    let mut file = File::create(&path).unwrap();
    file.write_all(b"at once").unwrap();
    is_seen(&path, "at once");
    drop((file, cached));
    mounted.end();
}

#[test]
fn of_two_opens_that_write_the_first_to_close_wins() {
    let Some(mounted) = Mounted::new() else { return };
    let path = marked(&mounted.at(), "old");
    let open = || File::options().write(true).open(&path).unwrap();
    let (mut first, mut second, mut third) = (open(), open(), open());
    first.write_all(b"first").unwrap();
    third.write_all(b"third").unwrap();
    drop(first);
    // It learns it at the write that makes the conflict, and at each later one.
    let canceled = Some(Errno::CANCELED.raw_os_error());
    assert_eq!(second.write_all(b"second").unwrap_err().raw_os_error(), canceled);
    assert_eq!(second.write_all(b"second").unwrap_err().raw_os_error(), canceled);
    drop(second);
    // Where the other closes after the last write, nothing of it is done.
    drop(third);
    is_seen(&path, "first");
    // A change from outside.
    let mut late = open();
    done(Command::new("chmod").arg("600").arg(&path));
    assert_eq!(late.write_all(b"late").unwrap_err().raw_os_error(), canceled);
    drop(late);
    is_seen(&path, "first");
    mounted.end();
}

#[test]
fn a_crash_before_the_close_leaves_the_old_content() {
    let Some(mut mounted) = Mounted::new() else { return };
    let path = marked(&mounted.at(), "old");
    let mut file = File::create(&path).unwrap();
    file.write_all(b"new").unwrap();
    file.sync_all().unwrap();
    mounted.kill();
    drop(file);
    mounted.serve_again();
    is_seen(&path, "old");
    // And one behind it the new one.
    fs::write(&path, "new").unwrap();
    mounted.again_after_kill();
    is_seen(&path, "new");
    mounted.end();
}

/// A program that has cut a file and written the half of it, and ends when its input does.
fn tee(path: &Path) -> Child {
    let mut command = Command::new("tee");
    command.arg(path).arg("/dev/stderr");
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut tee = command.spawn().unwrap();
    tee.stdin.as_mut().unwrap().write_all(b"half").unwrap();
    // It writes one after the other: when the last has it, the file has it.
    tee.stderr.as_mut().unwrap().read_exact(&mut [0; 4]).unwrap();
    tee
}

#[test]
fn of_a_program_that_is_killed_nothing_is_left() {
    let Some(mounted) = Mounted::new() else { return };
    let path = marked(&mounted.at(), "old");
    let mut killed = tee(&path);
    is_seen(&path, "old");
    killed.kill().unwrap();
    killed.wait().unwrap();
    is_seen(&path, "old");
    let mut ended = tee(&path);
    is_seen(&path, "old");
    drop(ended.stdin.take());
    assert!(ended.wait().unwrap().success());
    is_seen(&path, "half");
    mounted.end();
}

#[test]
fn programs_write_such_files_as_others() {
    let Some(mounted) = Mounted::new() else { return };
    let at = mounted.at();
    let path = marked(&at, "old");
    let shell = |script: &str| done(Command::new("sh").current_dir(&at).args(["-ec", script]));
    shell("echo by a shell > a");
    is_seen(&path, "by a shell\n");
    // It executes another program, which closes the file.
    let others = "exec 3> a; (read word < go; echo late) & echo early >&3";
    shell(&format!("mkfifo go; {others}; exec sh -c 'cat a; echo go > go' 3>&-"));
    is_seen(&path, "early\n");
    shell("date > a; cat a; seq 1000 > a");
    assert_eq!(fs::read_to_string(&path).unwrap().lines().count(), 1000);
    // One that sets owner, permissions and times before it closes.
    fs::write(at.join("source"), "copied").unwrap();
    shell("chmod 640 source; touch -d 2001-02-03 source; cp -p source a");
    is_seen(&path, "copied");
    let (copy, source) = (fs::metadata(&path).unwrap(), fs::metadata(at.join("source")).unwrap());
    assert_eq!((copy.mode(), copy.mtime()), (source.mode(), source.mtime()));
    mounted.end();
}
