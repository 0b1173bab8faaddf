//! What a marking finds in a leaf.

use tembo_pool::Object;

use crate::nvtree::history;
use crate::nvtree::history::Old;
use crate::nvtree::image::{LeafImage, make};
use crate::nvtree::leaf::{FREE, Leaf, STALE, TOMB, read_slot};
use crate::{DeadIntervals, Error, Retained};

/// What a marking finds in a leaf.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Reached {
    pub(crate) objects: Vec<Object>,
    pub(crate) live: usize,
    pub(crate) is_clean: bool,
    pub(crate) next: Option<Object>,
}

/// Reads what a marking needs of a leaf, again until no writer changes the leaf meanwhile.
pub(super) fn reach(
    leaf: &Leaf<'_>,
    retained: &Retained,
    dead: &DeadIntervals,
) -> Result<Reached, Error> {
    loop {
        let Some(moment) = leaf.side.begin(leaf.forest.dead_epoch()) else {
            make(leaf)?;
            continue;
        };
        let reached = match reach_simple(leaf, retained, dead) {
            Ok(Some(reached)) => Ok(reached),
            _ => reach_once(leaf, retained, dead),
        };
        if leaf.side.still(moment) {
            return reached;
        }
    }
}

pub(crate) fn reach_once(
    leaf: &Leaf<'_>,
    retained: &Retained,
    dead: &DeadIntervals,
) -> Result<Reached, Error> {
    let mut objects: Vec<Object> = leaf.low_record()?.into_iter().collect();
    objects.extend(history::chain(leaf)?);
    let all_old = history::read(leaf)?;
    let contents = LeafImage::read(leaf, dead)?;
    // Every split leaves copies behind. Copies that name no record do no harm.
    let is_clean = contents.dead.is_empty()
        && contents.strays.iter().all(|stray| stray.element.record().is_none())
        && all_old.len() == contents.old.len();
    objects.extend(contents.seen.iter().filter_map(|seen| seen.element.record()));
    objects.extend(contents.old.iter().filter_map(|old: &Old| old.element.record()));
    let all = contents.with_history(leaf)?;
    let mut live = 0;
    for key in all.keys(leaf) {
        let seen = key?.iter().find(|seen| seen.stamp.version() <= retained.visible());
        live += usize::from(seen.is_some_and(|seen| !seen.meta.is_removed()));
    }
    Ok(Reached { objects, live, is_clean, next: leaf.next_object()? })
}

/// The same for a leaf whose side-car is made. `None`: the marking must read all of the leaf.
pub(crate) fn reach_simple(
    leaf: &Leaf<'_>,
    retained: &Retained,
    dead: &DeadIntervals,
) -> Result<Option<Reached>, Error> {
    let (prints, traits) = leaf.side.prints();
    if traits.older || leaf.side.newest() > retained.visible() {
        return Ok(None);
    }
    let (bases, lines) = (leaf.bases()?, leaf.all_lines()?);
    let mut reached = Reached { next: leaf.next_object()?, is_clean: true, ..Reached::default() };
    reached.objects.extend(leaf.low_record()?);
    for slot in 0..leaf.slots() {
        let (element, meta) = read_slot(lines, slot);
        let print = prints.get(slot);
        match element.record() {
            _ if meta.is_empty() => {}
            // It is a copy, or of a dead version: the fingerprints do not say whether its record is reachable.
            Some(_) if print == FREE => return Ok(None),
            Some(record) => reached.objects.push(record),
            None => reached.is_clean &= print != FREE || !dead.contains(meta.stamp(bases)),
        }
        reached.live += usize::from(print != FREE && print != STALE && print != TOMB);
    }
    Ok(Some(reached))
}
