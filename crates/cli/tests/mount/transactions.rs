//! `tembo txn`: what a program does to files happens as a whole or not at all.

use std::fs::{self, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::fs::{XattrFlags, setxattr};

use crate::mounted::{Mounted, TEMBO};

/// The exit code where no pool is mounted.
const NOT_MOUNTED: i32 = 36;

/// The exit code of a commit that is seen, and not durable.
const NOT_DURABLE: i32 = 46;

/// The exit code of a conflict.
const CONFLICT: i32 = 38;

/// A mount in which programs can have transactions; `None`: no namespaces of mounts are permitted here.
fn mounted() -> Option<Mounted> {
    let mounted = Mounted::new()?;
    let tried = txn(&mounted.at(), &["true"]).output().unwrap();
    if tried.status.code() == Some(37) {
        eprintln!("skipped: {}", String::from_utf8_lossy(&tried.stderr));
        return None;
    }
    assert!(tried.status.success(), "{tried:?}");
    Some(mounted)
}

fn txn(at: &Path, command: &[&str]) -> Command {
    let mut txn = Command::new(TEMBO);
    txn.arg("txn").arg(at).arg("--").args(command).current_dir(at);
    txn
}

fn shell(at: &Path, script: &str) -> Output {
    txn(at, &["sh", "-ec", script]).output().unwrap()
}

fn names(at: &Path) -> Vec<String> {
    let entries = fs::read_dir(at).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

fn wait_until(mut holds: impl FnMut() -> bool, what: &str) {
    let patience = Instant::now() + Duration::from_secs(60);
    while !holds() {
        assert!(Instant::now() < patience, "{what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// A program in a transaction that has said that it has begun, and waits for a word.
fn waiting(at: &Path, script: &str) -> Child {
    let mut child = txn(at, &["sh", "-ec", &format!("{script}; echo begun; read word")])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut word = [0; 6];
    child.stdout.as_mut().unwrap().read_exact(&mut word).unwrap();
    assert_eq!(&word, b"begun\n");
    child
}

#[test]
fn a_program_that_ends_well_is_seen_as_a_whole() {
    let Some(mounted) = mounted() else { return };
    let at = mounted.at();
    fs::write(at.join("old"), "old").unwrap();
    fs::write(at.join("kept"), "kept").unwrap();
    fs::write(at.join("removed"), "removed").unwrap();
    // The kernel has all in its caches.
    assert_eq!(names(&at), ["kept", "old", "removed"]);
    assert_eq!(fs::read(at.join("old")).unwrap(), b"old");
    let mut child = waiting(
        &at,
        "echo new > new; mkdir d; echo below > d/below; echo changed > old; rm removed; mv kept d/moved; sync; test \"$(cat d/moved)\" = kept",
    );
    let outside = |at: &Path| {
        (names(at), fs::read(at.join("old")).unwrap(), fs::metadata(at.join("old")).unwrap().len())
    };
    let before = (vec!["kept".to_owned(), "old".into(), "removed".into()], b"old".to_vec(), 3);
    assert_eq!(outside(&at), before);
    child.stdin.take().unwrap().write_all(b"go\n").unwrap();
    assert!(child.wait().unwrap().success());
    let after = (vec!["d".to_owned(), "new".into(), "old".into()], b"changed\n".to_vec(), 8);
    assert_eq!(outside(&at), after);
    assert_eq!(fs::read(at.join("d/moved")).unwrap(), b"kept");
    assert_eq!(names(&at.join("d")), ["below", "moved"]);
    assert!(!at.join("kept").exists() && !at.join("removed").exists());
    mounted.end();
}

#[test]
fn an_install_that_fails_half_way_leaves_nothing() {
    let Some(mounted) = mounted() else { return };
    let at = mounted.at();
    fs::write(at.join("config"), "as it was").unwrap();
    let script =
        "mkdir -p usr/bin usr/lib; echo program > usr/bin/program; echo library > usr/lib/library;
        echo spoiled > config; rm -f nothing; test -s usr/bin/program; exit 3";
    let failed = shell(&at, script);
    assert_eq!(failed.status.code(), Some(3), "{failed:?}");
    assert_eq!(names(&at), ["config"]);
    assert_eq!(fs::read(at.join("config")).unwrap(), b"as it was");
    // A signal ends it, and a program that is not there.
    let killed = shell(&at, "echo x > x; kill -9 $$");
    assert_eq!(killed.status.code(), Some(137), "{killed:?}");
    let missing = txn(&at, &["/nothing/like/this"]).output().unwrap();
    assert_eq!(missing.status.code(), Some(127), "{missing:?}");
    assert_eq!(names(&at), ["config"]);
    mounted.end();
}

#[test]
fn of_two_programs_that_change_a_file_the_first_to_commit_wins() {
    let Some(mounted) = mounted() else { return };
    let at = mounted.at();
    fs::create_dir(at.join("d")).unwrap();
    fs::write(at.join("d/a"), "0").unwrap();
    // Both have written before one commits: the other loses when it commits.
    let mut first = waiting(&at, "echo first > d/a");
    let mut second = waiting(&at, "echo second > d/a; echo also > d/other");
    first.stdin.take().unwrap().write_all(b"go\n").unwrap();
    assert!(first.wait().unwrap().success());
    second.stdin.take().unwrap().write_all(b"go\n").unwrap();
    assert_eq!(second.wait().unwrap().code(), Some(CONFLICT));
    assert_eq!(fs::read(at.join("d/a")).unwrap(), b"first\n");
    assert_eq!(names(&at.join("d")), ["a"]);
    // One that writes what another has committed since gets an error at the write.
    let mut late = txn(&at, &["sh", "-c", "cat d/a; read word; echo late > d/a || exit 9"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    late.stdout.as_mut().unwrap().read_exact(&mut [0; 6]).unwrap();
    fs::write(at.join("d/a"), "outside").unwrap();
    late.stdin.take().unwrap().write_all(b"go\n").unwrap();
    assert_eq!(late.wait().unwrap().code(), Some(9));
    assert_eq!(fs::read(at.join("d/a")).unwrap(), b"outside");
    mounted.end();
}

#[test]
fn a_transaction_that_is_seen_and_not_durable_is_none_that_was_not_committed() {
    let Some(mut mounted) = mounted() else { return };
    let at = mounted.at();
    fs::write(at.join("a"), "old").unwrap();
    let mut child = waiting(&at, "echo new > a");
    mounted.limit_files(Some(0));
    child.stdin.take().unwrap().write_all(b"go\n").unwrap();
    let code = child.wait().unwrap().code();
    mounted.limit_files(None);
    assert_eq!(code, Some(NOT_DURABLE));
    assert_eq!(fs::read(at.join("a")).unwrap(), b"new\n");
    // With room, a sync makes it durable.
    fs::File::open(&at).unwrap().sync_all().unwrap();
    mounted.again_after_kill();
    assert_eq!(fs::read(at.join("a")).unwrap(), b"new\n");
    mounted.end();
}

#[test]
fn a_transaction_whose_holder_is_killed_is_dropped_and_its_program_ends() {
    let Some(mounted) = mounted() else { return };
    let at = mounted.at();
    let mut child = waiting(&at, "echo x > x");
    child.kill().unwrap();
    child.wait().unwrap();
    // The program was killed too: its end of the pipe is closed.
    let mut rest = String::new();
    child.stdout.take().unwrap().read_to_string(&mut rest).unwrap();
    assert_eq!(names(&at), [""; 0]);
    wait_until(|| !at.join(".tembo/transactions/1").exists(), "the transaction goes on");
    mounted.end();
}

#[test]
fn ten_thousand_files_are_one_transaction() {
    let Some(mounted) = mounted() else { return };
    let at = mounted.at();
    let script =
        "for d in $(seq 0 99); do mkdir d$d; for f in $(seq 0 99); do echo $d > d$d/$f; done; done";
    let done = shell(&at, script);
    assert!(done.status.success(), "{done:?}");
    assert_eq!(names(&at).len(), 100);
    for d in 0..100 {
        assert_eq!(names(&at.join(format!("d{d}"))).len(), 100);
    }
    assert_eq!(fs::read(at.join("d77/42")).unwrap(), b"77\n");
    let removed = shell(&at, "rm -r d*; exit 1");
    assert_eq!(removed.status.code(), Some(1));
    assert_eq!(names(&at).len(), 100);
    mounted.end();
}

#[test]
fn a_transaction_is_begun_by_a_file_and_ends_with_it() {
    let Some(mounted) = Mounted::new() else { return };
    let at = mounted.at();
    fs::write(at.join("a"), "old").unwrap();
    let begin = || {
        let path = at.join(".tembo/begin");
        let mut file = OpenOptions::new().read(true).write(true).open(path).unwrap();
        let mut number = String::new();
        file.read_to_string(&mut number).unwrap();
        let view = at.join(".tembo/transactions").join(number.trim());
        (file, view)
    };
    let (mut file, view) = begin();
    assert_ne!(fs::metadata(&view).unwrap().ino(), fs::metadata(&at).unwrap().ino());
    fs::write(view.join("a"), "new and longer").unwrap();
    fs::write(view.join("b"), "b").unwrap();
    assert_eq!((fs::read(at.join("a")).unwrap(), at.join("b").exists()), (b"old".to_vec(), false));
    // It is in no listing, and the control folder is not made in it.
    assert_eq!(names(&at.join(".tembo/transactions")), [""; 0]);
    assert!(!view.join(".tembo").exists() && fs::create_dir(view.join(".tembo")).is_err());
    assert!(file.write_all(b"perhaps").is_err());
    file.write_all(b"commit").unwrap();
    assert_eq!(fs::read(at.join("a")).unwrap(), b"new and longer");
    assert!(fs::read(view.join("a")).is_err() || fs::File::create(view.join("c")).is_err());
    assert!(file.write_all(b"commit").is_err());
    drop(file);
    // Closed, it is dropped.
    let (file, view) = begin();
    fs::write(view.join("a"), "dropped").unwrap();
    let held = fs::File::open(view.join("a")).unwrap();
    drop(file);
    wait_until(|| fs::File::create(view.join("c")).is_err(), "it goes on");
    assert!((&held).write_all(b"x").is_err());
    assert_eq!(fs::read(at.join("a")).unwrap(), b"new and longer");
    drop(held);
    mounted.end();
}

#[test]
fn what_was_not_committed_when_the_mount_was_killed_has_never_been() {
    let Some(mut mounted) = Mounted::new() else { return };
    let at = mounted.at();
    fs::write(at.join("a"), "old").unwrap();
    let mut begun =
        OpenOptions::new().read(true).write(true).open(at.join(".tembo/begin")).unwrap();
    let mut number = String::new();
    begun.read_to_string(&mut number).unwrap();
    let view = at.join(".tembo/transactions").join(number.trim());
    let mut file = fs::File::create(view.join("a")).unwrap();
    file.write_all(b"new").unwrap();
    file.sync_all().unwrap();
    fs::write(view.join("b"), "b").unwrap();
    mounted.kill();
    drop((begun, file));
    mounted.serve_again();
    assert_eq!(names(&at), ["a"]);
    assert_eq!(fs::read(at.join("a")).unwrap(), b"old");
    mounted.end();
}

/// A program as another user than this one; `None`: only root can be another one.
pub(crate) fn as_another(at: &Path, command: &[&str]) -> Option<Output> {
    let user = ["--reuid=65534", "--regid=65534", "--clear-groups"];
    let tried = Command::new("setpriv").args(user).arg("true").status();
    if !tried.is_ok_and(|status| status.success()) {
        eprintln!("skipped: no program can be started as another user here");
        return None;
    }
    let mut other = Command::new("setpriv");
    Some(other.args(user).args(command).current_dir(at).output().unwrap())
}

#[test]
fn a_transaction_is_entered_by_its_user_only() {
    let Some(mounted) = Mounted::with(&["--allow-other"], |_| ()) else { return };
    let at = mounted.at();
    fs::write(at.join("a"), "old").unwrap();
    let path = at.join(".tembo/begin");
    let mut file = OpenOptions::new().read(true).write(true).open(path).unwrap();
    let mut number = String::new();
    file.read_to_string(&mut number).unwrap();
    let view = at.join(".tembo/transactions").join(number.trim());
    fs::write(view.join("a"), "new").unwrap();
    let Some(outside) = as_another(&at, &["cat", "a"]) else { return };
    assert_eq!(outside.stdout, b"old", "{outside:?}");
    let seen = format!(".tembo/transactions/{}/a", number.trim());
    let other = as_another(&at, &["cat", &seen]).unwrap();
    assert!(!other.status.success() && other.stdout.is_empty(), "{other:?}");
    // Its own can be entered by it.
    let script = "exec 3<> .tembo/begin; read n <&3; cat .tembo/transactions/$n/a";
    let own = as_another(&at, &["sh", "-ec", script]).unwrap();
    assert_eq!(own.stdout, b"old", "{own:?}");
    assert_eq!(fs::read(view.join("a")).unwrap(), b"new");
    file.write_all(b"commit").unwrap();
    assert_eq!(fs::read(at.join("a")).unwrap(), b"new");
    drop(file);
    mounted.end();
}

#[test]
fn another_user_has_so_many_transactions_at_most() {
    let Some(mounted) = Mounted::with(&["--allow-other"], |_| ()) else { return };
    let at = mounted.at();
    let marked = at.join("marked");
    fs::write(&marked, "content").unwrap();
    fs::set_permissions(&marked, PermissionsExt::from_mode(0o666)).unwrap();
    setxattr(&marked, "user.tembo.transaction", b"1", XattrFlags::empty()).unwrap();
    for path in [".tembo/begin", "marked", ".tembo/begin"] {
        let script = format!("i=0; while exec {{file}}<> {path}; do i=$((i + 1)); done; echo $i");
        let Some(_) = as_another(&at, &["true"]) else { return };
        // The system closes the files of the shell before soon after that has ended.
        let begins_all = || {
            let other = as_another(&at, &["bash", "-c", &script]).unwrap();
            assert!(String::from_utf8_lossy(&other.stderr).contains("Too many open files"));
            let begun: u32 = String::from_utf8_lossy(&other.stdout).trim().parse().unwrap();
            assert!(begun <= 32, "{other:?}");
            begun == 32
        };
        wait_until(begins_all, "what another shell had begun has not ended");
    }
    mounted.end();
}

#[test]
fn a_folder_that_looks_like_a_mount_is_none() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let begin = folder.path().join(".tembo/begin");
    fs::create_dir_all(folder.path().join(".tembo/transactions")).unwrap();
    fs::write(&begin, "../../planted\n").unwrap();
    let refused = txn(folder.path(), &["true"]).output().unwrap();
    assert_eq!(refused.status.code(), Some(NOT_MOUNTED), "{refused:?}");
    assert_eq!(fs::read(&begin).unwrap(), b"../../planted\n");
}

#[test]
fn a_name_that_was_not_there_is_there_behind_the_commit_that_gives_it() {
    let Some(mounted) = mounted() else { return };
    let at = mounted.at();
    fs::create_dir(at.join("d")).unwrap();
    for round in 0..10 {
        let names = [format!("a{round}"), format!("d/b{round}"), format!("e{round}/c")];
        let paths = names.map(|name| at.join(name));
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            // What is looked for all the time, the kernel has in its cache.
            let looked = || {
                while !is_over.load(Ordering::Relaxed) {
                    paths.iter().for_each(|path| drop(path.metadata()));
                }
            };
            (0..2).for_each(|_| drop(scope.spawn(looked)));
            let script =
                format!("echo > a{round}; echo > d/b{round}; mkdir e{round}; echo > e{round}/c");
            let committed = shell(&at, &script);
            let are_there = paths.each_ref().map(|path| path.exists());
            is_over.store(true, Ordering::Relaxed);
            assert!(committed.status.success(), "{committed:?}");
            assert_eq!(are_there, [true; 3]);
        });
    }
    mounted.end();
}
