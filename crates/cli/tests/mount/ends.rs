//! How a mount ends that is in use.

use std::fs::{self, File};
use std::io::{Read, Seek, Write};
use std::os::unix::fs::FileExt;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use rustix::process::Signal;

use crate::mounted::{Mounted, TEMBO};

#[test]
fn a_signal_ends_a_mount_with_open_files_and_all_is_there_again() {
    let Some(mut mounted) = Mounted::new() else { return };
    let at = mounted.at();
    for (round, signal) in [Signal::TERM, Signal::INT].into_iter().enumerate() {
        let name = format!("open {round}");
        let mut file = File::options().read(true).write(true).create_new(true).open(at.join(&name));
        let file = file.as_mut().unwrap();
        // Neither synced nor closed.
        file.write_all(b"written").unwrap();
        mounted.end_by(signal);
        // The directory is as it was before the mount, and the open file leads nowhere.
        assert_eq!(fs::read_dir(&at).unwrap().count(), 0);
        assert!(file.write_all(b"more").is_err() && file.sync_all().is_err());
        file.rewind().unwrap();
        mounted.mount_again();
        assert_eq!(fs::read(at.join(&name)).unwrap(), b"written");
        assert!(file.read_exact_at(&mut [0; 4096], 4096).is_err());
    }
    mounted.end();
}

#[test]
fn a_signal_ends_a_mount_in_which_a_transaction_goes_on() {
    let Some(mut mounted) = Mounted::new() else { return };
    let at = mounted.at();
    fs::write(at.join("a"), "old").unwrap();
    let script = "echo new > a; echo begun; read word; echo more > a";
    let mut program = Command::new(TEMBO)
        .arg("txn")
        .arg(&at)
        .args(["--", "sh", "-ec", script])
        .current_dir(&at)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = [0; 6];
    if program.stdout.as_mut().unwrap().read_exact(&mut said).is_err() {
        eprintln!("skipped, no transactions of programs here: {}", program.wait().unwrap());
        return;
    }
    mounted.end_by(Signal::TERM);
    drop(program.stdin.take());
    assert!(!program.wait().unwrap().success());
    mounted.mount_again();
    assert_eq!(fs::read(at.join("a")).unwrap(), b"old");
    mounted.end();
}

#[test]
fn a_mount_takes_the_place_of_one_whose_process_was_killed() {
    let Some(mut mounted) = Mounted::new() else { return };
    let at = mounted.at();
    let mut file = File::create(at.join("open")).unwrap();
    file.write_all(b"written").unwrap();
    file.sync_all().unwrap();
    mounted.kill();
    // The file is open yet.
    mounted.mount_again();
    assert!(file.write_all(b"more").is_err());
    assert_eq!(fs::read(at.join("open")).unwrap(), b"written");
    mounted.end();
}

#[test]
fn a_mount_ends_with_the_program_that_started_it() {
    if Command::new("setpriv").arg("--version").output().is_err() {
        eprintln!("skipped: setpriv is not installed");
        return;
    }
    let Some(mut mounted) = Mounted::new() else { return };
    mounted.unmount();
    let at = mounted.at();
    // As the lab starts it.
    let script =
        "setpriv --pdeathsig TERM \"$0\" mount \"$1\" \"$2\" --domain logged & echo $!; wait";
    let mut parent = Command::new("sh")
        .args(["-c", script, TEMBO])
        .args([mounted.pool(), at.clone()])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = String::new();
    let mut output = parent.stdout.take().unwrap();
    while !said.contains("is mounted") {
        let mut some = [0; 256];
        let len = output.read(&mut some).unwrap();
        assert!(len > 0, "it has not mounted: {said}");
        said.push_str(&String::from_utf8_lossy(&some[..len]));
    }
    let mut file = File::create(at.join("open")).unwrap();
    file.write_all(b"written").unwrap();
    parent.kill().unwrap();
    parent.wait().unwrap();
    // The last of those that have the pipe is the one that serves the mount.
    let (closed, closes) = mpsc::channel();
    std::thread::spawn(move || closed.send(output.read_to_string(&mut said).is_ok()));
    assert_eq!(closes.recv_timeout(Duration::from_secs(10)), Ok(true), "it does not end");
    assert_eq!(fs::read_dir(&at).unwrap().count(), 0);
    mounted.mount_again();
    assert_eq!(fs::read(at.join("open")).unwrap(), b"written");
    mounted.end();
}
