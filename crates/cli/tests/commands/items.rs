//! The items of memcached, and exchanged databases, as the commands see them that work without a server.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::time::Duration;

use crate::resp::Reply;
use crate::server::{Server, Setup, run};
use crate::{json, text};

/// Many times what anything here takes.
const PATIENCE: Duration = Duration::from_secs(60);

/// Sends a request of memcached's protocol and returns so many lines.
fn ask(server: &Server, request: &str, lines: usize) -> Vec<String> {
    let (_, rest) = server.ready.split_once("memcached at ").unwrap();
    let address = rest.split(' ').next().unwrap();
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut reader = BufReader::new(stream);
    let mut line = || {
        let mut line = String::new();
        reader.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    };
    (0..lines).map(|_| line()).collect()
}

#[test]
fn items_and_exchanged_databases_are_checked_dumped_and_loaded() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let (first, second) = (folder.path().join("1.pool"), folder.path().join("2.pool"));
    let lines = folder.path().join("lines");
    let words = ["--memcached-port", "0"];
    let server = Setup::new(&first, &words).start();
    let stored = ask(&server, "set a 7 0 5\r\nhello\r\nset late 0 4000000000 1\r\nx\r\n", 2);
    assert_eq!(stored, ["STORED", "STORED"]);
    let mut client = server.client();
    let call = |client: &mut crate::resp::Client, words: &[&str]| {
        let words: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
        client.call(&words).unwrap()
    };
    call(&mut client, &["SET", "key", "of 0, then of 5", "EX", "100000"]);
    call(&mut client, &["SWAPDB", "0", "5"]);
    call(&mut client, &["SET", "key", "of 0"]);
    assert!(server.stop().success());
    for pool in [&first, &second] {
        if pool == &second {
            let dump = run(&["dump", text(&first), "--out", text(&lines)]);
            assert!(dump.status.success(), "{dump:?}");
            let load = run(&["load", text(&second), text(&lines), "--json"]);
            assert!(load.status.success(), "{load:?}");
            assert_eq!(json(&load.stdout)["keys"], 4);
        }
        let check = run(&["check", text(pool), "--json"]);
        assert!(check.status.success(), "{check:?}");
        let server = Setup::new(pool, &words).start();
        let found = ask(&server, "get a\r\nmg late t\r\n", 4);
        assert_eq!(found[..3], ["VALUE a 7 5", "hello", "END"]);
        assert!(found[3].starts_with("HD t") && found[3] != "HD t-1", "{found:?}");
        let mut client = server.client();
        assert_eq!(call(&mut client, &["GET", "key"]), Reply::Bulk(b"of 0".into()));
        call(&mut client, &["SELECT", "5"]);
        assert_eq!(call(&mut client, &["GET", "key"]), Reply::Bulk(b"of 0, then of 5".into()));
        assert!(server.stop().success());
    }
}
