//! Files that are made to try a medium.

use std::path::{Path, PathBuf};

/// A pool that is made only to try something, and is removed with its other files.
pub(super) struct Trial {
    path: PathBuf,
}

impl Trial {
    pub(super) fn new(folder: &Path) -> Trial {
        Trial { path: folder.join(format!(".tembo-doctor-{}", std::process::id())) }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Trial {
    fn drop(&mut self) {
        for suffix in ["", ".log", ".tmp", ".log.new"] {
            let mut name = self.path.clone().into_os_string();
            name.push(suffix);
            // Most of them were never there.
            let _ = std::fs::remove_file(name);
        }
    }
}
