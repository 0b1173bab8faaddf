//! LRANGE of many elements of a large list: read some a turn in a snapshot, as the [elements](crate::element_listing) of other
//! collections are.

use std::ops::Bound;

use tembo_kv::{Direction, Keyspace, Snapshot, Value};

use crate::element_listing::{BYTES_AT_ONCE, READ_AT_ONCE};
use crate::failure::Failure;
use crate::format::{
    ELEMENT_PREFIX_SIZE, Part, STRIP_LEN, Strip, StripEntry, UnknownLayout, element_prefix,
    position_order, strip_begin, strip_of,
};
use crate::reply::Reply;

/// Where elements of a list are whose elements lie in strips.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Positions {
    /// The list's id.
    pub(crate) id: u64,
    /// The position of the list's first element.
    pub(crate) first: i64,
    /// The position of the first of the elements.
    pub(crate) next: i64,
    /// How many they are.
    pub(crate) count: u64,
}

impl Positions {
    /// Visits some of the elements in a snapshot, until `visit` returns false; true: there are no more.
    ///
    /// # Errors
    /// Damage; a strip that another server has written.
    pub(crate) fn read(
        &mut self,
        source: (&Snapshot, Keyspace),
        visit: &mut dyn FnMut(Value<'_>) -> bool,
    ) -> Result<bool, Failure> {
        let strips = self.strips(source)?;
        for (number, strip) in (strip_of(self.next)..).zip(&strips) {
            let begin = strip_begin(number).max(self.first);
            let mut entries = Strip::new(strip);
            entries.pass(self.next.wrapping_sub(begin) as usize)?;
            for entry in entries {
                if self.count == 0 {
                    return Ok(true);
                }
                let goes_on = match entry? {
                    StripEntry::Short(bytes) => visit(strip[bytes].into()),
                    StripEntry::Long => visit(self.long(source)?),
                };
                self.next = self.next.wrapping_add(1);
                self.count -= 1;
                if !goes_on {
                    return Ok(self.count == 0);
                }
            }
            if self.count > 0 && self.next != strip_begin(number + 1) {
                return Err(UnknownLayout.into());
            }
        }
        Ok(self.count == 0)
    }

    /// Copies of the next strips.
    fn strips(&self, (snapshot, space): (&Snapshot, Keyspace)) -> Result<Vec<Vec<u8>>, Failure> {
        let Positions { id, next, count, .. } = *self;
        if count == 0 {
            return Ok(Vec::new());
        }
        let (first, last) = (strip_of(next), strip_of(next.wrapping_add(count as i64 - 1)));
        let wanted = (last.abs_diff(first) as usize + 1).min(READ_AT_ONCE / STRIP_LEN);
        let (from, to) = (key(id, Part::Strip, first), key(id, Part::Strip, last));
        let range = (Bound::Included(&from[..]), Bound::Included(&to[..]));
        let mut strips = Vec::with_capacity(wanted);
        let direction = Direction::Forward;
        snapshot.range_with::<[u8]>(space, range, direction, &mut |_, strip| {
            strips.push(strip.to_vec());
            strips.len() < wanted
        })?;
        if strips.len() == wanted { Ok(strips) } else { Err(UnknownLayout.into()) }
    }

    /// The next element, which is not in its strip.
    fn long<'v>(&self, (snapshot, space): (&'v Snapshot, Keyspace)) -> Result<Value<'v>, Failure> {
        let key = key(self.id, Part::Main, self.next);
        Ok(snapshot.get(space, &key)?.ok_or(UnknownLayout)?)
    }
}

/// A listing under way.
pub(crate) struct StripListing {
    snapshot: Snapshot,
    space: Keyspace,
    /// Those that are still to be read.
    rest: Positions,
    found: Reply,
    count: usize,
}

impl StripListing {
    /// Of the elements at these positions, of a list whose elements are in a keyspace. `found` takes them.
    pub(crate) fn new(
        (snapshot, space): (Snapshot, Keyspace),
        rest: Positions,
        found: Reply,
    ) -> StripListing {
        StripListing { snapshot, space, rest, found, count: 0 }
    }

    /// Reads some more elements; true: it has come to its end.
    ///
    /// # Errors
    /// Damage; a strip that another server has written.
    pub(crate) fn advance(&mut self) -> Result<bool, Failure> {
        let StripListing { snapshot, space, rest, found, count } = self;
        let bytes_max = found.waiting() + BYTES_AT_ONCE;
        let has_ended = rest.read((snapshot, *space), &mut |element| {
            found.bulk_value(element);
            *count += 1;
            found.waiting() < bytes_max && !found.is_overflown()
        })?;
        Ok(has_ended || found.is_overflown())
    }

    /// What was found so far.
    pub(crate) fn found(&self) -> &Reply {
        &self.found
    }

    /// Replies with what was found.
    pub(crate) fn reply(self, reply: &mut Reply) {
        reply.array_of(self.count, self.found);
    }
}

/// The key of an element of a list: of a strip by its number, of a long element by its position.
fn key(id: u64, part: Part, number: i64) -> [u8; ELEMENT_PREFIX_SIZE + 8] {
    let mut key = [0; ELEMENT_PREFIX_SIZE + 8];
    key[..ELEMENT_PREFIX_SIZE].copy_from_slice(&element_prefix(id, part));
    key[ELEMENT_PREFIX_SIZE..].copy_from_slice(&position_order(number));
    key
}
