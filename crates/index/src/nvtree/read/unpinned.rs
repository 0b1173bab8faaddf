//! Reading a value without a pin of its version: the value is copied, and then the leaf's sequence shows whether the leaf
//! has changed meanwhile.
//!
//! # Why the copy is sound
//! A record is given up when the element that owns it leaves its leaf: under the leaf's lock, and so in another sequence.
//! So if the sequence is the same before the element was read and after the record was copied, the record was the
//! element's all that time. The leaf does not change when its tree is given up, or by a rollback: the caller asks after
//! the copy whether the tree is still its own. Until then nothing of the copy is believed. The space may belong to another
//! object, whose bytes change; so lengths are compared with that of the object, and an error does not count. Records that were
//! there at the opening and were not verified are left to readers with a pin.

use crate::nvtree::format::LINE_SIZE;
use crate::nvtree::leaf::{Slots, place_of, print, read_of};
use crate::nvtree::leaves::{Leaves, Reached, Wanted};
use crate::record::{ask_for_record, read_unverified};
use crate::{Value, ValueRoom};

/// The newest value of a key that is longer than a word, by one search and one look at the leaf. Otherwise as
/// [`copy_newest`].
#[inline(never)]
pub(crate) fn copy_long<'r, const SCATTERED: bool>(
    leaves: &Leaves,
    key: &[u8],
    version: u64,
    room: &'r mut ValueRoom,
) -> Option<Option<Value<'r>>> {
    let wanted = Wanted::new(key);
    let reached = leaves.leaf_fast::<SCATTERED>(wanted)?;
    copy(reached, wanted, version, room)
}

/// The newest value of the key in the leaf that was reached, if the view sees all of the leaf. `None`: the read needs a pin.
#[inline(never)]
pub(crate) fn copy_newest<'r>(
    reached: &Reached<'_>,
    wanted: Wanted<'_>,
    version: u64,
    room: &'r mut ValueRoom,
) -> Option<Option<Value<'r>>> {
    copy(*reached, wanted, version, room)
}

#[inline(always)]
fn copy<'r>(
    Reached { leaf, lines, moment }: Reached<'_>,
    wanted: Wanted<'_>,
    version: u64,
    room: &'r mut ValueRoom,
) -> Option<Option<Value<'r>>> {
    if leaf.side.newest() > version {
        return None;
    }
    let (bytes, traits) = leaf.side.bytes();
    let placed = leaf.place(wanted.key, traits).ok()?;
    let mut matching = Slots(bytes.equal(print(wanted.hash)) & leaf.all_slots());
    let found = matching.find_map(|slot| {
        let (number, at) = place_of(slot);
        let element = read_of(lines.get(number)?, at, placed.word, placed.shape);
        element.filter(|element| element.may_be_of(wanted.hash))
    });
    let Some(element) = found else { return leaf.side.still(moment).then_some(None) };
    let record = element.record();
    if record.is_some_and(|record| leaf.forest.verified.is_owed(record)) {
        return None;
    }
    record.inspect(|&record| ask_for_record(leaf.region(), record));
    let value = match (placed.shape.key_len(), record) {
        (None, Some(record)) => {
            if record.size() > LINE_SIZE {
                // The value begins in the first line or the next one: both are fetched before the header says where.
                leaf.region().prefetch(record.offset() + LINE_SIZE);
                leaf.region().prefetch(record.offset() + 2 * LINE_SIZE);
            }
            let (key, value) = read_unverified(leaf.forest, record).ok()?;
            if !key.eq_bytes(placed.key) {
                // Word and hash are those of another key. That is rare, and the search with a pin looks at all candidates.
                return None;
            }
            Value::in_pool(value)
        }
        _ => {
            // These are copies, so that the originals can stay in registers.
            let (leaf, element) = (leaf, element);
            leaf.value(&element).ok()?
        }
    };
    let found = value.copied(room)?;
    leaf.side.still(moment).then_some(Some(found))
}
