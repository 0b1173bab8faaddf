//! The extension in the programs that people have, unmodified: the `sqlite3` shell and Python, where they are installed.

#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout, missing_docs, unreachable_pub)]

#[path = "programs/host.rs"]
mod host;

use std::io::{BufRead, BufReader};
use std::process::Stdio;

use host::{Folder, has, has_python, python, shell};

#[test]
fn the_shell_goes_on_where_another_shell_has_stopped() {
    if !has("sqlite3", &[":memory:", "select 1"]) {
        return;
    }
    let folder = Folder::new("shell");
    let first = "
        .open file:app.pool?vfs=tembo
        pragma journal_mode = wal;
        create table t(a integer primary key, b text);
        insert into t(b) values('one'), ('two');
        pragma tembo_snapshot = monday;
        begin; insert into t(b) values('three'); rollback;
        insert into t(b) select hex(randomblob(400)) from t a, t b, t c, t d, t e, t f, t g, t h;
        delete from t where a % 3 = 0;
        vacuum;
        pragma integrity_check;
        select count(*) from t;";
    let printed = shell(&folder, first);
    let lines: Vec<&str> = printed.lines().collect();
    assert_eq!((lines[0], &lines[2..]), ("wal", &["ok", "172"][..]), "{printed}");
    let second = "
        .open file:app.pool?vfs=tembo
        select count(*) from t;
        attach 'file:app.pool?vfs=tembo&snapshot=monday' as monday;
        select group_concat(b) from monday.t;
        insert into monday.t(b) values('no');";
    let printed = shell(&folder, second);
    assert!(printed.starts_with("172\none,two\n"), "{printed}");
    assert!(printed.contains("readonly"), "{printed}");
    // An open transaction of a shell that ends is dropped.
    shell(&folder, ".open file:app.pool?vfs=tembo\nbegin;\ndelete from t;");
    let printed = shell(&folder, ".open file:app.pool?vfs=tembo\nselect count(*) from t;");
    assert_eq!(printed, "172\n");
}

#[test]
fn a_database_does_what_an_ordinary_one_does() {
    if !has_python() {
        return;
    }
    let folder = Folder::new("features");
    let output = python("features", &folder.0.join("bank.pool")).output().unwrap();
    let (printed, errors) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && printed.ends_with("done\n"), "{printed}{errors}");
}

#[test]
fn what_was_committed_is_there_after_a_kill_and_the_rest_is_not() {
    if !has_python() {
        return;
    }
    let folder = Folder::new("kills");
    let pool = folder.0.join("bank.pool");
    let mut acknowledged = [-1_i64; 4];
    let rounds = std::env::var("TEMBO_SQLITE_ROUNDS").map_or(10, |rounds| rounds.parse().unwrap());
    for round in 0..rounds {
        let mut bank = python("run", &pool).stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(bank.stdout.take().unwrap()).lines();
        let mut note = |line: String| {
            // The last line may be cut off.
            let mut words = line.split(' ').map(str::parse::<i64>);
            if let (Some(Ok(writer)), Some(Ok(n))) = (words.next(), words.next()) {
                acknowledged[writer as usize] = acknowledged[writer as usize].max(n);
            }
        };
        lines.by_ref().take(10 + 13 * (round % 20)).for_each(|line| note(line.unwrap()));
        bank.kill().unwrap();
        bank.wait().unwrap();
        let output = python("check", &pool).output().unwrap();
        let printed = String::from_utf8_lossy(&output.stdout);
        let found: Vec<&str> = printed.lines().collect();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(found[..2], ["ok", "40000"], "round {round}: {printed}{errors}");
        for writer in 0..acknowledged.len() {
            let last: i64 = found[2 + writer].parse().unwrap();
            assert!(last >= acknowledged[writer], "round {round}: {last} of {acknowledged:?}");
        }
    }
}
