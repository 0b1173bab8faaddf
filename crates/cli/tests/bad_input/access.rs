//! Pools that are held, protected, or asked for in the wrong way.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;

use crate::folder::{Folder, holds};
use crate::server::{run, tembo};

const USAGE: i32 = 2;
const HELD: i32 = 11;
const NO_PERMISSION: i32 = 15;
const UNPROTECTED: i32 = 18;
const ADDRESS_IN_USE: i32 = 19;
const POOL_MISSING: i32 = 20;

/// Debian's user `nobody`, which owns no file.
const OTHER_USER: u32 = 65534;

#[test]
fn the_error_of_a_second_process_names_the_one_that_holds_the_pool() {
    let folder = Folder::logged();
    let server = folder.filled(10);
    let pool = folder.pool();
    let status = folder.setup().try_start().unwrap_err();
    assert_eq!(status.code(), Some(HELD));
    for command in ["stat", "check", "dump"] {
        let output = run(&[command, pool.to_str().unwrap()]);
        assert_eq!(output.status.code(), Some(HELD), "{command}");
        let errors = String::from_utf8(output.stderr).unwrap();
        let holder = format!("process {}", server.process.id());
        assert!(errors.contains(&holder), "{errors} does not name {holder}");
    }
    holds(&server, 10);
    server.kill();
    folder.holds(10);
}

#[test]
fn a_directory_that_may_not_be_written_to() {
    let folder = Folder::at(tempfile::tempdir().unwrap(), &["--domain", "logged"]);
    let mut setup = folder.setup();
    // The superuser may write anywhere, so that another user has to try.
    if rustix::process::geteuid().is_root() {
        let binary = folder.path().join("tembo");
        std::fs::copy(env!("CARGO_BIN_EXE_tembo"), &binary).unwrap();
        (setup.binary, setup.user) = (binary, Some(OTHER_USER));
    }
    std::fs::set_permissions(folder.path(), Permissions::from_mode(0o555)).unwrap();
    let status = setup.try_start().unwrap_err();
    assert_eq!(status.code(), Some(NO_PERMISSION));
    assert!(!folder.pool().exists());
    std::fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn a_pool_that_may_not_be_read() {
    let folder = Folder::at(tempfile::tempdir().unwrap(), &["--domain", "logged"]);
    folder.filled(10).kill();
    let mut setup = folder.setup();
    if rustix::process::geteuid().is_root() {
        let binary = folder.path().join("tembo");
        std::fs::copy(env!("CARGO_BIN_EXE_tembo"), &binary).unwrap();
        (setup.binary, setup.user) = (binary, Some(OTHER_USER));
        std::fs::set_permissions(folder.path(), Permissions::from_mode(0o777)).unwrap();
    }
    std::fs::set_permissions(folder.pool(), Permissions::from_mode(0o000)).unwrap();
    let status = setup.try_start().unwrap_err();
    assert_eq!(status.code(), Some(NO_PERMISSION));
    std::fs::set_permissions(folder.pool(), Permissions::from_mode(0o600)).unwrap();
    folder.holds(10);
}

#[test]
fn the_network_needs_a_password() {
    let folder = Folder::logged();
    let mut setup = folder.setup();
    setup.words.extend(["--bind".into(), "0.0.0.0".into()]);
    assert_eq!(setup.try_start().unwrap_err().code(), Some(UNPROTECTED));
    assert!(folder.files().is_empty(), "a refused server has made files");
}

#[test]
fn an_address_in_use() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    let folder = Folder::logged();
    let mut setup = folder.setup();
    setup.port = port;
    assert_eq!(setup.try_start().unwrap_err().code(), Some(ADDRESS_IN_USE));
}

#[test]
fn a_pool_that_is_not_there() {
    for command in ["stat", "check", "dump"] {
        let output = run(&[command, "/nowhere/a.pool"]);
        assert_eq!(output.status.code(), Some(POOL_MISSING), "{command}");
    }
}

#[test]
fn wrong_usage() {
    for words in
        [&["serve", "--domain", "disk"][..], &["check"], &["fly"], &["serve", "--size", "x"]]
    {
        assert_eq!(run(words).status.code(), Some(USAGE), "{words:?}");
    }
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let folder = Folder::with_pool(500);
    let mut child = tembo()
        .arg("dump")
        .arg(folder.pool())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    assert!(child.wait().unwrap().success());
}
