//! Making room in a full leaf: what nothing needs leaves it; else it is split, or what only old
//! versions need goes into its history.
//!
//! A removal must outlive what it removes: else a crash could keep the older element and lose the
//! removal. So a cleaning has two passes with a fence between them.

use super::NvTree;
use super::change::{How, is_shared};
use super::format::SLOTS_PER_LINE;
use super::history::{self, Old};
use super::image::{LeafImage, NO_SLOT, Seen, is_needed, place_of, set};
use super::leaf::{Leaf, erase};
use super::lookup::Spot;
use super::prints::FREE;
use super::side::Guard;
use crate::error::damaged;
use crate::{Error, Retired, Writer};

/// Of so many slots at least one must be free after a cleaning that is to suffice.
const ENOUGH: usize = 8;

impl NvTree {
    /// Makes room in the leaf, if it is still as it was.
    #[cold]
    pub(crate) fn make_room(
        &self,
        spot: &Spot<'_, '_>,
        how: How<'_>,
        writer: &mut Writer<'_>,
    ) -> Result<(), Error> {
        let leaf = &spot.leaf;
        let section = self.reserve_structure(spot.placed.key().len() as u64, 0);
        // In a full pool a leaf can still be cleaned.
        let (_section, refused) = match section {
            Ok(section) => (section, None),
            Err(error) => (self.reserve_lines()?, Some(error)),
        };
        let Some(guard) = leaf.side.lock_at(spot.moment) else { return Ok(()) };
        if !leaf.range()?.covers(spot.placed.key()) {
            return damaged(leaf.offset(), "a leaf that covers the keys that lead to it");
        }
        let contents = LeafImage::read(leaf, writer.dead)?;
        let kept = self.clean(leaf, &guard, &contents, how.version(writer), writer)?;
        // What does not count is in no slot's way, whatever a damaged leaf has told its side-car.
        let mut prints = leaf.side.prints().0;
        let is_kept = |slot: &usize| kept.seen.iter().any(|seen| seen.slot == *slot);
        (0..leaf.slots()).filter(|slot| !is_kept(slot)).for_each(|slot| prints.set(slot, FREE));
        set(leaf, &guard, &prints)?;
        let free = leaf.slots() - kept.seen.len();
        let enough = if refused.is_some() { 1 } else { leaf.slots().div_ceil(ENOUGH) };
        if free >= enough {
            return Ok(());
        }
        if let Some(refused) = refused {
            return Err(refused);
        }
        self.note_kept(kept.seen.len() - kept.keys(leaf).count());
        let version = how.version(writer);
        let split = self.split(leaf, &guard, &kept, spot.placed.key(), (version, writer.retired));
        match split.inspect_err(|_| guard.forget()) {
            // What little there is will do.
            Err(Error::Pool(_)) if free > 0 => Ok(()),
            // Refused half-way: what the side-car says may be outdated.
            split => split,
        }
    }

    /// Room for what a change of the structure writes, and for a record if that has a size.
    pub(crate) fn reserve_structure(
        &self,
        key_len: u64,
        size: u64,
    ) -> Result<tembo_pmem::Section<'_>, Error> {
        let pool = self.forest.pool();
        let node_size = u64::from(pool.geometry().node_size);
        let slots = (self.forest.lines * SLOTS_PER_LINE) as u64;
        // New leaves, their low keys, records of keys that lose their prefix.
        let bytes = 2 * node_size + 2 * (key_len + 64) + slots * 128 + size;
        let lines = self.lines_of_structure() + (key_len / 64 + 4) * 2 + self.lines_of_record(size);
        Ok(pool.reserve(bytes, lines)?)
    }

    /// Room for what is flushed by a change of the structure that needs no space.
    pub(crate) fn reserve_lines(&self) -> Result<tembo_pmem::Section<'_>, Error> {
        Ok(self.forest.pool().reserve(0, self.lines_of_structure())?)
    }

    /// Lines that a change of the structure flushes, low keys excepted.
    fn lines_of_structure(&self) -> u64 {
        let lines = self.forest.lines as u64;
        4 * (lines + 1) + 2 * lines * SLOTS_PER_LINE as u64
    }

    /// Erases what no version needs; what is left. The caller holds the lock and has reserved.
    pub(crate) fn clean(
        &self,
        leaf: &Leaf<'_>,
        guard: &Guard<'_>,
        contents: &LeafImage,
        version: u64,
        writer: &mut Writer<'_>,
    ) -> Result<LeafImage, Error> {
        let (mut first, mut second) = (Vec::new(), Vec::new());
        for key in contents.keys(leaf) {
            let key = key?;
            // Whether something older is left.
            let mut older = contents.old_of(leaf, &key[0].element).next().is_some();
            for at in (0..key.len()).rev() {
                let seen = key[at];
                let is_ended = at > 0 && !is_needed(key, at, writer.retained);
                if seen.meta.is_removed()
                    && !older
                    && (at == 0 || is_ended)
                    && is_over(&seen, writer)
                {
                    second.push(seen);
                } else if !seen.meta.is_removed() && is_ended {
                    first.push(seen);
                } else {
                    older = true;
                }
            }
        }
        self.erase(leaf, &first, version, writer)?;
        if !second.is_empty() {
            // ORDER: what a removal removes is durably gone before the removal goes.
            self.forest.region().fence_flushed("nvtree.clean.fence");
            self.erase(leaf, &second, version, writer)?;
        }
        let erased: Vec<usize> = first.iter().chain(&second).map(|seen| seen.slot).collect();
        erased.iter().for_each(|&slot| guard.set_print(slot, FREE));
        let seen = contents.seen.iter().filter(|seen| !erased.contains(&seen.slot));
        Ok(LeafImage {
            seen: seen.copied().collect(),
            old: contents.old.clone(),
            ..LeafImage::default()
        })
    }

    /// Empties slots, and retires the records that only they refer to.
    fn erase(
        &self,
        leaf: &Leaf<'_>,
        all: &[Seen],
        version: u64,
        writer: &mut Writer<'_>,
    ) -> Result<(), Error> {
        let (prints, _) = leaf.side.prints();
        for seen in all {
            let Some(object) = seen.element.record() else { continue };
            let later = all.iter().skip_while(|other| other.slot != seen.slot).skip(1);
            let mut again = later.map(|other| other.element.record());
            let others = prints.used(leaf.lines());
            let others = others.filter(|slot| all.iter().all(|seen| seen.slot != *slot));
            if !again.any(|record| record == Some(object)) && !is_shared(leaf, others, object)? {
                let start = seen.stamp.version();
                writer.retired.push(Retired { object, start, end: version });
            }
        }
        let slots: Vec<usize> = all.iter().map(|seen| seen.slot).collect();
        erase_slots(leaf, &slots)
    }

    /// What only old versions need of the one key of a leaf goes into the history.
    pub(crate) fn age(
        &self,
        leaf: &Leaf<'_>,
        guard: &Guard<'_>,
        key: &[Seen],
    ) -> Result<(), Error> {
        let aged = key.iter().skip(1).filter(|seen| seen.slot != NO_SLOT);
        let old = aged.clone().map(|seen| Old::of(seen.element, seen.meta, seen.stamp));
        history::push(leaf, &old.collect::<Vec<Old>>())?;
        let slots: Vec<usize> = aged.map(|seen| seen.slot).collect();
        erase_slots(leaf, &slots)?;
        let mut prints = leaf.side.prints().0;
        slots.iter().for_each(|&slot| prints.set(slot, FREE));
        set(leaf, guard, &prints)
    }
}

/// Of a removal: nothing can take it back, and nothing asks any more what happened in its version.
fn is_over(seen: &Seen, writer: &Writer<'_>) -> bool {
    seen.stamp.version() <= writer.retained.window()
}

/// Empties slots in which nothing is that counts, and flushes their lines.
pub(crate) fn erase_slots(leaf: &Leaf<'_>, slots: &[usize]) -> Result<(), Error> {
    let region = leaf.region();
    for number in 0..leaf.lines() {
        let mut here = slots.iter().filter(|&&slot| place_of(slot).0 == number).peekable();
        if here.peek().is_none() {
            continue;
        }
        let line = leaf.line(number)?;
        if here.fold(false, |erased, &slot| erase(region, line, place_of(slot).1) | erased) {
            // ORDER: erased before what was there is given up, or what removes it goes.
            region.flush("nvtree.erase.flush", leaf.line_offset(number), 64);
        }
    }
    Ok(())
}
