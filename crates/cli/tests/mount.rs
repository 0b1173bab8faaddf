//! The file system of a pool, imported, exported and mounted, as unmodified programs use it.
//!
//! Where FUSE is not permitted, the tests of a mount say so and do nothing.

#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stderr, unreachable_pub)]

#[path = "mount/access_lists.rs"]
mod access_lists;
#[path = "mount/background.rs"]
mod background;
#[path = "mount/ends.rs"]
mod ends;
#[path = "mount/failures.rs"]
mod failures;
#[path = "mount/killed.rs"]
mod killed;
#[path = "mount/marked.rs"]
mod marked;
#[path = "mount/mounted.rs"]
mod mounted;
#[path = "mount/privileges.rs"]
mod privileges;
#[path = "driver/random.rs"]
mod random;
#[path = "mount/transactions.rs"]
mod transactions;

use std::fs::{self, File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;

use mounted::{Mounted, done, tembo, text};

/// A small tree of files.
fn tree(at: &Path) {
    fs::create_dir_all(at.join("d/e")).unwrap();
    fs::write(at.join("d/a"), "first").unwrap();
    fs::write(at.join("d/e/large"), vec![7; 300_000]).unwrap();
    symlink("d/a", at.join("link")).unwrap();
    fs::hard_link(at.join("d/a"), at.join("d/second")).unwrap();
    fs::set_permissions(at.join("d/a"), fs::Permissions::from_mode(0o640)).unwrap();
}

#[test]
fn a_folder_that_has_the_pool_itself_is_not_imported() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let (source, pool) = (folder.path().join("source"), folder.path().join("source/a.pool"));
    tree(&source);
    let import = |path: &str| tembo(&["fs", "import", text(&pool), text(&source), path]);
    for path in ["/s", "/s again"] {
        let refused = import(path);
        let error = String::from_utf8_lossy(&refused.stderr);
        assert!(!refused.status.success() && error.contains("the pool itself"), "{error}");
    }
    let listed = tembo(&["fs", "ls", text(&pool)]);
    assert!(listed.status.success() && listed.stdout.is_empty(), "{listed:?}");
}

#[test]
fn a_folder_is_imported_compared_taken_back_and_exported() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let (source, target) = (folder.path().join("source"), folder.path().join("target"));
    let pool = folder.path().join("a.pool");
    let (pool, source_text) = (text(&pool), text(&source));
    let fine = |args: &[&str]| {
        let output = tembo(&[&["fs"], args].concat());
        assert!(output.status.success(), "{args:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    tree(&source);
    fine(&["import", pool, source_text, "/s"]);
    let again = tembo(&["fs", "import", pool, source_text, "/s"]);
    assert!(!again.status.success(), "{again:?}");
    assert_eq!(fine(&["cat", pool, "/s/d/a"]), "first");
    fine(&["snapshot", pool, "before"]);
    fine(&["cp", pool, "/s/d/a", "/s/copy"]);
    assert_eq!(fine(&["diff", pool, "before"]), "M /s\n+ /s/copy\n");
    assert!(fine(&["log", pool]).ends_with("\tbefore\n"));
    assert!(fine(&["ls", pool, "/s"]).contains(" copy\n"));
    assert!(!fine(&["ls", pool, "/s", "--snapshot", "before"]).contains(" copy\n"));
    fine(&["clone", pool, "/s", "/s/twin"]);
    fine(&["clone", pool, "/s/d", "/old", "--snapshot", "before"]);
    let twice = tembo(&["fs", "clone", pool, "/s/d", "/old"]);
    assert!(!twice.status.success(), "{twice:?}");
    let (twin, old) = (folder.path().join("twin"), folder.path().join("old"));
    fine(&["export", pool, "/s/twin", text(&twin)]);
    fine(&["export", pool, "/old", text(&old)]);
    fs::remove_file(twin.join("copy")).unwrap();
    done(Command::new("diff").args(["-r", "--no-dereference", source_text, text(&twin)]));
    done(Command::new("diff").args(["-r", text(&source.join("d")), text(&old)]));
    fine(&["rollback", pool, "before"]);
    assert!(!fine(&["ls", pool, "/"]).contains(" old\n"));
    assert!(!fine(&["ls", pool, "/s"]).contains(" copy\n"));
    fine(&["export", pool, "/s", text(&target)]);
    done(Command::new("diff").args(["-r", "--no-dereference", source_text, text(&target)]));
    let mode = fs::metadata(target.join("d/a")).unwrap().mode();
    assert_eq!(mode & 0o7777, 0o640);
    assert!(fine(&["check", pool]).contains(": 0 findings"));
    let missing = tembo(&["fs", "rollback", pool, "nothing"]);
    assert!(!missing.status.success());
}

#[test]
fn a_mounted_pool_does_what_files_do() {
    let Some(mounted) = Mounted::new() else { return };
    let at = mounted.at();
    tree(&at);
    assert_eq!(fs::read(at.join("link")).unwrap(), b"first");
    assert_eq!(fs::metadata(at.join("d/a")).unwrap().nlink(), 2);
    assert_eq!(fs::read(at.join("d/e/large")).unwrap(), vec![7; 300_000]);
    // Appending, cutting, holes.
    let mut file = OpenOptions::new().append(true).open(at.join("d/a")).unwrap();
    file.write_all(b" and more").unwrap();
    drop(file);
    assert_eq!(fs::read(at.join("d/second")).unwrap(), b"first and more");
    let file = OpenOptions::new().write(true).open(at.join("d/a")).unwrap();
    file.set_len(5).unwrap();
    file.write_all_at(b"end", 1 << 33).unwrap();
    let metadata = file.metadata().unwrap();
    assert_eq!((metadata.size(), metadata.blocks()), ((1 << 33) + 3, 16));
    drop(file);
    // A file that is unlinked and open.
    let mut file =
        File::options().read(true).write(true).create_new(true).open(at.join("t")).unwrap();
    fs::remove_file(at.join("t")).unwrap();
    file.write_all(b"still here").unwrap();
    file.seek(SeekFrom::Start(0)).unwrap();
    let mut bytes = String::new();
    file.read_to_string(&mut bytes).unwrap();
    assert_eq!(bytes, "still here");
    drop(file);
    // A directory that is removed, and one that is replaced, while they are open.
    for name in ["gone", "replaced"] {
        fs::create_dir(at.join(name)).unwrap();
        let open = File::open(at.join(name)).unwrap();
        if name == "gone" {
            fs::remove_dir(at.join(name)).unwrap();
        } else {
            fs::create_dir(at.join("other")).unwrap();
            fs::rename(at.join("other"), at.join(name)).unwrap();
        }
        let metadata = open.metadata().unwrap();
        assert!(metadata.is_dir() && metadata.nlink() == 0);
    }
    fs::remove_dir(at.join("replaced")).unwrap();
    // Renames.
    fs::rename(at.join("d/second"), at.join("d/e/second")).unwrap();
    assert!(fs::rename(at.join("d"), at.join("d/e/d")).is_err());
    assert!(fs::remove_dir(at.join("d")).is_err());
    // Many entries.
    fs::create_dir(at.join("many")).unwrap();
    for i in 0..1000 {
        File::create(at.join(format!("many/{i}"))).unwrap();
    }
    assert_eq!(fs::read_dir(at.join("many")).unwrap().count(), 1000);
    fs::remove_dir_all(at.join("many")).unwrap();
    // Snapshots.
    fs::create_dir(at.join(".tembo/snapshots/before")).unwrap();
    let own = fs::create_dir(at.join(".tembo/snapshots/tembo-array@1"));
    assert_eq!(own.unwrap_err().kind(), std::io::ErrorKind::InvalidInput);
    fs::write(at.join("later"), "x").unwrap();
    let before = at.join(".tembo/snapshots/before");
    assert!(before.join("d/e/large").exists() && !before.join("later").exists());
    assert!(fs::write(before.join("new"), "x").is_err());
    assert_eq!(fs::read_dir(at.join(".tembo/snapshots")).unwrap().count(), 1);
    fs::remove_dir(at.join(".tembo/snapshots/before")).unwrap();
    assert_eq!(fs::read_dir(&at).unwrap().count(), 3);
    mounted.end();
}

#[test]
fn what_was_closed_is_there_after_the_mount_was_killed() {
    let Some(mut mounted) = Mounted::new() else { return };
    for round in 0..3 {
        let at = mounted.at();
        for i in 0..20 {
            fs::write(at.join(format!("{round}-{i}")), vec![i as u8; 10_000]).unwrap();
        }
        mounted.again_after_kill();
        for round in 0..=round {
            for i in 0..20 {
                let read = fs::read(at.join(format!("{round}-{i}"))).unwrap();
                assert!(read == vec![i as u8; 10_000], "{round}-{i}");
            }
        }
    }
    mounted.end();
}

/// Whether a program is installed here.
fn has(program: &str) -> bool {
    Command::new(program).arg("--version").output().is_ok_and(|output| output.status.success())
}

#[test]
fn programs_work_on_a_mount() {
    let Some(mounted) = Mounted::new() else { return };
    let at = mounted.at();
    if has("git") {
        let git = |folder: &Path, args: &[&str]| {
            let fixed = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "gc.auto=0"];
            done(Command::new("git").current_dir(folder).args(fixed).args(args))
        };
        git(&at, &["init", "-q", "repo"]);
        let repo = at.join("repo");
        tree(&repo.join("tree"));
        git(&repo, &["add", "."]);
        git(&repo, &["commit", "-qm", "first"]);
        git(&at, &["clone", "-q", "repo", "clone"]);
        git(&at.join("clone"), &["gc", "-q"]);
        git(&at.join("clone"), &["fsck", "--strict"]);
        assert_eq!(git(&at.join("clone"), &["status", "--short"]), "");
    }
    if has("sqlite3") {
        for mode in ["delete", "wal"] {
            let script = format!(
                "pragma journal_mode={mode}; create table t{mode}(a);
                 with recursive n(i) as (select 1 union all select i+1 from n where i<2000)
                 insert into t{mode} select hex(randomblob(40)) from n; pragma integrity_check;"
            );
            let printed = done(Command::new("sqlite3").arg(at.join("a.db")).arg(script));
            assert!(printed.ends_with("ok\n"), "{printed}");
        }
    }
    if has("tar") {
        let archive = at.join("a.tar");
        tree(&at.join("tarred"));
        done(Command::new("tar").current_dir(&at).args(["cf", text(&archive), "tarred"]));
        fs::create_dir(at.join("out")).unwrap();
        done(Command::new("tar").current_dir(at.join("out")).args(["xf", text(&archive)]));
        let folders = [at.join("tarred"), at.join("out/tarred")];
        done(Command::new("diff").args(["-r", "--no-dereference"]).args(folders));
    }
    if has("make") {
        fs::write(at.join("Makefile"), "all: b\nb: a\n\tcp a b\na:\n\techo made > a\n").unwrap();
        done(Command::new("make").current_dir(&at).arg("-j2"));
        assert_eq!(fs::read(at.join("b")).unwrap(), b"made\n");
    }
    mounted.end();
}

#[test]
fn editors_copiers_and_builds_work_on_a_mount() {
    let Some(mounted) = Mounted::new() else { return };
    let at = mounted.at();
    if has("rsync") {
        tree(&at.join("from"));
        let copy = || {
            let mut rsync = Command::new("rsync");
            done(rsync.args(["-aHi", "--delete", "from/", "to"]).current_dir(&at))
        };
        assert!(copy().contains("d/e/large"));
        fs::remove_file(at.join("from/d/second")).unwrap();
        fs::write(at.join("from/d/e/large"), "less").unwrap();
        assert!(copy().contains("*deleting"));
        assert_eq!(copy(), "", "nothing is left to copy");
        done(
            Command::new("diff")
                .args(["-r", "--no-dereference"])
                .arg(at.join("from"))
                .arg(at.join("to")),
        );
    }
    if has("vim") {
        let file = at.join("text");
        fs::write(&file, "one\ntwo\n").unwrap();
        for backup in ["yes", "no"] {
            let set = format!("set backup backupskip= backupcopy={backup}");
            let commands = ["-c", &set, "-c", "%s/^/> /", "-c", "wq"];
            done(Command::new("vim").args(["-u", "NONE", "-es"]).args(commands).arg(&file));
        }
        assert_eq!(fs::read(&file).unwrap(), b"> > one\n> > two\n");
        assert_eq!(fs::read(at.join("text~")).unwrap(), b"> one\n> two\n");
    }
    if has("make") && has("install") {
        fs::write(at.join("Makefile"), "install:\n\tinstall -D -m 755 program $(to)/bin/program\n")
            .unwrap();
        fs::write(at.join("program"), "#!/bin/sh\necho works\n").unwrap();
        let to = format!("to={}", text(&at.join("usr")));
        done(Command::new("make").current_dir(&at).args(["install", &to]));
        assert_eq!(done(&mut Command::new(at.join("usr/bin/program"))), "works\n");
    }
    let package = at.join("package");
    let cargo = || {
        let mut cargo = Command::new(env!("CARGO"));
        cargo
            .current_dir(&package)
            .env("CARGO_TARGET_DIR", "target")
            .args(["--offline", "--quiet"]);
        cargo
    };
    fs::create_dir_all(package.join("src")).unwrap();
    fs::write(
        package.join("Cargo.toml"),
        "[package]\nname = \"a\"\nedition = \"2024\"\n[workspace]\n",
    )
    .unwrap();
    for said in ["first", "second"] {
        fs::write(package.join("src/main.rs"), format!("fn main() {{ println!(\"{said}\") }}"))
            .unwrap();
        assert_eq!(done(cargo().arg("run")), format!("{said}\n"));
    }
    mounted.end();
}

#[test]
fn an_incremental_backup_of_a_folder_has_what_was_changed() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let path = |name: &str| folder.path().join(name);
    let (source, pool, whole, since) = (path("source"), path("a.pool"), path("1"), path("2"));
    for i in 0..1000 {
        let at = source.join(format!("{}", i % 10));
        fs::create_dir_all(&at).unwrap();
        fs::write(at.join(format!("{i}")), vec![i as u8; 3000]).unwrap();
    }
    let run = |args: &[&str]| {
        let output = tembo(args);
        assert!(output.status.success(), "{args:?}: {output:?}");
    };
    run(&["fs", "import", text(&pool), text(&source), "/s"]);
    run(&["backup", text(&pool), text(&whole), "--keep", "first"]);
    // Ten files are others.
    for i in 0..10 {
        let (at, other) = (format!("/s/{i}/{i}"), format!("/other{i}"));
        run(&["fs", "cp", text(&pool), &at, &other]);
    }
    run(&["backup", text(&pool), text(&since), "--since", "first"]);
    let size = |path: &Path| fs::metadata(path).unwrap().len();
    assert!(size(&since) * 20 < size(&whole), "{} of {}", size(&since), size(&whole));
    let again = path("again.pool");
    run(&["restore", text(&again), text(&whole), text(&since)]);
    run(&["fs", "check", text(&again)]);
    let target = path("target");
    run(&["fs", "export", text(&again), "/s", text(&target)]);
    done(Command::new("diff").args(["-r", text(&source), text(&target)]));
    let other = tembo(&["fs", "cat", text(&again), "/other7"]);
    assert_eq!(other.stdout, vec![7; 3000]);
}

#[test]
fn a_version_that_is_kept_is_a_tree_by_its_number() {
    let Some(mounted) = Mounted::with(&["--keep-versions", "1000"], |_| ()) else { return };
    let at = mounted.at();
    let version = || {
        let text = fs::read_to_string(at.join(".tembo/version")).unwrap();
        at.join(".tembo/versions").join(text.trim())
    };
    fs::write(at.join("a"), "first").unwrap();
    let first = version();
    fs::write(at.join("a"), "second").unwrap();
    fs::create_dir(at.join("d")).unwrap();
    let second = version();
    fs::remove_file(at.join("a")).unwrap();
    fs::remove_dir(at.join("d")).unwrap();
    assert_eq!(fs::read(first.join("a")).unwrap(), b"first");
    assert_eq!(fs::read(second.join("a")).unwrap(), b"second");
    assert!(!first.join("d").exists() && second.join("d").exists() && !at.join("d").exists());
    assert!(fs::write(first.join("a"), "x").is_err());
    for none in ["99999999", "x", "01", "-1"] {
        assert!(!at.join(".tembo/versions").join(none).exists(), "{none}");
    }
    mounted.end();
}

/// A time that is over in a moment, as text.
fn a_second_passes() -> String {
    let seconds = || std::time::UNIX_EPOCH.elapsed().unwrap().as_secs();
    let end = seconds() + 1;
    while seconds() < end {
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    tembo_fs::Time { seconds: end as i64, nanoseconds: 0 }.to_string()
}

#[test]
fn what_was_there_at_a_time_is_a_tree_also_after_the_mount() {
    let Some(mut mounted) = Mounted::with(&["--keep-versions", "10000"], |_| ()) else { return };
    let (at, pool) = (mounted.at(), mounted.pool());
    let then = |time: &str| at.join(".tembo/at").join(time);
    fs::write(at.join("a"), "first").unwrap();
    let first = a_second_passes();
    fs::write(at.join("a"), "second").unwrap();
    fs::write(at.join("b"), "b").unwrap();
    let second = a_second_passes();
    fs::remove_file(at.join("b")).unwrap();
    // A transaction is there from its commit on.
    done(
        Command::new(mounted::TEMBO)
            .arg("txn")
            .arg(&at)
            .args(["--", "cp", "a", "c"])
            .current_dir(&at),
    );
    let third = a_second_passes();
    assert_eq!(fs::read(then(&first).join("a")).unwrap(), b"first");
    assert!(!then(&first).join("b").exists());
    assert_eq!(fs::read(then(&second).join("a")).unwrap(), b"second");
    assert!(then(&second).join("b").exists() && !then(&second).join("c").exists());
    assert!(!then(&third).join("b").exists() && then(&third).join("c").exists());
    assert!(fs::write(then(&first).join("new"), "x").is_err());
    for none in ["x", "2000-01-01T00:00:00Z", "9999-01-01T00:00:00Z", "2026-13-01T00:00:00Z"] {
        assert!(!then(none).exists(), "{none}");
    }
    mounted.unmount();
    let words = |words: &[&str]| tembo(&[&["fs"], words].concat());
    let cat = |time: &str, path: &str| words(&["cat", text(&pool), path, "--at", time]).stdout;
    assert_eq!(cat(&first, "/a"), b"first");
    assert_eq!((cat(&second, "/a"), cat(&second, "/b")), (b"second".to_vec(), b"b".to_vec()));
    assert_eq!(cat(&third, "/c"), b"second");
    let early = words(&["ls", text(&pool), "--at", "2000-01-01T00:00:00Z"]);
    assert!(!early.status.success() && early.stdout.is_empty(), "{early:?}");
    let log = String::from_utf8(words(&["log", text(&pool), "--times"]).stdout).unwrap();
    assert!(log.lines().count() >= 3 && log.lines().all(|line| line.ends_with('Z')), "{log}");
    assert!(words(&["rollback", text(&pool), "--at", &second]).status.success());
    mounted.mount_again();
    assert!(at.join("b").exists() && !at.join("c").exists());
    assert_eq!(fs::read(then(&first).join("a")).unwrap(), b"first");
    mounted.end();
}

#[test]
fn versions_are_for_the_user_that_mounts_only() {
    let options = ["--keep-versions", "1000", "--allow-other"];
    let Some(mounted) = Mounted::with(&options, |_| ()) else { return };
    let at = mounted.at();
    fs::write(at.join("a"), "first").unwrap();
    let version = fs::read_to_string(at.join(".tembo/version")).unwrap();
    fs::write(at.join("a"), "second").unwrap();
    let first = format!(".tembo/versions/{}/a", version.trim());
    let Some(now) = transactions::as_another(&at, &["cat", "a"]) else { return };
    assert_eq!(now.stdout, b"second", "{now:?}");
    let other = transactions::as_another(&at, &["cat", &first]).unwrap();
    assert!(!other.status.success() && other.stdout.is_empty(), "{other:?}");
    assert_eq!(fs::read(at.join(first)).unwrap(), b"first");
    mounted.end();
}
