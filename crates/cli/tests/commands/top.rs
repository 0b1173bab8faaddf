//! `tembo top`.

use serde_json::Value;

use crate::server::{Setup, run};

/// Exit codes.
const NO_SERVER: i32 = 33;
const PASSWORD: i32 = 34;

#[test]
fn a_look_shows_what_the_server_does() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let server = Setup::new(&folder.path().join("a.pool"), &[]).start();
    let mut client = server.client();
    client.call(&[b"CONFIG", b"SET", b"slowlog-log-slower-than", b"0"]).unwrap();
    client.call(&[b"SET", b"a\x1b[2J", b"1"]).unwrap();
    client.call(&[b"GET", b"a\x1b[2J"]).unwrap();
    let address = server.address.to_string();
    let output = run(&["top", &address, "--once", "--json"]);
    assert!(output.status.success(), "{output:?}");
    let shown: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(shown["server"]["address"], address);
    assert_eq!(shown["server"]["role"], "master");
    assert_eq!(shown["clients"]["connected"], 2);
    assert_eq!(shown["keyspace"][0]["keys"], 1);
    assert_eq!(shown["hits_percent"], 100.0);
    assert!(shown["pool"]["used"].as_u64().unwrap() > 0, "{shown}");
    let names = |list: &Value| -> Vec<String> {
        list.as_array()
            .unwrap()
            .iter()
            .map(|one| one["name"].as_str().unwrap().to_owned())
            .collect()
    };
    assert!(names(&shown["commands"]).contains(&"set".to_owned()), "{shown}");
    assert!(names(&shown["stages"]).contains(&"turn".to_owned()), "{shown}");
    let slow = shown["slow"].as_array().unwrap();
    // The bytes of a key do not reach the terminal.
    assert!(slow.iter().any(|slow| slow["command"] == "GET a\\x1b[2J"), "{slow:?}");
    let text = run(&["top", &address, "--once"]);
    let text = String::from_utf8(text.stdout).unwrap();
    assert!(text.contains("\nkeys      db0 1\n") && !text.contains('\x1b'), "{text}");
    assert!(server.stop().success());
}

#[test]
fn a_server_that_is_not_there_or_wants_a_password_has_its_exit_code() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let password = folder.path().join("password");
    std::fs::write(&password, "secret\n").unwrap();
    let path = password.to_str().unwrap();
    let words = ["--requirepass-file", path];
    let server = Setup::new(&folder.path().join("a.pool"), &words).start();
    let address = server.address.to_string();
    let denied = run(&["top", &address, "--once"]);
    assert_eq!(denied.status.code(), Some(PASSWORD), "{denied:?}");
    let output = run(&["top", &address, "--once", "--json", "--requirepass-file", path]);
    assert!(output.status.success(), "{output:?}");
    assert!(server.stop().success());
    let missing = run(&["top", &address, "--once"]);
    assert_eq!(missing.status.code(), Some(NO_SERVER), "{missing:?}");
}
