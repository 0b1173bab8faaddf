//! Servers that only read their pool.

use std::path::Path;

use crate::resp::{Client, Reply};
use crate::server::{Setup, run};
use crate::text;

/// Exit code of a pool that is open to be read only.
const READ_ONLY: i32 = 35;

fn log(pool: &Path) -> std::path::PathBuf {
    pool.with_extension("pool.log")
}

fn call(client: &mut Client, line: &str) -> Reply {
    let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
    client.call(&words).unwrap()
}

fn is_refused(reply: &Reply) -> bool {
    matches!(reply, Reply::Error(text) if text.starts_with("READONLY "))
}

/// Two servers read a pool that a third one left by a crash: they show the same, refuse every change, hide what expires, and
/// leave the files byte for byte as they were.
#[test]
fn servers_that_only_read_share_a_pool_and_never_change_it() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let pool = folder.path().join("a.pool");
    let writer = Setup::new(&pool, &["--size", "8M", "--log-size", "4M"]).start();
    let mut client = writer.client();
    for line in ["SET k v", "SET soon gone PX 1", "SET n 7", "LPOS a b"] {
        call(&mut client, line);
    }
    let reading = Setup::new(&pool, &["--read-only"]);
    assert!(reading.try_start().is_err(), "beside a server that writes");
    writer.kill();
    let before = (std::fs::read(&pool).unwrap(), std::fs::read(log(&pool)).unwrap());

    let servers = [reading.start(), reading.start()];
    assert!(Setup::new(&pool, &[]).try_start().is_err(), "a writer beside servers that read");
    for server in &servers {
        let mut client = server.client();
        assert_eq!(call(&mut client, "GET k"), Reply::Bulk(b"v".into()));
        assert_eq!(call(&mut client, "GET soon"), Reply::Nil);
        for line in [
            "SET k w",
            "DEL k",
            "INCR n",
            "EXPIRE k 1",
            "FLUSHALL",
            "GETEX k",
            "SAVE",
            "BGSAVE",
            "SHUTDOWN SAVE",
        ] {
            let reply = call(&mut client, line);
            assert!(is_refused(&reply), "{line}: {reply:?}");
        }
        assert_eq!(call(&mut client, "MULTI"), Reply::Simple("OK".into()));
        assert!(is_refused(&call(&mut client, "SET k w")));
        assert!(
            matches!(call(&mut client, "EXEC"), Reply::Error(text) if text.starts_with("EXECABORT "))
        );
        assert_eq!(call(&mut client, "MULTI"), Reply::Simple("OK".into()));
        call(&mut client, "GET k");
        assert_eq!(call(&mut client, "EXEC"), Reply::Array(vec![Reply::Bulk(b"v".into())]));
        let Reply::Bulk(info) = call(&mut client, "INFO persistence") else { panic!("no text") };
        assert!(String::from_utf8(info).unwrap().contains("tembo_read_only:1\r\n"));
    }
    for server in servers {
        assert!(server.stop().success());
    }
    assert!((std::fs::read(&pool).unwrap(), std::fs::read(log(&pool)).unwrap()) == before);
}

#[test]
fn a_pool_that_no_server_has_made_is_refused_with_advice() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let pool = folder.path().join("a.pool");
    drop(tembo_kv::Store::create(&pool, &tembo_kv::Options::new().size(1 << 20)).unwrap());
    for (words, code, advice) in [
        (&["--read-only"][..], READ_ONLY, "start the server once"),
        (&["--read-only", "--domain", "volatile"], 2, "leave --read-only out"),
        (&["--read-only", "--retain-seconds", "5"], 2, "cannot be used with"),
    ] {
        let refused = run(&[&["serve", "--pool", text(&pool), "--port", "0"], words].concat());
        let said = String::from_utf8(refused.stderr).unwrap();
        assert_eq!(refused.status.code(), Some(code), "{said}");
        assert!(said.contains(advice), "{said}");
    }
    let missing = run(&["serve", "--pool", text(&folder.path().join("none")), "--read-only"]);
    assert_eq!(missing.status.code(), Some(20));
}
