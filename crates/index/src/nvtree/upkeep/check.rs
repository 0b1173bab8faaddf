//! The check of a tree: order, ranges, versions and records, in the list, in the histories,
//! in the hint and in the inner nodes.
//!
//! A tree that the check calls sound must be usable: no later operation may report damage. So an
//! element must not only have a key that belongs to its leaf, it must also stand there as a search
//! expects it.

use std::collections::HashSet;

use crate::error::damaged;
use crate::key::KeyBytes;
use crate::nvtree::hint::{hint_directory, hint_page};
use crate::nvtree::history;
use crate::nvtree::image::{LeafImage, NO_SLOT, Seen};
use crate::nvtree::leaf::{LANES, Leaf, Traits, hash};
use crate::nvtree::leaves::Leaves;
use crate::record::{read_record, verify};
use crate::{CheckReport, DeadIntervals, Error, KEY_SIZE_MAX, Retained};

/// The state of a check.
struct Checking<'c> {
    retained: &'c Retained,
    dead: &'c DeadIntervals,
    report: CheckReport,
    /// Records of low keys and history leaves. Each belongs to one leaf only.
    owned: HashSet<u64>,
}

pub(crate) fn verify_tree(
    leaves: &Leaves,
    retained: &Retained,
    dead: &DeadIntervals,
) -> Result<CheckReport, Error> {
    leaves.complete()?;
    let (report, owned) = (CheckReport::default(), HashSet::new());
    let mut checking = Checking { retained, dead, report, owned };
    let mut leaf = Leaf::of(&leaves.forest, leaves.first()?)?;
    if !leaf.low()?.is_empty() {
        return damaged(leaf.offset(), "a first leaf without a low key");
    }
    loop {
        checking.report.leaf_count += 1;
        let (found, _) = leaves.inner()?.find(&leaf.low()?.to_vec(), &*leaves.forest)?;
        if found != leaf.id {
            return damaged(leaf.offset(), "a leaf that is found by its low key");
        }
        checking.leaf(&leaf)?;
        let Some(next) = leaf.following()? else { break };
        leaf = next;
    }
    verify_hint(leaves)?;
    let (inner, mut report) = (leaves.inner()?, checking.report);
    if inner.leaf_count() as u64 != report.leaf_count {
        return damaged(leaves.cell_offset(), "no more leaves than the list has");
    }
    report.inner_count = inner.node_count() as u64;
    report.height = inner.height() as u32 + 1;
    Ok(report)
}

/// Verifies that the leaves of the hint are leaves with these low keys: low keys never change.
fn verify_hint(leaves: &Leaves) -> Result<(), Error> {
    let Some(directory) = hint_directory(&leaves.forest, leaves.cell()?)? else { return Ok(()) };
    for page in &directory.pages {
        let Some(page) = hint_page(&leaves.forest, page)? else { continue };
        verify_hinted(leaves, page.iter())?;
    }
    verify_hinted(leaves, directory.firsts.iter())
}

fn verify_hinted<'h>(
    leaves: &Leaves,
    mut hinted: impl Iterator<Item = (u32, &'h [u8])>,
) -> Result<(), Error> {
    hinted.try_for_each(|(id, low)| {
        let (found, _) = leaves.inner()?.find(low, &*leaves.forest)?;
        let leaf = Leaf::at(&leaves.forest, found)?;
        if found != id || !leaf.low()?.is(low) {
            return damaged(leaf.offset(), "a leaf as the hint says of it");
        }
        Ok(())
    })
}

impl Checking<'_> {
    fn leaf(&mut self, leaf: &Leaf<'_>) -> Result<(), Error> {
        leaf.check()?;
        if leaf.bases()?.iter().any(|&base| base > self.retained.visible()) {
            return damaged(leaf.offset(), "bases of versions that have been");
        }
        if let Some(record) = leaf.low_record()? {
            leaf.forest.pool().valid(record)?;
            verify(leaf.forest, record)?;
        }
        for object in leaf.low_record()?.into_iter().chain(history::chain(leaf)?) {
            leaf.forest.pool().valid(object)?;
            if !self.owned.insert(object.to_bits()) {
                return damaged(object.offset(), "an object of one leaf");
            }
        }
        let range = Range { leaf, low: leaf.low()?, high: leaf.high()? };
        let contents = LeafImage::read(leaf, self.dead)?.with_history(leaf)?;
        for key in contents.keys(leaf) {
            let key = key?;
            self.versions(leaf, key)?;
            let name = leaf.key_of(&key[0].element)?;
            if name.len() > KEY_SIZE_MAX {
                return damaged(leaf.offset(), "keys of at most 65,535 bytes");
            }
            range.holds(&name)?;
            key.iter().try_for_each(|seen| range.is_well_placed(&name, seen))?;
            self.report.entry_count += u64::from(!key[0].meta.is_removed());
        }
        Ok(())
    }

    /// Verifies that the versions of a key fall from element to element.
    fn versions(&self, leaf: &Leaf<'_>, key: &[Seen]) -> Result<(), Error> {
        let falls = key.windows(2).all(|two| {
            let (newer, older) = (two[0].stamp.version(), two[1].stamp.version());
            // An element that a rebase has raised may have a copy with the same stamp in the history.
            newer > older || newer == older && two[0].slot != NO_SLOT && two[1].slot == NO_SLOT
        });
        let has_been = key[0].stamp.version() <= self.retained.visible();
        if !falls || !has_been || key.iter().any(|seen| seen.stamp.lane() >= LANES) {
            return damaged(leaf.offset(), "versions that have been, each once");
        }
        Ok(())
    }
}

/// A leaf, and the range of keys that belong to it.
struct Range<'l, 'f> {
    leaf: &'l Leaf<'f>,
    low: KeyBytes<'f>,
    high: Option<KeyBytes<'f>>,
}

impl Range<'_, '_> {
    fn holds(&self, key: &[u8]) -> Result<(), Error> {
        let is_below = self.low.compare(key).is_gt();
        if is_below || self.high.is_some_and(|high| high.compare(key).is_le()) {
            return damaged(self.leaf.offset(), "keys inside the leaf's range");
        }
        Ok(())
    }

    /// Whether the element stands as a search for its key expects it, with a record of that key.
    fn is_well_placed(&self, key: &[u8], seen: &Seen) -> Result<(), Error> {
        let leaf = self.leaf;
        let (element, prefix_len) = (&seen.element, leaf.prefix_len()?);
        let placed = leaf.place(key, Traits { prefix_len, guarded: true, ..Traits::default() })?;
        let is_known = element.shape.is_canonical() && element.shape.same_key(placed.shape);
        if !is_known || element.key != placed.word {
            return damaged(leaf.offset(), "an element as its key is looked for");
        }
        let Some(record) = element.record() else { return Ok(()) };
        leaf.forest.pool().valid(record)?;
        if element.shape.is_block() {
            return leaf.verify_block(element);
        }
        verify(leaf.forest, record)?;
        let (stored, _) = read_record(leaf.forest, record)?;
        if !stored.eq_bytes(key) || element.payload >> 48 != hash(key) & 0xffff {
            return damaged(record.offset(), "a record of the element's key");
        }
        Ok(())
    }
}
