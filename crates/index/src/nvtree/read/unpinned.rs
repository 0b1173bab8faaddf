//! Reading a value without a pin of its version: it is copied, and then the leaf's sequence is asked whether the leaf is
//! what it was before.
//!
//! # Why the copy is sound
//! A record is given up when the element that owns it leaves its leaf: under the leaf's lock, and so in another sequence.
//! So if the sequence is the same before the element was read and after the record was copied, the record was the
//! element's all that time. The leaf does not change when its tree is given up, or by a rollback: the caller asks behind
//! the copy whether the tree is still its own. Until then nothing of it is believed: its space may be another's, whose bytes change, and so
//! lengths are compared with those of the object, and an error is none. What was there at the opening and was not verified
//! is left to readers with a pin.

use crate::nvtree::leaf::{Slots, all_slots, place_of, print, read_of};
use crate::nvtree::leaves::{Reached, Wanted};
use crate::{Value, ValueRoom};

/// The newest value of the key in the leaf that was reached, if a version sees all of the leaf; `None`: it takes a pin.
#[inline(never)]
pub(crate) fn copy_newest<'r>(
    Reached { leaf, lines, moment }: &Reached<'_>,
    wanted: Wanted<'_>,
    version: u64,
    room: &'r mut ValueRoom,
) -> Option<Option<Value<'r>>> {
    if leaf.side.newest() > version {
        return None;
    }
    let (bytes, traits) = leaf.side.bytes();
    let placed = leaf.place(wanted.key, traits).ok()?;
    let mut found = None;
    for slot in Slots(bytes.equal(print(wanted.hash)) & all_slots(lines.len())) {
        let (number, at) = place_of(slot);
        let line = lines.get(number)?;
        let Some(element) = read_of(line, at, placed.word, placed.shape) else { continue };
        if element.record().is_some_and(|record| leaf.forest.verified.is_owed(record)) {
            return None;
        }
        if let Some(value) = leaf.value_of_key(&element, &placed).ok()? {
            found = Some(value.copied(room)?);
            break;
        }
    }
    leaf.side.still(*moment).then_some(found)
}
