//! The sync of the pool file beside that of the log: a thread of its own, so that both take the time of one.

use std::io;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{Builder, JoinHandle};

use crate::disk::WatchedFile;

/// What the thread is to do, and where it sends the result.
struct Request {
    pool: Arc<WatchedFile>,
    failed: u64,
    answer: SyncSender<io::Result<()>>,
}

/// A thread that syncs the pool file. It is started when it is first asked.
#[derive(Default)]
pub(super) struct SecondSync {
    thread: Mutex<Option<(SyncSender<Request>, JoinHandle<()>)>>,
}

/// A sync that has been asked for.
pub(super) struct Answer(Receiver<io::Result<()>>);

impl Answer {
    /// Waits until the sync is done.
    pub(super) fn wait(self) -> io::Result<()> {
        self.0.recv().unwrap_or_else(|_| Err(io::Error::other("the thread of the sync has ended")))
    }
}

impl SecondSync {
    /// Asks for a sync, as of [`sync_extents`]. `None` where there is no thread.
    pub(super) fn ask(&self, pool: &Arc<WatchedFile>, failed: u64) -> Option<Answer> {
        let mut thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner);
        if thread.is_none() {
            *thread = start().ok();
        }
        let (requests, _) = thread.as_ref()?;
        let (answer, answers) = sync_channel(1);
        requests.send(Request { pool: pool.clone(), failed, answer }).ok()?;
        Some(Answer(answers))
    }

    /// Ends the thread.
    pub(super) fn stop(&self) {
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some((requests, handle)) = thread {
            drop(requests);
            // A thread that panicked has nothing more to say.
            let _ = handle.join();
        }
    }
}

fn start() -> io::Result<(SyncSender<Request>, JoinHandle<()>)> {
    let (requests, received) = sync_channel::<Request>(1);
    let handle = Builder::new().name("tembo-extents".into()).spawn(move || {
        for Request { pool, failed, answer } in received {
            // A sync that no thread waits for any more is of no consequence.
            let _ = answer.send(sync_extents(&pool, failed));
        }
    })?;
    Ok((requests, handle))
}

/// Syncs the pool file; fails also if a sync has failed since `failed` was read.
pub(super) fn sync_extents(pool: &WatchedFile, failed: u64) -> io::Result<()> {
    // ORDER: the bytes of an extent are durable before its group is called durable.
    pool.sync_since("pool.extent_sync", failed)
}
