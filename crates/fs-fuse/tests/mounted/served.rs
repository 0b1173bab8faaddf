//! A file system that the process of the test mounts and serves.
//!
//! Where FUSE is not permitted, it says so, and there is none.

use std::fs;
use std::io::ErrorKind;
use std::path::PathBuf;
use std::thread::{self, JoinHandle};

use tembo_fs::{Format, Fs, New, Time};
use tembo_fs_fuse::{Durable, Mount, MountOptions, Unmounter};
use tembo_kv::{DomainRequest, Options, Store};
use tempfile::TempDir;

pub(crate) const NOW: Time = Time { seconds: 1, nanoseconds: 0 };

pub(crate) fn stored(folder: &TempDir, domain: DomainRequest) -> (Store, Fs) {
    let options = Options::new().domain(domain).background(false);
    let store = Store::create(&folder.path().join("a.pool"), &options).unwrap();
    let root = New { permissions: 0o777, ..Format::default().root };
    let fs = Fs::format(&store, &Format { root, ..Format::default() }, NOW).unwrap();
    (store, fs)
}

pub(crate) fn folder() -> TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

/// A mount that this process serves.
pub(crate) struct Served {
    pub(crate) store: Store,
    unmounter: Unmounter,
    thread: Option<JoinHandle<()>>,
    folder: TempDir,
}

impl Served {
    /// `None`: FUSE is not permitted here.
    pub(crate) fn new() -> Option<Served> {
        Served::with(Durable::Close, DomainRequest::Logged)
    }

    pub(crate) fn with(durable: Durable, domain: DomainRequest) -> Option<Served> {
        let folder = folder();
        let (store, fs) = stored(&folder, domain);
        let at = folder.path().join("at");
        fs::create_dir(&at).unwrap();
        // The kernel mounts nothing that has no source.
        let source = "a.pool".to_owned();
        let options = MountOptions { threads: 4, durable, source, ..MountOptions::default() };
        let mut mount = match Mount::new(fs, &at, &options) {
            Ok(mount) => mount,
            Err(error) => {
                let is_refused = error.kind() != ErrorKind::InvalidInput;
                assert!(is_refused, "it was asked for in a wrong way: {error}");
                eprintln!("skipped, FUSE is not permitted here: {error}");
                return None;
            }
        };
        let unmounter = mount.unmounter();
        let thread = Some(thread::spawn(move || mount.serve().unwrap()));
        Some(Served { store, unmounter, thread, folder })
    }

    pub(crate) fn at(&self, name: &str) -> PathBuf {
        self.folder.path().join("at").join(name)
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        if self.unmounter.unmount().is_err() {
            self.unmounter.force().unwrap();
        }
        self.thread.take().unwrap().join().unwrap();
    }
}
