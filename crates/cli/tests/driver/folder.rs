//! A folder with a pool in it, and what its files hold.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::resp::Reply;
use crate::server::{Server, Setup, run};

/// Contents of the pool's files, by name.
pub type Files = BTreeMap<String, Vec<u8>>;

pub struct Folder {
    folder: tempfile::TempDir,
    words: Vec<&'static str>,
}

impl Folder {
    /// On a disk, with a pool in the `logged` domain.
    pub fn logged() -> Folder {
        let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        Folder::at(folder, &["--domain", "logged"])
    }

    pub fn at(folder: tempfile::TempDir, words: &[&'static str]) -> Folder {
        Folder { folder, words: [words, &["--size", "1M", "--log-size", "2M"]].concat() }
    }

    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    pub fn pool(&self) -> PathBuf {
        self.folder.path().join("a.pool")
    }

    pub fn log(&self) -> PathBuf {
        self.folder.path().join("a.pool.log")
    }

    pub fn setup(&self) -> Setup {
        Setup::new(&self.pool(), &self.words)
    }

    /// Starts a server and writes `count` keys, one after another.
    pub fn filled(&self, count: usize) -> Server {
        let server = self.setup().start();
        let mut client = server.client();
        for number in 0..count {
            let set: [&[u8]; 3] = [b"SET", &key(number), &value(number)];
            assert_eq!(client.call(&set).unwrap(), Reply::Simple("OK".into()));
        }
        server
    }

    /// A pool with `count` keys, stopped cleanly.
    pub fn with_pool(count: usize) -> Folder {
        let folder = Folder::logged();
        let status = folder.filled(count).stop();
        assert!(status.success(), "{status}");
        folder
    }

    /// A pool with `count` keys, whose server was killed.
    pub fn with_crashed_pool(count: usize) -> Folder {
        let folder = Folder::logged();
        folder.filled(count).kill();
        folder
    }

    /// All files, but not what the server wrote to its standard error.
    pub fn files(&self) -> Files {
        let mut files = Files::new();
        for entry in std::fs::read_dir(self.path()).unwrap() {
            let entry = entry.unwrap();
            let name = entry.file_name().into_string().unwrap();
            if entry.file_type().unwrap().is_file() && !name.ends_with(".stderr") {
                files.insert(name, std::fs::read(entry.path()).unwrap());
            }
        }
        files
    }

    /// Every command refuses the pool with that code, says what and what to do, and leaves all
    /// files as they are.
    pub fn is_refused(&self, code: i32) {
        let before = self.files();
        match self.setup().try_start() {
            Ok(server) => {
                panic!("served what should have been refused with {code}: {}", server.ready)
            }
            Err(status) => {
                assert_eq!(status.code(), Some(code), "serve\n{}", self.setup().errors())
            }
        }
        let errors = self.setup().errors();
        assert!(errors.contains("tembo: ") && errors.contains("  help: "), "{errors}");
        for command in ["stat", "check", "dump"] {
            let output = run(&[command, self.pool().to_str().unwrap()]);
            // Without a pool they have nothing to look at.
            let expected = if self.pool().exists() { code } else { 20 };
            assert_eq!(output.status.code(), Some(expected), "{command}: {output:?}");
        }
        self.is_as_it_was(&before);
    }

    /// The same files with the same bytes.
    pub fn is_as_it_was(&self, before: &Files) {
        let after = self.files();
        assert_eq!(before.keys().collect::<Vec<_>>(), after.keys().collect::<Vec<_>>());
        for (name, bytes) in before {
            let first = bytes.iter().zip(&after[name]).position(|(old, new)| old != new);
            assert!(after[name] == *bytes, "{name} was changed, first at {first:?}");
        }
    }

    /// The pool opens and has its keys.
    pub fn holds(&self, count: usize) {
        let server = self.setup().start();
        holds(&server, count);
        assert!(server.stop().success());
        let output = run(&["check", self.pool().to_str().unwrap()]);
        assert!(output.status.success(), "{output:?}");
    }
}

pub fn holds(server: &Server, count: usize) {
    let mut client = server.client();
    for number in 0..count {
        let found = client.call(&[b"GET", &key(number)]).unwrap();
        assert_eq!(found, Reply::Bulk(value(number)), "key {number}");
    }
}

pub fn key(number: usize) -> Vec<u8> {
    format!("key:{number}").into_bytes()
}

pub fn value(number: usize) -> Vec<u8> {
    format!("value {number} ").repeat(1 + number % 40).into_bytes()
}

/// Changes a file's bytes.
pub fn change(path: &Path, change: impl FnOnce(&mut Vec<u8>)) {
    let mut bytes = std::fs::read(path).unwrap();
    change(&mut bytes);
    std::fs::write(path, bytes).unwrap();
}
