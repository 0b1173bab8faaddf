//! CLIENT and its subcommands.

use crate::args::Args;
use crate::command::{ADMIN, Command, Context, SESSION};
use crate::commands::argument::integer;
use crate::commands::help::help_lines;
use crate::commands::tracking;
use crate::connection::Connection;
use crate::failure::{Failure, Outcome, SYNTAX};
use crate::reply::Reply;
use crate::session::{Replies, Session};
use crate::token::Token;
use crate::waiting::WaitEnd;

/// The family.
pub(super) const COMMANDS: &[Command] = &[Command::container("client", 0, SUBCOMMANDS)];

const SUBCOMMANDS: &[Command] = &[
    Command::sub("client|id", "id", 2, 0, id),
    Command::sub("client|getname", "getname", 2, 0, getname),
    Command::sub("client|setname", "setname", 3, 0, setname),
    Command::sub("client|setinfo", "setinfo", 4, 0, setinfo),
    Command::sub("client|info", "info", 2, 0, info),
    Command::sub("client|list", "list", -2, ADMIN, list),
    Command::sub("client|kill", "kill", -3, ADMIN, kill),
    Command::sub("client|unblock", "unblock", -3, ADMIN, unblock),
    Command::sub("client|reply", "reply", 3, SESSION, replies),
    Command::sub("client|no-evict", "no-evict", 3, ADMIN, no_evict),
    Command::sub("client|tracking", "tracking", -3, SESSION, tracking::tracking),
    Command::sub("client|caching", "caching", 3, SESSION, tracking::caching),
    Command::sub("client|getredir", "getredir", 2, 0, tracking::getredir),
    Command::sub("client|trackinginfo", "trackinginfo", 2, 0, tracking::info),
    Command::sub("client|pause", "pause", -3, ADMIN, pause),
    Command::sub("client|unpause", "unpause", 2, ADMIN, unpause),
    Command::sub("client|help", "help", 2, 0, help),
];

fn id(context: &mut Context<'_, '_>, _: Args<'_>, reply: &mut Reply) -> Outcome {
    reply.integer(context.session.id as i64);
    Ok(())
}

fn getname(context: &mut Context<'_, '_>, _: Args<'_>, reply: &mut Reply) -> Outcome {
    match context.session.name.as_slice() {
        [] => reply.null(),
        name => reply.bulk(name),
    }
    Ok(())
}

fn setname(context: &mut Context<'_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    context.session.name = check_name(args.at(2))?.to_vec();
    reply.ok();
    Ok(())
}

/// A name that fits CLIENT LIST.
pub(super) fn check_name(name: &[u8]) -> Result<&[u8], Failure> {
    if name.iter().all(|byte| (b'!'..=b'~').contains(byte)) {
        return Ok(name);
    }
    Err("ERR Client names cannot contain spaces, newlines or special characters.".into())
}

fn setinfo(context: &mut Context<'_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let value = args.at(3);
    let (field, name) = if args.is(2, "LIB-NAME") {
        (&mut context.session.lib_name, "lib-name")
    } else if args.is(2, "LIB-VER") {
        (&mut context.session.lib_version, "lib-ver")
    } else {
        let option = String::from_utf8_lossy(args.at(2)).into_owned();
        return Err(format!("ERR Unrecognized option '{option}'").into());
    };
    if check_name(value).is_err() {
        return Err(
            format!("ERR {name} cannot contain spaces, newlines or special characters.").into()
        );
    }
    *field = value.to_vec();
    reply.ok();
    Ok(())
}

fn info(context: &mut Context<'_, '_>, _: Args<'_>, reply: &mut Reply) -> Outcome {
    let buffers = (context.session.input, reply.buffer());
    let line = context.session.describe(context.shared.clock.steady_ms, buffers);
    reply.verbatim(format!("{line}\n").as_bytes());
    Ok(())
}

fn list(context: &mut Context<'_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let mut wanted: Option<Vec<i64>> = None;
    let mut of_type = None;
    if args.count() == 4 && args.is(2, "TYPE") {
        of_type = Some(client_type(args.at(3))?);
    } else if args.count() > 3 && args.is(2, "ID") {
        let ids: Option<Vec<i64>> = args.from(3).map(crate::number::parse_integer).collect();
        wanted = Some(ids.ok_or("ERR Invalid client ID")?);
    } else if args.count() > 2 {
        return Err(SYNTAX.into());
    }
    let now_ms = context.shared.clock.steady_ms;
    let mut lines = Vec::new();
    let mut add = |session: &Session, buffers| {
        if of_type.is_none_or(|of_type| of_type == Type::of(session)) {
            lines.push((session.id, session.describe(now_ms, buffers)));
        }
    };
    add(context.session, (context.session.input, reply.buffer()));
    for other in context.clients.iter() {
        add(&other.session, (other.input_buffer(), other.reply.buffer()));
    }
    lines.sort_unstable();
    let mut text = String::new();
    for (id, line) in lines {
        if wanted.as_ref().is_none_or(|ids| ids.contains(&(id as i64))) {
            text += &line;
            text.push('\n');
        }
    }
    reply.verbatim(text.as_bytes());
    Ok(())
}

/// The types of clients, as Redis distinguishes them.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Type {
    Normal,
    Subscriber,
    Replica,
    /// None here: the connection to it is no client.
    Primary,
}

impl Type {
    fn of(session: &Session) -> Type {
        match session {
            _ if session.is_replica => Type::Replica,
            _ if session.subscriptions.is_any() => Type::Subscriber,
            _ => Type::Normal,
        }
    }
}

fn client_type(kind: &[u8]) -> Result<Type, Failure> {
    let kind = String::from_utf8_lossy(kind).into_owned();
    match kind.to_ascii_lowercase().as_str() {
        "normal" => Ok(Type::Normal),
        "pubsub" => Ok(Type::Subscriber),
        "replica" | "slave" => Ok(Type::Replica),
        "master" => Ok(Type::Primary),
        _ => Err(format!("ERR Unknown client type '{kind}'").into()),
    }
}

/// The clients that CLIENT KILL selects.
struct Filter<'a> {
    id: Option<i64>,
    address: Option<&'a [u8]>,
    local: Option<&'a [u8]>,
    of_type: Option<Type>,
    user: Option<&'a [u8]>,
    skip_me: bool,
}

impl<'a> Filter<'a> {
    fn parse(args: Args<'a>) -> Result<Filter<'a>, Failure> {
        let mut filter = Filter {
            id: None,
            address: None,
            local: None,
            of_type: None,
            user: None,
            skip_me: true,
        };
        let mut at = 2;
        while at < args.count() {
            if at + 1 >= args.count() {
                return Err(SYNTAX.into());
            }
            let value = args.at(at + 1);
            if args.is(at, "ID") {
                let id = integer(value).ok().filter(|&id| id >= 1);
                filter.id = Some(id.ok_or("ERR client-id should be greater than 0")?);
            } else if args.is(at, "ADDR") {
                filter.address = Some(value);
            } else if args.is(at, "LADDR") {
                filter.local = Some(value);
            } else if args.is(at, "TYPE") {
                filter.of_type = Some(client_type(value)?);
            } else if args.is(at, "USER") {
                filter.user = Some(value);
            } else if args.is(at, "SKIPME") {
                filter.skip_me = match value.to_ascii_lowercase().as_slice() {
                    b"yes" => true,
                    b"no" => false,
                    _ => return Err(SYNTAX.into()),
                };
            } else {
                return Err(SYNTAX.into());
            }
            at += 2;
        }
        Ok(filter)
    }

    fn means(&self, session: &Session) -> bool {
        self.of_type.is_none_or(|of_type| of_type == Type::of(session))
            && self.user.is_none_or(|user| user == session.user)
            && self.id.is_none_or(|id| id == session.id as i64)
            && self.address.is_none_or(|address| address == session.peer.as_bytes())
            && self.local.is_none_or(|local| local == session.local.as_bytes())
    }
}

fn unblock(context: &mut Context<'_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let end = match args.count() {
        3 => WaitEnd::Due,
        4 if args.is(3, "TIMEOUT") => WaitEnd::Due,
        4 if args.is(3, "ERROR") => WaitEnd::Unblocked,
        4 => return Err("ERR CLIENT UNBLOCK reason should be TIMEOUT or ERROR".into()),
        _ => {
            let name = String::from_utf8_lossy(args.at(1));
            return Err(format!(
                "ERR unknown subcommand or wrong number of arguments for '{name}'. Try CLIENT HELP."
            )
            .into());
        }
    };
    let id = integer(args.at(2))?;
    let waits = |(_, connection): &(Token, &mut Connection)| {
        connection.session.id as i64 == id && connection.session.waits_for.is_some()
    };
    let found = context.clients.iter_mut().find(waits).map(|(token, _)| token);
    context.shared.released.extend(found.map(|token| (token, end)));
    reply.flag(found.is_some());
    Ok(())
}

fn kill(context: &mut Context<'_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let by_address = args.count() == 3;
    let filter = if by_address {
        let address = Some(args.at(2));
        Filter { id: None, address, local: None, of_type: None, user: None, skip_me: false }
    } else {
        Filter::parse(args)?
    };
    if let Some(user) = filter.user
        && context.shared.acl.user(user).is_none()
    {
        let user = String::from_utf8_lossy(user).into_owned();
        return Err(format!("ERR No such user '{user}'").into());
    }
    let mut count = 0;
    let mut hit = |(token, connection): (Token, &mut Connection)| {
        if filter.means(&connection.session) && !connection.session.closing {
            connection.session.closing = true;
            context.shared.killed.push(token);
            count += 1;
        }
    };
    context.clients.iter_mut().for_each(&mut hit);
    if !filter.skip_me && filter.means(context.session) {
        context.session.closing = true;
        count += 1;
    }
    match (by_address, count) {
        (true, 0) => return Err("ERR No such client".into()),
        (true, _) => reply.ok(),
        (false, _) => reply.integer(count),
    }
    Ok(())
}

fn replies(context: &mut Context<'_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    context.session.replies = if args.is(2, "ON") {
        reply.ok();
        Replies::On
    } else if args.is(2, "OFF") {
        Replies::Off
    } else if args.is(2, "SKIP") {
        if context.session.replies == Replies::Off { Replies::Off } else { Replies::SkipNext }
    } else {
        return Err(SYNTAX.into());
    };
    Ok(())
}

fn no_evict(context: &mut Context<'_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    context.session.no_evict = match args.at(2).to_ascii_lowercase().as_slice() {
        b"on" => true,
        b"off" => false,
        _ => return Err(SYNTAX.into()),
    };
    reply.ok();
    Ok(())
}

/// Holds the commands of all clients, or those that write, for so many milliseconds.
fn pause(context: &mut Context<'_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let all = match args.count() {
        3 => true,
        4 if args.is(3, "ALL") => true,
        4 if args.is(3, "WRITE") => false,
        _ => return Err("ERR CLIENT PAUSE mode must be WRITE or ALL".into()),
    };
    let timeout_ms = crate::number::parse_integer(args.at(2))
        .ok_or("ERR timeout is not an integer or out of range")?;
    let timeout_ms = u64::try_from(timeout_ms).map_err(|_| "ERR timeout is negative")?;
    let now_ms = context.shared.clock.steady_ms;
    context.shared.pause.begin(now_ms, now_ms.saturating_add(timeout_ms), all);
    reply.ok();
    Ok(())
}

fn unpause(context: &mut Context<'_, '_>, _: Args<'_>, reply: &mut Reply) -> Outcome {
    // What is written during a failover would be lost with the place of the primary.
    if !context.shared.replication.is_failing_over() {
        context.shared.pause.end();
    }
    reply.ok();
    Ok(())
}

fn help(_: &mut Context<'_, '_>, _: Args<'_>, reply: &mut Reply) -> Outcome {
    let lines = [
        "GETNAME",
        "    Return the name of the current connection.",
        "ID",
        "    Return the ID of the current connection.",
        "INFO",
        "    Return information about the current client connection.",
        "KILL <ip:port>",
        "KILL <option> <value> [<option> <value> [...]]",
        "    Kill connections: ADDR, LADDR, ID, TYPE, USER, SKIPME.",
        "LIST [TYPE <type>] [ID <id> ...]",
        "    Return information about client connections.",
        "NO-EVICT (ON|OFF)",
        "    Whether the connection stays when all clients take more than `maxmemory-clients`.",
        "PAUSE <timeout> [WRITE|ALL]",
        "    Hold all commands, or those that write, for <timeout> milliseconds.",
        "TRACKING (ON|OFF) [REDIRECT <id>] [BCAST] [PREFIX <prefix> ...] [OPTIN] [OPTOUT] [NOLOOP]",
        "    Be told when keys that were read, or that have a prefix, change.",
        "CACHING (YES|NO)",
        "    Whether the keys of the next command are tracked, with OPTIN or OPTOUT.",
        "GETREDIR",
        "    Return the client that gets the messages of this one.",
        "TRACKINGINFO",
        "    Return what this client tracks.",
        "UNPAUSE",
        "    Hold no commands any more.",
        "REPLY (ON|OFF|SKIP)",
        "    Control the replies sent to the current connection.",
        "SETINFO <LIB-NAME|LIB-VER> <value>",
        "    Name the client's library.",
        "SETNAME <name>",
        "    Assign the name <name> to the current connection.",
    ];
    help_lines(reply, "CLIENT", &lines);
    Ok(())
}
