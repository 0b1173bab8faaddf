//! A directory of a test's own.

use std::path::{Path, PathBuf};

/// Gone when dropped.
pub(crate) struct Directory(PathBuf);

impl Directory {
    /// `name` is no other's within the process.
    pub(crate) fn new(name: &str) -> Directory {
        let path = std::env::temp_dir().join(format!("tembo-kv-{}-{name}", std::process::id()));
        // What an earlier run of the same process number left.
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).unwrap();
        Directory(path)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.path().join(name)
    }

    // A backup's test has several files.
    #[allow(dead_code)]
    pub(crate) fn pool(&self) -> PathBuf {
        self.file("test.pool")
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        // A test that failed has said why already.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
