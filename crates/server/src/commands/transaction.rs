//! MULTI, EXEC, DISCARD, WATCH, UNWATCH.

use crate::args::Args;
use crate::command::{Command, Context, FAST, NOT_QUEUED, SESSION};
use crate::dispatch::{execute_queued, lookup};
use crate::failure::{Failure, Outcome};
use crate::permission::{Place, refusal};
use crate::reply::Reply;
use crate::session::Multi;

/// The family.
pub(super) const COMMANDS: &[Command] = &[
    Command::new("multi", 1, FAST | NOT_QUEUED | SESSION, multi),
    Command::new("exec", 1, NOT_QUEUED, exec),
    Command::new("discard", 1, FAST | NOT_QUEUED | SESSION, discard),
    Command::keyed("watch", -2, FAST | NOT_QUEUED | SESSION, (1, -1, 1), watch),
    Command::new("unwatch", 1, FAST | SESSION, unwatch),
];

fn multi(context: &mut Context<'_, '_>, _: Args<'_>, reply: &mut Reply) -> Outcome {
    if context.session.multi.is_some() {
        return Err("ERR MULTI calls can not be nested".into());
    }
    context.session.multi = Some(Box::default());
    reply.ok();
    Ok(())
}

fn exec(context: &mut Context<'_, '_>, _: Args<'_>, reply: &mut Reply) -> Outcome {
    let Some(multi) = context.session.multi.take() else {
        return Err("ERR EXEC without MULTI".into());
    };
    let spoiled = is_spoiled(context);
    context.unwatch_all();
    if multi.failed {
        return Err("EXECABORT Transaction discarded because of previous errors.".into());
    }
    if spoiled {
        reply.null_array();
        return Ok(());
    }
    let Multi { queue, .. } = *multi;
    reply.array(queue.len());
    context.session.executing = true;
    // What the turn has written before gets the next version, which no replica has.
    let written = u64::from(context.data.has_written());
    context.session.wait_goal.version = context.data.store().visible() + written;
    let mut done = Ok(());
    for queued in &queue {
        if !context.session.unrestricted
            && let Some(found) = lookup(context.table, queued.args())
            && let Some(text) = refusal(context, found, queued.args(), Place::Transaction)
        {
            context.shared.stats.errors += 1;
            reply.error(&text);
            continue;
        }
        done = execute_queued(context, queued.args(), reply);
        if done.is_err() {
            break;
        }
    }
    context.session.executing = false;
    done.map_err(Failure::Turn)
}

/// Whether a watched key was touched or has expired.
fn is_spoiled(context: &Context<'_, '_>) -> bool {
    let now_ms = context.data.now_ms();
    context.data.watches.is_dirty(context.session.id)
        || context.session.watched.values().any(|&expiry_ms| expiry_ms < now_ms)
}

fn discard(context: &mut Context<'_, '_>, _: Args<'_>, reply: &mut Reply) -> Outcome {
    if context.session.multi.take().is_none() {
        return Err("ERR DISCARD without MULTI".into());
    }
    context.unwatch_all();
    reply.ok();
    Ok(())
}

fn watch(context: &mut Context<'_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    if context.session.multi.is_some() {
        return Err("ERR WATCH inside MULTI is not allowed".into());
    }
    let db = context.session.db;
    for key in args.from(1) {
        let place = (db, key.to_vec());
        if context.session.watched.contains_key(&place) {
            continue;
        }
        let found = context.data.find(db, key)?.map(|value| value.expiry_ms);
        context.data.watches.add(db, key, context.session.id, found.is_none());
        let expiry_ms = found.flatten().unwrap_or(u64::MAX);
        context.session.watch(place, expiry_ms);
    }
    reply.ok();
    Ok(())
}

fn unwatch(context: &mut Context<'_, '_>, _: Args<'_>, reply: &mut Reply) -> Outcome {
    context.unwatch_all();
    reply.ok();
    Ok(())
}
