//! What other programs, and limits of the process, do to the files of a server that runs.

use std::fs::OpenOptions;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::process::{Pid, Resource, Rlimit, prlimit};

use crate::folder::{Folder, holds};
use crate::resp::{Client, Reply};
use crate::server::{Server, run};
use crate::space::fill;

const TRUNCATED: i32 = 7;
const REMOVED: i32 = 43;
const LOST_PAGE: i32 = 44;

/// Asks again and again, for a minute at most, until the reply is as wanted.
fn wait_for(client: &mut Client, words: &[&[u8]], is_wanted: impl Fn(&Reply) -> bool) {
    for _ in 0..600 {
        if is_wanted(&client.call(words).unwrap()) {
            return;
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    panic!("{:?}", client.call(words));
}

/// No file of the server may have more bytes from here on.
fn limit_files(server: &Server, size: Option<u64>) {
    let process = Pid::from_raw(server.process.id() as i32);
    prlimit(process, Resource::Fsize, Rlimit { current: size, maximum: None }).unwrap();
}

#[test]
fn a_limit_of_file_sizes_is_as_a_full_disk() {
    let folder = Folder::logged();
    let server = folder.filled(10);
    limit_files(&server, Some(4 << 20));
    let mut client = server.client();
    let count = fill(&mut client, 200_000);
    assert!(count > 1000, "only {count} keys fit");
    holds(&server, count);
    limit_files(&server, None);
    let set: [&[u8]; 3] = [b"SET", b"more", &[b'x'; 5000]];
    wait_for(&mut client, &set, |reply| *reply == Reply::Simple("OK".into()));
    assert!(server.stop().success());
    let output = run(&["check", folder.pool().to_str().unwrap()]);
    assert!(output.status.success(), "{output:?}");
}

/// Folders with a pool on a disk, and in memory that stands for persistent memory.
fn folders() -> [Folder; 2] {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    [Folder::logged(), Folder::at(folder, &["--domain", "flush"])]
}

/// A file is removed beside the clients: nothing more is acknowledged, what there is can be saved, and the server does not
/// end as if all were well.
fn removed(folder: &Folder, file: &Path) {
    let mut setup = folder.setup();
    let backups = folder.path().join("backups");
    std::fs::create_dir(&backups).unwrap();
    setup.words.extend(["--backup-dir".into(), backups.to_str().unwrap().into()]);
    assert!(folder.filled(50).stop().success());
    let server = setup.start();
    let mut client = server.client();
    for words in [&[&b"MULTI"[..]][..], &[&b"SET"[..], b"queued", b"1"]] {
        assert!(matches!(client.call(words).unwrap(), Reply::Simple(_)));
    }
    std::fs::remove_file(file).unwrap();
    let mut other = server.client();
    let is_refused =
        |reply: &Reply| matches!(reply, Reply::Error(text) if text.starts_with("MISCONF"));
    wait_for(&mut other, &[b"SET", b"other", b"1"], is_refused);
    let refused = client.call(&[b"EXEC"]).unwrap();
    assert!(matches!(&refused, Reply::Error(text) if text.contains("MISCONF")), "{refused:?}");
    let script: [&[u8]; 3] = [b"EVAL", b"return redis.call('SET', 'other', '1')", b"0"];
    let refused = other.call(&script).unwrap();
    assert!(matches!(&refused, Reply::Error(text) if text.contains("MISCONF")), "{refused:?}");
    assert_eq!(other.call(&[b"EXISTS", b"queued"]).unwrap(), Reply::Integer(0));
    holds(&server, 50);
    let Reply::Bulk(info) = other.call(&[b"INFO", b"persistence"]).unwrap() else { panic!() };
    assert!(String::from_utf8(info).unwrap().contains("\r\ntembo_files_removed:1\r\n"));

    let saved = run(&["backup", "--server", &server.address.to_string(), "a.bak"]);
    assert!(saved.status.success(), "{saved:?}");
    assert_eq!(server.stop().code(), Some(REMOVED), "{}", setup.errors());
    assert!(setup.errors().contains("removed"), "{}", setup.errors());
    let (pool, file) = (folder.path().join("b.pool"), backups.join("a.bak"));
    let words = ["restore", pool.to_str().unwrap(), file.to_str().unwrap(), "--json"];
    let restored = run(&words);
    assert!(restored.status.success(), "{restored:?}");
    let text = String::from_utf8_lossy(&restored.stdout).into_owned();
    // Perhaps with the one that was tried until it was refused.
    assert!(
        ["50", "51"].iter().any(|count| text.contains(&format!("\"entries\":{count},"))),
        "{text}"
    );
}

#[test]
fn a_pool_that_is_removed_takes_no_writes_and_can_be_saved() {
    for folder in folders() {
        removed(&folder, &folder.pool());
    }
}

#[test]
fn a_log_that_is_removed_is_as_a_pool_that_is() {
    let folder = Folder::logged();
    removed(&folder, &folder.log());
}

/// A file is cut to `size` bytes: the server ends with an error, by no signal.
fn cut(folder: &Folder, file: &PathBuf, size: u64) {
    let setup = folder.setup();
    let mut server = folder.filled(50);
    OpenOptions::new().write(true).open(file).unwrap().set_len(size).unwrap();
    let status = server.process.wait();
    let errors = setup.errors();
    assert!(matches!(status.code(), Some(TRUNCATED | LOST_PAGE)), "{status}: {errors}");
    assert!(errors.contains("tembo: ") && errors.contains("  help: "), "{errors}");
}

#[test]
fn a_file_that_is_cut_short_ends_its_server_with_an_error() {
    for folder in folders() {
        cut(&folder, &folder.pool(), 0);
    }
    for size in [0, 8192] {
        let folder = Folder::logged();
        cut(&folder, &folder.pool(), size);
        let folder = Folder::logged();
        cut(&folder, &folder.log(), size);
    }
}
