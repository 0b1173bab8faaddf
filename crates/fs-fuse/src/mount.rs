//! A mount: from the first request of the kernel to its end.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use fuser::{Config, MountOption, Session, SessionACL, SessionUnmounter};
use nix::mount::{MntFlags, umount2};
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
    /// The bits set-user-ID and set-group-ID of programs have their effect.
    pub suid: bool,
    /// Special files lead to their devices.
    pub dev: bool,
    /// No file is executed.
    pub noexec: bool,
    /// What the system shows as its source.
    pub source: String,
    /// Threads that serve requests; 0 counts as 1.
    pub threads: usize,
}

/// A file system that is mounted. Dropping it unmounts it.
pub struct Mount {
    session: Session<Face>,
    /// Where, by the names that the system has for it.
    point: PathBuf,
}

/// Ends a mount, from any thread.
pub struct Unmounter {
    session: SessionUnmounter,
    point: PathBuf,
}

impl Unmounter {
    /// Ends it: [`Mount::serve`] returns. Without the right to unmount, a mount that is in use disappears from its
    /// directory only, and is served until it is used no more.
    ///
    /// # Errors
    /// Those of the system: it is in use.
    pub fn unmount(&mut self) -> io::Result<()> {
        self.session.unmount()
    }

    /// As [`unmount`](Unmounter::unmount), also of a mount that is in use: calls that wait get ECONNABORTED, and later ones
    /// of programs that have files open ENOTCONN. What they have written is durable as far as it was before.
    ///
    /// # Errors
    /// Those of the system: it is not permitted, or the mount is not at its directory any more.
    pub fn force(&mut self) -> io::Result<()> {
        // The second cuts the connection also of those in other namespaces of mounts.
        Ok(umount2(&self.point, MntFlags::MNT_DETACH | MntFlags::MNT_FORCE)?)
    }
}

impl Mount {
    /// Mounts a file system at a directory. Requests wait until it is [served](Mount::serve). While it is mounted, all changes are to
    /// come by the mount: what the program changes by `fs`, the kernel may not see for a minute.
    ///
    /// # Errors
    /// Those of the system: FUSE is not there, or not permitted.
    pub fn new(fs: Fs, directory: &Path, options: &MountOptions) -> io::Result<Mount> {
        let mut config = Config::default();
        config.mount_options.extend([
            MountOption::FSName(options.source.clone()),
            MountOption::CUSTOM("subtype=tembo".into()),
            MountOption::DefaultPermissions,
        ]);
        let flags = [
            (options.read_only, MountOption::RO),
            (options.suid, MountOption::Suid),
            (options.dev, MountOption::Dev),
            (options.noexec, MountOption::NoExec),
        ];
        config
            .mount_options
            .extend(flags.into_iter().filter(|(set, _)| *set).map(|(_, flag)| flag));
        config.acl = if options.allow_other { SessionACL::All } else { SessionACL::Owner };
        config.n_threads = Some(options.threads.max(1));
        let kernel = Kernel::default();
        let committer = Committer::start(Arc::clone(&kernel))?;
        let trees = Trees::new(fs, rustix::process::geteuid().as_raw());
        let face = Face::new(trees, options.durable, committer, Arc::clone(&kernel));
        let point = directory.canonicalize()?;
        let session = Session::new(face, &point, &config)?;
        // It is set once: the session is made here.
        let _ = kernel.set(session.notifier());
        Ok(Mount { session, point })
    }

    /// What ends it.
    pub fn unmounter(&mut self) -> Unmounter {
        Unmounter { session: self.session.unmount_callable(), point: self.point.clone() }
    }

    /// Serves the kernel until the file system is unmounted.
    ///
    /// # Errors
    /// Those of the connection to the kernel.
    pub fn serve(self) -> io::Result<()> {
        self.session.run()
    }
}
