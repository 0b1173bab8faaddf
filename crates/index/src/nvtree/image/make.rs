//! Making the side-car of a leaf.

use crate::nvtree::image::simple::make_simple;
use crate::nvtree::image::summary::set;
use crate::nvtree::image::{LeafImage, Seen};
use crate::nvtree::leaf::{FREE, Guard, Leaf, Prints, STALE, TOMB, hash, print};
use crate::{DeadIntervals, Error};

/// In the place of the newest version of a leaf, above every version: the fingerprints do not show all keys.
pub(crate) const ORPHANED: u64 = u64::MAX;

/// Makes the side-car of a leaf in this dead epoch, unless it is already made.
pub(crate) fn make(leaf: &Leaf<'_>) -> Result<(), Error> {
    let guard = leaf.side.lock();
    make_locked(leaf, &guard)
}

/// As [`make`], for a caller that holds the lock.
pub(crate) fn make_locked(leaf: &Leaf<'_>, guard: &Guard<'_>) -> Result<(), Error> {
    let dead_epoch = leaf.forest.dead_epoch();
    if guard.is_made(dead_epoch) {
        return Ok(());
    }
    leaf.forest.with_horizon(|dead, _| match make_simple(leaf, guard, dead)? {
        true => Ok(()),
        false => make_general(leaf, guard, dead),
    })
}

/// As [`make_simple`], for any leaf.
pub(crate) fn make_general(
    leaf: &Leaf<'_>,
    guard: &Guard<'_>,
    dead: &DeadIntervals,
) -> Result<(), Error> {
    let contents = LeafImage::read(leaf, dead)?;
    let mut prints = Prints::default();
    for key in contents.keys(leaf) {
        for (at, seen) in key?.iter().enumerate() {
            prints.set(seen.slot, print_of(leaf, at, seen)?);
        }
    }
    let of_old = contents.old.iter().map(|old| old.stamp.version());
    // After a rollback the history can have elements that are newer than all in the leaf.
    let versions = contents.seen.iter().map(|seen| seen.stamp.version()).chain(of_old);
    let mut newest = versions.max().unwrap_or(0);
    if !contents.orphans(leaf)?.is_empty() {
        newest = ORPHANED;
    }
    set(leaf, guard, &prints)?;
    guard.made(leaf.forest.dead_epoch(), newest);
    Ok(())
}

fn print_of(leaf: &Leaf<'_>, at: usize, seen: &Seen) -> Result<u8, Error> {
    if at > 0 {
        return Ok(STALE);
    }
    if seen.meta.is_removed() {
        return Ok(TOMB);
    }
    Ok(match seen.element.record() {
        Some(_) if !seen.element.shape.is_block() => print(seen.element.payload >> 48),
        _ => print(hash(&leaf.key_of(&seen.element)?)),
    })
}

const _: () = assert!(FREE == 0);
