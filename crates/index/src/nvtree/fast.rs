//! The fast path of lookups and of changes: key and value are short, nothing needs old versions of the leaf, and
//! there is a slot. It is what `read/lookup.rs` and `change/general.rs` do, without what these must be ready for; that and
//! nothing else is why it is there twice. A processor looks some four hundred instructions ahead: if a search
//! takes fewer, the next one's lines are fetched while this one waits for its own. And it goes on behind a
//! fence, with the next search, for as long as no more than about a hundred stores wait for the fence. So:
//! few instructions, fewer stores, and what is kept in registers is not for what seldom happens.

use tembo_pmem::prefetch;

use crate::nvtree::format::{DELTA_MAX, Line};
use crate::nvtree::how::How;
use crate::nvtree::leaf::{
    Element, FREE, Leaf, Meta, STALE, Slots, TOMB, has_record, line, place_of, print, write,
};
use crate::nvtree::leaves::{Leaves, Reached, Wanted};
use crate::{Value, Writer};

// What is not above this mark is in a slot that nothing needs.
const _: () = assert!(FREE < STALE && STALE < TOMB);

/// Versions that others may draw meanwhile.
pub(crate) const SLACK: u64 = 1 << 16;

/// What the change does to the key.
#[derive(Clone, Copy)]
pub(crate) enum Effect {
    /// The value's bytes, and how many.
    Put(u64, usize),
    Remove,
}

/// The newest value of the key, if that is what a version sees; `None`: the fast path does not find it, and the leaf may
/// have been `reached`.
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

/// Puts eight bytes; as `change_fast`.
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

/// Performs the change if the fast path can; whether the key was there. `None`: it cannot, or something
/// was quicker, and nothing has changed. The leaf may have been `reached`.
#[inline(always)]
pub(crate) fn change_fast<'f, const SCATTERED: bool>(
    leaves: &'f Leaves,
    wanted: Wanted<'_>,
    effect: Effect,
    how: How<'_>,
    writer: &Writer<'_>,
    reached: &mut Option<Reached<'f>>,
) -> Option<bool> {
    let found = leaves.leaf_fast::<SCATTERED>(wanted)?;
    let Reached { leaf: leaf @ Leaf { side, .. }, lines, moment } = found;
    side.prefetch_rest();
    // Where its line is full, an element lies in the next, and the new one will.
    prefetch(lines.as_ptr().wrapping_add(line(wanted.hash, lines.len()) + 1));
    let (all, own) = (leaf.all_slots(), print(wanted.hash));
    let (bytes, traits) = side.bytes();
    let (matching, ended_or_free) = (bytes.equal(own) & all, bytes.at_most(STALE) & all);
    let Some(simple) = wanted.simple(traits) else {
        *reached = Some(found);
        return None;
    };
    let usable = usable(side.newest(), how, writer, ended_or_free, || bytes.equal(FREE) & all)?;
    let old = simple.find(Slots(matching), lines);
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
    // If others have drawn more than the slack since, there is no delta for the version that is drawn below.
    if how.version_seen(writer).saturating_sub(base) > u64::from(DELTA_MAX) - SLACK {
        return None;
    }
    let region = leaves.forest.region();
    let _section = region.reserve(1).ok()?;
    let guard = side.lock_at(moment)?;
    let (version, meta) = match how {
        How::Grouped => {
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
        // ORDER: durable before any thread is notified, and before another writer comes.
        region.fence("nvtree.fast.fence");
    }
    Some(old.is_some())
}

/// The slots that a change may use, of those that are free or have what was ended, in a leaf whose newest element is of
/// that version; `None`: not by the fast path.
#[inline(always)]
pub(crate) fn usable(
    newest: u64,
    how: How<'_>,
    writer: &Writer<'_>,
    ended_or_free: u64,
    free: impl FnOnce() -> u64,
) -> Option<u64> {
    if writer.retained.needs_no_past(newest) {
        return Some(ended_or_free);
    }
    // What was ended may be needed; and a group gives up its own element of the key for the new one.
    (!how.may_have_own(newest, writer)).then(free)
}

/// Says that all of a leaf will be read soon: it is split.
#[cold]
fn ask_for_all(lines: &[Line]) {
    // The header lies before them.
    prefetch(lines.as_ptr().wrapping_sub(1));
    lines.iter().for_each(|line| prefetch(line));
}

/// Of slots in which something is that was ended, or nothing, the one to use: best in the line where a
/// search looks first.
#[inline(always)]
pub(crate) fn slot_for(usable: Slots, hash: u64, lines: usize) -> Option<usize> {
    usable.near(line(hash, lines))
}
