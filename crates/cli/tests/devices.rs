//! The devices and the SQLite databases of a pool, from the command line. What needs Debian's `sqlite3` says so where there is none.

#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stderr)]

#[path = "devices/clones.rs"]
mod clones;
#[path = "devices/served.rs"]
mod served;

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;

struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Folder {
        Folder(tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Runs `tembo` in the folder.
    fn tembo(&self, words: &str) -> Output {
        self.with_input(words, b"")
    }

    fn with_input(&self, words: &str, input: &[u8]) -> Output {
        let mut tembo = Command::new(env!("CARGO_BIN_EXE_tembo"));
        tembo.args(words.split(' ')).current_dir(self.0.path()).stdin(Stdio::piped());
        let mut tembo = tembo.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        // A command that does not read it has closed the pipe.
        let _ = tembo.stdin.take().unwrap().write_all(input);
        tembo.wait_with_output().unwrap()
    }

    /// That a command ends well; what it prints.
    fn done(&self, words: &str) -> String {
        let output = self.tembo(words);
        assert!(output.status.success(), "{words}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// As `done`, of a command that prints JSON, by lines.
    fn json(&self, words: &str) -> Vec<Value> {
        let printed = self.done(&format!("{words} --json"));
        printed.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// That a command fails with that code, and says so.
    fn refused(&self, words: &str, code: i32, says: &str) {
        let output = self.tembo(words);
        let error = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(code), "{words}: {error}");
        assert!(error.contains(says) && error.contains("help: "), "{words}: {error}");
    }

    /// What SQLite's shell prints for a script; `None`: there is none.
    fn sqlite(&self, file: &str, script: &str) -> Option<String> {
        let mut shell = Command::new("sqlite3");
        let output = shell.arg(file).arg(script).current_dir(self.0.path()).output();
        let Ok(output) = output else {
            eprintln!("not tried: there is no sqlite3");
            return None;
        };
        assert!(output.status.success(), "{script}: {output:?}");
        Some(String::from_utf8(output.stdout).unwrap())
    }
}

fn same(a: &Path, b: &Path) -> bool {
    fs::read(a).unwrap() == fs::read(b).unwrap()
}

#[test]
fn an_image_comes_in_and_out_and_an_old_copy_is_brought_up_to_date() {
    let folder = Folder::new();
    let mut image = vec![0; 3 << 20];
    image[5000..9000].fill(7);
    image[(2 << 20)..(2 << 20) + 100].fill(9);
    image.truncate((3 << 20) - 77);
    fs::write(folder.path("image"), &image).unwrap();
    let done = &folder.json("device import a.pool disk image")[0];
    assert_eq!((&done["device"], &done["bytes"]), (&"disk".into(), &12288.into()));
    folder.done("device export a.pool disk out");
    assert!(same(&folder.path("image"), &folder.path("out")));
    let stat = &folder.json("device stat a.pool disk")[0];
    assert_eq!((&stat["len"], &stat["stored"]), (&image.len().into(), &12288.into()), "{stat}");

    folder.done("device snapshot a.pool monday");
    folder.done("device clone a.pool disk copy");
    folder.done("device remove a.pool disk");
    image[100..200].fill(3);
    let output = folder.with_input("device import a.pool disk -", &image);
    assert!(output.status.success(), "{output:?}");
    // It is another device of that name: the two have no difference.
    folder.refused("device changes a.pool disk --since monday", 39, "different devices");
    folder.done("device export a.pool disk then --snapshot monday");
    assert!(same(&folder.path("out"), &folder.path("then")));
    folder.done("device export a.pool copy copied");
    assert!(same(&folder.path("out"), &folder.path("copied")));
    let names: Vec<_> =
        folder.json("device list a.pool").iter().map(|one| one["name"].clone()).collect();
    assert_eq!(names, ["copy", "disk"]);
    let check = &folder.json("device check a.pool")[0];
    assert_eq!(
        (&check["devices"], &check["stray"], &check["leaked"]),
        (&2.into(), &0.into(), &0.into())
    );
}

#[test]
fn what_has_changed_since_a_snapshot_brings_a_copy_up_to_date() {
    let folder = Folder::new();
    folder.done("device create a.pool disk --len 1M --block-size 512 --fixed");
    folder.done("device snapshot a.pool before");
    folder.done("device export a.pool disk copy");
    let change = |bytes: &[u8], at: u64| {
        let store =
            tembo_kv::Store::open(&folder.path("a.pool"), &tembo_kv::Options::new()).unwrap();
        let array = tembo_array::Array::open(&store).unwrap();
        let disk = array.device("disk").unwrap();
        array.write(&disk, at, bytes, tembo_kv::Durability::Strict).unwrap();
        drop((disk, array));
        store.close().unwrap();
    };
    change(&[5; 700], 1000);
    change(&[6; 512], 1 << 19);
    let ranges = folder.json("device changes a.pool disk --since before");
    let ranges: Vec<_> =
        ranges.iter().map(|range| (range["offset"].as_u64(), range["len"].as_u64())).collect();
    assert_eq!(ranges, [(Some(512), Some(1536)), (Some(1 << 19), Some(512))]);
    let done = &folder.json("device export a.pool disk copy --since before")[0];
    assert_eq!(done["bytes"], 2048);
    folder.done("device export a.pool disk whole");
    assert!(same(&folder.path("copy"), &folder.path("whole")));
    folder.done("device export a.pool disk then --snapshot before");
    assert!(fs::read(folder.path("then")).unwrap().iter().all(|byte| *byte == 0));
}

#[test]
fn errors_say_what_to_do() {
    let folder = Folder::new();
    folder.refused("device list missing.pool", 20, "does not exist");
    folder.done("device create a.pool disk");
    folder.refused("device create a.pool disk", 28, "disk");
    folder.refused("device create a.pool other --block-size 1000", 2, "power of two");
    folder.refused("device stat a.pool other", 39, "other");
    folder.refused("device export a.pool disk out --snapshot never", 29, "never");
    folder.refused("device export a.pool other out", 39, "other");
    fs::write(folder.path("text"), "no database").unwrap();
    folder.refused("sqlite import a.pool text", 40, "text is not a SQLite database");
    folder.refused("sqlite stat a.pool", 39, "main");
    folder.refused("sqlite stat a.pool --name disk", 40, "disk");
    folder.refused("device export a.pool disk text", 28, "text exists");
    let store = tembo_kv::Store::open(&folder.path("a.pool"), &tembo_kv::Options::new()).unwrap();
    folder.refused("sqlite list a.pool", 11, "held by");
    drop(store);
    assert_eq!(folder.done("sqlite list a.pool"), "");
}

#[test]
fn a_database_comes_in_is_cloned_and_comes_out() {
    let folder = Folder::new();
    let rows = "create table t(a integer primary key, b); insert into t values(1, 'one'), (2, 'two'); pragma user_version = 77;";
    if folder.sqlite("old.db", rows).is_none() {
        return;
    }
    let done = &folder.json("sqlite import a.pool old.db")[0];
    assert_eq!((&done["pages"], &done["recovered"]), (&2.into(), &0.into()));
    folder.refused("sqlite import a.pool old.db", 28, "main");
    folder.done("sqlite import a.pool old.db --name second");
    folder.done("sqlite snapshot a.pool monday");
    folder.done("sqlite clone a.pool third --name second --snapshot monday");
    let listed = folder.json("sqlite list a.pool");
    let names: Vec<_> = listed.iter().map(|one| one["name"].clone()).collect();
    assert_eq!(names, ["main", "second", "third"]);
    let stat = &folder.json("sqlite stat a.pool --name third")[0];
    assert_eq!((&stat["user_version"], &stat["is_clone"]), (&77.into(), &true.into()));
    let check = &folder.json("sqlite check a.pool")[0];
    assert_eq!((&check["databases"], &check["faults"]), (&3.into(), &Value::Array(vec![])));
    folder.done("sqlite export a.pool main.db --snapshot monday");
    folder.done("sqlite export a.pool third.db --name third");
    for name in ["main", "third"] {
        let shown = folder.sqlite(
            &format!("{name}.db"),
            "pragma integrity_check; select * from t; pragma user_version",
        );
        assert_eq!(shown.unwrap(), "ok\n1|one\n2|two\n77\n");
    }
    folder.refused("sqlite export a.pool old.db", 28, "old.db");
}
