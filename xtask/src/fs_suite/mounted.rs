//! An empty pool at a directory.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::bail;

/// How long a mount may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// A pool that is mounted.
pub(super) struct Mounted {
    /// Where.
    pub(super) at: PathBuf,
    /// The program that serves it.
    pub(super) tembo: PathBuf,
    folder: PathBuf,
    process: Child,
}

impl Mounted {
    /// Mounts an empty pool in a folder of its own.
    pub(super) fn new(tembo: &Path) -> anyhow::Result<Mounted> {
        // A short path: the address of a Unix socket has at most 108 bytes, and the suites make some.
        let folder = std::env::temp_dir().join(format!("tembo-fs.{}", std::process::id()));
        let at = folder.join("at");
        fs::create_dir_all(&at)?;
        let device = fs::metadata(&at)?.dev();
        let mut mount = Command::new(tembo);
        mount.arg("mount").arg(folder.join("a.pool")).arg(&at);
        // Other users than root are among what is tested; durability is not.
        mount.args(["--allow-other", "--size-max", "16G", "--sync", "os"]);
        // A pipe that the suite's output goes to would stay open as long as the mount.
        mount.stdout(Stdio::null());
        let mut process = mount.spawn()?;
        let end = Instant::now() + PATIENCE;
        while fs::metadata(&at).map_or(true, |metadata| metadata.dev() == device) {
            if process.try_wait()?.is_some() || Instant::now() > end {
                bail!("{mount:?}: it is not mounted");
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        fs::set_permissions(&at, fs::Permissions::from_mode(0o777))?;
        Ok(Mounted { at, tembo: tembo.to_owned(), folder, process })
    }

    /// Unmounts it, and checks the pool.
    pub(super) fn end(mut self) -> anyhow::Result<()> {
        self.unmount()?;
        let pool = self.folder.join("a.pool");
        let mut check = Command::new(&self.tembo);
        crate::ci::step("check of the files", check.args(["fs", "check"]).arg(&pool))?;
        crate::ci::step("check of the pool", Command::new(&self.tembo).arg("check").arg(&pool))
    }

    fn unmount(&mut self) -> anyhow::Result<()> {
        let status = Command::new(&self.tembo).arg("umount").arg(&self.at).status()?;
        if !status.success() || !self.process.wait()?.success() {
            bail!("it was not unmounted");
        }
        Ok(())
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        if matches!(self.process.try_wait(), Ok(None)) {
            // An error on the way here was reported; this only ends what runs.
            let _ = self.unmount();
            let _ = self.process.kill();
        }
        let _ = fs::remove_dir_all(&self.folder);
    }
}
