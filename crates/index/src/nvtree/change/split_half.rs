//! The fast split: a put takes the last slot of a leaf in which every other slot has the newest
//! element of a key, and all keys have the leaf's prefix. Then the words give the order, a key in
//! the middle is found without sorting, and the new element is written with the split, under its fences.
//!
//! The words of keys that are longer than a word give the order too, except among keys with the same word. These stay
//! together, on the right. Their records are read only where the prefix becomes longer, for the words behind it.

use crate::error::damaged;
use crate::key::KeyBytes;
use crate::nvtree::change::builder::{Builder, slots_for, space_for_leaf, write_built};
use crate::nvtree::change::clean::erase_all;
use crate::nvtree::change::replacement::{Replacement, replaced};
use crate::nvtree::change::split::{Bounds, check_between, link_right, publish_right};
use crate::nvtree::format::SLOTS_MAX;
use crate::nvtree::how::How;
use crate::nvtree::image::Keys;
use crate::nvtree::leaf::{
    Element, FREE, Guard, Meta, Prints, Range, Slots, Traits, all_slots, place_of, print, read,
    write,
};
use crate::nvtree::leaves::{Leaves, Spot};
use crate::record::{head, read_key, read_unverified};
use crate::{Error, Forest, Retired, Stamp, Writer};

/// Whether every other slot of the leaf has the newest element of a key.
#[inline]
pub(crate) fn is_last(spot: &Spot<'_, '_>, slot: usize) -> bool {
    let lines = spot.leaf.lines();
    spot.prints.live(lines).0 | 1 << slot == all_slots(lines)
}

/// The cut by which a leaf is split.
struct Cut<'f> {
    moved: Slots,
    /// The slots of moved elements that have records.
    owners: Slots,
    /// The low key of the new leaf.
    low: Vec<u8>,
    high: Option<KeyBytes<'f>>,
    prefix_len: u16,
    /// The traits of the leaf that is cut, after the split.
    traits: Traits,
}

/// Performs a put that takes a leaf's last slot, and splits the leaf, if this fast path can. Returns false if it cannot:
/// nothing has changed then. The caller holds the lock and has reserved. Durable when it returns; on an error nothing has
/// changed.
pub(crate) fn put_and_split(
    leaves: &Leaves,
    change: &Replacement<'_, '_, '_>,
    guard: &Guard<'_>,
    how: How<'_>,
    writer: &mut Writer<'_>,
) -> Result<bool, Error> {
    let (spot, leaf, pool) = (change.spot, &change.spot.leaf, leaves.forest.pool());
    let header = leaf.header()?;
    let (number, at) = place_of(change.slot);
    let line = leaf.line(number)?;
    let replaced = replaced(change)?;
    // If there is no space for a leaf, the put is performed as any other.
    let Ok(object) = space_for_leaf(&leaves.forest) else { return Ok(false) };
    let cut = match cut(change, leaves.is_scattered()) {
        Ok(Some(cut)) => cut,
        simple => {
            pool.free(object);
            return simple.map(|_| false);
        }
    };
    let moved = cut.moved;
    let others = Slots(moved.0 & !(1 << change.slot));
    let stamp = how.stamp(writer);
    let newest = leaf.side.newest().max(stamp.version());
    let mut builder = Builder::new(object, cut.low, cut.prefix_len);
    let known = fill(change, (moved, others), stamp, &mut builder).and_then(|meta| {
        let right = write_built(&leaves.forest, leaf, &mut builder)?;
        Ok((meta, publish_right(leaves, (leaf, newest), &right, &builder, cut.high)?))
    });
    let (meta, _new) = match known {
        Ok(known) => known,
        Err(error) => {
            pool.give_up(builder.objects());
            return if matches!(error, Error::Pool(_)) { Ok(false) } else { Err(error) };
        }
    };
    let mut prints = spot.prints.to_bytes();
    moved.for_each(|slot| prints.as_flattened_mut()[slot] = FREE);
    let mut erased = cut.owners;
    if moved == others {
        write(leaves.forest.region(), line, at, &change.element, meta);
        prints.as_flattened_mut()[change.slot] = print(spot.hash);
        guard.set_newest(stamp.version());
    } else if replaced.is_some() {
        erased.0 |= 1 << change.slot;
    }
    guard.set_prints(&Prints::of_bytes(&prints), cut.traits);
    link_right(leaves, header, &builder);
    if erased.0 != 0 {
        let empty = erase_all(leaf, erased);
        how.fence_erased(pool.region());
        empty?;
    }
    let end = stamp.version();
    let retired = replaced.map(|(object, start)| Retired { object, start, end });
    writer.retired.extend(retired);
    Ok(true)
}

/// The cut of a leaf whose last slot a put will take.
#[inline]
fn cut<'f>(change: &Replacement<'_, 'f, '_>, is_scattered: bool) -> Result<Option<Cut<'f>>, Error> {
    let (spot, leaf) = (change.spot, &change.spot.leaf);
    if spot.traits.older {
        return Ok(None);
    }
    let next = leaf.next_object()?;
    if let Some(next) = next {
        leaf.region().prefetch(next.offset());
    }
    let mut keys = Keys::of(leaf.all_lines()?);
    let own = 1 << change.slot;
    if keys.odd.0 & !own != 0 || change.element.shape.is_odd() {
        return Ok(None);
    }
    keys.words[change.slot] = change.element.key;
    let others = Slots(all_slots(leaf.lines()) & !own);
    if is_scattered
        && !spot.traits.guarded
        && let Some((middle, below)) = keys.round_middle()
    {
        let mut low = leaf.prefix()?.to_vec();
        low.extend(&middle.to_be_bytes()[..8 - middle.trailing_zeros() as usize / 8]);
        let low_len = low.len();
        return cut_at(change, &keys, (low, middle, low_len), below);
    }
    if next.is_none() && keys.below(change.element.key) == others {
        return cut_behind(change, &keys);
    }
    if spot.traits.guarded {
        return Ok(None);
    }
    let Some((first, below)) = keys.middle() else { return Ok(None) };
    let first_word = keys.words[first];
    let (right, pivot) = match first == change.slot {
        true => (spot.placed.key().to_vec(), change.element),
        false => {
            let (pivot, _) = leaf.element(first)?;
            (leaf.key_of(&pivot)?, pivot)
        }
    };
    let is_long = (keys.complex.0 & !own) != 0 || change.element.shape.key_len().is_none();
    if is_long && may_lose_record(leaf.forest, &pivot)? {
        return Ok(None);
    }
    let low_len = alike(spot, &keys, first_word) + 1;
    cut_at(change, &keys, (right, first_word, low_len), below)
}

/// The cut before a key that has that word. So many bytes of it distinguish it from the keys below.
#[inline]
fn cut_at<'f>(
    change: &Replacement<'_, 'f, '_>,
    keys: &Keys,
    (mut right, word, low_len): (Vec<u8>, u64, usize),
    below: Slots,
) -> Result<Option<Cut<'f>>, Error> {
    let (spot, leaf, own) = (change.spot, &change.spot.leaf, 1 << change.slot);
    let range = leaf.range()?;
    let mut bounds = Bounds::of(range, &right, low_len);
    if usize::from(bounds.prefix_len) > low_len && keys.equal(word).count() > 1 {
        // Another key with the same word may come before this one, and may have no more than the word in common with the
        // keys behind it.
        bounds = Bounds::of(range, &right[..low_len], low_len);
    }
    if bounds.prefix_len < spot.traits.prefix_len {
        return Ok(None);
    }
    right.truncate(bounds.low_len);
    check_between(leaf, range, &right)?;
    let moved = Slots(all_slots(leaf.lines()) & !below.0);
    let owners = Slots(keys.owners.0 & moved.0 & !own);
    let Bounds { prefix_len, .. } = bounds;
    let traits = spot.traits;
    Ok(Some(Cut { moved, owners, low: right, high: range.high, prefix_len, traits }))
}

/// The cut of the last leaf where the new key comes behind all present keys: it alone moves, as in the general split.
/// It is not known how much the keys that will come share, so the prefix leaves at least eight bytes of the key.
#[cold]
fn cut_behind<'f>(change: &Replacement<'_, 'f, '_>, keys: &Keys) -> Result<Option<Cut<'f>>, Error> {
    let (spot, leaf, element) = (change.spot, &change.spot.leaf, &change.element);
    if may_lose_record(leaf.forest, element)? {
        return Ok(None);
    }
    let (range, mut right) = (leaf.range()?, spot.placed.key().to_vec());
    let shared = alike(spot, keys, element.key);
    let spared = right.len().saturating_sub(size_of::<u64>()).min(shared);
    let bounds = Bounds::of(range, &right, shared + 1).with_prefix(spared as u16, &right);
    right.truncate(bounds.low_len);
    check_between(leaf, range, &right)?;
    let left = Range { high: Some(right[..].into()), ..range };
    let guarded = spot.traits.prefix_len > left.common_len();
    let traits = Traits { guarded, ..spot.traits };
    let (moved, owners, prefix_len) = (Slots(1 << change.slot), Slots(0), bounds.prefix_len);
    Ok(Some(Cut { moved, owners, low: right, high: range.high, prefix_len, traits }))
}

/// How many bytes the keys with that word have in common with the keys that have the next lower word.
#[inline]
fn alike(spot: &Spot<'_, '_>, keys: &Keys, word: u64) -> usize {
    let in_words = (word ^ keys.before(word)).leading_zeros() as usize / 8;
    usize::from(spot.traits.prefix_len) + in_words
}

/// Whether an element of a long key would have no record under a long prefix: its value would stand in a word. Then the
/// general split looks for such a prefix.
fn may_lose_record(forest: &Forest, element: &Element) -> Result<bool, Error> {
    match (element.shape.key_len(), element.record()) {
        (None, Some(record)) => Ok(read_unverified(forest, record)?.1.len() <= size_of::<u64>()),
        _ => Ok(false),
    }
}

/// Fills a builder, under a prefix that does not become shorter. Returns the meta bits of the new element.
#[inline]
fn fill(
    change: &Replacement<'_, '_, '_>,
    (moved, others): (Slots, Slots),
    stamp: Stamp,
    builder: &mut Builder,
) -> Result<Meta, Error> {
    let spot = change.spot;
    let (lines, base) = (spot.leaf.all_lines()?, spot.leaf.side.base());
    let Some(meta) = Meta::new(stamp, false, spot.traits.base, base) else {
        return damaged(spot.leaf.offset(), "a base in reach");
    };
    let (forest, prefix) = (spot.leaf.forest, (spot.traits.prefix_len, builder.prefix_len));
    let before = spot.prints.to_bytes();
    let (mut from, mut prints, mut count) = ([0_u8; SLOTS_MAX], [0_u8; SLOTS_MAX], 0);
    for slot in others {
        (from[count], prints[count]) = (slot as u8, before.as_flattened()[slot]);
        count += 1;
    }
    // The new element comes last.
    let own = (moved != others).then_some(count);
    if let Some(own) = own {
        prints[own] = print(spot.hash);
    }
    let slots = slots_for(&prints[..count + usize::from(own.is_some())], lines.len());
    for ((&slot, &print), &to) in from[..count].iter().zip(&prints).zip(&slots) {
        let (number, at) = place_of(slot.into());
        let Some(line) = lines.get(number) else { continue };
        let (element, meta) = read(line, at);
        builder.put(to.into(), (shortened(forest, &element, prefix)?, meta), print);
    }
    if let Some(own) = own {
        let (key, skipped) = (spot.placed.key(), prefix.1);
        let key_len = key.len().saturating_sub(skipped.into());
        let shape = change.element.shape.with_key(key_len, false);
        let placed = (Element { key: head(key, skipped), shape, ..change.element }, meta);
        builder.put(slots[own].into(), placed, prints[own]);
    }
    Ok(meta)
}

/// An element of a leaf, as it stands under a prefix that is no shorter than the leaf's.
#[inline]
fn shortened(
    forest: &Forest,
    element: &Element,
    (before, prefix_len): (u16, u16),
) -> Result<Element, Error> {
    let bytes = usize::from(prefix_len.saturating_sub(before));
    if bytes == 0 {
        return Ok(*element);
    }
    let (key, key_len) = match (element.shape.key_len(), element.record()) {
        (Some(key_len), _) => {
            let key = element.key.checked_shl(8 * bytes as u32).unwrap_or(0);
            (key, key_len.saturating_sub(bytes))
        }
        (None, Some(record)) => {
            let key = KeyBytes::from(read_key(forest, record)?);
            (key.head(prefix_len.into()), key.len().saturating_sub(prefix_len.into()))
        }
        (None, None) => return damaged(0, "a record of a long key"),
    };
    Ok(Element { key, payload: element.payload, shape: element.shape.with_key(key_len, false) })
}
