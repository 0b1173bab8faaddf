//! Backups of a server that runs.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Output;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::resp::{Client, Reply};
use super::server::{Server, Setup};
use super::{json, run, text};

/// A folder with a pool and one for backups.
struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Place {
        let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        std::fs::create_dir(folder.path().join("backups")).unwrap();
        Place(folder)
    }

    fn file(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn backup(&self, name: &str) -> PathBuf {
        self.file("backups").join(name)
    }

    fn setup(&self) -> Setup {
        let folder = self.file("backups");
        let words = ["--backup-dir", text(&folder), "--size", "8M", "--log-size", "4M"];
        Setup::new(&self.file("a.pool"), &words)
    }

    /// Key and value of what a restore of the backups makes.
    fn restored(&self, name: &str, backups: &[&str]) -> BTreeMap<String, String> {
        let pool = self.file(name);
        let files: Vec<PathBuf> = backups.iter().map(|name| self.backup(name)).collect();
        let mut words = vec!["restore", text(&pool)];
        words.extend(files.iter().map(|file| text(file)));
        let restored = run(&words);
        assert!(restored.status.success(), "{restored:?}");
        assert!(run(&["check", text(&pool)]).status.success());
        dump(&pool)
    }
}

fn dump(pool: &Path) -> BTreeMap<String, String> {
    let lines = run(&["dump", text(pool)]).stdout;
    let pair = |line: &[u8]| {
        let line = json(line);
        (line["key"].as_str().unwrap().to_owned(), line["value"].as_str().unwrap().to_owned())
    };
    lines.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).map(pair).collect()
}

fn backup(server: &Server, words: &[&str]) -> Output {
    let address = server.address.to_string();
    run(&[&["backup", "--server", &address, "--json"], words].concat())
}

fn words(line: &str) -> Vec<&[u8]> {
    line.split(' ').map(str::as_bytes).collect()
}

/// Sends these at once, so that one turn executes them all.
fn at_once(client: &mut Client, lines: &[&str]) -> Vec<Reply> {
    lines.iter().for_each(|line| client.push(&words(line)));
    client.send().unwrap();
    lines.iter().map(|_| client.read().unwrap()).collect()
}

/// The field of the status.
fn status(client: &mut Client, name: &str) -> String {
    let Reply::Array(parts) = client.call(&words("TEMBO.BACKUP STATUS")).unwrap() else { panic!() };
    let is_it = |pair: &&[Reply]| pair[0] == Reply::Bulk(name.into());
    match &parts.chunks_exact(2).find(is_it).unwrap()[1] {
        Reply::Bulk(text) => String::from_utf8(text.clone()).unwrap(),
        Reply::Integer(number) => number.to_string(),
        other => panic!("{other:?}"),
    }
}

fn wait_for_end(client: &mut Client) -> String {
    while status(client, "state") == "running" {
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    status(client, "state")
}

const PAIRS: u64 = 2000;

/// Writes both keys of a pair in one MULTI, again and again.
fn write_pairs(mut client: Client, stop: &AtomicBool, written: &AtomicU64) {
    for round in 0u64.. {
        if stop.load(Ordering::Relaxed) {
            return;
        }
        let pair = round * 7919 % PAIRS;
        let value = format!("{round:060}");
        let (left, right) = (format!("SET left{pair} {value}"), format!("SET right{pair} {value}"));
        let replies = at_once(&mut client, &["MULTI", &left, &right, "EXEC"]);
        assert!(matches!(&replies[3], Reply::Array(done) if done.len() == 2), "{replies:?}");
        written.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn a_backup_beside_clients_is_of_one_version_and_the_next_brings_the_rest() {
    let place = Place::new();
    let server = place.setup().start();
    let (stop, written) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for _ in 0..2 {
            let client = server.client();
            scope.spawn(|| write_pairs(client, &stop, &written));
        }
        for number in 0..4 {
            while written.load(Ordering::Relaxed) < 500 * number {
                std::thread::yield_now();
            }
            let name = format!("{number}.bak");
            let saved = backup(&server, &[&name, "--keep", "last"]);
            assert!(saved.status.success(), "{saved:?}");
            let state = place.restored(&format!("{number}.pool"), &[&name]);
            for (key, value) in &state {
                if let Some(pair) = key.strip_prefix("left") {
                    assert_eq!(state.get(&format!("right{pair}")), Some(value), "{key}");
                }
            }
            let (left, all) = (state.keys().filter(|key| key.starts_with("left")), state.len());
            assert_eq!(2 * left.count(), all);
            assert!(all as u64 >= if number == 0 { 0 } else { 500 }, "{all}");
        }
        // Of each writer one may have been written before the last backup, and counted since.
        let counted = written.load(Ordering::Relaxed);
        while written.load(Ordering::Relaxed) < counted + 3 {
            std::thread::yield_now();
        }
        stop.store(true, Ordering::Relaxed);
    });
    let saved = backup(&server, &["rest.bak", "--since", "3.bak"]);
    assert!(saved.status.success(), "{saved:?}");
    let saved = json(&saved.stdout);
    assert!(saved["since"].as_u64() < saved["version"].as_u64(), "{saved}");
    let Reply::Bulk(info) = server.client().call(&words("INFO persistence")).unwrap() else {
        panic!()
    };
    let info = String::from_utf8(info).unwrap();
    for line in [
        "tembo_backup_in_progress:0".to_owned(),
        "tembo_backup_name:rest.bak".to_owned(),
        "tembo_backup_state:done".to_owned(),
        format!("tembo_backup_version:{}", saved["version"]),
    ] {
        assert!(info.lines().any(|found| found == line), "{line} is not in {info}");
    }
    assert!(server.stop().success());
    let restored = place.restored("rest.pool", &["3.bak", "rest.bak"]);
    assert_eq!(restored, dump(&place.file("a.pool")));
}

#[test]
fn one_backup_at_a_time_and_a_cancelled_one_leaves_nothing() {
    let place = Place::new();
    let server = place.setup().start();
    let mut client = server.client();
    // The worker cannot begin before the turn that wrote has ended.
    let replies = at_once(
        &mut client,
        &[
            "TEMBO.BACKUP STATUS",
            "SET a 1",
            "TEMBO.BACKUP START first",
            "TEMBO.BACKUP START second",
            "TEMBO.BACKUP CANCEL",
        ],
    );
    let ok = Reply::Simple("OK".into());
    assert_eq!(
        replies[0],
        Reply::Array(vec![Reply::Bulk("state".into()), Reply::Bulk("none".into())])
    );
    assert_eq!((&replies[2], &replies[4]), (&ok, &ok));
    assert!(matches!(&replies[3], Reply::Error(error) if error.starts_with("INPROG ")));
    assert_eq!(wait_for_end(&mut client), "cancelled");
    assert_eq!(std::fs::read_dir(place.file("backups")).unwrap().count(), 0);
    let Reply::Bulk(info) = client.call(&words("INFO persistence")).unwrap() else { panic!() };
    assert!(!String::from_utf8(info).unwrap().contains("backup under way"));
    let none = client.call(&words("TEMBO.BACKUP CANCEL")).unwrap();
    assert!(matches!(none, Reply::Error(_)), "{none:?}");
    assert_eq!(client.call(&words("TEMBO.BACKUP START first")).unwrap(), ok);
    assert_eq!(wait_for_end(&mut client), "done");
    assert!(server.stop().success());
    assert_eq!(place.restored("b.pool", &["first"]).len(), 1);
}

#[test]
fn what_a_server_refuses_has_an_exit_code() {
    let place = Place::new();
    let password = place.file("password");
    std::fs::write(&password, "secret\n").unwrap();
    let mut setup = place.setup();
    setup.words.extend(["--requirepass-file".to_owned(), text(&password).to_owned()]);
    let server = setup.start();
    let code = |words: &[&str]| backup(&server, words).status.code();
    assert_eq!(code(&["whole"]), Some(34));
    let with = |words: &[&str]| code(&[&["--requirepass-file", text(&password)], words].concat());
    assert_eq!(with(&["whole"]), Some(0));
    assert_eq!(with(&["whole"]), Some(28));
    for name in ["../whole", "/whole", ".whole", "a/b", "a.partial"] {
        assert_eq!(with(&[name]), Some(2), "{name}");
    }
    assert_eq!(with(&["part", "--since", "../whole"]), Some(2));
    std::fs::write(place.backup("none"), "no backup").unwrap();
    assert_eq!(with(&["part", "--since", "none"]), Some(26));
    let mut client = server.client();
    client.call(&words("AUTH secret")).unwrap();
    client.call(&words("SET a 1")).unwrap();
    assert_eq!(with(&["part", "--since", "whole"]), Some(29));
    std::fs::remove_dir_all(place.file("backups")).unwrap();
    assert_eq!(with(&["part"]), Some(30));
    assert!(server.stop().success());

    assert_eq!(place.setup().try_start().unwrap_err().code(), Some(2));
    let without = Setup::new(&place.file("a.pool"), &[]).start();
    let refused = backup(&without, &["whole"]);
    assert_eq!(refused.status.code(), Some(30));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("--backup-dir"));
    let address = without.address.to_string();
    assert_eq!(run(&["backup", "--server", &address, "a.pool", "whole"]).status.code(), Some(2));
    assert!(without.stop().success());
    // A port without a listener: that of the stopped server may be another's by now.
    assert_eq!(run(&["backup", "--server", "127.0.0.1:1", "whole"]).status.code(), Some(33));
}

/// Other programs can write to the folder of backups, too.
#[test]
fn what_lies_in_the_way_of_a_backup_is_not_written_to_and_not_waited_for() {
    let place = Place::new();
    let server = place.setup().start();
    let mut client = server.client();
    client.call(&words("SET a 1")).unwrap();
    let pipe = |path: PathBuf| {
        assert!(std::process::Command::new("mkfifo").arg(path).status().unwrap().success());
    };
    pipe(place.backup("pipe.partial"));
    let outside = place.file("outside");
    std::fs::write(&outside, "of another program").unwrap();
    std::os::unix::fs::symlink(&outside, place.backup("link.partial")).unwrap();
    std::os::unix::fs::symlink(place.file("none"), place.backup("dangling.partial")).unwrap();
    std::fs::create_dir(place.backup("folder.partial")).unwrap();
    for name in ["pipe", "link", "dangling", "folder"] {
        let refused = backup(&server, &[name]);
        assert_eq!(refused.status.code(), Some(28), "{name}: {refused:?}");
        let text = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(text.contains("is in the way"), "{name}: {text}");
        assert!(!place.backup(name).exists(), "{name}");
    }
    assert_eq!(std::fs::read(&outside).unwrap(), b"of another program");
    assert!(!place.file("none").exists());
    // The event loop itself opens the backup that SINCE names.
    pipe(place.backup("since"));
    assert_eq!(backup(&server, &["part", "--since", "since"]).status.code(), Some(26));
    // The other name of a whole backup, which a crash has left, is given up.
    assert!(backup(&server, &["whole"]).status.success());
    let before = std::fs::read(place.backup("whole")).unwrap();
    std::fs::hard_link(place.backup("whole"), place.backup("next.partial")).unwrap();
    client.call(&words("SET b 2")).unwrap();
    assert!(backup(&server, &["next"]).status.success());
    assert_eq!(std::fs::read(place.backup("whole")).unwrap(), before);
    assert_eq!(place.restored("b.pool", &["next"]).len(), 2);
    // Nothing keeps the version of a backup that was refused.
    let Reply::Bulk(info) = client.call(&words("INFO persistence")).unwrap() else { panic!() };
    assert!(!String::from_utf8(info).unwrap().contains("backup under way"));
    assert!(server.stop().success());
}

#[test]
fn a_backup_of_a_server_that_was_killed_is_gone_on_with() {
    let place = Place::new();
    let mut setup = place.setup();
    // What survives the process is enough here, and takes less time.
    setup.words.extend(["--sync".to_owned(), "os".to_owned()]);
    let server = setup.start();
    let mut client = server.client();
    for key in 0..120 {
        let value = vec![b'a' + (key % 26) as u8; 100_000];
        client.call(&[b"SET", format!("{key}").as_bytes(), &value]).unwrap();
    }
    client.call(&words("TEMBO.BACKUP START big KEEP big")).unwrap();
    while status(&mut client, "bytes") == "0" {}
    let was_running = status(&mut client, "state") == "running";
    server.kill();
    let partial = place.backup("big.partial");
    // On a machine with other things to do it may have ended before.
    let is_partial = partial.exists();
    assert!(is_partial || !was_running || place.backup("big").exists());
    let server = setup.start();
    let mut client = server.client();
    client.call(&words("SET later 1")).unwrap();
    let saved = backup(&server, &["big", "--keep", "big"]);
    assert_eq!(saved.status.code(), Some(if is_partial { 0 } else { 28 }), "{saved:?}");
    assert!(!partial.exists());
    // Of the version from before the kill.
    let state = place.restored("b.pool", &["big"]);
    assert_eq!(state.len(), 120);
    assert!(state.iter().all(|(key, value)| {
        let letter = char::from(b'a' + (key.parse::<u32>().unwrap() % 26) as u8);
        value.len() == 100_000 && value.chars().all(|found| found == letter)
    }));
    assert!(server.stop().success());
}
