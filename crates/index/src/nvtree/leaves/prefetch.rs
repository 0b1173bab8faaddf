//! The prefetch of a single change.
//!
//! A processor goes on behind a fence with what comes next, and so a change could look for its leaf while the fence of the change
//! before is under way. But no store leaves the processor before that fence is done, and there is room for some sixty. A store
//! and an index keep about as much on the stack before some changes come to their search: then it begins when the fence is done,
//! and the time that memory takes to bring the leaf is added to the time of the fence.
//!
//! ```text
//!   fence of change 1 ├──────────────┤
//!   prefetch            ├──────────────┤                what change 2 reads is near when it may go on
//!   sixty stores            ├─┤        ├ change 2, fence
//!
//!   fence of change 1 ├──────────────┤
//!   sixty stores        ├─┤
//!   search                           ├──────────────┤ change 2, fence
//! ```
//! So what makes a single change calls [`prefetch_single`](crate::VersionedIndex::prefetch_single) as early as it can, and hands over
//! the place that this finds, so that nothing is searched twice. A put that is not scattered comes to its own search soon enough: for
//! that, this would be only more instructions. These functions are not inlined, so that they need few stores.

use super::hash_directory::Listed;
use super::{Leaves, Reached, Wanted};
use crate::Place;
use crate::nvtree::format::Line;
use crate::nvtree::leaf::{Leaf, Slots, line, place_of, print, read_element};

impl Leaves {
    /// Looks for the leaf of a key of eight bytes by these as a number, and asks the processor for what a change reads there first.
    #[inline(never)]
    pub(crate) fn prefetch_word(&self, head: u64, hash: u64) -> Place {
        let Some((inner, (id, token))) =
            self.whole_inner().and_then(|inner| Some((inner, inner.find_by_front(head)?)))
        else {
            return Place::default();
        };
        if let Some(side) = self.forest.leaves.get(id as usize) {
            side.prefetch();
            let leaf = Leaf { forest: &self.forest, id, side };
            let line = line(hash, leaf.lines());
            leaf.prefetch_line(line);
            // If its line is full, an element lies in the next line.
            leaf.prefetch_line(line + 1);
        }
        inner.place(id, token)
    }

    /// As `prefetch_word`, for a key that is longer than a word: asks for its record too.
    #[inline(never)]
    pub(crate) fn prefetch_long(&self, key: &[u8]) -> Place {
        let wanted = Wanted::new(key);
        let Some((inner, (id, token))) = self
            .whole_inner()
            .and_then(|inner| Some((inner, inner.find_by_heads(key, wanted.head)?)))
        else {
            return Place::default();
        };
        if let Some(look) = self.begin_look(id, wanted.hash) {
            ask_for_record(look, wanted.hash);
        }
        inner.place(id, token)
    }

    /// As `prefetch_word`, for a scattered key: without a place, for the directory is asked again as quickly.
    #[inline(never)]
    pub(crate) fn prefetch_scattered(&self, head: u64, hash: u64) {
        if let Some(directory) = self.directory.as_deref()
            && let Listed::Leaf(id, _) = directory.find(head)
            && let Some(side) = self.forest.leaves.get(id as usize)
        {
            side.prefetch_first();
            let leaf = Leaf { forest: &self.forest, id, side };
            leaf.prefetch_line(line(hash, leaf.lines()));
        }
    }

    /// The leaf at a place that was found before, else by the fastest way. `None`: that way does not lead there at this moment.
    #[inline(always)]
    pub(crate) fn leaf_from<const SCATTERED: bool>(
        &self,
        place: Place,
        wanted: Wanted<'_>,
    ) -> Option<Reached<'_>> {
        if SCATTERED {
            return self.leaf_fast::<true>(wanted);
        }
        match place.is_known() {
            true => self.leaf_at(place, wanted),
            false => self.leaf_unsought(wanted),
        }
    }

    #[inline(never)]
    fn leaf_unsought(&self, wanted: Wanted<'_>) -> Option<Reached<'_>> {
        self.leaf_at_once(wanted)
    }
}

/// Asks the processor for the record of the first element that has the fingerprint of a key with that hash. What this reads may be
/// torn.
#[inline(always)]
fn ask_for_record((leaf, lines): (Leaf<'_>, &[Line]), hash: u64) {
    leaf.side.prefetch_rest();
    let matching = leaf.side.bytes().0.equal(print(hash)) & leaf.all_slots();
    if let Some((number, at)) = Slots(matching).first().map(place_of)
        && let Some(line) = lines.get(number)
        && let Some(record) = read_element(line, at).record()
    {
        leaf.region().prefetch(record.offset());
    }
}
