//! Replication: trees of stores, each of which follows the versions of the one above it.
//!
//! ```text
//!   primary                                   replica
//!   commands ─▶ store ─▶ changes by version   link (thread): reads frames
//!                        │                      │ a channel of few frames
//!                        ▼                      ▼
//!            feed (thread for each replica) ─▶ following: applies them in turns, with the version that they reach
//!                                               │
//!   WAIT ◀── replicas ◀── REPLCONF ACK ─────────┘ when they are durable
//! ```
//! There is no buffer of changes beside the store. A replica asks for everything after the version that it holds, and gets it
//! if the store still retains it, else a snapshot and everything after that. A replica has versions of its own, and so can
//! feed replicas itself (see `history`).

mod awaited;
mod base;
mod failover;
mod feed;
mod follower;
mod following;
pub(crate) mod format;
mod histories;
mod history;
mod in_force;
mod link;
mod mark;
mod outlet;
mod redis;
mod replicas;

use std::os::fd::OwnedFd;
use std::sync::Arc;

use rustix::event::{EventfdFlags, eventfd};
use tembo_kv::{Durability, Error, Keyspace, Retention, Store};

pub(crate) use follower::Follower;
pub(crate) use following::{Following, Greeting, Stage};
pub(crate) use format::HOST_SIZE_MAX;
pub(crate) use mark::Mark;
#[cfg(test)]
pub(crate) use redis::RedisReplica;
pub(crate) use redis::{Limits, RedisReplicas, Wish};
pub(crate) use replicas::{Replica, Replicas};

use crate::access::Access;
use crate::clients::Clients;
use crate::dataset::Dataset;
use crate::goal::Goal;
use crate::pause::Pause;
use crate::propagation::Propagation;
use crate::replication::awaited::AllAwaited;
use crate::replication::base::forget_name;
use crate::replication::failover::Failover;
use crate::replication::following::{clear_all, touch_all};
use crate::replication::format::{Content, KEYSPACE, PLACE_KEY, Place};
use crate::replication::histories::Histories;
use crate::replication::history::place_of;
use crate::replication::in_force::{in_force, unless_full};
use crate::token::Token;

/// What REPLICAOF asks for, until the end of the turn.
enum Order {
    Follow(String, u16),
    Promote,
}

/// An order of a client, or of this server itself.
struct Ordered {
    order: Order,
    client: Option<Token>,
    /// What the turn had written is committed: a failure does not withdraw the order.
    is_committed: bool,
}

/// How a client asks to be fed.
enum Asked {
    /// As a server of Tembo, which holds this.
    Changes(Vec<Mark>),
    /// As a server of Redis.
    Stream(Wish),
}

/// A client that is to be fed.
struct Candidate {
    token: Token,
    asked: Asked,
}

/// What a server is to others.
#[derive(Default)]
pub(crate) struct Replication {
    /// The names of the store's own history.
    histories: Histories,
    wake: Option<Arc<OwnedFd>>,
    order: Option<Ordered>,
    candidates: Vec<Candidate>,
    following: Option<Box<Following>>,
    failover: Option<Failover>,
    place: Place,
    /// The replicas.
    pub(crate) replicas: Replicas,
    /// Those that are servers of Redis.
    pub(crate) redis: RedisReplicas,
    awaited: AllAwaited,
    /// When there last was a replica, by the server's clock.
    replicas_ms: Option<u64>,
    /// Seconds of the past that are kept for replicas that are away.
    retain_s: u64,
}

impl Ordered {
    fn new(order: Order, client: Option<Token>) -> Ordered {
        Ordered { order, client, is_committed: false }
    }
}

/// Retains what happens from now on; the event loop gives up what is older than is wanted.
fn keep_window(store: &Store, retain_s: u64) -> Result<(), Error> {
    if retain_s > 0 && store.retention() == Retention::Nothing {
        in_force(store.retain(Retention::Since(store.oldest())).map(drop))?;
    }
    Ok(())
}

impl Replication {
    /// Goes on as what the store was when the server ended, or as `asked` says, if that has changed since. `run_id`
    /// names what happens in this run. Returns the descriptor that becomes readable when the link has something.
    ///
    /// # Errors
    /// Those of the store.
    pub(crate) fn open(
        &mut self,
        data: &mut Dataset<'_>,
        asked: Option<&(String, u16)>,
        (run_id, now_ms): (&str, u64),
    ) -> Result<Arc<OwnedFd>, Error> {
        let store = data.store();
        self.histories = Histories::open(store, run_id)?;
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        let wake = Arc::new(eventfd(0, flags).map_err(|error| Error::Descriptor(error.into()))?);
        self.wake = Some(wake.clone());
        if store.is_read_only() {
            return Ok(wake);
        }
        self.place = place_of(store)?;
        if self.place.content != Content::Incomplete {
            forget_name(store);
        }
        // A window of versions that is there was there for replicas, perhaps.
        self.replicas_ms = Some(now_ms).filter(|_| store.retention() != Retention::Nothing);
        let text = asked.map_or_else(String::new, |(host, port)| format!("{host} {port}"));
        if self.place.primary.is_some() {
            let followed = self.start(data, self.place.clone(), now_ms)?;
            self.install(data, followed, now_ms);
        }
        if text != self.place.asked {
            let order = match asked {
                Some((host, port)) => Some(Order::Follow(host.clone(), *port)),
                None => self.following.as_ref().map(|_| Order::Promote),
            };
            self.order = order.map(|order| Ordered::new(order, None));
            self.place.asked = text;
            if self.order.is_none() {
                self.note(store, &self.place)?;
            }
        }
        self.settle(data, now_ms)?;
        Ok(wake)
    }

    /// The name of the history that clients see: that of the primary, if there is one.
    pub(crate) fn id(&self) -> &str {
        match &self.following {
            Some(following) if !following.place().source.is_empty() => &following.place().source,
            _ => self.histories.id(),
        }
    }

    /// What it follows.
    pub(crate) fn following(&self) -> Option<&Following> {
        self.following.as_deref()
    }

    /// Whether a primary is followed, or is to be, and the link to it is not up.
    pub(crate) fn is_out_of_reach(&self) -> bool {
        match (self.order.as_ref().map(|ordered| &ordered.order), &self.following) {
            (Some(Order::Follow(..)), _) => true,
            (Some(Order::Promote), _) | (None, None) => false,
            (None, Some(following)) => following.stage != Stage::Connected,
        }
    }

    /// Versions are offsets where there are or were replicas; else the offset is 0, as Redis's is.
    pub(crate) fn offset(&self, durable: u64) -> u64 {
        match &self.following {
            Some(following) => following.shown_version(),
            None if self.replicas_ms.is_some() => durable,
            None => 0,
        }
    }

    /// The offset that clients see: that of the stream while only servers of Redis follow, as they compare it.
    pub(crate) fn shown_offset(&self, durable: u64) -> u64 {
        if self.is_followed_by_redis_only() { self.redis.bounds().1 } else { self.offset(durable) }
    }

    /// The name of what that is an offset of.
    pub(crate) fn shown_id(&self) -> &str {
        if self.is_followed_by_redis_only() { &self.redis.id } else { self.id() }
    }

    fn is_followed_by_redis_only(&self) -> bool {
        self.redis.is_on() && self.replicas.iter().next().is_none()
    }

    /// Follow this primary from the end of the turn on. False if that is so already.
    pub(crate) fn follow_later(
        &mut self,
        data: &mut Dataset<'_>,
        (host, port): (String, u16),
        client: Option<Token>,
    ) -> bool {
        let current = self.following.as_ref().map(|following| &following.primary);
        let is_so = self.order.is_none()
            && current.is_some_and(|(name, number)| *name == host && *number == port);
        if !is_so {
            self.order = Some(Ordered::new(Order::Follow(host, port), client));
            if data.access() == Access::Open {
                data.set_access(Access::Replica);
            }
        }
        !is_so
    }

    /// Be a primary from the end of the turn on: before, no client may write, so that a version is of one history only.
    pub(crate) fn promote_later(&mut self, data: &mut Dataset<'_>, client: Option<Token>) {
        match &self.following {
            Some(_) => self.order = Some(Ordered::new(Order::Promote, client)),
            // An order to follow another.
            None => self.withdraw(data),
        }
    }

    /// What was asked for does not happen.
    fn withdraw(&mut self, data: &mut Dataset<'_>) {
        let withdrawn = self.order.take().map(|ordered| ordered.order);
        if matches!(withdrawn, Some(Order::Follow(..))) {
            self.open_again(data);
        }
    }

    /// The turn has failed: what it has asked for does not happen, unless what it had written then is committed.
    pub(crate) fn fail_turn(&mut self, data: &mut Dataset<'_>) {
        if self.order.as_ref().is_some_and(|ordered| !ordered.is_committed) {
            self.withdraw(data);
        }
    }

    /// What the turn has written so far is committed.
    pub(crate) fn commit_turn(&mut self) {
        if let Some(ordered) = &mut self.order {
            ordered.is_committed = true;
        }
    }

    /// The client that has asked for what is still to be done.
    pub(crate) fn asked_by(&self) -> Option<Token> {
        self.order.as_ref().and_then(|ordered| ordered.client)
    }

    /// Clients may write, if nothing is followed.
    fn open_again(&self, data: &mut Dataset<'_>) {
        if self.following.is_none() && data.access() == Access::Replica {
            data.set_access(Access::Open);
        }
    }

    /// Whether a failover is under way.
    pub(crate) fn is_failing_over(&self) -> bool {
        self.failover.is_some()
    }

    /// How far a failover is, as INFO names it.
    pub(crate) fn failover_state(&self) -> &'static str {
        match (&self.failover, &self.following) {
            (None, _) => "no-failover",
            (Some(_), None) => "waiting-for-sync",
            (Some(_), Some(_)) => "failover-in-progress",
        }
    }

    /// Begins to hand the place of the primary over; see `failover`. Writes are held from here on.
    pub(crate) fn begin_failover(
        &mut self,
        target: Option<(String, u16)>,
        (deadline_ms, is_forced): (Option<u64>, bool),
        (pause, now_ms): (&mut Pause, u64),
    ) {
        self.failover =
            Some(Failover { target, deadline_ms, is_forced, version: None, is_refused: false });
        pause.begin(now_ms, u64::MAX, false);
    }

    /// Gives a failover up: this server goes on as the primary. False if there is none.
    pub(crate) fn abort_failover(&mut self, data: &mut Dataset<'_>, pause: &mut Pause) -> bool {
        let was_there = self.failover.take().is_some();
        if was_there {
            pause.end();
            self.promote_later(data, None);
        }
        was_there
    }

    /// Goes on with a failover. No transaction may be open, and what was written is durable.
    ///
    /// # Errors
    /// Those of the store.
    pub(crate) fn advance_failover(
        &mut self,
        data: &mut Dataset<'_>,
        pause: &mut Pause,
        now_ms: u64,
    ) -> Result<(), Error> {
        let Some(failover) = &mut self.failover else { return Ok(()) };
        match &self.following {
            None if failover.is_refused => {
                self.abort_failover(data, pause);
            }
            None if self.order.is_some() => {}
            None => {
                let version = *failover.version.get_or_insert(data.store().visible());
                let is_ready = |replica: &&Replica| {
                    replica.is_online()
                        && replica.acknowledged >= version
                        && failover.takes(&replica.ip, replica.port)
                };
                let ready = self.replicas.iter().find(is_ready);
                let mut chosen = ready.map(|replica| (replica.ip.clone(), replica.port));
                let is_late = failover.is_late(now_ms);
                if is_late && failover.is_forced {
                    chosen = chosen.or_else(|| failover.target.clone());
                }
                if let Some(chosen) = chosen {
                    self.follow_later(data, chosen, None);
                } else if is_late {
                    self.abort_failover(data, pause);
                }
            }
            // It was refused, or is not there.
            Some(following) if following.promotes && following.lost.is_some() => {
                // Before the writes that were held. Without room for it, it is tried again in the next step.
                self.promote_later(data, None);
                match self.settle(data, now_ms) {
                    Err(Error::Poisoned) => return Err(Error::Poisoned),
                    Err(_) => {}
                    Ok(()) => {
                        self.failover = None;
                        pause.end();
                    }
                }
            }
            Some(following) if following.promotes => {}
            Some(_) => {
                self.failover = None;
                pause.end();
            }
        }
        Ok(())
    }

    /// The client is to be fed after the turn.
    pub(crate) fn feed_later(&mut self, token: Token, held: Vec<Mark>) {
        self.candidates.push(Candidate { token, asked: Asked::Changes(held) });
    }

    /// The client is to be fed after the turn as a server of Redis.
    pub(crate) fn feed_stream_later(&mut self, token: Token, wish: Wish) {
        self.candidates.push(Candidate { token, asked: Asked::Stream(wish) });
    }

    /// Whether a client is to be fed.
    pub(crate) fn has_candidates(&self) -> bool {
        !self.candidates.is_empty()
    }

    /// The connection of a replica has ended.
    pub(crate) fn forget(&mut self, token: Token, now_ms: u64) {
        self.replicas.forget(token);
        self.redis.forget(token, now_ms);
    }

    /// All replicas, servers of Tembo first.
    pub(crate) fn followers(&self) -> impl Iterator<Item = Follower<'_>> {
        let replicas = self.replicas.iter().map(|replica| Follower {
            ip: &replica.ip,
            port: replica.port,
            reached: replica.acknowledged,
            heard_ms: replica.acknowledged_ms,
            is_online: replica.is_online(),
            is_redis: false,
        });
        let redis = self.redis.iter().map(|replica| Follower {
            ip: &replica.ip,
            port: replica.port,
            reached: replica.acknowledged.unwrap_or(0),
            heard_ms: replica.heard_ms,
            is_online: replica.is_online(),
            is_redis: true,
        });
        replicas.chain(redis)
    }

    /// How many replicas have reached a goal.
    pub(crate) fn count(&self, goal: Goal) -> usize {
        self.replicas.count(goal.version) + self.redis.count(goal.place, goal.durably)
    }

    /// A client waits until so many replicas have reached a goal.
    pub(crate) fn await_goal(&mut self, token: Token, goal: Goal, count: usize) {
        self.awaited.add(token, goal, count);
    }

    /// A client waits no longer.
    pub(crate) fn end_wait(&mut self, token: Token) {
        self.awaited.remove(token);
    }

    /// This server follows another one: what clients wait for can no longer come. Returns them.
    pub(crate) fn end_waits(&mut self) -> Vec<Token> {
        self.awaited.take_all()
    }

    /// A replica says how far it is: up to a version, or a place in the stream of which so much is on its disk. Returns the
    /// clients whose wait that ends.
    pub(crate) fn acknowledge(
        &mut self,
        token: Token,
        (reached, durable): (u64, Option<u64>),
        now_ms: u64,
    ) -> Vec<Token> {
        if !self.redis.acknowledge(token, (reached, durable), now_ms) {
            self.replicas.acknowledge(token, reached, now_ms);
        }
        let (replicas, redis) = (&self.replicas, &self.redis);
        self.awaited
            .take_met(|goal| replicas.count(goal.version) + redis.count(goal.place, goal.durably))
    }

    /// The clients that are to be fed and whose connection is encrypted, where nothing waits to be sent.
    pub(crate) fn encrypted_candidates(&self, clients: &Clients) -> Vec<Token> {
        let is_encrypted = |token: &Token| {
            let connection = clients.get(*token);
            connection
                .is_some_and(|connection| connection.tls.is_some() && connection.waiting() == 0)
        };
        self.candidates.iter().map(|candidate| candidate.token).filter(is_encrypted).collect()
    }

    /// Does what REPLICAOF has asked for in the turn, durably, before it is replied to. No transaction may be open.
    ///
    /// # Errors
    /// Those of the store.
    pub(crate) fn settle(&mut self, data: &mut Dataset<'_>, now_ms: u64) -> Result<(), Error> {
        match self.order.take().map(|ordered| ordered.order) {
            None => Ok(()),
            Some(Order::Promote) => {
                let promoted = self.promote(data, now_ms);
                if promoted.is_err() {
                    data.abandon();
                }
                promoted
            }
            Some(Order::Follow(host, port)) => {
                let Err(error) = self.follow(data, (host, port), now_ms) else { return Ok(()) };
                self.open_again(data);
                match &mut self.failover {
                    // No command of the turn has asked for it.
                    Some(failover) if !matches!(error, Error::Poisoned) => {
                        failover.is_refused = true;
                        Ok(())
                    }
                    _ => Err(error),
                }
            }
        }
    }

    fn own_space(store: &Store) -> Result<Keyspace, Error> {
        store.keyspace(KEYSPACE)
    }

    fn note(&self, store: &Store, place: &Place) -> Result<(), Error> {
        let space = Replication::own_space(store)?;
        store.put(space, PLACE_KEY, &place.encode(), Durability::Strict).map(drop)
    }

    /// Follows a primary. After an error what was followed before still is.
    fn follow(
        &mut self,
        data: &mut Dataset<'_>,
        primary: (String, u16),
        now_ms: u64,
    ) -> Result<(), Error> {
        let place = match &self.following {
            Some(following) => following.place().clone(),
            // It holds a version of its own history.
            None => Place {
                source: self.histories.id().to_owned(),
                version: data.store().visible(),
                content: Content::Whole,
                ..self.place.clone()
            },
        };
        let asked = self.place.asked.clone();
        let place = Place { primary: Some(primary), asked, ..place };
        let mut followed = self.start(data, place.clone(), now_ms)?;
        in_force(self.note(data.store(), &place))?;
        if let Some(before) = &mut self.following {
            followed.take_over(before);
        }
        self.install(data, followed, now_ms);
        Ok(())
    }

    /// Begins to connect.
    fn start(&self, data: &Dataset<'_>, place: Place, now_ms: u64) -> Result<Following, Error> {
        let store = data.store();
        let own = Replication::own_space(store)?;
        keep_window(store, self.retain_s)?;
        let opened = (store, own, data.databases());
        let shared = (self.wake.as_ref().ok_or(Error::ReadOnly)?, self.replicas.gap());
        Following::start(opened, place, shared, now_ms).map_err(Error::Descriptor)
    }

    /// From here on it follows.
    fn install(&mut self, data: &mut Dataset<'_>, mut followed: Following, now_ms: u64) {
        self.replicas_ms = Some(now_ms);
        data.set_access(followed.access());
        followed.promotes = self.failover.is_some();
        self.following = Some(Box::new(followed));
    }

    /// Follows no more. After an error it still does.
    fn promote(&mut self, data: &mut Dataset<'_>, now_ms: u64) -> Result<(), Error> {
        let Some(following) = &mut self.following else { return Ok(()) };
        if following.access() == Access::Loading {
            // They read what is taken back.
            self.replicas.end_all();
            following.go_back(data, now_ms)?;
        }
        let own = Replication::own_space(data.store())?;
        let mut place = following.place().clone();
        place.primary = None;
        place.asked.clone_from(&self.place.asked);
        if place.content == Content::Incomplete {
            // Some of a full synchronisation: that is no state that the primary ever had.
            clear_all(data, own)?;
            touch_all(data);
            place.content = Content::Own;
        }
        data.transaction()?.put(own, PLACE_KEY, &place.encode())?;
        data.commit()?;
        // What is visible may be lost, and no later sync can find out.
        in_force(data.store().sync()).map_err(|_| Error::Poisoned)?;
        self.following = None;
        self.replicas.gap().close(data.store().visible());
        data.set_access(Access::Open);
        self.place = place;
        data.load_order()
    }

    /// Applies what the primary has sent. No transaction may be open.
    ///
    /// # Errors
    /// The store is poisoned.
    pub(crate) fn advance(
        &mut self,
        data: &mut Dataset<'_>,
        greeting: &dyn Fn() -> Greeting,
        now_ms: u64,
    ) -> Result<(), Error> {
        match &mut self.following {
            Some(following) => following.advance(data, greeting, now_ms),
            None => Ok(()),
        }
    }

    /// Whether the next turn is to come at once.
    pub(crate) fn has_more(&self) -> bool {
        // Those that are to be fed wait for nothing but their socket.
        self.following.as_ref().is_some_and(|following| following.has_more())
    }

    /// Acknowledges what is durable, and begins to feed those that have asked for it: at the end of a turn, when
    /// everything is durable and replied to. Returns connections that are to be ended.
    pub(crate) fn end_turn(
        &mut self,
        (store, databases): (&Store, usize),
        clients: &Clients,
        (propagation, stream_id): (&mut Propagation, String),
        now_ms: u64,
    ) -> Vec<Token> {
        if let Some(following) = &mut self.following {
            following.end_turn(now_ms);
        }
        let mut refused = Vec::new();
        for Candidate { token, asked } in std::mem::take(&mut self.candidates) {
            let Some(connection) = clients.get(token) else { continue };
            if connection.waiting() > 0 || connection.tls.is_some() {
                self.candidates.push(Candidate { token, asked });
                continue;
            }
            let session = &connection.session;
            let ip = session.peer.rsplit_once(':').map_or("", |(ip, _)| ip).to_owned();
            let ip = session.replica_ip.clone().unwrap_or(ip);
            let begun = match asked {
                Asked::Changes(held) => {
                    let of = (token, ip, session.replica_port);
                    self.feed((store, &connection.socket), of, &held, now_ms)
                }
                Asked::Stream(_) if self.following.is_some() => false,
                Asked::Stream(wish) => {
                    let (to, of) = ((&connection.socket, token), (ip, session.replica_port));
                    let with = (&wish, stream_id.clone());
                    let begun = self.redis.add((store, databases), to, of, with, now_ms).is_ok();
                    if begun {
                        propagation.begin();
                    }
                    begun
                }
            };
            if !begun {
                refused.push(token);
            }
        }
        refused
    }

    /// Begins to feed a server of Tembo; false: that cannot be.
    fn feed(
        &mut self,
        (store, socket): (&Store, &OwnedFd),
        of: (Token, String, u16),
        held: &[Mark],
        now_ms: u64,
    ) -> bool {
        // From now on, so that the replica finds again what it has seen, whenever it is away.
        self.replicas_ms = Some(now_ms);
        let kept = keep_window(store, self.retain_s);
        // One that is not noted, since the pool is full, is unknown to the next run, in which the replica begins anew.
        let noted = kept.and_then(|()| unless_full(self.histories.note(store)));
        let begun = noted.and_then(|()| history::begin(store, &self.histories, held));
        begun.is_ok_and(|beginning| {
            let id = self.histories.id().to_owned();
            self.replicas.add(store, socket, of, (id, beginning), now_ms).is_ok()
        })
    }

    /// Seconds of the past that are kept for replicas that are away, of `retain_s` that are kept while there are replicas.
    pub(crate) fn retain_s(&mut self, retain_s: u64, now_ms: u64) -> u64 {
        self.retain_s = retain_s;
        if self.replicas.iter().next().is_some() || self.following.is_some() {
            self.replicas_ms = Some(now_ms);
        }
        let is_needed = self.replicas_ms.is_some_and(|last_ms| now_ms <= last_ms + retain_s * 1000);
        if is_needed { retain_s } else { 0 }
    }
}
