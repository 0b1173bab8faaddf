//! SMEMBERS, HGETALL, HKEYS and HVALS of a large collection: its elements are read some a turn in a snapshot, while other
//! clients are served.
//!
//! As with a [search for keys](crate::key_search), the client's commands behind it wait, and what is replied is of one version,
//! which is synced with the turn in which it begins.

use std::ops::Bound;

use tembo_kv::{Direction, Keyspace, Snapshot, Value};

use crate::failure::Failure;
use crate::format::{ELEMENT_PREFIX_SIZE, Part, UnknownLayout, decode_field, element_prefix};
use crate::reply::Reply;

/// Elements that are read in a turn for one client.
pub(crate) const READ_AT_ONCE: usize = 2048;

/// Bytes, after which no further element is read in the turn.
const BYTES_AT_ONCE: usize = 1 << 20;

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
}

impl Shown {
    /// Begins the reply of so many elements.
    pub(crate) fn begin(self, count: usize, reply: &mut Reply) {
        match self {
            Shown::Members => reply.set(count),
            Shown::Fields | Shown::Values => reply.array(count),
            Shown::Both => reply.map(count),
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
}

/// A listing under way.
pub(crate) struct ElementListing {
    snapshot: Snapshot,
    space: Keyspace,
    /// The key from which it goes on, and that before which it ends.
    from: Vec<u8>,
    to: Vec<u8>,
    shown: Shown,
    /// Fields that had expired when it began are left out.
    now_ms: u64,
    found: Reply,
    count: usize,
}

impl ElementListing {
    /// Of the collection with an id whose elements are in a keyspace, at a time. `found` takes the elements.
    pub(crate) fn new(
        (snapshot, space): (Snapshot, Keyspace),
        id: u64,
        (shown, now_ms): (Shown, u64),
        found: Reply,
    ) -> ElementListing {
        let from = element_prefix(id, Part::Main).to_vec();
        let mut to = from.clone();
        to[ELEMENT_PREFIX_SIZE - 1] += 1;
        ElementListing { snapshot, space, from, to, shown, now_ms, found, count: 0 }
    }

    /// Reads some more elements; true: it has come to its end.
    ///
    /// # Errors
    /// Damage; an element that another server has written.
    pub(crate) fn advance(&mut self) -> Result<bool, Failure> {
        let ElementListing { snapshot, space, from, to, shown, now_ms, found, count } = self;
        let (mut left, mut last, mut is_sound) = (READ_AT_ONCE, None, true);
        let bytes_max = found.waiting() + BYTES_AT_ONCE;
        let range = (Bound::Included(&from[..]), Bound::Excluded(&to[..]));
        snapshot.range_with::<[u8]>(*space, range, Direction::Forward, &mut |key, value| {
            let name = key.get(ELEMENT_PREFIX_SIZE..).unwrap_or_default();
            match show(name, value, (*shown, *now_ms), found) {
                Ok(is_there) => *count += usize::from(is_there),
                Err(UnknownLayout) => is_sound = false,
            }
            left -= 1;
            let pauses = left == 0 || found.waiting() >= bytes_max;
            if pauses {
                last = Some(key.to_vec());
            }
            !pauses && is_sound && !found.is_overflown()
        })?;
        if !is_sound {
            return Err(Failure::UnknownLayout);
        }
        let Some(mut last) = last else { return Ok(true) };
        last.push(0);
        *from = last;
        Ok(found.is_overflown())
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
    if shown == Shown::Members {
        found.bulk(name);
        return Ok(true);
    }
    let (expiry_ms, value) = decode_field(value)?;
    if expiry_ms.is_some_and(|expiry_ms| expiry_ms < now_ms) {
        return Ok(false);
    }
    shown.field(name, value, found);
    Ok(true)
}
