//! Commits of transactions, and what can wait, by a thread that serves no other requests.
//!
//! What a transaction has changed, the kernel may have in its caches. It is notified when the commit is seen, before that is durable and
//! before the program that committed is answered. It may wait then for requests that are under way, so that no thread that has to
//! serve them may notify it.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, OnceLock};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use fuser::{Errno, INodeNo, Notifier};
use tembo_fs::{Fs, FsTransaction, Touched};
use tembo_kv::Durability;

use crate::errors::errno_of_commit;
use crate::held::Held;
use crate::replies::now;

/// Answers the request to commit.
pub(crate) type Answer = Box<dyn FnOnce(Result<(), Errno>) + Send>;

/// What is to be committed.
pub(crate) struct Commit {
    pub(crate) transaction: FsTransaction,
    pub(crate) durability: Durability,
    pub(crate) answer: Answer,
}

/// Inodes that wait for the thread at most: of more than these, the space would not be given back as long as it commits.
const WAITING_MAX: usize = 64;

/// What the thread does.
enum Todo {
    Commit(Box<Commit>),
    /// The kernel is to forget what it has in its caches of an inode.
    Forget(INodeNo),
    /// An inode that another has taken the name of is to be closed, in a moment.
    LetGo(Fs, u64),
}

/// The way to the kernel, once it is mounted.
pub(crate) type Kernel = Arc<OnceLock<Notifier>>;

/// The thread that commits.
pub(crate) struct Committer {
    /// `None`: it has been asked to end.
    todo: Option<Sender<Todo>>,
    thread: Option<JoinHandle<()>>,
    /// Inodes that are to be closed and that it has not received.
    waiting: Arc<AtomicUsize>,
}

impl Committer {
    /// Starts it.
    ///
    /// # Errors
    /// Those of the system.
    pub(crate) fn start(kernel: Kernel) -> io::Result<Committer> {
        let (sender, todo) = mpsc::channel();
        let waiting = Arc::<AtomicUsize>::default();
        let received = Arc::clone(&waiting);
        let work = move || run(&todo, &kernel, &received);
        let thread = Builder::new().name("fs-commit".into()).spawn(work)?;
        Ok(Committer { todo: Some(sender), thread: Some(thread), waiting })
    }

    /// Commits, and then answers.
    pub(crate) fn commit(&self, commit: Commit) {
        self.send(Todo::Commit(Box::new(commit)));
    }

    /// Makes the kernel forget what it has in its caches of an inode, when no request of it is under way any more.
    pub(crate) fn forget(&self, number: INodeNo) {
        self.send(Todo::Forget(number));
    }

    /// Whether it has so much to do that what is let go may stay for long.
    pub(crate) fn is_busy(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) >= WAITING_MAX
    }

    /// Closes an inode in a moment.
    pub(crate) fn let_go(&self, fs: &Fs, inode: u64) {
        self.waiting.fetch_add(1, Ordering::Relaxed);
        self.send(Todo::LetGo(fs.clone(), inode));
    }

    fn send(&self, todo: Todo) {
        if let Some(sender) = &self.todo {
            // It is received as long as there is a sender.
            let _ = sender.send(todo);
        }
    }

    /// Ends it, after all that it was given.
    pub(crate) fn end(&mut self) {
        self.todo = None;
        if let Some(thread) = self.thread.take() {
            // A panic of it was reported by its thread.
            let _ = thread.join();
        }
    }
}

fn run(todo: &Receiver<Todo>, kernel: &Kernel, waiting: &AtomicUsize) {
    let mut held = Held::default();
    loop {
        let next = match held.patience() {
            None => todo.recv().map_err(|_| RecvTimeoutError::Disconnected),
            Some(Duration::ZERO) => Err(RecvTimeoutError::Timeout),
            Some(patience) => todo.recv_timeout(patience),
        };
        match next {
            Ok(Todo::Commit(commit)) => do_commit(*commit, kernel),
            Ok(Todo::Forget(number)) => {
                if let Some(notifier) = kernel.get() {
                    // What the kernel does not know it need not forget.
                    let _ = notifier.inval_inode(number, 0, 0);
                }
            }
            Ok(Todo::LetGo(fs, inode)) => {
                waiting.fetch_sub(1, Ordering::Relaxed);
                held.add(&fs, inode);
            }
            Err(RecvTimeoutError::Timeout) => held.turn(),
            Err(RecvTimeoutError::Disconnected) => return held.end(),
        }
    }
}

fn do_commit(Commit { transaction, durability, answer }: Commit, kernel: &Kernel) {
    if let Some(notifier) = kernel.get() {
        for inode in transaction.touched_open() {
            // What others have stored to mappings is written then, and so a conflict. Behind the commit it would be written over that.
            let _ = notifier.inval_inode(INodeNo(inode), 0, 0);
        }
    }
    let seen = |touched: &Touched| {
        if let Some(notifier) = kernel.get() {
            invalidate(notifier, touched);
        }
    };
    let committed = transaction.commit_seen(now(), durability, seen);
    answer(committed.map(drop).map_err(|error| errno_of_commit(&error)));
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

#[cfg(test)]
mod tests {
    use tembo_fs::{Format, Time};
    use tembo_kv::{Options, Store};

    use super::*;

    #[test]
    fn what_is_let_go_waits_for_no_long_commit_in_any_number() {
        let store = Store::volatile(&Options::new()).unwrap();
        let fs = Fs::format(&store, &Format::default(), Time::default()).unwrap();
        let mut committer = Committer::start(Kernel::default()).unwrap();
        let (goes_on, waits) = mpsc::channel::<()>();
        let answer = Box::new(move |committed: Result<(), Errno>| {
            assert!(committed.is_ok());
            waits.recv().unwrap();
        });
        let transaction = fs.transaction().unwrap();
        let durability = Durability::Buffered;
        committer.commit(Commit { transaction, durability, answer });
        let mut let_go = 0;
        while !committer.is_busy() {
            committer.let_go(&fs, tembo_fs::ROOT);
            let_go += 1;
        }
        assert_eq!(let_go, WAITING_MAX);
        goes_on.send(()).unwrap();
        committer.end();
        assert!(!committer.is_busy());
    }
}
