//! Looking up several keys at once: a step of all of them before the next step of any, so that what each would wait for in
//! memory, or from the disk, comes for all of them at once.
//!
//! ```text
//!   inner nodes    a level for all keys, then the next level
//!   leaves         asked for, all of them; then looked at
//!   records        asked for, all of them; then read
//! ```
//! If a search is obstructed (by inner nodes that are not whole, or a leaf that a writer changes), its key is looked for
//! alone, after the others of its group.

use super::lookup::{lookup, prefetch_record};
use crate::nvtree::fast::look_fast;
use crate::nvtree::leaf::{Slots, place_of, print, read};
use crate::nvtree::leaves::{Leaves, Reached, Wanted};
use crate::{Error, Value, View};

/// Keys of a group. Processors wait for about so many lines at once.
const GROUP: usize = 16;

/// Adds the value of each key that the view sees, in the order of the keys. `SCATTERED`: the tree is sorted by hash.
pub(crate) fn lookup_many<'f, const SCATTERED: bool>(
    leaves: &'f Leaves,
    keys: &[&[u8]],
    view: View<'_>,
    values: &mut Vec<Option<Value<'f>>>,
) -> Result<(), Error> {
    values.reserve(keys.len());
    let most = keys.len().min(GROUP);
    let (mut wanted, mut reached) = (Vec::with_capacity(most), Vec::with_capacity(most));
    for keys in keys.chunks(GROUP) {
        wanted.clear();
        wanted.extend(keys.iter().map(|key| Wanted::new(key)));
        reached.clear();
        leaves.reach_abreast::<SCATTERED>(&wanted, &mut reached);
        let mut looked = [None; GROUP];
        for ((looked, &wanted), reached) in looked.iter_mut().zip(&wanted).zip(&reached) {
            let Some(reached) = *reached else { continue };
            *looked = look_fast(reached, wanted, view.version);
            if looked.is_none() {
                prefetch_records(reached, wanted);
            }
        }
        for ((looked, &wanted), &reached) in looked.into_iter().zip(&wanted).zip(&reached) {
            values.push(match looked {
                Some(value) => value,
                None => lookup(leaves, wanted, reached, view)?,
            });
        }
    }
    Ok(())
}

/// Prefetches the records that may have the key.
fn prefetch_records(Reached { leaf, lines, .. }: Reached<'_>, wanted: Wanted<'_>) {
    let (bytes, _) = leaf.side.bytes();
    for slot in Slots(bytes.equal(print(wanted.hash)) & leaf.all_slots()) {
        let (number, at) = place_of(slot);
        let Some(line) = lines.get(number) else { continue };
        let (element, _) = read(line, at);
        if element.may_be_of(wanted.hash)
            && let Some(record) = element.record()
        {
            prefetch_record(leaf.region(), record);
        }
    }
}
