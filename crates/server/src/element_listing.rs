//! SMEMBERS, HGETALL, HKEYS and HVALS of a large collection, and long ranges of sorted sets: elements are read some a turn in a
//! snapshot, while other clients are served.
//!
//! As with a [search for keys](crate::key_search), the client's commands behind it wait, and what is replied is of one version,
//! which is synced with the turn in which it begins.

use std::ops::Bound;

use tembo_kv::{Direction, Keyspace, Snapshot, Value};

use crate::failure::Failure;
use crate::format::{
    ELEMENT_PREFIX_SIZE, Part, UnknownLayout, decode_field, element_prefix, score_from_order,
};
use crate::reply::Reply;

/// Elements that are read in a turn for one client.
pub(crate) const READ_AT_ONCE: usize = 2048;

/// Bytes, after which no further element is read in the turn.
pub(crate) const BYTES_AT_ONCE: usize = 1 << 20;

/// What is replied of an element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shown {
    /// The member of a set.
    Members,
    /// The field of a hash.
    Fields,
    /// The value of a field.
    Values,
    /// A field and its value.
    Both,
    /// The element of a list.
    Elements,
    /// The member of a sorted set in the order of scores, and its score, if it is asked for: in RESP3 each with its own.
    Scored { with_scores: bool, resp3: bool },
}

impl Shown {
    /// Begins the reply of so many elements.
    pub(crate) fn begin(self, count: usize, reply: &mut Reply) {
        match self {
            Shown::Members => reply.set(count),
            Shown::Fields | Shown::Values | Shown::Elements => reply.array(count),
            Shown::Both => reply.map(count),
            Shown::Scored { with_scores: true, resp3: false } => reply.array(count * 2),
            Shown::Scored { .. } => reply.array(count),
        }
    }

    /// Replies with a field.
    pub(crate) fn field(self, field: &[u8], value: Value<'_>, reply: &mut Reply) {
        if self != Shown::Values {
            reply.bulk(field);
        }
        if self != Shown::Fields {
            reply.bulk_value(value);
        }
    }

    /// Replies with a member of a set or sorted set.
    pub(crate) fn member(self, member: &[u8], score: f64, reply: &mut Reply) {
        match self {
            Shown::Scored { .. } => self.scored(member, score, reply),
            _ => reply.bulk(member),
        }
    }

    /// Replies with a member of a sorted set.
    pub(crate) fn scored(self, member: &[u8], score: f64, reply: &mut Reply) {
        let Shown::Scored { with_scores, resp3 } = self else { return };
        if with_scores && resp3 {
            reply.array(2);
        }
        reply.bulk(member);
        if with_scores {
            reply.double(score);
        }
    }
}

/// Visits an element by its name: what follows the prefix of its key. False: no other.
type VisitListed<'v> = dyn FnMut(&[u8], Value<'_>) -> Result<bool, UnknownLayout> + 'v;

/// Elements by their keys. Fields that have expired are among them.
pub(crate) struct Listed {
    from: Vec<u8>,
    /// Before this key they end.
    to: Vec<u8>,
    direction: Direction,
    /// How many of them at most.
    most: u64,
}

impl Listed {
    /// The main part of a collection with an id.
    pub(crate) fn all(id: u64) -> Listed {
        Listed::between((id, Part::Main), (&[], None), Direction::Forward, u64::MAX)
    }

    /// Those of a part of it whose keys, without the prefix, lie between two; at most so many.
    pub(crate) fn between(
        (id, part): (u64, Part),
        (from, to): (&[u8], Option<&[u8]>),
        direction: Direction,
        most: u64,
    ) -> Listed {
        let prefix = element_prefix(id, part);
        let mut behind = prefix;
        behind[ELEMENT_PREFIX_SIZE - 1] += 1;
        let key = |rest: &[u8]| [&prefix[..], rest].concat();
        Listed { from: key(from), to: to.map_or(behind.to_vec(), key), direction, most }
    }

    /// Visits some of them in a snapshot, until `visit` returns false; true: there are no more.
    ///
    /// # Errors
    /// Damage; what `visit` does not know.
    pub(crate) fn read(
        &mut self,
        (snapshot, space): (&Snapshot, Keyspace),
        visit: &mut VisitListed<'_>,
    ) -> Result<bool, Failure> {
        let Listed { from, to, direction, most } = self;
        if *most == 0 || from >= to {
            return Ok(true);
        }
        let (mut left, mut last, mut is_sound) = (READ_AT_ONCE, None, true);
        let range = (Bound::Included(&from[..]), Bound::Excluded(&to[..]));
        snapshot.range_with::<[u8]>(space, range, *direction, &mut |key, value| {
            let goes_on = visit(key.get(ELEMENT_PREFIX_SIZE..).unwrap_or_default(), value);
            is_sound = goes_on.is_ok();
            (left, *most) = (left - 1, *most - 1);
            let pauses = left == 0 || !goes_on.unwrap_or(false);
            if pauses {
                last = Some(key.to_vec());
            }
            !pauses && *most > 0
        })?;
        if !is_sound {
            return Err(Failure::UnknownLayout);
        }
        let Some(mut last) = last else { return Ok(true) };
        match direction {
            Direction::Forward => {
                last.push(0);
                *from = last;
            }
            Direction::Backward => *to = last,
        }
        Ok(*most == 0)
    }
}

/// A listing under way.
pub(crate) struct ElementListing {
    snapshot: Snapshot,
    space: Keyspace,
    /// Those that are still to be read.
    rest: Listed,
    shown: Shown,
    /// Fields that had expired when it began are left out.
    now_ms: u64,
    found: Reply,
    count: usize,
}

impl ElementListing {
    /// Of elements that are in a keyspace, at a time. `found` takes them, and has so many before them.
    pub(crate) fn new(
        (snapshot, space): (Snapshot, Keyspace),
        rest: Listed,
        (shown, now_ms): (Shown, u64),
        (found, count): (Reply, usize),
    ) -> ElementListing {
        ElementListing { snapshot, space, rest, shown, now_ms, found, count }
    }

    /// Reads some more elements; true: it has come to its end.
    ///
    /// # Errors
    /// Damage; an element that another server has written.
    pub(crate) fn advance(&mut self) -> Result<bool, Failure> {
        let ElementListing { snapshot, space, rest, shown, now_ms, found, count } = self;
        let bytes_max = found.waiting() + BYTES_AT_ONCE;
        let has_ended = rest.read((snapshot, *space), &mut |name, value| {
            *count += usize::from(show(name, value, (*shown, *now_ms), found)?);
            Ok(found.waiting() < bytes_max && !found.is_overflown())
        })?;
        Ok(has_ended || found.is_overflown())
    }

    /// What was found so far.
    pub(crate) fn found(&self) -> &Reply {
        &self.found
    }

    /// Replies with what was found.
    pub(crate) fn reply(self, reply: &mut Reply) {
        reply.headed(self.found, |header| self.shown.begin(self.count, header));
    }
}

/// Shows an element; false: it has expired.
fn show(
    name: &[u8],
    value: Value<'_>,
    (shown, now_ms): (Shown, u64),
    found: &mut Reply,
) -> Result<bool, UnknownLayout> {
    match shown {
        Shown::Members => found.bulk(name),
        Shown::Elements => found.bulk_value(value),
        Shown::Scored { .. } => {
            let (order, member) = name.split_first_chunk().ok_or(UnknownLayout)?;
            shown.scored(member, score_from_order(*order), found);
        }
        Shown::Fields | Shown::Values | Shown::Both => {
            return show_field(name, value, (shown, now_ms), found);
        }
    }
    Ok(true)
}

/// Shows a field of a hash; false: it has expired.
fn show_field(
    name: &[u8],
    value: Value<'_>,
    (shown, now_ms): (Shown, u64),
    found: &mut Reply,
) -> Result<bool, UnknownLayout> {
    let (expiry_ms, value) = decode_field(value)?;
    if expiry_ms.is_some_and(|expiry_ms| expiry_ms < now_ms) {
        return Ok(false);
    }
    shown.field(name, value, found);
    Ok(true)
}
