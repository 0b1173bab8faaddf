//! CLIENT TRACKING, CACHING, GETREDIR and TRACKINGINFO.

use crate::args::Args;
use crate::command::Context;
use crate::commands::argument::integer;
use crate::failure::{Failure, Outcome, SYNTAX};
use crate::reply::Reply;
use crate::token::Token;
use crate::tracking::Tracked;

/// Turns tracking on or off.
pub(super) fn tracking(
    context: &mut Context<'_, '_>,
    args: Args<'_>,
    reply: &mut Reply,
) -> Outcome {
    let wanted = parse(context, args)?;
    if args.is(2, "OFF") {
        forget(context);
    } else if args.is(2, "ON") {
        turn_on(context, wanted)?;
    } else {
        return Err(SYNTAX.into());
    }
    reply.ok();
    Ok(())
}

/// The client tracks no keys any more.
pub(super) fn forget(context: &mut Context<'_, '_>) {
    if let Some(tracked) = context.session.tracked.take() {
        context.shared.tracking.remove(context.session.token, &tracked.prefixes);
        context.data.watches.record_changes(context.shared.tracking.is_on());
    }
}

fn parse(context: &Context<'_, '_>, args: Args<'_>) -> Result<Tracked, Failure> {
    let mut wanted = Tracked::default();
    let mut at = 3;
    while at < args.count() {
        let has_value = at + 1 < args.count();
        if args.is(at, "REDIRECT") && has_value {
            at += 1;
            if wanted.redirect.is_some() {
                return Err("ERR A client can only redirect to a single other client".into());
            }
            wanted.redirect = Some(client(context, integer(args.at(at))?)?);
        } else if args.is(at, "BCAST") {
            wanted.broadcast = true;
        } else if args.is(at, "OPTIN") {
            wanted.opt_in = true;
        } else if args.is(at, "OPTOUT") {
            wanted.opt_out = true;
        } else if args.is(at, "NOLOOP") {
            wanted.no_loop = true;
        } else if args.is(at, "PREFIX") && has_value {
            at += 1;
            let prefix = args.at(at).to_vec();
            if let Some(other) = wanted.prefixes.iter().find(|other| overlap(other, &prefix)) {
                // As Redis reports it: the first of the two that were given.
                return Err(overlapping(other, &prefix));
            }
            wanted.prefixes.insert(prefix);
        } else {
            return Err(SYNTAX.into());
        }
        at += 1;
    }
    Ok(wanted)
}

/// The client of that number.
fn client(context: &Context<'_, '_>, id: i64) -> Result<(u64, Token), Failure> {
    if context.session.id as i64 == id {
        return Ok((context.session.id, context.session.token));
    }
    let mut sessions = context.clients.iter().map(|connection| &connection.session);
    let found = sessions.find(|session| session.id as i64 == id && !session.closing);
    let found = found.ok_or("ERR The client ID you want redirect to does not exist")?;
    Ok((found.id, found.token))
}

fn overlap(one: &[u8], other: &[u8]) -> bool {
    one.starts_with(other) || other.starts_with(one)
}

fn overlapping(one: &[u8], other: &[u8]) -> Failure {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (one, other) = (text(one), text(other));
    format!(
        "ERR Prefix '{one}' overlaps with another provided prefix '{other}'. Prefixes for a single client must not \
         overlap."
    )
    .into()
}

fn turn_on(context: &mut Context<'_, '_>, mut wanted: Tracked) -> Outcome {
    if !wanted.broadcast && !wanted.prefixes.is_empty() {
        return Err("ERR PREFIX option requires BCAST mode to be enabled".into());
    }
    if wanted.opt_in && wanted.opt_out {
        return Err("ERR You can't specify both OPTIN mode and OPTOUT mode".into());
    }
    if wanted.broadcast && (wanted.opt_in || wanted.opt_out) {
        return Err("ERR OPTIN and OPTOUT are not compatible with BCAST".into());
    }
    if let Some(before) = context.session.tracked.as_deref() {
        if before.broadcast != wanted.broadcast {
            return Err("ERR You can't switch BCAST mode on/off before disabling tracking for this client, and then \
                        re-enabling it with a different mode."
                .into());
        }
        if before.opt_in && wanted.opt_out || before.opt_out && wanted.opt_in {
            return Err("ERR You can't switch OPTIN/OPTOUT mode before disabling tracking for this client, and then \
                        re-enabling it with a different mode."
                .into());
        }
        for prefix in &wanted.prefixes {
            let other =
                before.prefixes.iter().find(|other| *other != prefix && overlap(other, prefix));
            if let Some(other) = other {
                let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
                let (prefix, other) = (text(prefix), text(other));
                return Err(format!(
                    "ERR Prefix '{prefix}' overlaps with an existing prefix '{other}'. Prefixes for a single client \
                     must not overlap."
                )
                .into());
            }
        }
        wanted.prefixes.extend(before.prefixes.iter().cloned());
    }
    if wanted.broadcast && wanted.prefixes.is_empty() {
        wanted.prefixes.insert(Vec::new());
    }
    context.shared.tracking.add(context.session.token, &wanted.prefixes);
    context.data.watches.record_changes(true);
    context.session.tracked = Some(Box::new(wanted));
    Ok(())
}

/// Whether the keys of the next command are noted.
pub(super) fn caching(context: &mut Context<'_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let Some(tracked) = &mut context.session.tracked else {
        return Err("ERR CLIENT CACHING can be called only when the client is in tracking mode with OPTIN or \
                    OPTOUT mode enabled"
            .into());
    };
    let yes = args.is(2, "YES");
    if yes && !tracked.opt_in {
        return Err(
            "ERR CLIENT CACHING YES is only valid when tracking is enabled in OPTIN mode.".into()
        );
    }
    if args.is(2, "NO") && !tracked.opt_out {
        return Err(
            "ERR CLIENT CACHING NO is only valid when tracking is enabled in OPTOUT mode.".into()
        );
    }
    if !yes && !args.is(2, "NO") {
        return Err(SYNTAX.into());
    }
    tracked.caching = Some(yes);
    reply.ok();
    Ok(())
}

/// The client that gets the messages: 0 this one, -1 none.
pub(super) fn getredir(context: &mut Context<'_, '_>, _: Args<'_>, reply: &mut Reply) -> Outcome {
    reply.integer(context.session.redirect());
    Ok(())
}

/// What the client tracks.
pub(super) fn info(context: &mut Context<'_, '_>, _: Args<'_>, reply: &mut Reply) -> Outcome {
    let mut flags = vec![if context.session.tracked.is_some() { "on" } else { "off" }];
    let mut prefixes: Vec<&[u8]> = Vec::new();
    if let Some(tracked) = &context.session.tracked {
        let named = [
            (tracked.broadcast, "bcast"),
            (tracked.opt_in, "optin"),
            (tracked.opt_in && tracked.caching == Some(true), "caching-yes"),
            (tracked.opt_out, "optout"),
            (tracked.opt_out && tracked.caching == Some(false), "caching-no"),
            (tracked.no_loop, "noloop"),
            (tracked.is_broken, "broken_redirect"),
        ];
        flags.extend(named.iter().filter(|(holds, _)| *holds).map(|(_, name)| *name));
        prefixes.extend(tracked.prefixes.iter().map(Vec::as_slice));
    }
    reply.map(3);
    reply.bulk(b"flags");
    reply.set(flags.len());
    flags.iter().for_each(|flag| reply.bulk(flag.as_bytes()));
    reply.bulk(b"redirect");
    reply.integer(context.session.redirect());
    reply.bulk(b"prefixes");
    reply.array(prefixes.len());
    prefixes.iter().for_each(|prefix| reply.bulk(prefix));
    Ok(())
}
