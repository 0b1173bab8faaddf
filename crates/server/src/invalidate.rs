//! The messages of CLIENT TRACKING: they notify clients that keys have changed.

use crate::clients::Clients;
use crate::reply::Reply;
use crate::session::{Session, Topic};
use crate::shared::Shared;
use crate::token::Token;
use crate::tracking::Tracked;

/// The channel on which a client of RESP2 gets the messages for another.
const CHANNEL: &[u8] = b"__redis__:invalidate";

/// What has changed since the last command.
pub(crate) enum Changed {
    /// These keys.
    Keys(Vec<Vec<u8>>),
    /// These keys, which the server has evicted: no client has changed them.
    Evicted(Vec<Vec<u8>>),
    /// All keys of a database.
    All,
}

/// Has clients notified of what a command has changed. `own`: the client that has executed it, with its replies, if it was a
/// command.
#[cold]
pub(crate) fn invalidate(
    shared: &mut Shared,
    clients: &mut Clients,
    mut own: Option<(&mut Session, &mut Reply)>,
    changed: Changed,
) {
    let evicted = matches!(changed, Changed::Evicted(_));
    let writer = own.as_ref().filter(|_| !evicted).map(|(session, _)| session.token);
    let tracking = &mut shared.tracking;
    let (read, named) = match changed {
        Changed::All => {
            for token in tracking.all_changed() {
                send(shared, clients, &mut own, token, None);
            }
            return;
        }
        Changed::Keys(keys) | Changed::Evicted(keys) => tracking.changed(keys),
    };
    for (invalid, broadcast) in [(read, false), (named, true)] {
        for (token, keys) in invalid {
            let Some(tracked) = tracked(clients, &mut own, token) else { continue };
            let is_own = tracked.no_loop && writer == Some(token);
            if !is_own && (broadcast || !tracked.broadcast || tracked.prefixes.is_empty()) {
                send(shared, clients, &mut own, token, Some(&keys));
            }
        }
    }
}

/// Notifies clients of keys that are noted no longer, because there are too many.
#[cold]
pub(crate) fn forget_keys(
    shared: &mut Shared,
    clients: &mut Clients,
    session: &mut Session,
    reply: &mut Reply,
) {
    let forgotten = shared.tracking.forget_above(shared.settings.tracked_keys_max);
    let mut own = Some((session, reply));
    for (token, keys) in forgotten {
        send(shared, clients, &mut own, token, Some(&keys));
    }
}

type Own<'a, 'b> = Option<(&'a mut Session, &'b mut Reply)>;

fn tracked<'c>(
    clients: &'c Clients,
    own: &'c mut Own<'_, '_>,
    token: Token,
) -> Option<&'c Tracked> {
    match own {
        Some((session, _)) if session.token == token => session.tracked.as_deref(),
        _ => clients.get(token)?.session.tracked.as_deref(),
    }
}

/// Sends to a client, or to the one that gets its messages, that these keys have changed; all, if none are named.
fn send(
    shared: &mut Shared,
    clients: &mut Clients,
    own: &mut Own<'_, '_>,
    token: Token,
    keys: Option<&[Vec<u8>]>,
) {
    let Some(tracked) = tracked(clients, own, token) else { return };
    let redirect = tracked.redirect;
    let to = redirect.map_or(token, |(_, to)| to);
    let was_sent = with(shared, clients, own, to, |session, reply| {
        if session.resp3 {
            reply.push_header(2);
            reply.bulk(b"invalidate");
        } else if redirect.is_some() && session.subscriptions.count(Topic::Channel) > 0 {
            reply.push_header(3);
            reply.bulk(b"message");
            reply.bulk(CHANNEL);
        } else {
            return;
        }
        match keys {
            Some(keys) => {
                reply.array(keys.len());
                keys.iter().for_each(|key| reply.bulk(key));
            }
            None if session.resp3 => reply.null(),
            None => reply.null_array(),
        }
    });
    let Some((id, _)) = redirect.filter(|_| !was_sent) else { return };
    with(shared, clients, own, token, |session, reply| {
        if let Some(tracked) = &mut session.tracked {
            tracked.is_broken = true;
        }
        if session.resp3 {
            reply.push_header(2);
            reply.bulk(b"tracking-redir-broken");
            reply.integer(id as i64);
        }
    });
}

/// Does something with a client and its replies; false if it has gone.
fn with(
    shared: &mut Shared,
    clients: &mut Clients,
    own: &mut Own<'_, '_>,
    token: Token,
    act: impl FnOnce(&mut Session, &mut Reply),
) -> bool {
    if let Some((session, reply)) = own
        && session.token == token
    {
        act(session, reply);
        return true;
    }
    let early_commits = clients.early_commits;
    let Some(connection) = clients.get_mut(token).filter(|connection| !connection.session.closing)
    else {
        return false;
    };
    if connection.turn.is_none() {
        shared.pubsub.touch(token);
    }
    connection.begin_turn(early_commits);
    connection.has_message = true;
    act(&mut connection.session, &mut connection.reply);
    true
}
