//! Ordinary database files come in as SQLite itself would show them, however their journal or WAL was cut off. Debian's `sqlite3`
//! makes them and judges; without it nothing is tried.

#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout)]

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tembo_array::Array;
use tembo_kv::{Options, Store};
use tembo_sqlite::{FileError, Imported, export, import};

struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Option<Folder> {
        if Command::new("sqlite3").arg("-version").output().is_err() {
            println!("not tried: there is no sqlite3");
            return None;
        }
        let path = std::env::temp_dir().join(format!("tembo-files-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Some(Folder(path))
    }

    /// What the shell prints for a script.
    fn shell(&self, script: &str) -> String {
        let mut shell = Command::new("sqlite3");
        shell.current_dir(&self.0).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut shell = shell.stderr(Stdio::piped()).spawn().unwrap();
        // A dot begins a line.
        let lines: Vec<&str> = script.lines().map(str::trim_start).collect();
        shell.stdin.take().unwrap().write_all(lines.join("\n").as_bytes()).unwrap();
        let output = shell.wait_with_output().unwrap();
        String::from_utf8(output.stdout).unwrap() + &String::from_utf8(output.stderr).unwrap()
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// What SQLite shows of a database.
    fn dump(&self, name: &str) -> String {
        self.shell(&format!(
            ".open {name}\nselect * from t order by rowid;\npragma integrity_check;"
        ))
    }

    /// Imports `name`, and exports it to `out`.
    fn through(&self, name: &str) -> Result<Imported, FileError> {
        let store = Store::volatile(&Options::new().size(8 << 20)).unwrap();
        let array = Array::open(&store).unwrap();
        let imported = import(&array, "main", &self.path(name))?;
        let _ = fs::remove_file(self.path("out"));
        export(&array.device("main").unwrap().snapshot().unwrap(), &self.path("out"))?;
        Ok(imported)
    }

    /// That a copy of `name`, with what stands beside it changed by `change`, comes in as SQLite shows it.
    fn agrees(&self, name: &str, beside: &str, change: impl Fn(&mut Vec<u8>)) -> u64 {
        let mut bytes = fs::read(self.path(&format!("{name}{beside}"))).unwrap();
        change(&mut bytes);
        for copy in ["ours", "theirs"] {
            fs::copy(self.path(name), self.path(copy)).unwrap();
            fs::write(self.path(&format!("{copy}{beside}")), &bytes).unwrap();
        }
        let imported = self.through("ours").unwrap();
        assert_eq!(fs::read(self.path(&format!("ours{beside}"))).unwrap(), bytes);
        assert_eq!(fs::read(self.path("ours")).unwrap(), fs::read(self.path(name)).unwrap());
        assert_eq!(self.dump("out"), self.dump("theirs"));
        for copy in ["ours", "theirs"] {
            let _ = fs::remove_file(self.path(&format!("{copy}{beside}")));
        }
        imported.recovered
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

const ROWS: &str = "with recursive n(i) as (select 1 union all select i + 1 from n where i < 300) \
    insert into t select i, hex(i * 7919) || printf('%200d', i) from n;";

/// Three transactions in the WAL, and a part of a fourth.
fn with_wal(folder: &Folder, page_size: u32) {
    folder.shell(&format!(
        ".open a
         pragma page_size = {page_size};
         pragma journal_mode = wal;
         create table t(a integer primary key, b);
         {ROWS}
         pragma wal_checkpoint(truncate);
         update t set b = 'first' where a % 50 = 0;
         delete from t where a > 200;
         update t set b = 'third' where a % 40 = 0;
         pragma cache_size = 5;
         begin;
         update t set b = b || 'open';
         .shell cp a wal; cp a-wal wal-wal"
    ));
}

#[test]
fn a_wal_counts_up_to_its_last_whole_transaction_wherever_it_is_cut_off() {
    let Some(folder) = Folder::new("wal") else { return };
    for page_size in [512, 4096, 65536] {
        for old in ["a", "a-wal", "a-shm"] {
            let _ = fs::remove_file(folder.path(old));
        }
        with_wal(&folder, page_size);
        let len = fs::metadata(folder.path("wal-wal")).unwrap().len();
        let frame = u64::from(page_size) + 24;
        let frames = (len - 32) / frame;
        let mut most = 0;
        for cut in (0..12).map(|n| 32 + n * frames / 11 * frame).chain([0, 31, 33, len - 1, len]) {
            let cut = usize::try_from(cut).unwrap();
            most = most.max(folder.agrees("wal", "-wal", |bytes| bytes.truncate(cut)));
        }
        assert!(most > 0);
        for place in [0, 9, 17, 25, 40, 32 + frame / 2, 32 + 3 * frame + 5, len - 7] {
            let place = usize::try_from(place).unwrap();
            folder.agrees("wal", "-wal", |bytes| bytes[place] ^= 0x41);
        }
    }
}

#[test]
fn a_hot_journal_is_taken_back_wherever_it_is_cut_off() {
    let Some(folder) = Folder::new("journal") else { return };
    folder.shell(&format!(
        ".open a
         create table t(a integer primary key, b);
         {ROWS}
         pragma cache_size = 5;
         begin;
         insert into t select a + 1000, b from t;
         update t set b = 'changed';
         .shell cp a hot; cp a-journal hot-journal"
    ));
    let len = fs::metadata(folder.path("hot-journal")).unwrap().len() as usize;
    assert!(folder.agrees("hot", "-journal", |_| {}) > 10);
    // SQLite has synced the journal before it wrote to the database: only what is behind its last record can be missing.
    for cut in [0, 20, len - 1] {
        folder.agrees("hot", "-journal", |bytes| bytes.truncate(cut));
    }
    // The end of a transaction in the modes PERSIST and TRUNCATE.
    folder.agrees("hot", "-journal", |bytes| bytes[..28].fill(0));
    folder.agrees("hot", "-journal", |bytes| bytes[12] ^= 1);
}

#[test]
fn a_journal_that_names_billions_of_pages_costs_what_it_holds() {
    let Some(folder) = Folder::new("billions") else { return };
    folder.shell(&format!(
        ".open a
         create table t(a integer primary key, b);
         {ROWS}
         pragma cache_size = 5;
         begin;
         update t set b = 'changed';
         .shell cp a hot; cp a-journal hot-journal"
    ));
    let named = |pages: u32| {
        let mut journal = fs::read(folder.path("hot-journal")).unwrap();
        journal[16..20].copy_from_slice(&pages.to_be_bytes());
        fs::write(folder.path("hot-journal"), journal).unwrap();
        let store = Store::volatile(&Options::new().size(8 << 20)).unwrap();
        import(&Array::open(&store).unwrap(), "main", &folder.path("hot"))
    };
    assert_eq!(named(u32::MAX - 1).unwrap().pages, u64::from(u32::MAX - 1));
    let error = named(u32::MAX).unwrap_err();
    assert!(matches!(error, FileError::Damaged { .. }), "{error}");
}

#[test]
fn a_file_that_another_process_writes_is_busy() {
    let Some(folder) = Folder::new("busy") else { return };
    folder.shell(&format!(".open a\ncreate table t(a integer primary key, b);\n{ROWS}"));
    for (mode, script) in
        [("delete", "begin exclusive;"), ("wal", "insert into t values(7000, 'x');")]
    {
        let mut shell = Command::new("sqlite3");
        let mut shell = shell
            .arg(folder.path("a"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut input = shell.stdin.take().unwrap();
        writeln!(input, "pragma journal_mode = {mode};\n{script}\n.print ready").unwrap();
        let lines = std::io::BufReader::new(shell.stdout.take().unwrap());
        assert!(std::io::BufRead::lines(lines).any(|line| line.unwrap() == "ready"));
        assert!(matches!(folder.through("a"), Err(FileError::Busy { .. })), "{mode}");
        drop(input);
        shell.wait().unwrap();
    }
    // A process that has ended is not in the way.
    assert_eq!(folder.through("a").unwrap().recovered, 0);
    assert_eq!(folder.dump("out"), folder.dump("a"));
}

#[test]
fn what_is_no_database_stays_out() {
    let Some(folder) = Folder::new("other") else { return };
    for bytes in [&b"SQLite format 3\0"[..], b"text", &[0; 5000]] {
        fs::write(folder.path("other"), bytes).unwrap();
        let found = folder.through("other");
        assert!(matches!(found, Err(FileError::NotADatabase { .. })), "{found:?}");
    }
    assert!(matches!(folder.through("missing"), Err(FileError::Io { .. })));
    // Nothing written yet: SQLite shows it as a database without tables.
    fs::write(folder.path("other"), b"").unwrap();
    assert_eq!(folder.through("other").unwrap().pages, 0);
    assert!(Path::new(&folder.path("out")).metadata().unwrap().len() == 0);
}
