//! Large collections are listed in later turns.

use crate::command::Context;
use crate::element_listing::{ElementListing, READ_AT_ONCE, Shown};
use crate::failure::Outcome;
use crate::put_off::PutOff;
use crate::reply::Reply;

/// A collection of no more elements is listed in the turn itself.
const AT_ONCE_MAX: u64 = 2 * READ_AT_ONCE as u64;

/// The id of a collection whose elements are listed in later turns: one with many, of a client that can wait. `large`: the id and
/// the elements of a large one.
pub(super) fn put_off(may_list_later: bool, large: Option<(u64, u64)>) -> Option<u64> {
    large.filter(|(_, count)| may_list_later && *count > AT_ONCE_MAX).map(|(id, _)| id)
}

/// Lists the elements of that collection of the client's database in later turns.
pub(super) fn list_later(
    context: &mut Context<'_, '_>,
    id: u64,
    shown: Shown,
    reply: &Reply,
) -> Outcome {
    let now_ms = context.data.now_ms();
    let snapshot = context.data.commit_early()?.snapshot()?;
    let space = context.data.spaces.elements[context.session.db];
    let listing = ElementListing::new((snapshot, space), id, (shown, now_ms), reply.apart());
    context.put_off(PutOff::Elements(listing));
    Ok(())
}
