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

use std::sync::atomic::{AtomicBool, Ordering};

use crate::nvtree::leaf::{Slots, all_slots, place_of, print, read_of};
use crate::nvtree::leaves::{Reached, Wanted};
use crate::record::read_unverified;
use crate::{Value, ValueRoom};

/// The newest value of the key in the leaf that was reached, if a version sees all of the leaf; `None`: it takes a pin. A value
/// for which there is no room is noted, so that the next reader does not search twice.
#[inline(never)]
pub(crate) fn copy_newest<'r>(
    Reached { leaf, lines, moment }: &Reached<'_>,
    wanted: Wanted<'_>,
    version: u64,
    (room, reads_long): (&'r mut ValueRoom, &AtomicBool),
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
        let element = read_of(line, at, placed.word, placed.shape);
        let Some(element) = element.filter(|element| element.may_be_of(wanted.hash)) else {
            continue;
        };
        let record = element.record();
        if record.is_some_and(|record| leaf.forest.verified.is_owed(record)) {
            return None;
        }
        let value = match (placed.shape.key_len(), record) {
            (None, Some(record)) => {
                let (key, value) = read_unverified(leaf.forest, record).ok()?;
                if !key.eq_bytes(placed.key) {
                    continue;
                }
                Value::in_pool(value)
            }
            _ => leaf.value(&element).ok()?,
        };
        found = value.copied(room);
        if found.is_none() {
            reads_long.store(true, Ordering::Relaxed);
            return None;
        }
        break;
    }
    leaf.side.still(*moment).then_some(found)
}
