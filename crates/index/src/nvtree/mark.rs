//! What can be reached: the marking half of a sweep. And the scrub: what never happened leaves the
//! leaves, so that its interval can be forgotten.

use tembo_pmem::thread::lock;
use tembo_pool::Object;

use super::NvTree;
use super::history::{self, Old};
use super::image::{LeafImage, make};
use super::leaf::Leaf;
use super::reclaim::erase_slots;
use super::simple::reach_simple;
use crate::{DeadIntervals, Error, Retained, TreeMarker, Writer};

/// What a mark learns of a leaf.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Reached {
    pub(crate) objects: Vec<Object>,
    pub(crate) live: usize,
    pub(crate) is_clean: bool,
    pub(crate) next: Option<Object>,
}

impl NvTree {
    pub(crate) fn mark(
        &self,
        retained: &Retained,
        dead: &DeadIntervals,
        marker: &mut dyn TreeMarker,
    ) -> Result<(), Error> {
        // A merge could carry what was not yet reached to where the walk has been.
        let _marking = lock(&self.structure);
        marker.reachable(self.cell_object)?;
        for object in self.hint_objects()? {
            marker.reachable(object)?;
        }
        let mut next = Some(self.first()?);
        while let Some(object) = next {
            let leaf = Leaf::of(&self.forest, object)?;
            if !marker.reachable(object)? {
                return crate::error::damaged(object.offset(), "a leaf that is in one list once");
            }
            self.pass(&leaf)?;
            let reached = reach(&leaf, retained, dead)?;
            for object in reached.objects {
                self.forest.pool().valid(object)?;
                marker.reachable(object)?;
            }
            (0..reached.live).for_each(|_| marker.live_entry());
            if !reached.is_clean {
                marker.unclean(object);
            }
            next = reached.next;
        }
        self.all_passed();
        Ok(())
    }

    /// Erases what is dead, and copies that an interruption has left.
    pub(crate) fn scrub_one(&self, object: Object, writer: &mut Writer<'_>) -> Result<(), Error> {
        let leaf = Leaf::of(&self.forest, object)?;
        let guard = leaf.side.lock();
        let contents = LeafImage::read(&leaf, writer.dead)?;
        let strays = contents.strays.iter().map(|seen| seen.slot);
        let slots: Vec<usize> = strays.chain(contents.dead.iter().copied()).collect();
        erase_slots(&leaf, &slots)?;
        if history::read(&leaf)?.len() > contents.old.len() {
            // Readers of the visible version may be here.
            let version = writer.stamp.version() + 1;
            history::replace(&leaf, &contents.old, version, writer.retired)?;
        }
        // The fingerprints of these slots were none already, but of the history more is known.
        guard.forget();
        drop(guard);
        make(&leaf)
    }
}

/// Looks at a leaf until nothing changes it meanwhile.
fn reach(leaf: &Leaf<'_>, retained: &Retained, dead: &DeadIntervals) -> Result<Reached, Error> {
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
    // Every split leaves copies behind; those that name no record harm nothing.
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
