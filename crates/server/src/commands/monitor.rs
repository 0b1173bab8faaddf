//! MONITOR: all commands, shown to a client as they are executed.

use crate::args::Args;
use crate::command::{ADMIN, Command, Context, SESSION};
use crate::failure::Outcome;
use crate::reply::Reply;

/// The family.
pub(super) const COMMANDS: &[Command] = &[Command::new("monitor", 1, ADMIN | SESSION, monitor)];

fn monitor(context: &mut Context<'_, '_>, _: Args<'_>, reply: &mut Reply) -> Outcome {
    context.shared.pubsub.monitor(context.session);
    reply.ok();
    Ok(())
}
