//! Whether a client may have a request executed: authentication, then what its user may do.

use crate::acl::{Acl, DEFAULT_USER, Denial, Denied, User};
use crate::args::Args;
use crate::command::{Command, Context, NO_AUTH};
use crate::session::{Session, Topic};

/// Where a request comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// From the client itself, or into its transaction.
    Client,
    /// EXEC executes it.
    Transaction,
    /// A script calls it.
    Script,
}

/// Why the client may not have the request executed or queued, if it may not: the error that it gets. Only for sessions that
/// are restricted.
#[cold]
pub(crate) fn refusal(
    context: &mut Context<'_, '_>,
    (command, number): (&'static Command, usize),
    args: Args<'_>,
    place: Place,
) -> Option<Vec<u8>> {
    if !context.session.authenticated && !command.has(NO_AUTH) {
        return Some(b"NOAUTH Authentication required.".to_vec());
    }
    let denied = context.shared.acl.check(&context.session.user, number, args).err()?;
    let (reason, object) = match denied {
        Denied::Command => ("command", command.full_name.as_bytes()),
        Denied::Key(at) => ("key", args.at(at)),
        Denied::Channel(at) => ("channel", args.at(at)),
    };
    let place_name = match place {
        Place::Script => "lua",
        Place::Client if context.session.multi.is_none() => "toplevel",
        Place::Client | Place::Transaction => "multi",
    };
    let user = context.session.user.clone();
    note(context, (reason, place_name), object, user);
    Some(text(denied, command, place))
}

fn text(denied: Denied, command: &Command, place: Place) -> Vec<u8> {
    let text = match (place, denied) {
        (Place::Client, Denied::Command) => {
            let name = command.full_name;
            return format!("NOPERM this user has no permissions to run the '{name}' command")
                .into_bytes();
        }
        (Place::Client, Denied::Key(_)) => {
            "NOPERM this user has no permissions to access one of the keys used as arguments"
        }
        (Place::Client, Denied::Channel(_)) => {
            "NOPERM this user has no permissions to access one of the channels used as arguments"
        }
        (Place::Transaction, Denied::Command) => {
            "NOPERM ACLs rules changed between the moment the transaction was accumulated and the EXEC call. This command \
             is no longer allowed for the following reason: no permission to execute the command or subcommand"
        }
        (Place::Transaction, Denied::Key(_)) => {
            "NOPERM ACLs rules changed between the moment the transaction was accumulated and the EXEC call. This command \
             is no longer allowed for the following reason: no permission to touch the specified keys"
        }
        (Place::Transaction, Denied::Channel(_)) => {
            "NOPERM ACLs rules changed between the moment the transaction was accumulated and the EXEC call. This command \
             is no longer allowed for the following reason: no permission to access one of the channels used as arguments"
        }
        (Place::Script, Denied::Command) => {
            "ERR The user executing the script can't run this command or subcommand"
        }
        (Place::Script, Denied::Key(_)) => {
            "ERR The user executing the script can't access at least one of the keys mentioned in the command arguments"
        }
        (Place::Script, Denied::Channel(_)) => {
            "ERR The user executing the script can't publish to the channel mentioned in the command"
        }
    };
    text.as_bytes().to_vec()
}

/// Notes something that was denied, for ACL LOG: what was missing and where, the object, and the user.
pub(crate) fn note(
    context: &mut Context<'_, '_>,
    (reason, place): (&'static str, &'static str),
    object: &[u8],
    user: Vec<u8>,
) {
    let at_ms = context.shared.clock.steady_ms;
    let denial = Denial {
        count: 1,
        reason,
        context: place,
        object: object.to_vec(),
        user,
        at_ms,
        client: context.session.describe(at_ms, (context.session.input, Default::default())),
    };
    let len_max = context.shared.settings.denials_max;
    context.shared.acl.denials.add(denial, len_max);
}

/// Whether the client may have its request executed if that reads any key there is: SORT with BY or GET.
pub(crate) fn may_read_all_keys(context: &Context<'_, '_>, args: Args<'_>) -> bool {
    context.session.unrestricted
        || context.table.find_numbered(args.at(0)).is_some_and(|(_, number)| {
            context.shared.acl.may_read_all_keys(&context.session.user, number, args)
        })
}

/// The client is one that has just connected: of the default user, authenticated if that needs no password.
pub(crate) fn admit(acl: &Acl, session: &mut Session) {
    session.user = DEFAULT_USER.to_vec();
    session.authenticated = acl.is_open();
    update(acl, session);
}

/// The client has authenticated.
pub(crate) fn authenticate(acl: &Acl, session: &mut Session, user: &[u8]) {
    session.user = user.to_vec();
    session.authenticated = true;
    update(acl, session);
}

/// Users have changed: so has what clients may do.
pub(crate) fn update_all(context: &mut Context<'_, '_>) {
    let acl = &context.shared.acl;
    update(acl, context.session);
    for (_, connection) in context.clients.iter_mut() {
        update(acl, &mut connection.session);
    }
}

fn update(acl: &Acl, session: &mut Session) {
    let of_default = session.user == DEFAULT_USER;
    session.authenticated |= of_default && acl.is_open();
    let user = acl.user(&session.user);
    session.unrestricted = session.authenticated && user.is_some_and(User::is_unrestricted);
}

/// Disconnects the clients for which `is_ended` holds.
pub(crate) fn disconnect(context: &mut Context<'_, '_>, is_ended: impl Fn(&mut Session) -> bool) {
    for (token, connection) in context.clients.iter_mut() {
        if !connection.session.closing && is_ended(&mut connection.session) {
            connection.session.closing = true;
            context.shared.killed.push(token);
        }
    }
    if is_ended(context.session) {
        context.session.closing = true;
    }
}

/// Disconnects the subscribers of a user that has changed, if they subscribe to something which it may not any more.
pub(crate) fn disconnect_subscribers(context: &mut Context<'_, '_>, name: &[u8]) {
    let Some(user) = context.shared.acl.user(name).cloned() else { return };
    disconnect(context, |session| {
        session.user == name
            && Topic::ALL.iter().any(|&topic| {
                let is_pattern = topic == Topic::Pattern;
                let mut names = session.subscriptions.of(topic).iter();
                names.any(|channel| !user.has_channel(channel, is_pattern))
            })
    });
}
