//! Commits of transactions, by a thread that serves no other requests.
//!
//! What a transaction has changed, the kernel may have in its caches. It is notified after the commit and before the program that
//! committed. It may wait then for requests that are under way, so that no thread that has to serve them may notify it.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, OnceLock};
use std::thread::{Builder, JoinHandle};

use fuser::{Errno, INodeNo, Notifier};
use tembo_fs::{FsTransaction, Touched};
use tembo_kv::Durability;

use crate::errors::errno;
use crate::replies::now;

/// Answers the request to commit.
pub(crate) type Answer = Box<dyn FnOnce(Result<(), Errno>) + Send>;

/// What is to be committed.
pub(crate) struct Commit {
    pub(crate) transaction: FsTransaction,
    pub(crate) durability: Durability,
    pub(crate) answer: Answer,
}

/// The way to the kernel, once it is mounted.
pub(crate) type Kernel = Arc<OnceLock<Notifier>>;

/// The thread that commits.
pub(crate) struct Committer {
    /// `None`: it has been asked to end.
    commits: Option<Sender<Commit>>,
    thread: Option<JoinHandle<()>>,
}

impl Committer {
    /// Starts it.
    ///
    /// # Errors
    /// Those of the system.
    pub(crate) fn start(kernel: Kernel) -> io::Result<Committer> {
        let (commits, todo) = mpsc::channel();
        let thread = Builder::new().name("fs-commit".into()).spawn(move || run(&todo, &kernel))?;
        Ok(Committer { commits: Some(commits), thread: Some(thread) })
    }

    /// Commits, and then answers.
    pub(crate) fn commit(&self, commit: Commit) {
        if let Some(commits) = &self.commits {
            // It takes commits as long as there is a sender.
            let _ = commits.send(commit);
        }
    }

    /// Ends it, after all that it was given.
    pub(crate) fn end(&mut self) {
        self.commits = None;
        if let Some(thread) = self.thread.take() {
            // A panic of it was reported by its thread.
            let _ = thread.join();
        }
    }
}

fn run(todo: &Receiver<Commit>, kernel: &Kernel) {
    for Commit { transaction, durability, answer } in todo {
        // Also what has failed may be visible, if it could not be synced.
        let (committed, touched) = transaction.commit_touched(now(), durability);
        if let Some(notifier) = kernel.get() {
            invalidate(notifier, &touched);
        }
        answer(committed.map(drop).map_err(|error| errno(&error)));
    }
}

/// Takes what was changed out of the caches of the kernel. It fails of what is not there, and when the mount has ended.
fn invalidate(notifier: &Notifier, touched: &Touched) {
    for (directory, name) in &touched.names {
        let _ = notifier.inval_entry(INodeNo(*directory), OsStr::from_bytes(name));
    }
    for inode in &touched.inodes {
        let _ = notifier.inval_inode(INodeNo(*inode), 0, 0);
    }
}
