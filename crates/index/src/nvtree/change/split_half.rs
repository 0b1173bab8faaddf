//! The fast split: a put takes the last slot of a leaf in which every other slot has the newest
//! element of a key, all keys short and with the leaf's prefix. Then the words give the order, a key in
//! the middle is found without sorting, and what is put comes to be with the split: under its fences.

use crate::error::damaged;
use crate::key::KeyBytes;
use crate::nvtree::change::builder::{Builder, slots_for, space_for_leaf, write_built};
use crate::nvtree::change::clean::erase_slots;
use crate::nvtree::change::replacement::{Replacement, replaced};
use crate::nvtree::change::split::{Bounds, check_between, link_right, publish_right};
use crate::nvtree::format::SLOTS_MAX;
use crate::nvtree::how::How;
use crate::nvtree::image::Keys;
use crate::nvtree::leaf::{
    Element, FREE, Guard, Meta, Prints, Slots, all_slots, place_of, print, read, write,
};
use crate::nvtree::leaves::{Leaves, Spot};
use crate::{Error, Retired, Stamp, Writer};

/// Whether every other slot of the leaf has the newest element of a key.
#[inline]
pub(crate) fn is_last(spot: &Spot<'_, '_>, slot: usize) -> bool {
    let lines = spot.leaf.lines();
    spot.prints.live(lines).0 | 1 << slot == all_slots(lines)
}

/// Where a leaf is cut.
struct Cut<'f> {
    moved: Slots,
    /// Of what moves, the slots of elements that have records.
    owners: Slots,
    /// Of the new leaf.
    low: Vec<u8>,
    high: Option<KeyBytes<'f>>,
    prefix_len: u16,
}

/// Performs a put that takes a leaf's last slot, and splits the leaf, if that is simple; false: nothing
/// has changed. The caller holds the lock and has reserved. Durable when it returns; on an error
/// nothing has changed.
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
    // Without room for a leaf the put is as any other.
    let Ok(object) = space_for_leaf(&leaves.forest) else { return Ok(false) };
    let cut = match cut(change) {
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
            pool.free_all(builder.objects());
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
    guard.set_prints(&Prints::of_bytes(&prints), spot.traits);
    link_right(leaves, header, &builder);
    if erased.0 != 0 {
        erase_slots(leaf, &erased.collect::<Vec<usize>>())?;
    }
    let end = stamp.version();
    let retired = replaced.map(|(object, start)| Retired { object, start, end });
    writer.retired.extend(retired);
    Ok(true)
}

/// Where a leaf is cut whose last slot a put will take.
#[inline]
fn cut<'f>(change: &Replacement<'_, 'f, '_>) -> Result<Option<Cut<'f>>, Error> {
    let (spot, leaf) = (change.spot, &change.spot.leaf);
    if spot.traits.guarded || spot.traits.older {
        return Ok(None);
    }
    let next = leaf.next_object()?;
    if let Some(next) = next {
        leaf.region().prefetch(next.offset());
    }
    let mut keys = Keys::of(leaf.all_lines()?);
    let own = 1 << change.slot;
    if keys.complex.0 & !own != 0 || change.element.shape.key_len().is_none() {
        return Ok(None);
    }
    keys.words[change.slot] = change.element.key;
    let others = Slots(all_slots(leaf.lines()) & !own);
    let middle = match next {
        None if keys.below(change.element.key) == others => Some((change.slot, others)),
        _ => keys.middle(),
    };
    let Some((first, below)) = middle else { return Ok(None) };
    let first_word = keys.words[first];
    let mut right = match first == change.slot {
        true => spot.placed.key().to_vec(),
        false => leaf.key_of(&leaf.element(first)?.0)?,
    };
    let range = leaf.range()?;
    let alike = (first_word ^ keys.before(first_word)).leading_zeros() as usize / 8;
    let low_len = usize::from(spot.traits.prefix_len) + alike + 1;
    let bounds = Bounds::of(range, &right, low_len);
    if bounds.prefix_len < spot.traits.prefix_len {
        return Ok(None);
    }
    right.truncate(bounds.low_len);
    check_between(leaf, range, &right)?;
    let moved = Slots(all_slots(leaf.lines()) & !below.0);
    let owners = Slots(keys.owners.0 & moved.0 & !own);
    let Bounds { prefix_len, .. } = bounds;
    Ok(Some(Cut { moved, owners, low: right, high: range.high, prefix_len }))
}

/// Fills a builder, under a prefix that does not become shorter; the meta bits of what is put.
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
    let grown = usize::from(builder.prefix_len - spot.traits.prefix_len);
    let before = spot.prints.to_bytes();
    let (mut from, mut prints, mut count) = ([0_u8; SLOTS_MAX], [0_u8; SLOTS_MAX], 0);
    for slot in others {
        (from[count], prints[count]) = (slot as u8, before.as_flattened()[slot]);
        count += 1;
    }
    // What is put comes last.
    let own = (moved != others).then_some(count);
    if let Some(own) = own {
        prints[own] = print(spot.hash);
    }
    let slots = slots_for(&prints[..count + usize::from(own.is_some())], lines.len());
    for ((&slot, &print), &to) in from[..count].iter().zip(&prints).zip(&slots) {
        let (number, at) = place_of(slot.into());
        let Some(line) = lines.get(number) else { continue };
        let (element, meta) = read(line, at);
        builder.put(to.into(), (shortened(&element, grown), meta), print);
    }
    if let Some(own) = own {
        let placed = (shortened(&change.element, grown), meta);
        builder.put(slots[own].into(), placed, prints[own]);
    }
    Ok(meta)
}

/// The element under a prefix that is longer by so many bytes of its key.
#[inline]
fn shortened(element: &Element, bytes: usize) -> Element {
    if bytes == 0 {
        return *element;
    }
    let key = element.key.checked_shl(8 * bytes as u32).unwrap_or(0);
    let key_len = element.shape.key_len().unwrap_or(0).saturating_sub(bytes);
    Element { key, payload: element.payload, shape: element.shape.with_key(key_len, false) }
}
