//! Persistent memory that is only pretended is said to be, wherever the domain is.

use std::io::{BufRead, BufReader};
use std::process::Stdio;

use crate::resp::Reply;
use crate::server::{Setup, run, tembo};
use crate::{json, text};

#[test]
fn an_emulated_flush_is_said() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    for (domain, emulated) in [("flush", true), ("logged", false)] {
        let pool = folder.path().join(format!("{domain}.pool"));
        let server = Setup::new(&pool, &["--domain", domain]).start();
        assert_eq!(server.ready.contains("(emulated"), emulated, "{}", server.ready);
        assert!(server.ready.contains(&format!("domain {domain}")), "{}", server.ready);
        let Reply::Bulk(info) = server.client().call(&[b"INFO", b"persistence"]).unwrap() else {
            panic!()
        };
        let wanted = format!("\r\ntembo_emulated:{}\r\n", u8::from(emulated));
        assert!(String::from_utf8(info).unwrap().contains(&wanted), "{wanted}");
        assert!(server.stop().success());

        let words = ["serve", "--pool", text(&pool), "--port", "0", "--domain", domain, "--json"];
        let mut child = tembo().args(words).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        let ready = json(line.as_bytes());
        assert_eq!((&ready["domain"], &ready["emulated"]), (&domain.into(), &emulated.into()));

        // It reads the pool, and says how that was written.
        let stat = json(&run(&["stat", text(&pool), "--json"]).stdout);
        assert_eq!((&stat["domain"], &stat["emulated"]), (&domain.into(), &emulated.into()));
        let said = String::from_utf8(run(&["stat", text(&pool)]).stdout).unwrap();
        assert_eq!(said.contains("(emulated"), emulated, "{said}");
    }
}
