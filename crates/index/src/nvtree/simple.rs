//! The plain leaf: no history, and all keys stand in their words, behind the leaf's prefix. Most leaves
//! are so. What `image.rs` finds out of any leaf by lists of elements is found out here by one sort
//! of numbers: a mark does little else, nor does the thread that first comes to a leaf.

use super::element::{Element, Meta};
use super::format::{Line, SLOTS_MAX};
use super::image::{place_of, set};
use super::leaf::{Leaf, read};
use super::mark::Reached;
use super::prints::{FREE, Prints, STALE, TOMB, hash, print};
use super::ranks::{Ranks, slot_of};
use super::side::Guard;
use crate::{DeadIntervals, Error, Retained};

/// Where the keys of a leaf end: a word, and the bytes of the key that has it as its head.
type End = Option<(u64, usize)>;

/// Makes the side-car of a plain leaf in this dead epoch; false: it is none. The caller holds the lock.
pub(crate) fn make_simple(
    leaf: &Leaf<'_>,
    guard: &Guard<'_>,
    dead: &DeadIntervals,
) -> Result<bool, Error> {
    if leaf.header()?.older.load() != 0 {
        return Ok(false);
    }
    let (bases, lines) = (leaf.bases()?, leaf.all_lines()?);
    let Some(end) = end_of(leaf)? else { return Ok(false) };
    let mut versions = [0_u64; SLOTS_MAX];
    let (mut counts, mut newest) = (0_u64, 0);
    for (slot, version) in versions.iter_mut().enumerate().take(leaf.slots()) {
        let (element, meta) = read_slot(lines, slot);
        let stamp = meta.stamp(bases);
        if meta.is_empty() || dead.contains(stamp) {
            continue;
        }
        let (Some(len), false) = (element.shape.key_len(), element.shape.is_odd()) else {
            return Ok(false);
        };
        if end.is_none_or(|end| (element.key, len) < end) {
            counts |= 1 << slot;
            *version = stamp.version();
            newest = newest.max(stamp.version());
        }
    }
    let Some(mut ranks) = Ranks::of(leaf, super::prints::Slots(counts))? else { return Ok(false) };
    let ranks = ranks.as_mut_slice();
    ranks.sort_unstable();
    let mut prints = Prints::default();
    for key in ranks.chunk_by(|one, other| one >> 8 == other >> 8) {
        let slots = key.iter().map(|&ranked| slot_of(ranked));
        slots.clone().for_each(|slot| prints.set(slot, STALE));
        let Some(newest) = slots.max_by_key(|&slot| versions[slot]) else { continue };
        let (element, meta) = read_slot(lines, newest);
        prints.set(
            newest,
            match element.record() {
                _ if meta.is_removed() => TOMB,
                Some(_) => print(element.payload >> 48),
                None => print(hash(&leaf.key_of(&element)?)),
            },
        );
    }
    set(leaf, guard, &prints)?;
    guard.made(leaf.forest.dead_epoch(), newest);
    Ok(true)
}

/// The element in a slot, and its meta bits; nothing if there is no such slot.
fn read_slot(lines: &[Line], slot: usize) -> (Element, Meta) {
    let (number, at) = place_of(slot);
    lines.get(number).map(|line| read(line, at)).unwrap_or_default()
}

/// Where the keys of a leaf end, as far as they have its prefix; `None`: that is not plain.
fn end_of(leaf: &Leaf<'_>) -> Result<Option<End>, Error> {
    let Some(high) = leaf.high()? else { return Ok(Some(None)) };
    let prefix = leaf.prefix()?;
    if prefix.with(|prefix| high.starts_with(prefix)) {
        let prefix_len = usize::from(leaf.prefix_len()?);
        return Ok(Some(Some((high.head(prefix_len), high.len() - prefix_len))));
    }
    // Above all that have the prefix; below them it would be no leaf's.
    Ok((high > prefix).then_some(None))
}

/// What a mark learns of a leaf whose side-car is made; `None`: it must look closer.
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
            // A copy, or dead: whether its record is reachable is not for the fingerprints to say.
            Some(_) if print == FREE => return Ok(None),
            Some(record) => reached.objects.push(record),
            None => reached.is_clean &= print != FREE || !dead.contains(meta.stamp(bases)),
        }
        reached.live += usize::from(print != FREE && print != STALE && print != TOMB);
    }
    Ok(Some(reached))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::sync::Arc;

    use tembo_pool::{Geometry, Pool, PoolOptions};

    use super::super::NvTree;
    use super::super::image::make_general;
    use super::*;
    use crate::{Clock, DeadInterval, Error, Forest, Op, Retained, Stamp, VersionedIndex, Writer};

    /// Puts and removes short keys in two groups, the later of which dies.
    fn tree() -> (NvTree, DeadIntervals) {
        let geometry = Geometry { chunk_size: 4096, node_size: 512 };
        let options = PoolOptions { size: 4 << 20, geometry, ..PoolOptions::default() };
        let pool = Arc::new(Pool::volatile(&options).unwrap());
        let forest = Arc::new(Forest::new(pool, 1 << 30).unwrap());
        let (dead, retained) = (DeadIntervals::default(), Retained::new(1, vec![1]));
        let mut retired = Vec::new();
        let clock = Clock::new(1);
        let stamp = Stamp::grouped(1, 0);
        let mut writer = Writer { stamp, dead: &dead, retained: &retained, retired: &mut retired };
        let (tree, _) = NvTree::create(forest.clone(), &writer).unwrap();
        let mut seed = 1_u64;
        for number in 0..4000 {
            seed = seed.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
            let key = (seed >> 32).to_be_bytes();
            let key = &key[4..5 + seed as usize % 4];
            let value = [key; 3].concat();
            let len = number % value.len();
            let op = match number % 5 {
                4 => Op::Remove { key },
                _ => Op::Put { key, value: &[&value[..len]] },
            };
            if number < 3000 {
                tree.apply_single(op, &clock.ticket(), &mut writer).unwrap();
            } else {
                writer.stamp = Stamp::grouped(clock.draw(), 0);
                tree.apply(op, &mut writer).unwrap();
            }
        }
        let (from, to) = (3000, u64::MAX);
        (tree, DeadIntervals::new(vec![DeadInterval { from, to, lane: Some(0) }]))
    }

    #[test]
    fn a_simple_leaf_is_made_as_any_other() -> Result<(), Error> {
        let (tree, dead) = tree();
        let mut leaf = Some(Leaf::of(&tree.forest, tree.first()?)?);
        let (mut simple, mut leaves) = (0, 0);
        while let Some(at) = leaf {
            for dead in [&DeadIntervals::NONE, &dead] {
                let guard = at.side.lock();
                make_general(&at, &guard, dead)?;
                let general = (guard.prints(), at.side.newest(), at.side.base());
                guard.forget();
                if make_simple(&at, &guard, dead)? {
                    simple += 1;
                    let made = (guard.prints(), at.side.newest(), at.side.base());
                    assert_eq!(made.0.0.0, general.0.0.0);
                    assert_eq!((made.0.1, made.1, made.2), (general.0.1, general.1, general.2));
                }
                guard.forget();
            }
            leaves += 1;
            leaf = at.next()?;
        }
        assert!(leaves > 100 && simple > leaves, "{simple} of {leaves}");
        Ok(())
    }

    #[test]
    fn a_mark_of_a_simple_leaf_finds_the_same() -> Result<(), Error> {
        let (tree, dead) = tree();
        tree.forest.set_dead(Arc::new(dead.clone()));
        let mut leaf = Some(Leaf::of(&tree.forest, tree.first()?)?);
        let (mut simple, retained) = (0, Retained::new(1 << 40, Vec::new()));
        while let Some(at) = leaf {
            super::super::image::make(&at)?;
            let mut general = super::super::mark::reach_once(&at, &retained, &dead)?;
            if let Some(mut found) = reach_simple(&at, &retained, &dead)? {
                simple += 1;
                for reached in [&mut found, &mut general] {
                    reached.objects.sort_by_key(|object| object.to_bits());
                }
                assert_eq!(found, general);
            }
            leaf = at.next()?;
        }
        assert!(simple > 100);
        Ok(())
    }
}
