//! A loop device on a file in memory, with or without ext4 on it: it stands for a ram disk.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A loop device on a file; detached when this goes.
pub(crate) struct LoopDevice {
    device: String,
    mounted: Option<PathBuf>,
}

fn run(program: &str, words: &[&str]) -> Option<String> {
    let output = Command::new(program).args(words).stdin(Stdio::null()).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

impl LoopDevice {
    /// `None`: this user or this machine has none to give.
    pub(crate) fn attach(folder: &Path, name: &str, size: u64) -> Option<LoopDevice> {
        let path = folder.join(name);
        File::create(&path).and_then(|file| file.set_len(size)).ok()?;
        let device = run("losetup", &["--find", "--show", path.to_str()?])?;
        Some(LoopDevice { device, mounted: None })
    }

    /// With a file system on it, below `folder`.
    pub(crate) fn mount(mut self, folder: &Path) -> Option<LoopDevice> {
        let point = folder.join("mounted");
        fs::create_dir(&point).ok()?;
        run("mkfs.ext4", &["-q", &self.device])?;
        run("mount", &[&self.device, point.to_str()?])?;
        self.mounted = Some(point);
        Some(self)
    }

    /// The device's name.
    pub(crate) fn device(&self) -> &str {
        &self.device
    }

    /// Where it is mounted.
    pub(crate) fn mounted(&self) -> Option<&Path> {
        self.mounted.as_deref()
    }
}

impl Drop for LoopDevice {
    fn drop(&mut self) {
        if let Some(point) = &self.mounted {
            let _ = Command::new("umount").arg(point).status();
        }
        let _ = run("losetup", &["--detach", &self.device]);
    }
}
