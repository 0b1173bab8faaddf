//! The fast path of lookups and of changes: key and value are short, nothing needs old versions of the leaf, and
//! there is a slot: a free one, one whose element nothing needs, or that of the same group's element of the key. It does what `read/lookup.rs` and `change/general.rs` do, without the cases for which these must be
//! ready; this is the only reason why the code is there twice. A processor looks some four hundred instructions ahead: if a
//! search takes fewer, the lines of the next search are fetched while this one waits for its own. And the processor goes on
//! behind a fence, with the next search, for as long as no more than some sixty stores wait for the fence. So the code
//! has few instructions and fewer stores, and keeps nothing in registers that is needed only seldom.

use tembo_pmem::prefetch;

use crate::nvtree::format::{DELTA_MAX, Line};
use crate::nvtree::how::How;
use crate::nvtree::leaf::{
    Element, FREE, Guard, Leaf, Meta, STALE, Slots, TOMB, has_record, line, place_of, print, write,
};
use crate::nvtree::leaves::{Leaves, Reached, Wanted};
use crate::{Value, Writer};

// A slot whose mark is at most `STALE` can be used if nothing needs old versions.
const _: () = assert!(FREE < STALE && STALE < TOMB);

/// How many versions other threads may draw during a change.
pub(crate) const SLACK: u64 = 1 << 16;

/// What the change does to the key.
#[derive(Clone, Copy)]
pub(crate) enum Effect {
    /// Puts a value: its bytes as a word, and how many there are.
    Put(u64, usize),
    Remove,
}

/// The newest value of the key, if the view sees the newest version of the leaf. `None`: the fast path does not find it, but
/// it may have set `reached` to the leaf.
#[inline(always)]
pub(crate) fn get_fast<'f, const SCATTERED: bool>(
    leaves: &'f Leaves,
    wanted: Wanted<'_>,
    version: u64,
    reached: &mut Option<Reached<'f>>,
) -> Option<Option<Value<'static>>> {
    let at = leaves.leaf_fast::<SCATTERED>(wanted)?;
    let looked = look_fast(at, wanted, version);
    if looked.is_none() {
        *reached = Some(at);
    }
    looked
}

/// As `get_fast`, in the leaf of the key.
#[inline(always)]
pub(crate) fn look_fast(
    Reached { leaf: leaf @ Leaf { side, .. }, lines, moment }: Reached<'_>,
    wanted: Wanted<'_>,
    version: u64,
) -> Option<Option<Value<'static>>> {
    let (bytes, traits) = side.bytes();
    let matching = bytes.equal(print(wanted.hash)) & leaf.all_slots();
    let looked = match wanted.simple(traits) {
        Some(simple) if side.newest() <= version => match simple.find(Slots(matching), lines) {
            None => Some(None),
            Some((_, Element { payload, shape, .. })) => {
                shape.value_len().map(|len| Some(Value::copy(payload, len)))
            }
        },
        _ => None,
    };
    looked.filter(|_| side.still(moment))
}

/// Puts a value of eight bytes. Returns as `change_fast` does.
#[inline(never)]
pub(crate) fn put_fast<const SCATTERED: bool>(
    leaves: &Leaves,
    key: &[u8],
    value: u64,
    how: How<'_>,
    writer: &Writer<'_>,
) -> Option<bool> {
    let effect = Effect::Put(value, 8);
    change_fast::<SCATTERED>(leaves, Wanted::new(key), effect, how, writer, &mut None)
}

/// Performs the change if the fast path can. Returns whether the key was there. `None`: it cannot, or another thread
/// was quicker; nothing has changed, but `reached` may be set to the leaf.
#[inline(always)]
pub(crate) fn change_fast<'f, const SCATTERED: bool>(
    leaves: &'f Leaves,
    wanted: Wanted<'_>,
    effect: Effect,
    how: How<'_>,
    writer: &Writer<'_>,
    reached: &mut Option<Reached<'f>>,
) -> Option<bool> {
    change_fast_at(
        leaves,
        leaves.leaf_fast::<SCATTERED>(wanted)?,
        wanted,
        effect,
        (how, writer),
        reached,
    )
}

/// As `change_fast`, in the leaf of the key.
#[inline(always)]
pub(crate) fn change_fast_at<'f>(
    leaves: &'f Leaves,
    found: Reached<'f>,
    wanted: Wanted<'_>,
    effect: Effect,
    (how, writer): (How<'_>, &Writer<'_>),
    reached: &mut Option<Reached<'f>>,
) -> Option<bool> {
    let Reached { leaf: leaf @ Leaf { side, .. }, lines, moment } = found;
    side.prefetch_rest();
    // If its line is full, an element lies in the next line, and so will the new one.
    prefetch(lines.as_ptr().wrapping_add(line(wanted.hash, lines.len()) + 1));
    let (all, own) = (leaf.all_slots(), print(wanted.hash));
    let (bytes, traits) = side.bytes();
    let (matching, ended_or_free) = (bytes.equal(own) & all, bytes.at_most(STALE) & all);
    let Some(simple) = wanted.simple(traits) else {
        *reached = Some(found);
        return None;
    };
    let old = simple.find(Slots(matching), lines);
    let usable = usable(&leaf, old.map(|(slot, _)| slot), ended_or_free, how, writer)?;
    let (element, new, removed) = match (effect, old) {
        (Effect::Put(payload, len), _) => {
            let shape = simple.shape.with_value(len);
            (Element { key: simple.word, payload, shape }, own, false)
        }
        (Effect::Remove, None) => return side.still(moment).then_some(false),
        (Effect::Remove, Some((_, element))) => (element, TOMB, true),
    };
    if old.is_none() && Slots(ended_or_free).is_last() {
        ask_for_all(lines);
        return None;
    }
    let slot = slot_for(Slots(usable), wanted.hash, lines.len())?;
    let (number, at) = place_of(slot);
    let target = lines.get(number)?;
    if element.record().is_some() || has_record(target, at) {
        *reached = Some(found);
        return None;
    }
    let base = side.base();
    // The version that is drawn below may be out of reach of the base, if others draw more than the slack meanwhile.
    if how.version_seen(writer).saturating_sub(base) > u64::from(DELTA_MAX) - SLACK {
        return None;
    }
    let region = leaves.forest.region();
    let _section = region.reserve(1).ok()?;
    let guard = side.lock_at(moment)?;
    #[cfg(test)]
    super::change::check_unneeded(&leaf, writer.retained).ok()?;
    let (version, meta) = match how {
        How::Grouped => {
            note_ended(&guard, &leaf, ended_or_free, writer);
            (writer.stamp.version(), Meta::new(writer.stamp, removed, traits.base, base)?)
        }
        How::Single(ticket) => {
            let version = ticket.draw();
            (version, Meta::of_single(version, removed, traits.base, base)?)
        }
    };
    write(region, target, at, &element, meta);
    guard.note(old.map(|(slot, _)| slot), (slot, new), version);
    if let How::Single(_) = how {
        // ORDER: the element is durable before any thread is notified, and before another writer comes.
        region.fence("nvtree.fast.fence");
    }
    Some(old.is_some())
}

/// The slots that a change may use: of those that are free or whose elements were ended, or the one whose element it replaces. `old`
/// is the slot of the key's newest element. `None`: the fast path cannot find out.
#[inline(always)]
pub(crate) fn usable(
    leaf: &Leaf<'_>,
    old: Option<usize>,
    ended_or_free: u64,
    how: How<'_>,
    writer: &Writer<'_>,
) -> Option<u64> {
    let newest = leaf.side.newest();
    if writer.retained.needs_no_past(newest) {
        return Some(ended_or_free);
    }
    let own = match how.may_have_own(newest, writer) {
        true => own(leaf, (newest, old), writer)?,
        false => None,
    };
    // Another ended element may be needed; and a group replaces its own element of the key.
    let others = || leaf.side.bytes().0.equal(FREE) & leaf.all_slots() | leaf.side.unneeded();
    Some(own.map_or_else(others, |slot| 1 << slot))
}

/// Notes, before the first change of a leaf since its newest version was committed, which slots nothing needs: those that are
/// free or whose elements were ended. Groups that change the leaf before the next commit need not ask about them.
#[inline(always)]
pub(crate) fn note_ended(
    guard: &Guard<'_>,
    leaf: &Leaf<'_>,
    free_or_ended: u64,
    writer: &Writer<'_>,
) {
    if writer.retained.needs_no_past(leaf.side.newest()) {
        guard.note_unneeded(free_or_ended);
    }
}

/// The slot of the key's element that this group has written, in a leaf whose newest element is of that version. The outer
/// `None`: the fast path cannot find out.
#[inline(never)]
fn own(
    leaf: &Leaf<'_>,
    (newest, old): (u64, Option<usize>),
    writer: &Writer<'_>,
) -> Option<Option<usize>> {
    if newest != writer.stamp.version() {
        return None;
    }
    let bases = leaf.bases().ok()?;
    let is_own = |slot| Some(leaf.element(slot).ok()?.1.stamp(bases) == writer.stamp);
    if let Some(slot) = old {
        return Some(is_own(slot)?.then_some(slot));
    }
    // The group may have removed the key.
    let removed = leaf.side.bytes().0.equal(TOMB) & leaf.all_slots();
    Slots(removed).all(|slot| is_own(slot) == Some(false)).then_some(None)
}

/// Asks the processor for all lines of a leaf that will be split.
#[cold]
fn ask_for_all(lines: &[Line]) {
    // The header lies before them.
    prefetch(lines.as_ptr().wrapping_sub(1));
    lines.iter().for_each(|line| prefetch(line));
}

/// The slot to use among usable ones: preferably one in the line where a search looks first.
#[inline(always)]
pub(crate) fn slot_for(usable: Slots, hash: u64, lines: usize) -> Option<usize> {
    usable.near(line(hash, lines))
}
