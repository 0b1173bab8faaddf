//! A mount: from the first request of the kernel to its end.

use std::io;
use std::path::Path;
use std::sync::Arc;

use fuser::{Config, MountOption, Session, SessionACL, SessionUnmounter};
use tembo_fs::Fs;

use crate::committer::{Committer, Kernel};
use crate::durable::Durable;
use crate::face::Face;
use crate::trees::Trees;

/// How a file system is mounted.
#[derive(Clone, Debug, Default)]
pub struct MountOptions {
    /// When what a program writes is durable.
    pub durable: Durable,
    /// Nothing is changed.
    pub read_only: bool,
    /// Other users than the one that mounts see it.
    pub allow_other: bool,
    /// What the system shows as its source.
    pub source: String,
    /// Threads that serve requests; 0 counts as 1.
    pub threads: usize,
}

/// A file system that is mounted. Dropping it unmounts it.
pub struct Mount(Session<Face>);

/// Ends a mount, from any thread.
pub struct Unmounter(SessionUnmounter);

impl Unmounter {
    /// Ends it: [`Mount::serve`] returns.
    ///
    /// # Errors
    /// Those of the system: it is in use.
    pub fn unmount(&mut self) -> io::Result<()> {
        self.0.unmount()
    }
}

impl Mount {
    /// Mounts a file system at a directory. Requests wait until it is [served](Mount::serve).
    ///
    /// # Errors
    /// Those of the system: FUSE is not there, or not permitted.
    pub fn new(fs: Fs, directory: &Path, options: &MountOptions) -> io::Result<Mount> {
        let mut config = Config::default();
        config.mount_options.extend([
            MountOption::FSName(options.source.clone()),
            MountOption::Subtype("tembo".into()),
            MountOption::DefaultPermissions,
        ]);
        if options.read_only {
            config.mount_options.push(MountOption::RO);
        }
        config.acl = if options.allow_other { SessionACL::All } else { SessionACL::Owner };
        config.n_threads = Some(options.threads.max(1));
        let kernel = Kernel::default();
        let committer = Committer::start(Arc::clone(&kernel))?;
        let trees = Trees::new(fs, rustix::process::geteuid().as_raw());
        let face = Face::new(trees, options.durable, committer);
        let session = Session::new(face, directory, &config)?;
        // It is set once: the session is made here.
        let _ = kernel.set(session.notifier());
        Ok(Mount(session))
    }

    /// What ends it.
    pub fn unmounter(&mut self) -> Unmounter {
        Unmounter(self.0.unmount_callable())
    }

    /// Serves the kernel until the file system is unmounted.
    ///
    /// # Errors
    /// Those of the connection to the kernel.
    pub fn serve(self) -> io::Result<()> {
        self.0.run()
    }
}
