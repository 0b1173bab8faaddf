//! A process that serves a mount, and its end.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use super::stale::stale;
use crate::Error;

/// Until a mount is there, and until the process has ended after the unmount.
const PATIENCE: Duration = Duration::from_secs(30);

const POLL: Duration = Duration::from_millis(5);

/// A mount and the process that serves it; both end with this.
pub(crate) struct Mounted {
    child: Child,
    point: PathBuf,
    name: &'static str,
}

/// Where a program is, of those that are installed.
pub(crate) fn installed(program: &str) -> Option<PathBuf> {
    let folders = std::env::var_os("PATH")?;
    std::env::split_paths(&folders).map(|folder| folder.join(program)).find(|path| path.is_file())
}

/// Runs a program to its end.
///
/// # Errors
/// It could not be started, or failed: with what it says.
pub(crate) fn run_program(command: &mut Command) -> Result<(), Error> {
    let name = command.get_program().to_string_lossy().into_owned();
    let failed = |source| Error::Process { contender: name.clone(), source };
    let output = command.stdin(Stdio::null()).output().map_err(failed)?;
    if output.status.success() {
        return Ok(());
    }
    let text = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    Err(failed(io::Error::other(text)))
}

/// Unmounts, also what is in use; it may fail.
fn unmount(point: &Path) {
    let quietly = |program: &str, words: &[&str]| {
        let mut command = Command::new(program);
        command.args(words).arg(point).stdout(Stdio::null()).stderr(Stdio::null());
        command.status().is_ok_and(|status| status.success())
    };
    // The second is for users that may not use the first; the last also unmounts what is in use.
    let _ = quietly("umount", &[])
        || quietly("fusermount3", &["-u"])
        || quietly("umount", &["--lazy"])
        || quietly("fusermount3", &["-u", "-z"]);
}

fn device(path: &Path) -> io::Result<u64> {
    fs::metadata(path).map(|metadata| metadata.dev())
}

impl Mounted {
    /// Starts a program, with the mount point as its last word, and waits for the mount. If this process is killed, the
    /// program gets SIGTERM, as far as `setpriv` is installed, and ends with its mount. What an earlier process has left of one
    /// beside this is unmounted.
    ///
    /// # Errors
    /// It was not mounted.
    pub(crate) fn start(
        name: &'static str,
        program: &Path,
        words: &[&str],
        point: PathBuf,
    ) -> Result<Mounted, Error> {
        let failed = |source| Error::Process { contender: name.into(), source };
        let mut command = match installed("setpriv") {
            Some(setpriv) => {
                let mut command = Command::new(setpriv);
                command.args(["--pdeathsig", "TERM"]).arg(program);
                command
            }
            None => Command::new(program),
        };
        fs::create_dir(&point)?;
        // Without the list nothing is known to be left.
        let mounts = fs::read("/proc/self/mountinfo").unwrap_or_default();
        stale(&point.canonicalize()?, &mounts).iter().for_each(|stale| unmount(stale));
        let before = device(&point)?;
        command.args(words).arg(&point);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let child = command.spawn().map_err(failed)?;
        let mut mounted = Mounted { child, point, name };
        let begin = Instant::now();
        while device(&mounted.point).is_ok_and(|now| now == before) {
            let ended = mounted.child.try_wait().map_err(failed)?;
            if ended.is_some() || begin.elapsed() > PATIENCE {
                return Err(failed(io::Error::other("it has mounted nothing")));
            }
            sleep(POLL);
        }
        Ok(mounted)
    }

    pub(crate) fn point(&self) -> &Path {
        &self.point
    }

    /// Unmounts, and waits for the program to end by itself: its files are whole then.
    ///
    /// # Errors
    /// It did not end in time, or failed.
    pub(crate) fn end(mut self) -> Result<(), Error> {
        unmount(&self.point);
        let failed = |source| Error::Process { contender: self.name.into(), source };
        match self.ended() {
            Ok(true) => Ok(()),
            Ok(false) => Err(failed(io::Error::other("it does not end"))),
            Err(source) => Err(failed(source)),
        }
    }

    fn ended(&mut self) -> io::Result<bool> {
        let begin = Instant::now();
        while begin.elapsed() < PATIENCE {
            if self.child.try_wait()?.is_some() {
                return Ok(true);
            }
            sleep(POLL);
        }
        Ok(false)
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        if let Ok(Some(_)) = self.child.try_wait() {
            return;
        }
        unmount(&self.point);
        if !self.ended().unwrap_or(false) {
            // Its files are removed next; it has nothing to save.
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}
