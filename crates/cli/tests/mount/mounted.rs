//! A pool at a directory, and programs.

use std::fs;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Resource, Rlimit, Signal, kill_process, prlimit};

pub(crate) const TEMBO: &str = env!("CARGO_BIN_EXE_tembo");

pub(crate) fn tembo(args: &[&str]) -> Output {
    Command::new(TEMBO).args(args).output().unwrap()
}

pub(crate) fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// That a program ends well; what it prints.
pub(crate) fn done(command: &mut Command) -> String {
    let output = command.output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {}\n{error}", output.status);
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// A pool at a directory.
pub(crate) struct Mounted {
    folder: tempfile::TempDir,
    process: Child,
}

impl Mounted {
    /// `None`: FUSE is not permitted here.
    pub(crate) fn new() -> Option<Mounted> {
        Mounted::with(&[], |_| ())
    }

    /// The same with more options, of a pool that `make` may have made at a path.
    pub(crate) fn with(options: &[&str], make: impl FnOnce(&Path)) -> Option<Mounted> {
        let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        fs::create_dir(folder.path().join("at")).unwrap();
        make(&folder.path().join("a.pool"));
        let process = serve(folder.path(), options)?;
        Some(Mounted { folder, process })
    }

    pub(crate) fn at(&self) -> PathBuf {
        self.folder.path().join("at")
    }

    pub(crate) fn pool(&self) -> PathBuf {
        self.folder.path().join("a.pool")
    }

    /// The process that serves it is killed, and another one serves it.
    pub(crate) fn again_after_kill(&mut self) {
        self.kill();
        self.serve_again();
    }

    /// The process that serves it is killed: programs get ENOTCONN until it is unmounted.
    pub(crate) fn kill(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
        let error = fs::read_dir(self.at()).unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::NotConnected, "{error}");
    }

    /// What a killed process has mounted is unmounted, and another one serves it.
    pub(crate) fn serve_again(&mut self) {
        let unmounted = tembo(&["umount", text(&self.at())]);
        assert!(unmounted.status.success(), "{unmounted:?}");
        self.mount_again();
    }

    /// Another process serves it, after the last one has unmounted it.
    pub(crate) fn mount_again(&mut self) {
        self.process = serve(self.folder.path(), &[]).unwrap();
    }

    /// No file of the process that serves it gets bytes behind that size from here on, as if the disk were full.
    pub(crate) fn limit_files(&self, size: Option<u64>) {
        let process = Some(Pid::from_child(&self.process));
        prlimit(process, Resource::Fsize, Rlimit { current: size, maximum: None }).unwrap();
    }

    /// The process that serves it gets a signal, and ends well and soon.
    pub(crate) fn end_by(&mut self, signal: Signal) {
        kill_process(Pid::from_child(&self.process), signal).unwrap();
        let patience = Instant::now() + Duration::from_secs(10);
        let status = loop {
            match self.process.try_wait().unwrap() {
                Some(status) => break status,
                None => assert!(Instant::now() < patience, "it does not end"),
            }
            std::thread::sleep(Duration::from_millis(10));
        };
        assert!(status.success(), "{status}");
    }

    /// Unmounts it.
    pub(crate) fn unmount(&mut self) {
        let unmounted = tembo(&["umount", text(&self.at())]);
        assert!(unmounted.status.success(), "{unmounted:?}");
        assert!(self.process.wait().unwrap().success());
    }

    /// Unmounts it, and checks the pool.
    pub(crate) fn end(mut self) {
        self.unmount();
        for words in [&["fs", "check"][..], &["check"]] {
            let pool = self.pool();
            let checked = tembo(&[words, &[text(&pool)]].concat());
            assert!(checked.status.success(), "{checked:?}");
        }
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        if matches!(self.process.try_wait(), Ok(None)) {
            let _ = tembo(&["umount", text(&self.at())]);
            let _ = self.process.kill();
            let _ = self.process.wait();
        }
    }
}

/// Mounts `a.pool` of a folder at `at`; `None`: FUSE is not permitted here.
fn serve(folder: &Path, options: &[&str]) -> Option<Child> {
    let (pool, at) = (folder.join("a.pool"), folder.join("at"));
    // At the directory there may be what a killed process has left, and then nothing for a moment.
    let device = fs::metadata(folder).unwrap().dev();
    let mut process = Command::new(TEMBO)
        .args(["mount", text(&pool), text(&at), "--domain", "logged"])
        .args(options)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let patience = Instant::now() + Duration::from_secs(60);
    while fs::metadata(&at).map_or(true, |metadata| metadata.dev() == device) {
        if process.try_wait().unwrap().is_some() {
            let mut error = String::new();
            process.stderr.take().unwrap().read_to_string(&mut error).unwrap();
            assert!(error.contains("mounting at"), "{error}");
            eprintln!("skipped, FUSE is not permitted here: {error}");
            return None;
        }
        assert!(Instant::now() < patience, "it is not mounted");
        std::thread::sleep(Duration::from_millis(10));
    }
    Some(process)
}
