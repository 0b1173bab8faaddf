//! Large collections are listed in later turns.

use std::ops::Range;

use tembo_kv::{Direction, Keyspace, Snapshot};

use crate::command::Context;
use crate::element_listing::{ElementListing, Listed, READ_AT_ONCE, Shown};
use crate::failure::{Failure, Outcome};
use crate::format::{Part, Spread, position_order};
use crate::put_off::PutOff;
use crate::reply::Reply;
use crate::snapshot_values::SnapshotValues;
use crate::strip_listing::{Positions, StripListing};

/// No more elements are listed in the turn itself.
pub(super) const AT_ONCE_MAX: u64 = 2 * READ_AT_ONCE as u64;

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
    go_on_later(context, Listed::all(id), shown, (reply.apart(), 0))
}

/// Lists these elements of the client's database in later turns, behind so many that were found.
pub(super) fn go_on_later(
    context: &mut Context<'_, '_>,
    rest: Listed,
    shown: Shown,
    found: (Reply, usize),
) -> Outcome {
    let now_ms = context.data.now_ms();
    let listing = ElementListing::new(snapshot(context)?, rest, (shown, now_ms), found);
    context.put_off(PutOff::Elements(listing));
    Ok(())
}

/// Lists the elements in a range of indices of a large list of the client's database in later turns.
pub(super) fn list_range_later(
    context: &mut Context<'_, '_>,
    head: (Spread, bool),
    range: &Range<u64>,
    reply: &Reply,
) -> Outcome {
    match list_part(head, range) {
        ListPart::Elements(rest) => go_on_later(context, rest, Shown::Elements, (reply.apart(), 0)),
        ListPart::Strips(rest) => {
            let listing = StripListing::new(snapshot(context)?, rest, reply.apart());
            context.put_off(PutOff::Strips(listing));
            Ok(())
        }
    }
}

/// Elements of a large list.
pub(super) enum ListPart {
    /// Each for itself.
    Elements(Listed),
    /// In strips.
    Strips(Positions),
}

/// The elements in a range of indices of a large list: of its head, and whether they lie in strips.
pub(super) fn list_part((head, in_strips): (Spread, bool), range: &Range<u64>) -> ListPart {
    let position = |index: u64| head.first.wrapping_add(index as i64);
    let (next, count) = (position(range.start), range.end - range.start);
    if in_strips {
        return ListPart::Strips(Positions { id: head.id, first: head.first, next, count });
    }
    let (from, to) = (position_order(next), position_order(position(range.end)));
    let part = (head.id, Part::Main);
    ListPart::Elements(Listed::between(part, (&from, Some(&to)), Direction::Forward, u64::MAX))
}

/// A snapshot of all that was written so far, and the keyspace of the elements of the client's database.
pub(super) fn snapshot(context: &mut Context<'_, '_>) -> Result<(Snapshot, Keyspace), Failure> {
    let snapshot = context.commit_early()?.snapshot()?;
    Ok((snapshot, context.data.spaces.elements[context.session.db]))
}

/// The client's database as it is.
pub(super) fn snapshot_values(context: &mut Context<'_, '_>) -> Result<SnapshotValues, Failure> {
    let (snapshot, elements) = snapshot(context)?;
    let (data, now_ms) = (context.data.space(context.session.db), context.data.now_ms());
    Ok(SnapshotValues { snapshot, data, elements, now_ms })
}
