//! What the commands share that wait for a key: BLPOP and its kin.

use crate::args::{Args, Kept};
use crate::command::Context;
use crate::failure::Failure;
use crate::float::parse_seconds_as_ms;
use crate::format::Kind;
use crate::reply::Reply;
use crate::waiting::Wait;

/// The reply to a command that finds nothing and may not wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Absent {
    /// No value.
    Null,
    /// No array.
    NullArray,
}

impl Absent {
    /// Replies.
    fn reply(self, reply: &mut Reply) {
        match self {
            Absent::Null => reply.null(),
            Absent::NullArray => reply.null_array(),
        }
    }
}

/// How long to wait at most, in milliseconds; `None`: without end.
pub(super) fn timeout(context: &Context<'_, '_>, text: &[u8]) -> Result<Option<u64>, Failure> {
    if context.session.served.is_some() {
        // It was checked when the wait began, and is not needed.
        return Ok(None);
    }
    let ms = parse_seconds_as_ms(text).ok_or("ERR timeout is not a float or out of range")?;
    let ms = u64::try_from(ms).map_err(|_| "ERR timeout is negative")?;
    Ok((ms > 0).then_some(ms))
}

/// The keys that a command looks at, of those that it names: all of them, or the one that has become ready for it.
pub(super) fn keys_to_try<'a>(context: &Context<'_, '_>, keys: &[&'a [u8]]) -> Vec<&'a [u8]> {
    let is_tried = |key: &&&[u8]| context.session.served.as_deref().is_none_or(|one| one == **key);
    keys.iter().filter(is_tried).copied().collect()
}

/// Has the client wait until one of the keys is of the kind, and the command is executed again; or replies at once that
/// nothing is there, where it may not wait. It must not have changed or replied anything.
pub(super) fn wait(
    context: &mut Context<'_, '_>,
    args: Args<'_>,
    (kind, keys): (Kind, &[&[u8]]),
    (timeout_ms, absent): (Option<u64>, Absent),
    reply: &mut Reply,
) {
    if !wait_with(context, Kept::new(args), (kind, keys, false), timeout_ms) {
        absent.reply(reply);
    }
}

/// Has the client wait, to execute that command then; false: it may not wait. `needs_key`: the wait ends with an error when
/// one of the keys is no longer of the kind.
pub(super) fn wait_with(
    context: &mut Context<'_, '_>,
    command: Kept,
    (kind, keys, needs_key): (Kind, &[&[u8]], bool),
    timeout_ms: Option<u64>,
) -> bool {
    let session = &mut *context.session;
    if session.executing || !session.may_wait {
        return false;
    }
    let deadline_ms = timeout_ms.map(|ms| context.shared.clock.steady_ms.saturating_add(ms));
    session.waits_for = Some(Box::new(Wait {
        command,
        kind,
        db: session.db,
        keys: keys.iter().map(|key| key.to_vec()).collect(),
        deadline_ms,
        needs_key,
    }));
    true
}
