//! A thread of a connection that syncs for all requests that wait, so that those that follow are executed meanwhile.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};

use tembo_kv::Store;

use crate::replies::Replies;
use crate::wire::Errno;

/// Requests that may wait for a sync, and as many whose replies are under way: with more of them, nothing more is read from the client.
const WAITING_MAX: usize = 1024;

/// The requests of one connection that wait for a sync. Ends when it is dropped, with the last reply.
pub(crate) struct Flusher {
    waiting: Option<SyncSender<u64>>,
    thread: Option<JoinHandle<()>>,
}

impl Flusher {
    pub(crate) fn start(store: Store, replies: Arc<Replies>) -> io::Result<Flusher> {
        let (waiting, requests) = sync_channel(WAITING_MAX);
        let thread = thread::Builder::new().name("nbd-flush".into());
        let thread = thread.spawn(move || flush(&store, &replies, &requests))?;
        Ok(Flusher { waiting: Some(waiting), thread: Some(thread) })
    }

    /// Replies to a request when all that is visible now is durable.
    pub(crate) fn reply_when_durable(&self, cookie: u64) -> io::Result<()> {
        let sent = self.waiting.as_ref().is_some_and(|waiting| waiting.send(cookie).is_ok());
        // The client has gone away, and so the thread.
        if sent { Ok(()) } else { Err(io::ErrorKind::BrokenPipe.into()) }
    }
}

fn flush(store: &Store, replies: &Replies, requests: &Receiver<u64>) {
    while let Ok(first) = requests.recv() {
        // Those that have come by now need no sync of their own.
        let others = requests.try_iter().take(WAITING_MAX - 1);
        let all: Vec<u64> = std::iter::once(first).chain(others).collect();
        let synced = store.sync().map_err(|_| Errno::IO);
        for cookie in all {
            if replies.done(cookie, synced).is_err() {
                return;
            }
        }
    }
}

impl Drop for Flusher {
    fn drop(&mut self) {
        self.waiting = None;
        if let Some(thread) = self.thread.take() {
            // A panic of it was reported by itself.
            let _ = thread.join();
        }
    }
}
