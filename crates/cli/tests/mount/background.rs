//! Mounts whose process is in the background, as mount(8) makes them.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use crate::mounted::{TEMBO, done, tembo, text};

/// The options that the system shows of a mount; `None`: there is none.
fn shown(at: &Path) -> Option<String> {
    let mounts = fs::read_to_string("/proc/mounts").unwrap();
    let mut lines = mounts.lines().map(|line| line.split(' '));
    lines.find_map(|mut words| {
        (words.nth(1) == Some(text(at))).then(|| words.nth(1).unwrap().into())
    })
}

/// A folder with a directory `at`, and `tembo` under the name by which mount(8) calls it.
fn folder() -> (tempfile::TempDir, PathBuf, PathBuf) {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let helper = folder.path().join("mount.fuse.tembo");
    symlink(TEMBO, &helper).unwrap();
    let at = folder.path().join("at");
    fs::create_dir(&at).unwrap();
    (folder, helper, at)
}

/// Unmounts it, and waits until its process has closed the pool.
fn unmount(at: &Path, pool: &Path) {
    assert!(tembo(&["umount", text(at)]).status.success());
    let patience = Instant::now() + Duration::from_secs(20);
    while !tembo(&["fs", "check", text(pool)]).status.success() {
        assert!(Instant::now() < patience, "the pool is not closed");
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(tembo(&["check", text(pool)]).status.success());
}

#[test]
fn mount_calls_tembo_and_finds_it_mounted() {
    let (folder, helper, at) = folder();
    let pool = folder.path().join("a.pool");
    let options = "rw,nofail,x-initrd.mount,nosuid,nodev,noexec,domain=logged,size_max=1G";
    let mounted = Command::new(&helper).args([&pool, &at]).args(["-o", options]).output().unwrap();
    if !mounted.status.success() {
        let error = String::from_utf8_lossy(&mounted.stderr);
        assert!(error.contains("mounting at"), "{error}");
        eprintln!("skipped, FUSE is not permitted here: {error}");
        return;
    }
    assert!(mounted.stdout.is_empty() && mounted.stderr.is_empty(), "{mounted:?}");
    let options = shown(&at).unwrap();
    assert!(options.contains("nosuid,nodev,noexec"), "{options}");
    let program = at.join("program");
    fs::write(&program, "#!/bin/sh\n").unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let error = Command::new(&program).status().unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::PermissionDenied);
    unmount(&at, &pool);
    done(Command::new(&helper).args([&pool, &at]).args(["-o", "ro,domain=logged"]));
    let options = shown(&at).unwrap();
    assert!(options.starts_with("ro,") && !options.contains("no"), "{options}");
    assert!(Command::new(&program).status().unwrap().success());
    assert!(fs::write(&program, "").is_err());
    unmount(&at, &pool);
}

#[test]
fn what_is_mounted_is_made_to_be_read_only_and_written_again() {
    let (folder, helper, at) = folder();
    let pool = folder.path().join("a.pool");
    let mount =
        |options| Command::new(&helper).args([&pool, &at]).args(["-o", options]).output().unwrap();
    if !mount("nosuid,domain=logged").status.success() {
        eprintln!("skipped, FUSE is not permitted here");
        return;
    }
    fs::write(at.join("a"), "first").unwrap();
    let again = mount("remount,ro,noexec,domain=logged");
    if !again.status.success() {
        // Another user than root may not.
        eprintln!("skipped: {again:?}");
        return unmount(&at, &pool);
    }
    let options = shown(&at).unwrap();
    assert!(options.starts_with("ro,") && options.contains("noexec"), "{options}");
    let error = fs::write(at.join("a"), "second").unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::ReadOnlyFilesystem);
    assert!(mount("remount,rw,domain=logged").status.success());
    let options = shown(&at).unwrap();
    assert!(options.starts_with("rw,") && !options.contains("noexec"), "{options}");
    fs::write(at.join("a"), "second").unwrap();
    assert_eq!(fs::read(at.join("a")).unwrap(), b"second");
    unmount(&at, &pool);
}

#[test]
fn what_was_unmounted_is_mounted_at_once_again() {
    let (folder, helper, at) = folder();
    let pool = folder.path().join("a.pool");
    let mount = || Command::new(&helper).args([&pool, &at]).args(["-o", "domain=logged"]).output();
    if !mount().unwrap().status.success() {
        eprintln!("skipped, FUSE is not permitted here");
        return;
    }
    for round in 0..20u8 {
        fs::write(at.join("a"), vec![round; 1 << 20]).unwrap();
        assert!(tembo(&["umount", text(&at)]).status.success());
        let again = mount().unwrap();
        assert!(again.status.success(), "{again:?}");
        assert_eq!(fs::read(at.join("a")).unwrap(), vec![round; 1 << 20]);
    }
    unmount(&at, &pool);
}

#[test]
fn what_cannot_be_mounted_says_why() {
    let (folder, helper, at) = folder();
    let pool = folder.path().join("a.pool");
    fs::write(&pool, "no pool").unwrap();
    let foreground = tembo(&["mount", text(&pool), text(&at)]);
    let background = Command::new(&helper).args([&pool, &at]).output().unwrap();
    assert!(!foreground.stderr.is_empty());
    assert_eq!(background.stderr, foreground.stderr);
    assert_eq!(background.status.code(), foreground.status.code());
    let unknown = Command::new(&helper).args([&pool, &at]).args(["-o", "size"]).output().unwrap();
    let error = String::from_utf8_lossy(&unknown.stderr);
    assert!(!unknown.status.success() && error.contains("--size"), "{error}");
    assert_eq!((shown(&at), fs::read(&pool).unwrap()), (None, b"no pool".to_vec()));
}
