//! The programs that load the extension, and a folder to work in.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Debian's Python, which can load extensions; others may be built without.
pub const PYTHON: &str = "/usr/bin/python3";

/// The extension, which lies beside the tests.
pub fn library() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    test.parent().unwrap().join("libtembo_sqlite")
}

pub struct Folder(pub PathBuf);

impl Folder {
    pub fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("tembo-sqlite-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Folder(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

pub fn has(program: &str, arguments: &[&str]) -> bool {
    let tried = Command::new(program).args(arguments).output();
    let has = tried.is_ok_and(|output| output.status.success());
    if !has {
        println!("not tried: there is no {program} that loads extensions");
    }
    has
}

pub fn has_python() -> bool {
    let needed = "import sqlite3; sqlite3.connect(':memory:').enable_load_extension(True)";
    has(PYTHON, &["-c", needed])
}

pub fn python(mode: &str, pool: &Path) -> Command {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/bank.py");
    let mut command = Command::new(PYTHON);
    command.arg(script).arg(library()).arg(mode).arg(pool);
    command
}

/// What the shell prints for a script; `.load` comes before it.
pub fn shell(folder: &Folder, script: &str) -> String {
    let mut shell = Command::new("sqlite3");
    shell.current_dir(&folder.0).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut shell = shell.stderr(Stdio::piped()).spawn().unwrap();
    let mut input = shell.stdin.take().unwrap();
    writeln!(input, ".load {}", library().display()).unwrap();
    // A dot begins a line.
    script.lines().for_each(|line| writeln!(input, "{}", line.trim_start()).unwrap());
    drop(input);
    let output = shell.wait_with_output().unwrap();
    let errors = String::from_utf8(output.stderr).unwrap();
    String::from_utf8(output.stdout).unwrap() + &errors
}
