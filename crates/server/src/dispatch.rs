//! From a parsed request to an executed command: lookup, arity, authentication, MULTI.

use tembo_kv::Error;

use crate::access::Access;
use crate::args::{Args, Kept};
use crate::command::{
    ADMIN, Command, Context, NO_AUTH, NO_MULTI, NOT_QUEUED, READ, SAVE, SESSION, SUBSCRIBED, Table,
    WRITE,
};
use crate::failure::{Failure, LOADING, READ_ONLY, READ_ONLY_REPLICA};
use crate::monitor::show;
use crate::parse::COMMAND_SIZE_MAX;
use crate::reply::Reply;

/// Executes or queues one request and appends its reply. Errors are those of [`execute`].
pub(crate) fn dispatch(
    context: &mut Context<'_, '_>,
    args: Args<'_>,
    reply: &mut Reply,
) -> Result<(), Error> {
    let command = match find(context.table, args) {
        Ok(command) => command,
        Err(_) if is_http(args.at(0)) => {
            context.session.closing = true;
            return Ok(());
        }
        Err(failure) => return reject(context, args, &failure.text(), reply),
    };
    if !context.session.authenticated && !command.has(NO_AUTH) {
        return reject(context, args, b"NOAUTH Authentication required.", reply);
    }
    if context.data.access() != Access::Open
        && let Some(text) = refusal(context.data.access(), command)
    {
        return reject(context, args, text.as_bytes(), reply);
    }
    let session = &*context.session;
    if session.subscriptions.is_any() && !session.resp3 && !command.has(SUBSCRIBED) {
        let text = format!(
            "ERR Can't execute '{}': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in \
             this context",
            command.full_name
        );
        return reject(context, args, text.as_bytes(), reply);
    }
    if let Some(multi) = &mut context.session.multi {
        if command.has(NO_MULTI) {
            return reject(context, args, b"ERR Command not allowed inside a transaction", reply);
        }
        if !command.has(NOT_QUEUED) {
            let kept = Kept::new(args);
            multi.size += kept.size();
            multi.queue.push(kept);
            context.session.closing |= multi.size > COMMAND_SIZE_MAX;
            context.session.changed = true;
            reply.simple("QUEUED");
            return Ok(());
        }
    }
    context.session.last_command = Some(command.full_name);
    execute(context, command, args, reply)
}

/// Executes one request that MULTI has queued, as [`execute`] does.
pub(crate) fn execute_queued(
    context: &mut Context<'_, '_>,
    args: Args<'_>,
    reply: &mut Reply,
) -> Result<(), Error> {
    match find(context.table, args) {
        Ok(command) => execute(context, command, args, reply),
        Err(failure) => reject(context, args, &failure.text(), reply),
    }
}

/// Executes one command and appends its reply. An error means that the command was cut short after it
/// had written something, or that the store is poisoned: the turn cannot be committed.
fn execute(
    context: &mut Context<'_, '_>,
    command: &'static Command,
    args: Args<'_>,
    reply: &mut Reply,
) -> Result<(), Error> {
    context.shared.stats.commands += 1;
    context.session.changed |= command.has(SESSION);
    let mark = reply.mark();
    let before = context.data.written().changes;
    let done = (command.run)(context, args, reply);
    if context.shared.pubsub.is_monitored() && !command.has(ADMIN) {
        show(context, args);
    }
    let Err(failure) = done else {
        return Ok(());
    };
    context.shared.stats.errors += 1;
    reply.truncate(mark);
    reply.error(&failure.text());
    let cut_short = context.data.written().changes != before;
    match failure {
        Failure::Turn(error) => Err(error),
        Failure::Store(Error::Poisoned) => Err(Error::Poisoned),
        Failure::Store(error) if cut_short => Err(error),
        Failure::Store(_) | Failure::Reply(_) | Failure::UnknownLayout => Ok(()),
    }
}

/// Replies with an error before the command ran. MULTI's transaction fails with it, and EXEC ends it.
fn reject(
    context: &mut Context<'_, '_>,
    args: Args<'_>,
    text: &[u8],
    reply: &mut Reply,
) -> Result<(), Error> {
    context.shared.stats.errors += 1;
    if args.is(0, "EXEC") {
        context.session.changed |= context.session.multi.take().is_some();
        context.unwatch_all();
        let reason = text.strip_prefix(b"ERR ").unwrap_or(text);
        reply.error(&[b"EXECABORT Transaction discarded because of: ".as_slice(), reason].concat());
        return Ok(());
    }
    if let Some(multi) = &mut context.session.multi {
        multi.failed = true;
        context.session.changed = true;
    }
    reply.error(text);
    Ok(())
}

/// Why clients may not execute the command, if they may not.
#[cold]
fn refusal(access: Access, command: &Command) -> Option<&'static str> {
    match access {
        Access::ReadOnlyPool if command.has(WRITE | SAVE) => Some(READ_ONLY),
        Access::Replica if command.has(WRITE) => Some(READ_ONLY_REPLICA),
        Access::Loading if command.has(READ | WRITE | SAVE) => Some(LOADING),
        _ => None,
    }
}

/// The command, if its name is known and the number of its arguments is right.
#[inline]
fn find(table: &Table, args: Args<'_>) -> Result<&'static Command, Failure> {
    let Some(mut command) = table.find(args.at(0)) else {
        return Err(unknown(args).into());
    };
    if !command.subcommands.is_empty() && args.count() > 1 {
        command = match command.subcommand(args.at(1)) {
            Some(subcommand) => subcommand,
            None => return Err(unknown_subcommand(command, args.at(1)).into()),
        };
    }
    if !command.takes(args.count()) {
        let name = command.full_name;
        return Err(format!("ERR wrong number of arguments for '{name}' command").into());
    }
    Ok(command)
}

/// Whether this is an HTTP request: a page can make a browser send a form to this port, and nothing of that
/// may be executed.
fn is_http(name: &[u8]) -> bool {
    name.eq_ignore_ascii_case(b"post") || name.eq_ignore_ascii_case(b"host:")
}

fn unknown(args: Args<'_>) -> String {
    let mut shown = String::new();
    for arg in args.from(1) {
        if shown.len() >= 128 {
            break;
        }
        let room = 128 - shown.len();
        shown += &format!("'{}' ", String::from_utf8_lossy(&arg[..arg.len().min(room)]));
    }
    let name = args.at(0);
    let name = String::from_utf8_lossy(&name[..name.len().min(128)]);
    format!("ERR unknown command '{name}', with args beginning with: {shown}")
}

fn unknown_subcommand(container: &Command, name: &[u8]) -> String {
    let name = String::from_utf8_lossy(&name[..name.len().min(128)]);
    let container = container.name.to_ascii_uppercase();
    format!("ERR unknown subcommand '{name}'. Try {container} HELP.")
}
