//! Serves the other clients while a script runs that takes long: they are refused, but for what can end the script.

use std::time::{Duration, Instant};

use tembo_kv::Error;

use crate::args::Args;
use crate::command::{Command, Context};
use crate::commit::commit;
use crate::connection::{Connection, Read};
use crate::dispatch::{dispatch, lookup, reject};
use crate::face::Face;
use crate::parse::{Limits, Parsed};
use crate::session::Replies;
use crate::token::Token;
use crate::welcome::{LISTENER, welcome};

/// Connections accepted at once.
const ACCEPTS_MAX: usize = 100;
/// What is executed while a script runs.
const ALLOWED: [&str; 12] = [
    "auth",
    "discard",
    "function|kill",
    "function|stats",
    "hello",
    "multi",
    "quit",
    "replconf",
    "reset",
    "script|kill",
    "unwatch",
    "watch",
];

/// Has a script begin with nothing of the turn that is still to be committed or synced, so that the replies of others need not wait for
/// its end. Their replies are sent when it takes long, or else at the end of the turn.
///
/// # Errors
/// Nothing of the turn is committed.
pub(crate) fn commit_earlier(context: &mut Context<'_, '_>) -> Result<(), Error> {
    if context.shared.door.is_none() || !context.data.is_unsynced() {
        return Ok(());
    }
    commit(context.data, context.shared, Instant::now())?;
    context.clients.early_commits += 1;
    if context.shared.is_disk_full() {
        return Ok(());
    }
    for (_, connection) in context.clients.iter_mut() {
        connection.end_turn();
    }
    Ok(())
}

/// Sends the replies to what other clients have sent before in the turn. Those with a message in them wait for the commit if
/// the turn has written, as the message can report it.
pub(crate) fn reply_to_earlier(context: &mut Context<'_, '_>) {
    let is_unsynced = context.data.is_unsynced();
    let now_ms = context.shared.clock.steady_ms;
    for (token, connection) in context.clients.iter_mut() {
        // Of one that wants no replies none waits.
        let was_served = connection.turn.is_some() || connection.reply.waiting() > 0;
        if !(is_unsynced && connection.has_message) && was_served {
            connection.end_turn();
            send(&mut context.shared.killed, (token, connection), now_ms);
        }
    }
}

/// Sends what waits for a client. What it does not take, and its end, are seen to at the end of the turn.
fn send(later: &mut Vec<Token>, (token, connection): (Token, &mut Connection), now_ms: u64) {
    let is_sent = !connection.reply.is_overflown() && connection.send(now_ms);
    let is_done = is_sent && connection.waiting() == 0 && !connection.session.closing;
    if (!is_done || connection.stopped) && !later.contains(&token) {
        later.push(token);
    }
}

/// Serves those clients that have sent something; `all`: also those that had sent it before the script began. The others'
/// commands are refused with `refusal`.
///
/// # Errors
/// The turn has failed.
pub(crate) fn serve(context: &mut Context<'_, '_>, all: bool, refusal: &str) -> Result<(), Error> {
    let Some(mut door) = context.shared.door.take() else { return Ok(()) };
    let mut ready = Vec::new();
    // What it cannot find out now, it finds out at the next call.
    let _ = door.poll.wait(Duration::ZERO, &mut ready);
    let mut tokens: Vec<(Token, bool)> = Vec::new();
    for event in ready {
        match event.token.checked_sub(LISTENER) {
            None => tokens.push((Token::from_bits(event.token), event.readable)),
            Some(index) => {
                let Some(listener) = door.listeners.get(index as usize) else { continue };
                for _ in 0..ACCEPTS_MAX {
                    let Ok(accepted) = listener.accept() else { break };
                    let to = (&mut *context.clients, &mut *context.shared, &door.poll);
                    welcome(accepted, Face::Redis, to);
                }
            }
        }
    }
    if all {
        tokens.extend(context.clients.iter_mut().map(|(token, _)| (token, false)));
    }
    let mut served = Ok(());
    for (token, is_readable) in tokens {
        let Some(mut connection) = context.clients.take(token) else { continue };
        // Otherwise its replies wait for the commit, and the next one waits behind them. Clients of memcached wait for the script.
        let waits = connection.turn.is_some() || connection.held.is_some();
        if !waits && served.is_ok() && connection.face == Face::Redis {
            served = serve_one(context, &mut connection, is_readable, refusal);
            let now_ms = context.shared.clock.steady_ms;
            connection.end_turn();
            send(&mut context.shared.killed, (token, &mut connection), now_ms);
        }
        context.clients.give_back(token, connection);
    }
    context.shared.door = Some(door);
    served
}

fn serve_one(
    context: &mut Context<'_, '_>,
    connection: &mut Connection,
    is_readable: bool,
    refusal: &str,
) -> Result<(), Error> {
    // Of one that does not take its replies, or waits, nothing more is taken.
    let is_free = connection.reply.waiting() == 0 && !connection.session.has_to_wait();
    if is_readable
        && is_free
        && let Read::Some(count) = connection.read()
    {
        context.shared.stats.input_bytes += count as u64;
        context.shared.stats.reads += 1;
        connection.session.active_ms = context.shared.clock.steady_ms;
        connection.session.input = connection.input_buffer();
    }
    loop {
        let session = &connection.session;
        let waits = session.has_to_wait() || session.put_off.is_some();
        if session.closing || waits || connection.reply.is_overflown() {
            return Ok(());
        }
        let limits = Limits {
            bulk_size_max: context.shared.settings.bulk_size_max,
            unauthenticated: !connection.session.authenticated,
        };
        match connection.parse(limits) {
            Ok(Parsed::Command) => {
                let Connection { session, reply, parser, input, start, .. } = &mut *connection;
                let args = parser.args(&input[*start..]);
                let mark = reply.mark();
                let mut other = Context {
                    data: &mut *context.data,
                    session,
                    clients: &mut *context.clients,
                    shared: &mut *context.shared,
                    table: context.table,
                    shutdown: context.shutdown,
                };
                let found = lookup(other.table, args);
                let is_refused = other.session.authenticated
                    && found.is_some_and(|(command, _)| !is_allowed(command, args));
                let done = if is_refused {
                    reject(&mut other, args, refusal.as_bytes(), reply)
                } else {
                    dispatch(&mut other, args, reply)
                };
                let Connection { session, reply, .. } = &mut *connection;
                if session.replies != Replies::On {
                    reply.truncate(mark);
                    if !session.has_to_wait() {
                        session.replies = session.replies.after_command();
                    }
                }
                context.shared.pubsub.deliver_own(session, reply, mark);
                connection.finish_command();
                done?;
            }
            Ok(Parsed::Nothing) => connection.finish_command(),
            Ok(Parsed::Incomplete | Parsed::Long) => return Ok(()),
            Err(error) => {
                let text = format!("ERR Protocol error: {}", error.0);
                connection.reply.error(text.as_bytes());
                connection.session.closing = true;
            }
        }
    }
}

/// Whether a command is executed while a script runs. SHUTDOWN is if it drops what the script has written.
fn is_allowed(command: &Command, args: Args<'_>) -> bool {
    if command.name == "shutdown" {
        return (1..args.count()).any(|at| args.is(at, "NOSAVE"));
    }
    ALLOWED.contains(&command.full_name)
}
