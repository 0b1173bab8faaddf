//! The key of a collection that has no elements any more, or is replaced by none.

use crate::command::Context;
use crate::event_class::Classes;
use crate::failure::Outcome;
use crate::notify::notify;

/// Removes a key of the client's database, and publishes that.
pub(super) fn remove(context: &mut Context<'_, '_>, key: &[u8]) -> Outcome {
    if context.data.remove(context.session.db, key)? {
        notify(context, Classes::GENERIC, "del", key);
    }
    Ok(())
}
