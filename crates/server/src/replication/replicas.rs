//! The replicas that a store feeds.

use std::sync::Arc;
use std::thread::JoinHandle;

use tembo_kv::Store;

use std::os::fd::OwnedFd;

use crate::replication::feed::{Feed, Gap};
use crate::replication::history::Beginning;
use crate::token::Token;

/// A replica.
pub(crate) struct Replica {
    /// Its connection.
    pub(crate) token: Token,
    /// Where it listens, as it says.
    pub(crate) ip: String,
    pub(crate) port: u16,
    /// Everything up to this version is durable there.
    pub(crate) acknowledged: u64,
    /// When it last said so.
    pub(crate) acknowledged_ms: u64,
    feed: Feed,
}

impl Replica {
    /// Whether it has been given all that a full synchronisation gives.
    pub(crate) fn is_online(&self) -> bool {
        self.feed.is_online()
    }
}

/// All replicas.
#[derive(Default)]
pub(crate) struct Replicas {
    list: Vec<Replica>,
    /// Threads that are about to end.
    ended: Vec<JoinHandle<()>>,
    gap: Arc<Gap>,
    /// Replicas that began anew, and that went on.
    pub(crate) full_syncs: u64,
    pub(crate) partial_syncs: u64,
}

impl Replicas {
    /// Versions at which the store is not whole.
    pub(crate) fn gap(&self) -> &Arc<Gap> {
        &self.gap
    }

    /// All of them.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Replica> {
        self.list.iter()
    }

    /// Begins to feed one, through a socket that does not block.
    ///
    /// # Errors
    /// The system's.
    pub(crate) fn add(
        &mut self,
        store: &Store,
        socket: &OwnedFd,
        (token, ip, port): (Token, String, u16),
        (id, beginning): (String, Beginning),
        now_ms: u64,
    ) -> std::io::Result<()> {
        let is_full = beginning.snapshot.is_some();
        let feed = Feed::start(store, socket, (id, beginning), &self.gap)?;
        *(if is_full { &mut self.full_syncs } else { &mut self.partial_syncs }) += 1;
        self.ended.retain(|thread| !thread.is_finished());
        // What it goes on behind may lie within a change, or not be durable there yet: it says itself what it holds.
        let (acknowledged, acknowledged_ms) = (0, now_ms);
        self.list.push(Replica { token, ip, port, acknowledged, acknowledged_ms, feed });
        Ok(())
    }

    /// The connection has ended.
    pub(crate) fn forget(&mut self, token: Token) {
        if let Some(at) = self.list.iter().position(|replica| replica.token == token) {
            self.ended.push(self.list.swap_remove(at).feed.stop());
        }
    }

    /// A replica has acknowledged a version.
    pub(super) fn acknowledge(&mut self, token: Token, version: u64, now_ms: u64) {
        if let Some(replica) = self.list.iter_mut().find(|replica| replica.token == token) {
            replica.acknowledged = version;
            replica.acknowledged_ms = now_ms;
        }
    }

    /// How many replicas hold the version durably.
    pub(crate) fn count(&self, version: u64) -> usize {
        self.list.iter().filter(|replica| replica.acknowledged >= version).count()
    }

    /// Ends all connections; nothing of the store is read for them any more.
    pub(super) fn end_all(&mut self) {
        let stopped: Vec<_> = self.list.drain(..).map(|replica| replica.feed.stop()).collect();
        for thread in self.ended.drain(..).chain(stopped) {
            // One that has panicked has ended, too.
            let _ = thread.join();
        }
    }

    /// Replicas that have not said anything since then.
    pub(crate) fn silent_since(&self, ms: u64) -> Vec<Token> {
        let silent = self.list.iter().filter(|replica| replica.acknowledged_ms < ms);
        silent.map(|replica| replica.token).collect()
    }
}

impl Drop for Replicas {
    /// The threads have handles of the store, which is to be closed.
    fn drop(&mut self) {
        self.end_all();
    }
}
