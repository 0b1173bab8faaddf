//! A turn: all pending commands of all clients, one commit, one sync, then all replies.

mod put_off;
mod waits;

use std::collections::VecDeque;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use tembo_kv::Error as StoreError;

use crate::args::Kept;
use crate::clients::Clients;
use crate::clock::Clock;
use crate::command::{Context, Table};
use crate::commit::{abandon, commit, end_failed, lose_effects};
use crate::connection::{Connection, Read};
use crate::dataset::Dataset;
use crate::dispatch::dispatch;
use crate::error::Error;
use crate::evict::make_room;
use crate::face::Face;
use crate::failure::{POISONED, store_text};
use crate::invalidate::{Changed, forget_keys, invalidate};
use crate::latency::Stage;
use crate::memcached::{self, Step};
use crate::metrics;
use crate::notify::{notify_evicted, notify_expired};
use crate::parse::{Limits, Parsed};
use crate::poll::{Poll, Ready};
use crate::prefetch::{expect_strings, prefetch};
use crate::reply::Reply;
use crate::session::{Replies, Session};
use crate::shared::Shared;
use crate::token::Token;

/// Commands executed in one turn; EXEC is one.
pub(crate) const COMMANDS_MAX: u64 = 10_000;
/// Connections read from before the first of them is executed.
const BATCH_MAX: usize = 16;
/// Bytes of values written in one turn, if a single command does not write more.
const WRITTEN_MAX: u64 = 8 << 20;
/// Bytes of replies in one turn, likewise.
const REPLIED_MAX: usize = 64 << 20;
/// While more bytes of replies than this wait for a client, it is not read from and its commands wait.
const OUTPUT_PAUSE: usize = 1 << 20;

/// Bytes that a client which has not authenticated may have pending.
const UNAUTHENTICATED_INPUT_MAX: usize = 1 << 20;

/// What is left of a turn's bounds.
struct Budget {
    commands: u64,
    written: u64,
    replied: usize,
}

/// Why the execution of a client's commands has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Executed {
    /// There are no more, or they are executed later.
    All,
    /// What others wait for has been made. Then the next ones are executed.
    Awaited,
}

/// The clients, and what their commands work on.
pub(crate) struct Turns<'s> {
    /// Where the system says which sockets are ready.
    pub(crate) poll: Poll,
    /// All connections.
    pub(crate) clients: Clients,
    /// The databases.
    pub(crate) data: Dataset<'s>,
    /// What all commands share beside the data.
    pub(crate) shared: Shared,
    table: Table,
    /// Is set when the server is to stop.
    shutdown: &'s AtomicBool,
    /// Connections to be executed in the next turn.
    queue: VecDeque<Token>,
    /// Those of them that have been read from and are executed next.
    batch: VecDeque<Token>,
    /// Connections with replies of this turn.
    served: Vec<Token>,
    /// Connections with replies that wait for room on the disk.
    held: Vec<Token>,
}

impl<'s> Turns<'s> {
    /// No clients. `shutdown` is set when the server is to stop.
    pub(crate) fn new(
        poll: Poll,
        data: Dataset<'s>,
        shared: Shared,
        table: Table,
        shutdown: &'s AtomicBool,
    ) -> Turns<'s> {
        Turns {
            poll,
            clients: Clients::default(),
            data,
            shared,
            table,
            shutdown,
            queue: VecDeque::new(),
            batch: VecDeque::new(),
            served: Vec::new(),
            held: Vec::new(),
        }
    }

    /// Whether no connection waits for the next turn.
    pub(crate) fn is_idle(&self) -> bool {
        self.queue.is_empty() && !self.ends_pause()
    }

    /// Whether clients are held that need not be any more.
    fn ends_pause(&self) -> bool {
        !self.shared.paused.is_empty() && !self.shared.pause.is_on(self.shared.clock.steady_ms)
    }

    /// The clients that a pause has held are executed again.
    fn end_pause(&mut self) {
        for token in std::mem::take(&mut self.shared.paused) {
            if let Some(connection) = self.clients.get_mut(token)
                && !std::mem::replace(&mut connection.queued, true)
            {
                self.queue.push_back(token);
            }
        }
    }

    /// The client is executed again when the pause ends.
    fn wait_for_pause(&mut self, token: Token) {
        if !self.shared.paused.contains(&token) {
            self.shared.paused.push(token);
        }
    }

    /// Whether another pause has begun as the one ended that the client has waited for: then it waits for that.
    fn is_paused_again(&mut self, token: Token) -> bool {
        let is_on = self.shared.pause.is_on(self.shared.clock.steady_ms);
        if is_on {
            self.wait_for_pause(token);
        }
        is_on
    }

    /// The turn's clocks.
    pub(crate) fn clock(&self) -> Clock {
        self.shared.clock
    }

    /// Sets the turn's clocks.
    pub(crate) fn set_clock(&mut self, clock: Clock) {
        self.shared.clock = clock;
        self.data.set_clock(clock);
    }

    /// Notes that a client's socket is ready.
    pub(crate) fn receive(&mut self, event: Ready) {
        let token = Token::from_bits(event.token);
        let is_stuck = |connection: &Connection| {
            connection.held.is_some()
                && connection.stopped
                && connection.reply.waiting() > OUTPUT_PAUSE
        };
        if event.ended
            && self.clients.get(token).is_some_and(is_stuck)
            && let Some(connection) = self.clients.take(token)
        {
            // Neither a read nor a write finds out before there is room on the disk.
            return self.end(token, connection);
        }
        if event.writable
            && let Some(connection) = self.clients.take(token)
        {
            self.send(token, connection);
        }
        if event.readable
            && let Some(mut connection) = self.clients.take(token)
        {
            connection.readable = true;
            if !connection.queued {
                connection.queued = true;
                self.queue.push_back(token);
            }
            self.clients.give_back(token, connection);
        }
    }

    /// Executes what is pending, makes it durable and sends the replies.
    pub(crate) fn run(&mut self) -> Result<(), Error> {
        let began = Instant::now();
        let mut budget = Budget {
            commands: COMMANDS_MAX,
            written: self.data.written().bytes + WRITTEN_MAX,
            replied: REPLIED_MAX,
        };
        let was_primary = self.shared.replication.following().is_none();
        let mut failure = self.remove_unasked().err();
        if self.ends_pause() {
            self.end_pause();
        }
        let changes = self.data.written().changes;
        let pending = self.queue.len();
        let mut left = pending;
        self.choose_put_off();
        self.end_due_waits();
        // Keys that have expired are waited for.
        if let Err(error) = self.serve_waiting() {
            failure = Some(error);
        }
        while let Some(token) = self.next_connection(&mut left) {
            let Some(connection) = self.clients.get_mut(token) else { continue };
            if budget.is_spent(self.data.written().bytes) || failure.is_some() {
                left = 0;
                self.queue.push_back(token);
                continue;
            }
            connection.queued = false;
            if let Err(error) = self.execute_all(token, &mut budget) {
                if let Some(connection) = self.clients.get_mut(token) {
                    // No input announces what stands behind the command.
                    connection.stopped = connection.has_more();
                }
                self.served.push(token);
                failure = Some(error);
            }
        }
        let executed = Instant::now();
        if pending > 0 {
            self.shared.latency.record(Stage::Execute, executed.duration_since(began));
            self.shared.latency.record(Stage::Lock, self.data.take_waited());
        }
        let committed = self.settle(failure, executed);
        if was_primary && self.shared.replication.following().is_some() {
            self.end_waits_of_primary();
        }
        self.shared.stats.turns += u64::from(pending > 0);
        self.shared.stats.changes += self.data.written().changes - changes;
        let replied = self.reply(committed);
        self.evict_clients();
        if pending > 0 {
            self.shared.latency.record(Stage::Turn, began.elapsed());
        }
        replied
    }

    /// Commits what the commands have written, which was `executed` then, or gives it up.
    fn settle(&mut self, failure: Option<StoreError>, executed: Instant) -> Result<(), StoreError> {
        let committed = match failure {
            Some(error) => Err(abandon(&mut self.data, &mut self.shared, error)),
            None => {
                // Keys that made room for items of memcached: no command has published them.
                notify_evicted(&mut self.shared, &mut self.clients);
                commit(&mut self.data, &mut self.shared, executed)
            }
        };
        let Err(error) = committed else { return Ok(()) };
        lose_effects(&mut self.shared);
        self.shared.replication.fail_turn(&mut self.data);
        end_failed(&mut self.data, &mut self.shared)?;
        Err(error)
    }

    /// Publishes what has expired, and goes on with what is to be evicted.
    fn remove_unasked(&mut self) -> Result<(), StoreError> {
        for expired in self.data.take_expired() {
            notify_expired(&mut self.shared, &mut self.clients, &expired);
        }
        let mut evicted = Ok(());
        if self.shared.eviction.is_running && !self.shared.is_disk_full() {
            evicted = make_room(&mut self.data, &mut self.shared);
            notify_evicted(&mut self.shared, &mut self.clients);
        }
        if self.shared.tracking.is_on() {
            let (keys, is_cleared) = self.data.watches.take_changed();
            if is_cleared {
                invalidate(&mut self.shared, &mut self.clients, None, Changed::All);
            }
            invalidate(&mut self.shared, &mut self.clients, None, Changed::Keys(keys));
        }
        evicted
    }

    /// The next connection to be executed, of `left` in the queue; they are read from in batches.
    fn next_connection(&mut self, left: &mut usize) -> Option<Token> {
        while self.batch.is_empty() && *left > 0 {
            let count = BATCH_MAX.min(*left);
            *left -= count;
            for _ in 0..count {
                let Some(token) = self.queue.pop_front() else { break };
                let Some(mut connection) = self.clients.take(token) else { continue };
                connection.prefetched.set(0);
                let read = connection.readable && !connection.stopped;
                if read && !self.read(&mut connection) {
                    self.end(token, connection);
                    continue;
                }
                self.clients.give_back(token, connection);
                self.batch.push_back(token);
            }
            expect_strings(&mut self.data, &self.clients, &self.batch);
        }
        self.batch.pop_front()
    }

    /// Reads from a client; false if it has disconnected.
    fn read(&mut self, connection: &mut Connection) -> bool {
        connection.readable = false;
        let most = match connection.session.authenticated {
            true => self.shared.settings.input_size_max,
            false => self.shared.settings.input_size_max.min(UNAUTHENTICATED_INPUT_MAX),
        };
        match connection.read() {
            Read::Some(_) if connection.pending_input() > most => {
                self.shared.stats.input_limit_closes += 1;
                false
            }
            Read::Some(count) => {
                self.shared.stats.input_bytes += count as u64;
                self.shared.stats.reads += 1;
                connection.session.active_ms = self.shared.clock.steady_ms;
                connection.session.input = connection.input_buffer();
                if connection.has_ciphertext() {
                    // A part of the handshake that the socket has not taken.
                    self.served.push(connection.session.token);
                }
                true
            }
            Read::Closed => false,
        }
    }

    /// Executes a client's pending commands, and those of others that have waited for what they make. An error makes the turn
    /// fail.
    fn execute_all(&mut self, token: Token, budget: &mut Budget) -> Result<(), StoreError> {
        loop {
            let Some(mut connection) = self.clients.take(token) else { return Ok(()) };
            let has_waited = connection.session.waits_for.is_some();
            connection.stopped = false;
            let executed = match connection.face {
                Face::Redis => self.execute(&mut connection, budget),
                Face::Items(_) => self.execute_items(&mut connection, budget),
                Face::Metrics => self.execute_request(&mut connection, budget),
            };
            self.count_client(&mut connection);
            if let Some(wait) = connection.session.waits_for.as_deref().filter(|_| !has_waited) {
                self.data.waiting.add(token, wait);
            }
            if connection.turn.is_some() || connection.session.closing || connection.stopped {
                self.served.push(token);
            }
            self.clients.give_back(token, connection);
            match executed {
                Ok(Executed::All) => return Ok(()),
                // The client is there meanwhile, as it can be sent messages of what the others do.
                Ok(Executed::Awaited) => self.serve_waiting()?,
                Err(error) => return Err(error),
            }
        }
    }

    /// Executes a client's pending commands, up to one that makes what others wait for.
    fn execute(
        &mut self,
        connection: &mut Connection,
        budget: &mut Budget,
    ) -> Result<Executed, StoreError> {
        self.shared.observed.begin();
        if connection.session.postponed.is_some() {
            if self.is_paused_again(connection.session.token) {
                return Ok(Executed::All);
            }
            self.execute_postponed(connection)?;
            if self.is_awaited() {
                return Ok(Executed::Awaited);
            }
        }
        loop {
            let session = &connection.session;
            if session.closing || session.has_to_wait() || connection.reply.is_overflown() {
                return Ok(Executed::All);
            }
            let paused = connection.reply.waiting() > OUTPUT_PAUSE;
            if paused || budget.is_spent(self.data.written().bytes) {
                connection.stopped = connection.has_more();
                return Ok(Executed::All);
            }
            if connection.session.put_off.is_some() {
                if !self.go_on(connection)? {
                    connection.stopped = true;
                    return Ok(Executed::All);
                }
                if self.is_awaited() {
                    return Ok(Executed::Awaited);
                }
                continue;
            }
            let limits = Limits {
                bulk_size_max: self.shared.settings.bulk_size_max,
                unauthenticated: !connection.session.authenticated,
            };
            match connection.parse(limits) {
                Ok(Parsed::Command) => {
                    if connection.prefetched.get() == 0 {
                        prefetch(&mut self.data, &self.clients, connection, &self.batch);
                    }
                    connection.prefetched.set(connection.prefetched.get().saturating_sub(1));
                    let before = connection.reply.waiting();
                    let executed = self.execute_one(connection);
                    budget.commands -= 1;
                    let grown = connection.reply.waiting().saturating_sub(before);
                    let grown = grown + self.shared.pubsub.take_bytes();
                    budget.replied = budget.replied.saturating_sub(grown);
                    connection.finish_command();
                    executed?;
                    if self.is_awaited() {
                        return Ok(Executed::Awaited);
                    }
                }
                Ok(Parsed::Nothing) => connection.finish_command(),
                Ok(Parsed::Incomplete | Parsed::Long) => return Ok(Executed::All),
                Err(error) => {
                    connection.begin_turn(self.clients.early_commits);
                    let text = format!("ERR Protocol error: {}", error.0);
                    connection.reply.error(text.as_bytes());
                    count_reply(connection);
                    connection.session.closing = true;
                    return Ok(Executed::All);
                }
            }
        }
    }

    /// Answers a request for metrics.
    fn execute_request(
        &mut self,
        connection: &mut Connection,
        budget: &mut Budget,
    ) -> Result<Executed, StoreError> {
        budget.commands -= 1;
        let sources = (&mut self.data, &self.shared, &self.clients, &self.table);
        metrics::answer(connection, sources);
        Ok(Executed::All)
    }

    /// Executes the pending commands of a client that speaks one of memcached's protocols.
    fn execute_items(
        &mut self,
        connection: &mut Connection,
        budget: &mut Budget,
    ) -> Result<Executed, StoreError> {
        connection.begin_turn(self.clients.early_commits);
        connection.session.shows_data = true;
        if self.shared.pause.holds(self.shared.clock.steady_ms, true) {
            self.wait_for_pause(connection.session.token);
            return Ok(Executed::All);
        }
        loop {
            if connection.session.closing || connection.reply.is_overflown() {
                return Ok(Executed::All);
            }
            let waiting = connection.reply.waiting();
            if waiting > OUTPUT_PAUSE || budget.is_spent(self.data.written().bytes) {
                connection.stopped = connection.has_more();
                return Ok(Executed::All);
            }
            let step = memcached::step(connection, &mut self.data, &mut self.shared)?;
            if step == Step::Incomplete {
                return Ok(Executed::All);
            }
            budget.commands -= 1;
            let grown = connection.reply.waiting().saturating_sub(waiting);
            budget.replied = budget.replied.saturating_sub(grown);
        }
    }

    /// Executes the command just parsed.
    #[inline]
    fn execute_one(&mut self, connection: &mut Connection) -> Result<(), StoreError> {
        connection.begin_turn(self.clients.early_commits);
        self.dispatch_one(connection, None)
    }

    /// Executes a command that was kept, or else the one just parsed.
    #[inline]
    fn dispatch_one(
        &mut self,
        connection: &mut Connection,
        kept: Option<&Kept>,
    ) -> Result<(), StoreError> {
        let before = connection.replies();
        let Connection { session, reply, parser, input, start, .. } = connection;
        let args = match kept {
            Some(kept) => kept.args(),
            None => parser.args(&input[*start..]),
        };
        let done = self
            .execute_by((&mut *session, reply), |context, reply| dispatch(context, args, reply));
        if session.has_to_wait() || session.put_off.is_some() {
            // It will be replied to later.
        } else {
            count_command(connection);
        }
        if connection.early_commits() != self.clients.early_commits {
            // What the command has written since is lost if the turn fails, and its reply with it.
            let until = if self.data.has_written() { before } else { connection.replies() };
            connection.keep_replies(self.clients.early_commits, until);
        }
        done
    }

    /// Executes a command by `run`. The client is sent its reply, unless it wants none, and the messages that the command has for it.
    #[inline]
    fn execute_by(
        &mut self,
        (session, reply): (&mut Session, &mut Reply),
        run: impl FnOnce(&mut Context<'_, '_>, &mut Reply) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let mark = reply.mark();
        let mut context = Context {
            data: &mut self.data,
            session,
            clients: &mut self.clients,
            shared: &mut self.shared,
            table: &self.table,
            shutdown: self.shutdown,
        };
        let done = run(&mut context, reply);
        if session.replies != Replies::On {
            reply.truncate(mark);
        }
        self.shared.pubsub.deliver_own(session, reply, mark);
        if self.shared.tracking.is_on() {
            invalidate_changed(&mut self.data, &mut self.shared, &mut self.clients, session, reply);
        }
        done
    }

    /// Executes the command that CLIENT PAUSE has held.
    fn execute_postponed(&mut self, connection: &mut Connection) -> Result<(), StoreError> {
        let Some(kept) = connection.session.postponed.take() else { return Ok(()) };
        connection.begin_turn(self.clients.early_commits);
        self.dispatch_one(connection, Some(&kept))
    }

    /// Sends the replies of the turn, or errors in their place. While the disk is full those wait that may show what is not durable.
    fn reply(&mut self, committed: Result<(), StoreError>) -> Result<(), Error> {
        let mut served = std::mem::take(&mut self.served);
        served.append(&mut self.shared.killed);
        served.append(&mut self.shared.pubsub.take_touched());
        let refused = self.shared.refused.take();
        served.extend(refused.iter().map(|(client, _)| *client));
        let is_poisoned = matches!(committed, Err(StoreError::Poisoned));
        let holds = self.shared.is_disk_full() && !is_poisoned;
        if !holds {
            served.append(&mut self.held);
        }
        for &token in &served {
            let Some(mut connection) = self.clients.take(token) else { continue };
            let refused = refused.as_ref().filter(|(client, _)| *client == token);
            let (error, lost) = match (&committed, refused) {
                (Err(error), None) if !is_poisoned => {
                    (Some(error), connection.uncommitted(self.clients.early_commits))
                }
                (Ok(()), None) => (None, None),
                (committed, refused) => {
                    let refused = refused.map(|(_, error)| error);
                    (committed.as_ref().err().or(refused), connection.unsent_turns())
                }
            };
            if let (Some(error), Some((mark, count))) = (error, lost) {
                // A command that is not replied to yet has an error for a reply, too.
                let is_put_off = self.give_up(&mut connection.session);
                replace_replies(&mut connection, mark, count + u32::from(is_put_off), error);
                if is_put_off {
                    count_reply(&mut connection);
                }
            }
            if holds && connection.shows_data() {
                if connection.held.is_none() {
                    self.held.push(token);
                }
                connection.hold_turn();
            } else {
                connection.end_turn();
            }
            self.send(token, connection);
        }
        served.clear();
        self.served = served;
        if committed.is_err() && self.shared.tracking.is_on() {
            // What was said about keys went with the replies.
            invalidate(&mut self.shared, &mut self.clients, None, Changed::All);
        }
        self.shared.stats.failed_turns += u64::from(committed.is_err());
        match committed {
            Err(StoreError::Poisoned) => Err(Error::Poisoned),
            _ => Ok(()),
        }
    }

    /// Sends what waits for a client, if it is not held; disconnects it, or waits for the socket, as needed.
    fn send(&mut self, token: Token, mut connection: Box<Connection>) {
        let before = connection.waiting();
        if connection.reply.is_overflown() {
            self.shared.stats.output_limit_closes += 1;
            return self.end(token, connection);
        }
        let now_ms = self.shared.clock.steady_ms;
        let is_held = connection.held.is_some();
        if is_held {
            connection.sent_ms = None;
        } else if before > 0 && connection.sent_ms.is_none() {
            connection.sent_ms = Some(now_ms);
        }
        if !is_held && !connection.send(now_ms) {
            return self.end(token, connection);
        }
        let waiting = connection.waiting();
        self.shared.stats.writes += u64::from(before > 0 && !is_held);
        self.shared.stats.output_bytes += before.saturating_sub(waiting) as u64;
        if waiting == 0 && !is_held {
            connection.sent_ms = None;
            if connection.session.closing {
                return self.end(token, connection);
            }
        }
        let paused = waiting > OUTPUT_PAUSE;
        let interest = (!paused && !connection.session.closing, waiting > 0 && !is_held);
        if interest != connection.interest {
            connection.interest = interest;
            if self.poll.modify(&connection.socket, token.to_bits(), interest).is_err() {
                return self.end(token, connection);
            }
        }
        let waits = connection.stopped && !paused && !connection.session.closing;
        if waits && !connection.queued {
            connection.queued = true;
            self.queue.push_back(token);
        }
        self.count_client(&mut connection);
        self.clients.give_back(token, connection);
    }

    /// Counts the memory of a client, if there is a limit of that of all.
    #[inline]
    fn count_client(&mut self, connection: &mut Connection) {
        if self.shared.settings.clients_size_max > 0 {
            let size = connection.memory();
            let others = self.shared.clients_size.saturating_sub(connection.counted);
            self.shared.clients_size = others + size;
            connection.counted = size;
        }
    }

    /// Counts the memory of all clients anew, if there is a limit.
    pub(crate) fn recount_clients(&mut self) {
        if self.shared.settings.clients_size_max > 0 {
            self.shared.clients_size = 0;
            for (_, connection) in self.clients.iter_mut() {
                connection.counted = connection.memory();
                self.shared.clients_size += connection.counted;
            }
        }
    }

    /// Disconnects clients, those that take most first, while all together take too much.
    fn evict_clients(&mut self) {
        let most = self.shared.settings.clients_size_max;
        if most == 0 || self.shared.clients_size <= most {
            return;
        }
        self.recount_clients();
        let mut all: Vec<(usize, Token)> = self
            .clients
            .iter_mut()
            .filter(|(_, one)| !one.session.no_evict && !one.session.is_replica)
            .map(|(token, one)| (one.counted, token))
            .collect();
        all.sort_unstable_by_key(|(size, _)| *size);
        while self.shared.clients_size > most
            && let Some((_, token)) = all.pop()
        {
            if let Some(connection) = self.clients.take(token) {
                self.shared.stats.evicted_clients += 1;
                self.end(token, connection);
            }
        }
    }

    /// Disconnects a client that was taken out.
    pub(crate) fn end(&mut self, token: Token, mut connection: Box<Connection>) {
        self.shared.clients_size = self.shared.clients_size.saturating_sub(connection.counted);
        self.data.watches.remove_all(&mut connection.session);
        self.give_up(&mut connection.session);
        self.shared.paused.retain(|held| *held != token);
        if let Some(tracked) = connection.session.tracked.take() {
            self.shared.tracking.remove(token, &tracked.prefixes);
            self.data.watches.record_changes(self.shared.tracking.is_on());
        }
        self.shared.pubsub.forget(&mut connection.session);
        if connection.session.is_replica {
            self.shared.replication.forget(token, self.shared.clock.steady_ms);
        }
        if let Some(wait) = connection.session.waits_for.take() {
            self.data.waiting.remove(token, &wait);
        }
        self.end_delay(&mut connection);
        connection.close();
        let _ = self.poll.remove(&connection.socket);
        self.clients.discard(token);
    }
}

impl Budget {
    fn is_spent(&self, written: u64) -> bool {
        self.commands == 0 || self.replied == 0 || written >= self.written
    }
}

/// Has clients notified of what the command that was executed last has changed.
#[cold]
fn invalidate_changed(
    data: &mut Dataset<'_>,
    shared: &mut Shared,
    clients: &mut Clients,
    session: &mut Session,
    reply: &mut Reply,
) {
    let (keys, is_cleared) = data.watches.take_changed();
    if is_cleared {
        invalidate(shared, clients, Some((&mut *session, &mut *reply)), Changed::All);
    }
    if !keys.is_empty() || shared.tracking.has_held() {
        invalidate(shared, clients, Some((&mut *session, &mut *reply)), Changed::Keys(keys));
    }
    forget_keys(shared, clients, session, reply);
}

#[inline]
fn count_reply(connection: &mut Connection) {
    if let Some((_, count)) = &mut connection.turn {
        *count += 1;
    }
}

/// The command is replied to, unless the client wants no reply.
#[inline]
fn count_command(connection: &mut Connection) {
    match connection.session.replies {
        Replies::On => count_reply(connection),
        other => connection.session.replies = other.after_command(),
    }
}

/// The turn failed: the error replaces the reply of every command of the client.
fn replace_replies(connection: &mut Connection, mark: usize, count: u32, error: &StoreError) {
    connection.reply.truncate(mark);
    if let Face::Items(face) = &connection.face {
        match memcached::failed_turn(face, error) {
            Some(line) => (0..count).for_each(|_| connection.reply.raw(&line)),
            None => connection.session.closing = true,
        }
        return;
    }
    let text = match error {
        StoreError::Poisoned => POISONED.as_bytes().into(),
        other => store_text(other),
    };
    for _ in 0..count {
        connection.reply.error(&text);
    }
    // An earlier reply of the turn no longer fits the session's state: SELECT, MULTI, AUTH, …
    connection.session.closing |= connection.session.changed;
}
