//! PING, ECHO, AUTH, HELLO, SELECT, RESET, QUIT.

use crate::acl::{Attempt, DEFAULT_USER, User};
use crate::args::{Args, Kept};
use crate::command::{Command, Context, FAST, NO_AUTH, NOT_QUEUED, SESSION, SUBSCRIBED};
use crate::commands::argument::database;
use crate::commands::client;
use crate::commands::tracking;
use crate::commands::wait::wait_with;
use crate::failure::{Failure, Outcome, SYNTAX};
use crate::format::Kind;
use crate::number::parse_integer;
use crate::permission;
use crate::reply::Reply;
use crate::session::Replies;

/// Too many passwords from the client's address were wrong, and too many more wait to be looked at.
const TOO_MANY_GUESSES: &str =
    "ERR too many wrong passwords came from this address lately: try again in a second";

/// The version of Redis whose commands are spoken.
pub(crate) const REDIS_VERSION: &str = "7.0.15";

/// The family.
pub(super) const COMMANDS: &[Command] = &[
    Command::new("ping", -1, FAST | SUBSCRIBED, ping),
    Command::new("echo", 2, FAST, echo),
    Command::new("auth", -2, FAST | NO_AUTH | SESSION, auth),
    Command::new("hello", -1, FAST | NO_AUTH | SESSION, hello),
    Command::new("select", 2, FAST | SESSION, select),
    Command::new("reset", 1, SUBSCRIBED | FAST | NO_AUTH | NOT_QUEUED | SESSION, reset),
    Command::new("quit", -1, SUBSCRIBED | FAST | NO_AUTH | NOT_QUEUED, quit),
];

fn ping(context: &mut Context<'_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    match args.count() {
        1 | 2 if context.session.subscriptions.is_any() && !context.session.resp3 => {
            reply.array(2);
            reply.bulk(b"pong");
            reply.bulk(args.at(1));
        }
        1 => reply.simple("PONG"),
        2 => reply.bulk(args.at(1)),
        _ => return Err("ERR wrong number of arguments for 'ping' command".into()),
    }
    Ok(())
}

fn echo(_: &mut Context<'_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    reply.bulk(args.at(1));
    Ok(())
}

fn auth(context: &mut Context<'_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let (user, password) = match args.count() {
        2 if is_without_password(context) => {
            return Err(
                "ERR AUTH <password> called without any password configured for the default \
                        user. Are you sure your configuration is correct?"
                    .into(),
            );
        }
        2 => (DEFAULT_USER, args.at(1)),
        3 => (args.at(1), args.at(2)),
        _ => return Err(SYNTAX.into()),
    };
    if authenticate(context, args, (user, password))? {
        reply.ok();
    }
    Ok(())
}

fn is_without_password(context: &Context<'_, '_>) -> bool {
    context.shared.acl.user(DEFAULT_USER).is_some_and(User::is_without_password)
}

/// Makes the client one of the user; false: the request will be executed again, after a delay.
fn authenticate(
    context: &mut Context<'_, '_>,
    args: Args<'_>,
    (user, password): (&[u8], &[u8]),
) -> Result<bool, Failure> {
    // Else it was delayed, and that is over.
    if context.session.served.is_none() && delay(context, args)? {
        return Ok(false);
    }
    if context.shared.acl.user(user).is_some_and(|known| known.admits(password)) {
        permission::authenticate(&context.shared.acl, context.session, user);
        return Ok(true);
    }
    let now_ms = context.shared.clock.steady_ms;
    context.shared.acl.guesses.note_wrong(context.session.ip, now_ms);
    let place = if context.session.multi.is_some() { "multi" } else { "toplevel" };
    permission::note(context, ("auth", place), args.at(0), user.to_vec());
    Err("WRONGPASS invalid username-password pair or user is disabled.".into())
}

/// Has the request wait if many passwords from the client's address were wrong; false: it need not.
fn delay(context: &mut Context<'_, '_>, args: Args<'_>) -> Result<bool, Failure> {
    let (from, now_ms) = (context.session.ip, context.shared.clock.steady_ms);
    let delay_ms = match context.shared.acl.guesses.attempt(from, now_ms) {
        Attempt::Now => return Ok(false),
        Attempt::After(delay_ms) => delay_ms,
        Attempt::Refused => return Err(TOO_MANY_GUESSES.into()),
    };
    let nothing = (Kind::String, [].as_slice(), false);
    context.session.is_delayed = context.shared.scripts.running.is_none()
        && wait_with(context, Kept::new(args), nothing, Some(delay_ms));
    if context.session.is_delayed {
        return Ok(true);
    }
    // Neither a transaction nor a client that is served beside a script can wait.
    context.shared.acl.guesses.release(from);
    Err(TOO_MANY_GUESSES.into())
}

fn hello(context: &mut Context<'_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let mut resp3 = context.session.resp3;
    if args.count() > 1 {
        resp3 = match parse_integer(args.at(1)) {
            Some(2) => false,
            Some(3) => true,
            Some(_) => return Err("NOPROTO unsupported protocol version".into()),
            None => return Err("ERR Protocol version is not an integer or out of range".into()),
        };
    }
    let mut name = None;
    let mut at = 2;
    while at < args.count() {
        let left = args.count() - at - 1;
        if args.is(at, "AUTH") && left >= 2 {
            if !authenticate(context, args, (args.at(at + 1), args.at(at + 2)))? {
                return Ok(());
            }
            at += 3;
        } else if args.is(at, "SETNAME") && left >= 1 {
            name = Some(client::check_name(args.at(at + 1))?);
            at += 2;
        } else {
            let option = String::from_utf8_lossy(args.at(at)).into_owned();
            return Err(format!("ERR Syntax error in HELLO option '{option}'").into());
        }
    }
    if !context.session.authenticated {
        return Err("NOAUTH HELLO must be called with the client already authenticated, otherwise the \
                    HELLO <proto> AUTH <user> <pass> option can be used to authenticate the client and \
                    select the RESP protocol version at the same time"
            .into());
    }
    if let Some(name) = name {
        context.session.name = name.to_vec();
    }
    context.session.resp3 = resp3;
    reply.set_resp3(resp3);
    reply.map(7);
    for (field, value) in [("server", "redis"), ("version", REDIS_VERSION)] {
        reply.bulk(field.as_bytes());
        reply.bulk(value.as_bytes());
    }
    reply.bulk(b"proto");
    reply.integer(if resp3 { 3 } else { 2 });
    reply.bulk(b"id");
    reply.integer(context.session.id as i64);
    for (field, value) in [("mode", "standalone"), ("role", "master")] {
        reply.bulk(field.as_bytes());
        reply.bulk(value.as_bytes());
    }
    reply.bulk(b"modules");
    reply.array(0);
    Ok(())
}

fn select(context: &mut Context<'_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    context.session.db = database(context, args.at(1))?;
    reply.ok();
    Ok(())
}

fn reset(context: &mut Context<'_, '_>, _: Args<'_>, reply: &mut Reply) -> Outcome {
    context.unwatch_all();
    context.shared.pubsub.forget(context.session);
    tracking::forget(context);
    reply.set_limit(context.shared.settings.normal_output.hard);
    let session = &mut *context.session;
    session.multi = None;
    session.db = 0;
    session.name.clear();
    session.no_evict = false;
    session.replies = Replies::On;
    session.resp3 = false;
    permission::admit(&context.shared.acl, session);
    reply.set_resp3(false);
    reply.simple("RESET");
    Ok(())
}

fn quit(context: &mut Context<'_, '_>, _: Args<'_>, reply: &mut Reply) -> Outcome {
    context.session.closing = true;
    reply.ok();
    Ok(())
}
