//! The event loop: waits for sockets, accepts clients, runs turns and periodic work.

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tembo_kv::{Progress, Store};

use crate::access::Access;
use crate::acl::Acl;
use crate::backup::Backups;
use crate::clock::Clock;
use crate::command::Table;
use crate::commands::{FAMILIES, catalog, served_stale};
use crate::commit::expire;
use crate::config::Config;
use crate::dataset::{Dataset, Spaces};
use crate::door::Door;
use crate::error::Error;
use crate::face::Face;
use crate::face_listener::FaceListener;
use crate::listener::{Arrived, Listener};
use crate::memcached::flush_if_due;
use crate::poll::{Poll, Ready};
use crate::replication::Greeting;
use crate::retention::Moments;
use crate::settings::Settings;
use crate::shared::Shared;
use crate::tls::{client_config, server_config};
use crate::token::Token;
use crate::turn::Turns;
use crate::welcome::{LISTENER, welcome};

/// Time between two ticks.
const TICK_MS: u64 = 100;
/// Tokens from this one on are listeners of other protocols.
const FACE: u64 = LISTENER - 1024;
/// The token of the link to the primary.
const LINK: u64 = FACE - 1;
/// A handshake of TLS, or a request for metrics, that takes longer ends the connection.
const REQUEST_MS: u64 = 10_000;
/// Connections accepted at once.
const ACCEPTS_MAX: usize = 1000;
/// Steps of the store's background work in one turn, and in a turn that has nothing else to do.
const MAINTENANCE_STEPS: (usize, usize) = (2, 64);

/// All state of a running server.
pub(crate) struct EventLoop<'s> {
    turns: Turns<'s>,
    /// Is set when the server is to stop.
    shutdown: &'s AtomicBool,
    output_stall_ms: u64,
    ready: Vec<Ready>,
    listeners: &'s [Listener],
    /// The ports beside that of Redis's protocol.
    faces: &'s [FaceListener],
    config: &'s Config,
    accepting: bool,
    tick_ms: u64,
    second_ms: u64,
    maintaining: bool,
    moments: Moments,
    /// Readable when the link to the primary has something.
    link: Option<Arc<OwnedFd>>,
}

impl<'s> EventLoop<'s> {
    pub(crate) fn new(
        store: &'s Store,
        spaces: &'s Spaces,
        config: &'s Config,
        (listeners, faces): (&'s [Listener], &'s [FaceListener]),
        address: SocketAddr,
        backups: Backups,
        shutdown: &'s AtomicBool,
    ) -> Result<EventLoop<'s>, Error> {
        let poll = Poll::new().map_err(|source| Error::io("epoll", source))?;
        let settings = Settings::new(config, address.port());
        let clock = Clock::read(Instant::now());
        let table = Table::new(FAMILIES);
        let acl = Acl::new(catalog(&table), config)?;
        let mut shared = Shared::new(settings, acl, backups, address.port(), clock);
        shared.config_file.clone_from(&config.file);
        shared.served_stale = served_stale(&table);
        shared.items.size_max = config.memcached_item_size;
        if let Some(tls) = &config.tls {
            (shared.tls, shared.tls_of_link) = (Some(server_config(tls)?), client_config(tls)?);
        }
        shared.take_report(store);
        shared.begin_eviction();
        shared.settings.set_sync(&shared.report.domain, &shared.report.sync_policy);
        let shared_sockets = || {
            let copies = listeners.iter().map(Listener::try_clone).collect::<Result<_, _>>()?;
            Ok(Door { poll: poll.share()?, listeners: copies })
        };
        let door: std::io::Result<Door> = shared_sockets();
        shared.door = Some(door.map_err(|source| Error::io("copying a socket", source))?);
        let mut data = Dataset::new(store, spaces);
        data.count_footprint(shared.settings.maxmemory > 0);
        let mut event_loop = EventLoop {
            turns: Turns::new(poll, data, shared, table, shutdown),
            shutdown,
            output_stall_ms: config.output_stall_s.saturating_mul(1000),
            ready: Vec::new(),
            listeners,
            faces,
            config,
            accepting: false,
            tick_ms: 0,
            second_ms: 0,
            maintaining: true,
            moments: Moments::default(),
            link: None,
        };
        event_loop.accept_again()?;
        event_loop.begin_replication()?;
        Ok(event_loop)
    }

    /// Runs turns until it is time to stop.
    pub(crate) fn run(&mut self) -> Result<(), Error> {
        while !self.shutdown.load(Ordering::Relaxed) && !self.turns.shared.shutdown {
            self.step()?;
        }
        self.look_at_files()?;
        match self.turns.data.access() {
            // That the server ends well would say that what was acknowledged is kept.
            Access::Removed => Ok(self.turns.data.store().check_files()?),
            _ => Ok(()),
        }
    }

    /// Waits, and runs one turn.
    pub(crate) fn step(&mut self) -> Result<(), Error> {
        let mut ready = std::mem::take(&mut self.ready);
        ready.clear();
        let timeout = self.timeout();
        self.turns.poll.wait(timeout, &mut ready).map_err(|source| Error::io("epoll", source))?;
        self.turns.set_clock(Clock::read(self.turns.shared.started));
        for &event in &ready {
            self.receive(event);
        }
        let idle = ready.is_empty() && self.turns.is_idle();
        self.ready = ready;
        self.follow()?;
        expire(&mut self.turns.data, &mut self.turns.shared, idle, Instant::now)?;
        flush_if_due(&mut self.turns.data, &mut self.turns.shared)?;
        self.turns.run()?;
        self.end_turn();
        self.maintain(idle)?;
        if self.turns.clock().steady_ms >= self.tick_ms {
            self.tick()?;
        }
        Ok(())
    }

    /// Goes on as a replica, or becomes one.
    fn begin_replication(&mut self) -> Result<(), Error> {
        let Turns { data, shared, poll, .. } = &mut self.turns;
        let (run_id, now_ms) = (shared.run_id.clone(), shared.clock.steady_ms);
        let asked = self.config.replicaof.as_ref();
        shared.replication.retain_s(shared.settings.repl_retain_s, now_ms);
        let wake = shared.replication.open(data, asked, (&run_id, now_ms))?;
        poll.add(&wake, LINK).map_err(|source| Error::io("epoll", source))?;
        self.link = Some(wake);
        Ok(())
    }

    /// Applies what the primary has sent.
    fn follow(&mut self) -> Result<(), Error> {
        let Turns { data, shared, .. } = &mut self.turns;
        if data.access() == Access::Removed || shared.is_disk_full() {
            // What was applied would be acknowledged.
            return Ok(());
        }
        let now_ms = shared.clock.steady_ms;
        let (settings, port, tls) = (&shared.settings, shared.port, &shared.tls_of_link);
        let greeting = || Greeting { tls: tls.clone(), ..settings.greeting(port) };
        shared.replication.advance(data, &greeting, now_ms)?;
        Ok(shared.replication.advance_failover(data, &mut shared.pause, now_ms)?)
    }

    /// What is durable is acknowledged to the primary; replicas that have asked for it are fed.
    fn end_turn(&mut self) {
        if self.turns.shared.is_disk_full() {
            return;
        }
        self.relay_replicas();
        let Turns { data, shared, clients, .. } = &mut self.turns;
        let now_ms = shared.clock.steady_ms;
        let has_candidates = shared.replication.has_candidates();
        let stream_id = if has_candidates { shared.new_name() } else { String::new() };
        let source = (data.store(), data.databases());
        let to = (&mut shared.propagation, stream_id);
        for token in shared.replication.end_turn(source, clients, to, now_ms) {
            self.disconnect(token);
        }
    }

    /// The thread that feeds a replica writes to its socket: an encrypted one is replaced by that of a relay.
    fn relay_replicas(&mut self) {
        let Turns { shared, clients, poll, .. } = &mut self.turns;
        let mut ended = Vec::new();
        for token in shared.replication.encrypted_candidates(clients) {
            let Some(connection) = clients.get_mut(token) else { continue };
            let _ = poll.remove(&connection.socket);
            let relayed = connection.relay();
            if relayed.is_err() || poll.add(&connection.socket, token.to_bits()).is_err() {
                ended.push(token);
            }
        }
        ended.into_iter().for_each(|token| self.disconnect(token));
    }

    fn disconnect(&mut self, token: Token) {
        if let Some(connection) = self.turns.clients.take(token) {
            self.turns.end(token, connection);
        }
    }

    /// Does some of the store's background work.
    fn maintain(&mut self, idle: bool) -> Result<(), Error> {
        let steps = if idle { MAINTENANCE_STEPS.1 } else { MAINTENANCE_STEPS.0 };
        self.maintaining = match self.turns.data.store().maintain(steps) {
            Ok(progress) => progress == Progress::More,
            // Background work can wait for room; every other error ends the server.
            Err(tembo_kv::Error::Full { .. } | tembo_kv::Error::NotDurable(_)) => false,
            Err(error) => return Err(error.into()),
        };
        Ok(())
    }

    fn timeout(&self) -> Duration {
        let clock = self.turns.clock();
        // On a full disk nothing is removed or applied.
        let is_full = self.turns.shared.is_disk_full();
        let due_ms = if is_full { u64::MAX } else { self.turns.data.next_due_ms() };
        let until_due_ms = due_ms.saturating_add(1).saturating_sub(clock.wall_ms());
        let more = self.turns.shared.replication.has_more();
        let more = !is_full && (more || self.turns.shared.eviction.is_running);
        if !self.turns.is_idle() || self.maintaining || more || until_due_ms == 0 {
            return Duration::ZERO;
        }
        let wait_ms = self.turns.data.waiting.next_deadline_ms().unwrap_or(u64::MAX);
        let pause_ms = self.turns.shared.pause.until_ms().unwrap_or(u64::MAX);
        let until_tick_ms = self.tick_ms.min(wait_ms).min(pause_ms).saturating_sub(clock.steady_ms);
        Duration::from_millis(until_tick_ms.min(until_due_ms).clamp(1, TICK_MS))
    }

    fn receive(&mut self, event: Ready) {
        if event.token == LINK {
            let _ = self.link.as_ref().map(|link| rustix::io::read(link, &mut [0; 8]));
        } else if event.token >= LISTENER {
            self.accept((event.token - LISTENER) as usize);
        } else if event.token >= FACE {
            self.accept_face((event.token - FACE) as usize);
        } else {
            self.turns.receive(event);
        }
    }

    fn accept(&mut self, index: usize) {
        let Some(listener) = self.listeners.get(index) else { return };
        for _ in 0..ACCEPTS_MAX {
            match listener.accept() {
                Ok(arrived) => self.welcome(arrived, Face::Redis),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::ConnectionAborted => {}
                Err(_) => return self.stop_accepting(),
            }
        }
    }

    fn accept_face(&mut self, index: usize) {
        let Some(listener) = self.faces.get(index) else { return };
        for _ in 0..ACCEPTS_MAX {
            match listener.socket.accept() {
                Ok(arrived) => self.welcome(arrived, listener.face()),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::ConnectionAborted => {}
                Err(_) => return self.stop_accepting(),
            }
        }
    }

    /// Out of descriptors or memory: lets the clients wait until the next tick.
    fn stop_accepting(&mut self) {
        for listener in self.listeners {
            let _ = self.turns.poll.remove(listener);
        }
        for listener in self.faces {
            let _ = self.turns.poll.remove(&listener.socket);
        }
        self.accepting = false;
    }

    fn accept_again(&mut self) -> Result<(), Error> {
        for (index, listener) in self.listeners.iter().enumerate() {
            let added = self.turns.poll.add(listener, LISTENER + index as u64);
            added.map_err(|source| Error::io("epoll", source))?;
        }
        for (index, listener) in self.faces.iter().enumerate() {
            let added = self.turns.poll.add(&listener.socket, FACE + index as u64);
            added.map_err(|source| Error::io("epoll", source))?;
        }
        self.accepting = true;
        Ok(())
    }

    fn welcome(&mut self, arrived: Arrived, face: Face) {
        let Turns { clients, shared, poll, .. } = &mut self.turns;
        welcome(arrived, face, (clients, shared, poll));
    }

    fn tick(&mut self) -> Result<(), Error> {
        self.tick_ms = self.turns.clock().steady_ms + TICK_MS;
        self.turns.shared.stats.sample(self.turns.clock().steady_ms);
        self.turns.shared.observed.clock.refine();
        self.look_at_files()?;
        self.turns.shared.take_report(self.turns.data.store());
        self.turns.data.ask_footprint();
        self.turns.recount_clients();
        if !self.accepting {
            self.accept_again()?;
        }
        if self.turns.clock().steady_ms >= self.second_ms {
            self.second_ms = self.turns.clock().steady_ms + 1000;
            self.look_after_clients();
            self.look_after_redis();
            self.keep_the_past()?;
        }
        Ok(())
    }

    /// Of a pool of which a file was removed nothing is changed any more, and what it holds can be saved. One that was cut short
    /// cannot be read.
    fn look_at_files(&mut self) -> Result<(), Error> {
        let data = &mut self.turns.data;
        match data.store().check_files() {
            Err(tembo_kv::Error::Region(tembo_kv::pmem::Error::Removed { .. })) => {
                if !matches!(data.access(), Access::ReadOnlyPool | Access::Removed) {
                    data.set_access(Access::Removed);
                }
                Ok(())
            }
            looked => Ok(looked?),
        }
    }

    /// Once a second: gives up versions older than `retain-seconds`.
    fn keep_the_past(&mut self) -> Result<(), Error> {
        if matches!(self.turns.data.access(), Access::ReadOnlyPool | Access::Removed) {
            return Ok(());
        }
        let shared = &mut self.turns.shared;
        let now_ms = shared.clock.steady_ms;
        let for_replicas = shared.replication.retain_s(shared.settings.repl_retain_s, now_ms);
        let retain_s = shared.settings.retain_s.max(for_replicas);
        match self.moments.tick(self.turns.data.store(), self.turns.clock().steady_ms, retain_s) {
            Err(tembo_kv::Error::Poisoned) => Err(Error::Poisoned),
            // Most likely the disk is full; it is tried again in a second.
            _ => Ok(()),
        }
    }

    /// Once a second: servers of Redis that follow are sent PING, and those that are silent or slow are disconnected.
    fn look_after_redis(&mut self) {
        let Turns { shared, clients, .. } = &mut self.turns;
        let (limits, now_ms) = (shared.settings.stream_limits(), shared.clock.steady_ms);
        let redis = &mut shared.replication.redis;
        redis.look_after_former(limits, now_ms);
        if !shared.propagation.is_on {
            return;
        }
        redis.trim(limits);
        for (token, connection) in clients.iter_mut() {
            if connection.session.is_replica {
                redis.hear(token, connection.session.active_ms);
            }
        }
        if redis.is_ping_due(limits, now_ms) {
            shared.propagation.send(&[b"PING"]);
        }
        let lost = redis.lost(limits, now_ms);
        if redis.is_idle(limits, now_ms) {
            redis.end(false, now_ms);
            shared.propagation.end();
        }
        lost.into_iter().for_each(|token| self.disconnect(token));
    }

    /// Once a second: disconnects clients that are idle or do not read, and frees unused buffers.
    fn look_after_clients(&mut self) {
        let (now_ms, timeout_ms) =
            (self.turns.clock().steady_ms, self.turns.shared.settings.timeout_ms);
        let (normal, pubsub) = {
            let settings = &self.turns.shared.settings;
            (settings.normal_output, settings.pubsub_output)
        };
        let mut ended = Vec::new();
        for (token, connection) in self.turns.clients.iter_mut() {
            let idle_ms = now_ms.saturating_sub(connection.session.active_ms);
            let idle = timeout_ms > 0
                && idle_ms > timeout_ms
                && !connection.session.subscriptions.is_any()
                && !connection.session.monitors
                && !connection.session.is_replica
                && connection.session.waits_for.is_none();
            let stuck_ms = connection.sent_ms.map_or(0, |sent_ms| now_ms.saturating_sub(sent_ms));
            let stuck = connection.waiting() > 0 && stuck_ms > self.output_stall_ms;
            let slow_request = (connection.is_handshaking() || connection.face == Face::Metrics)
                && now_ms.saturating_sub(connection.session.since_ms) > REQUEST_MS;
            let limit = if connection.session.subscriptions.is_any() { pubsub } else { normal };
            let over = limit.soft > 0 && connection.reply.waiting() > limit.soft;
            let since_ms = connection.over_soft_ms.filter(|_| over).or(over.then_some(now_ms));
            connection.over_soft_ms = since_ms;
            let over_ms = since_ms.map_or(0, |since_ms| now_ms.saturating_sub(since_ms));
            let stuck = stuck || over && over_ms >= limit.seconds.saturating_mul(1000);
            if idle || stuck || slow_request {
                self.turns.shared.stats.output_limit_closes += u64::from(stuck);
                ended.push(token);
            } else if idle_ms > 2000 {
                connection.shrink();
            }
        }
        let silent_ms = now_ms.saturating_sub(self.turns.shared.settings.repl_timeout_ms);
        ended.extend(self.turns.shared.replication.replicas.silent_since(silent_ms));
        for token in ended {
            self.disconnect(token);
        }
    }
}

#[cfg(test)]
#[path = "event_loop_tests.rs"]
mod tests;
