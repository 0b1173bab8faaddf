//! Servers of Redis that follow this one, by Redis's own replication: SYNC and PSYNC.
//!
//! ```text
//!   commands ─▶ propagation (effects of the turn) ─▶ backlog (bytes, bounded) ─▶ feed (thread for each) ─▶ Redis
//!                                       snapshot as an RDB file ───────────────┘
//! ```
//! The turn after which a server is taken on is the last one in its snapshot; the effects of the next are the first that it is
//! sent. What is sent lies in memory only: the stream has another name after a restart, and each server begins anew then.
//! A server that is back soon enough goes on where it was, as long as that is kept.

mod backlog;
mod elements;
mod feed;
mod file;
mod packed;
mod spread;
mod stream;

use std::os::fd::OwnedFd;
use std::sync::Arc;

use tembo_kv::Store;

use crate::replication::redis::backlog::Backlog;
use crate::replication::redis::feed::{Beginning, Content, Feed};
use crate::secret::secret_digits;
use crate::token::Token;

/// Digits of what ends a file whose size is not said.
const DELIMITER_SIZE: usize = 40;

/// How a server asks to follow.
pub(crate) struct Wish {
    /// The name of the stream that it has followed, and the byte that it lacks first; `None`: it begins anew.
    pub(crate) held: Option<(String, u64)>,
    /// It has asked by PSYNC, and gets a reply that says how it begins.
    pub(crate) has_reply: bool,
    /// It takes a file whose size is not known before.
    pub(crate) takes_unsized: bool,
}

/// How much of the stream is kept.
#[derive(Clone, Copy)]
pub(crate) struct Limits {
    /// For servers that come back, in bytes.
    pub(crate) backlog: u64,
    /// For one that is slow, in bytes; 0: any number.
    pub(crate) hard: u64,
    /// The same, if it is so slow for a time; 0: any number.
    pub(crate) soft: u64,
    /// That time in milliseconds.
    pub(crate) soft_ms: u64,
    /// How long the stream is kept without a server.
    pub(crate) kept_ms: u64,
    /// How often servers are sent PING.
    pub(crate) ping_ms: u64,
    /// After which time a silent server is lost.
    pub(crate) silent_ms: u64,
}

/// A server of Redis that follows.
pub(crate) struct RedisReplica {
    /// Its connection.
    token: Token,
    /// Where it listens, as it says.
    pub(crate) ip: String,
    pub(crate) port: u16,
    /// How far it has executed the stream, as it says; `None`: it has said nothing yet.
    pub(crate) acknowledged: Option<u64>,
    /// How far it has that on its disk, if it says so.
    durable: Option<u64>,
    /// When it last said so, or took some of the file.
    pub(crate) heard_ms: u64,
    /// Bytes that its socket had taken then.
    taken: u64,
    /// Since when it lags behind by more than the soft limit.
    slow_ms: Option<u64>,
    feed: Feed,
}

impl RedisReplica {
    /// Whether it has all that it was given at first, and executes the stream.
    pub(crate) fn is_online(&self) -> bool {
        self.feed.is_online()
    }
}

/// One that follows no more. Its thread ends soon.
struct Former {
    token: Token,
    /// Since when.
    since_ms: u64,
    feed: Feed,
}

/// All of them.
#[derive(Default)]
pub(crate) struct RedisReplicas {
    list: Vec<RedisReplica>,
    /// The stream, as long as one follows it or may come back.
    backlog: Option<Arc<Backlog>>,
    /// Where the last stream has ended. The next one begins there, as clients may wait for a place.
    ended: u64,
    /// The name of the stream.
    pub(crate) id: String,
    /// When the last one went.
    alone_ms: u64,
    ping_ms: u64,
    former: Vec<Former>,
    /// Those that began anew, and those that went on.
    pub(crate) full_syncs: u64,
    pub(crate) partial_syncs: u64,
}

impl RedisReplicas {
    /// All of them.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &RedisReplica> {
        self.list.iter()
    }

    /// Whether there is a stream.
    pub(crate) fn is_on(&self) -> bool {
        self.backlog.is_some()
    }

    /// The place of the first byte of the stream that is kept, and the one behind the last.
    pub(crate) fn bounds(&self) -> (u64, u64) {
        self.backlog.as_ref().map_or((0, 0), |backlog| backlog.bounds())
    }

    /// Begins to feed one, through a socket that does not block. No transaction may be open, and all that was executed is
    /// durable. A stream that begins has the name `id`.
    ///
    /// # Errors
    /// The system's, or those of the store.
    pub(super) fn add(
        &mut self,
        (store, databases): (&Store, usize),
        (socket, token): (&OwnedFd, Token),
        (ip, port): (String, u16),
        (wish, id): (&Wish, String),
        now_ms: u64,
    ) -> std::io::Result<()> {
        let backlog = self.backlog.clone();
        let backlog = backlog.unwrap_or_else(|| Arc::new(Backlog::from(self.ended)));
        let id = if self.is_on() { self.id.clone() } else { id };
        let (begin, end) = backlog.bounds();
        let held = wish.held.as_ref().filter(|(name, _)| *name == id);
        let place = held.and_then(|(_, byte)| byte.checked_sub(1));
        let place = place.filter(|place| (begin..=end).contains(place));
        let beginning = match place {
            Some(place) => {
                let reply = format!("+CONTINUE {id}\r\n");
                Beginning { reply, content: None, place }
            }
            None => {
                let reply = format!("+FULLRESYNC {id} {end}\r\n");
                let snapshot = store.snapshot().map_err(std::io::Error::other)?;
                // What clients have stored cannot contain it.
                let delimiter = wish.takes_unsized.then(|| secret_digits(DELIMITER_SIZE));
                let delimiter = delimiter.transpose()?;
                let content = Some(Content { snapshot, databases, delimiter });
                let reply = if wish.has_reply { reply } else { String::new() };
                Beginning { reply, content, place: end }
            }
        };
        let feed = Feed::start(socket, beginning, &backlog)?;
        *(if place.is_some() { &mut self.partial_syncs } else { &mut self.full_syncs }) += 1;
        if !self.is_on() {
            self.ping_ms = now_ms;
        }
        (self.backlog, self.id) = (Some(backlog), id);
        self.list.push(RedisReplica {
            token,
            ip,
            port,
            acknowledged: None,
            durable: None,
            heard_ms: now_ms,
            taken: 0,
            slow_ms: None,
            feed,
        });
        Ok(())
    }

    /// The connection has ended.
    pub(super) fn forget(&mut self, token: Token, now_ms: u64) {
        if let Some(at) = self.list.iter().position(|replica| replica.token == token) {
            let replica = self.list.swap_remove(at);
            replica.feed.stop();
            self.former.push(Former { token, since_ms: now_ms, feed: replica.feed });
            self.alone_ms = now_ms;
        }
        self.former.iter().filter(|former| former.token == token).for_each(|one| one.feed.stop());
    }

    /// None of them follows any more, and none goes on: those that execute the stream are sent what is in it, if `is_whole`.
    pub(crate) fn end(&mut self, is_whole: bool, now_ms: u64) {
        if let Some(backlog) = self.backlog.take() {
            backlog.close();
            self.ended = backlog.bounds().1;
        }
        for RedisReplica { token, feed, .. } in self.list.drain(..) {
            if !is_whole || !feed.is_online() {
                feed.stop();
            }
            self.former.push(Former { token, since_ms: now_ms, feed });
        }
    }

    /// The next stream begins so many bytes later.
    pub(crate) fn pass_over(&mut self, bytes: usize) {
        self.ended += bytes as u64;
    }

    /// Once a second: those that follow no more have so much time to take the rest of the stream.
    pub(crate) fn look_after_former(&mut self, limits: Limits, now_ms: u64) {
        self.former.retain(|former| !former.feed.is_finished());
        let is_late = |one: &&Former| now_ms.saturating_sub(one.since_ms) > limits.silent_ms;
        self.former.iter().filter(is_late).for_each(|former| former.feed.stop());
    }

    /// Those that follow no more and whose thread has not ended.
    #[cfg(test)]
    pub(crate) fn former(&self) -> usize {
        self.former.len()
    }

    /// Sends the effects of a turn, which is durable.
    pub(crate) fn append(&mut self, bytes: Vec<u8>, limits: Limits) {
        let Some(backlog) = &self.backlog else { return };
        backlog.append(bytes);
        self.trim(limits);
    }

    /// Gives up what of the stream is not to be kept any more.
    pub(crate) fn trim(&self, limits: Limits) {
        let Some(backlog) = &self.backlog else { return };
        let (_, end) = backlog.bounds();
        let slowest = self.list.iter().map(|replica| replica.feed.place()).min().unwrap_or(end);
        let hard = if limits.hard == 0 { u64::MAX } else { limits.hard.max(limits.backlog) };
        let kept = slowest.min(end.saturating_sub(limits.backlog));
        backlog.trim(kept.max(end.saturating_sub(hard)));
    }

    /// A server says how far it is; whether it is known.
    pub(super) fn acknowledge(
        &mut self,
        token: Token,
        (place, durable): (u64, Option<u64>),
        now_ms: u64,
    ) -> bool {
        let known = self.list.iter_mut().find(|replica| replica.token == token);
        let Some(replica) = known else { return false };
        replica.acknowledged = Some(place);
        replica.durable = durable.or(replica.durable);
        replica.heard_ms = now_ms;
        replica.feed.acknowledge();
        true
    }

    /// How many have executed the stream up to a place; or have that on their disks.
    pub(crate) fn count(&self, place: u64, durably: bool) -> usize {
        let has = |replica: &&RedisReplica| {
            let reached = if durably { replica.durable } else { replica.acknowledged };
            replica.is_online() && reached.is_some_and(|reached| reached >= place)
        };
        self.list.iter().filter(has).count()
    }

    /// Whether they are to be sent PING now.
    pub(crate) fn is_ping_due(&mut self, limits: Limits, now_ms: u64) -> bool {
        let is_due = !self.list.is_empty() && now_ms.saturating_sub(self.ping_ms) >= limits.ping_ms;
        if is_due {
            self.ping_ms = now_ms;
        }
        is_due
    }

    /// Once a second: those that are silent or too slow.
    pub(crate) fn lost(&mut self, limits: Limits, now_ms: u64) -> Vec<Token> {
        let (begin, end) = self.bounds();
        let mut lost = Vec::new();
        for replica in &mut self.list {
            // Of the stream it acknowledges what it takes; of the file it cannot.
            let taken = replica.feed.taken();
            if std::mem::replace(&mut replica.taken, taken) != taken && !replica.is_online() {
                replica.heard_ms = now_ms;
            }
            let place = replica.feed.place();
            // What it lacks was above the hard limit, and is kept no more.
            let is_doomed = place < begin;
            let lag = end.saturating_sub(place);
            let is_slow = limits.soft > 0 && lag > limits.soft;
            replica.slow_ms = is_slow.then(|| replica.slow_ms.unwrap_or(now_ms));
            let slow_ms = replica.slow_ms.map_or(0, |since_ms| now_ms.saturating_sub(since_ms));
            let is_silent = now_ms.saturating_sub(replica.heard_ms) > limits.silent_ms;
            if is_doomed || is_silent || is_slow && slow_ms >= limits.soft_ms {
                lost.push(replica.token);
            }
        }
        lost
    }

    /// A server has sent something, be it a sign of life only.
    pub(crate) fn hear(&mut self, token: Token, now_ms: u64) {
        if let Some(replica) = self.list.iter_mut().find(|replica| replica.token == token) {
            replica.heard_ms = replica.heard_ms.max(now_ms);
        }
    }

    /// Whether none has come for so long that the stream is kept no longer.
    pub(crate) fn is_idle(&self, limits: Limits, now_ms: u64) -> bool {
        let is_alone = self.is_on() && self.list.is_empty();
        is_alone && now_ms.saturating_sub(self.alone_ms) > limits.kept_ms
    }
}

impl Drop for RedisReplicas {
    /// The threads have snapshots of the store, which is to be closed.
    fn drop(&mut self) {
        self.end(false, 0);
        self.former.iter().for_each(|former| former.feed.stop());
        self.former.drain(..).for_each(|former| former.feed.join());
    }
}
