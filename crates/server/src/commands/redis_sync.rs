//! SYNC and PSYNC: a server of Redis becomes a replica of this one.

use crate::access::Access;
use crate::args::Args;
use crate::command::{ADMIN, Command, Context, NO_MULTI};
use crate::commands::argument::integer;
use crate::failure::Outcome;
use crate::replication::Wish;
use crate::reply::Reply;

/// The family.
pub(super) const COMMANDS: &[Command] = &[
    Command::new("psync", -3, ADMIN | NO_MULTI, psync),
    Command::new("sync", 1, ADMIN | NO_MULTI, sync),
];

fn sync(context: &mut Context<'_, '_>, _: Args<'_>, _: &mut Reply) -> Outcome {
    follow(context, None, false)
}

/// `PSYNC id byte`: from that byte of the stream on, if it is that stream and still has it; else all.
fn psync(context: &mut Context<'_, '_>, args: Args<'_>, _: &mut Reply) -> Outcome {
    if args.count() > 3 {
        // FAILOVER: the offsets of a server of Redis are not those of this one.
        return Err(
            "ERR PSYNC FAILOVER is not supported: a server of Redis cannot hand its place over"
                .into(),
        );
    }
    let byte = u64::try_from(integer(args.at(2))?).ok();
    let id = String::from_utf8_lossy(args.at(1)).into_owned();
    follow(context, byte.map(|byte| (id, byte)), true)
}

/// What is sent from here on is no reply.
fn follow(context: &mut Context<'_, '_>, held: Option<(String, u64)>, has_reply: bool) -> Outcome {
    if !context.session.can_be_fed() {
        return Err("ERR the connection cannot be a replica's".into());
    }
    if context.data.access() != Access::Open {
        return Err("ERR a server of Redis can only follow a primary".into());
    }
    let session = &mut *context.session;
    let wish = Wish { held, has_reply, takes_unsized: has_reply && session.takes_unsized };
    context.shared.replication.feed_stream_later(session.token, wish);
    session.become_replica();
    Ok(())
}
