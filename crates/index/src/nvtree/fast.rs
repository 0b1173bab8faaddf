//! The usual lookup and the usual change: key and value are short, nothing needs old versions of the leaf, and
//! there is a slot. It is what `lookup.rs` and `change.rs` do, without what these must be ready for; that and
//! nothing else is why it is there twice. A processor looks some four hundred instructions ahead: if a search
//! takes fewer, the next one's lines are fetched while this one waits for its own. And it goes on behind a
//! fence, with the next search, for as long as no more than about a hundred stores wait for the fence. So:
//! few instructions, fewer stores, and what is kept in registers is not for what seldom happens.

use tembo_pmem::prefetch;

use super::NvTree;
use super::change::How;
use super::element::{Element, Meta};
use super::format::{DELTA_MAX, Line};
use super::image::place_of;
use super::leaf::{Leaf, has_record, write};
use super::lookup::{Reached, Wanted};
use super::prints::{FREE, STALE, Slots, TOMB, all_slots, line, print};
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

impl NvTree {
    /// The newest value of the key, if that is what a version sees; `None`: it is not usual, and the leaf may
    /// have been `reached`.
    #[inline(always)]
    pub(crate) fn get_fast<'f>(
        &'f self,
        key: &[u8],
        version: u64,
        reached: &mut Option<Reached<'f>>,
    ) -> Option<Option<Value<'f>>> {
        let wanted = Wanted::new(key);
        let at = self.leaf_at_once(wanted)?;
        let Reached { leaf: Leaf { side, .. }, lines, moment } = at;
        let (bytes, traits) = side.bytes();
        let matching = bytes.equal(print(wanted.hash)) & all_slots(lines.len());
        let looked = match wanted.simple(traits) {
            Some(simple) if side.newest() <= version => match simple.find(Slots(matching), lines) {
                None => Some(None),
                Some((_, Element { payload, shape, .. })) => {
                    shape.value_len().map(|len| Some(Value::copy(payload, len)))
                }
            },
            _ => None,
        };
        let looked = looked.filter(|_| side.still(moment));
        if looked.is_none() {
            *reached = Some(at);
        }
        looked
    }

    /// Puts eight bytes; as `change_fast`.
    #[inline(never)]
    pub(crate) fn put_fast(
        &self,
        key: &[u8],
        value: u64,
        how: How<'_>,
        writer: &Writer<'_>,
    ) -> Option<bool> {
        self.change_fast(Wanted::new(key), Effect::Put(value, 8), how, writer)
    }

    /// Performs the change if it is usual; whether the key was there. `None`: it is not, or something
    /// was quicker, and nothing has changed.
    #[inline(always)]
    pub(crate) fn change_fast(
        &self,
        wanted: Wanted<'_>,
        effect: Effect,
        how: How<'_>,
        writer: &Writer<'_>,
    ) -> Option<bool> {
        let Reached { leaf: Leaf { side, .. }, lines, moment } = self.leaf_at_once(wanted)?;
        side.prefetch_rest();
        // Where its line is full, an element lies in the next, and the new one will.
        prefetch(lines.as_ptr().wrapping_add(line(wanted.hash, lines.len()) + 1));
        let (all, own) = (all_slots(lines.len()), print(wanted.hash));
        let (bytes, traits) = side.bytes();
        let (matching, usable) = (bytes.equal(own) & all, bytes.at_most(STALE) & all);
        let simple = wanted.simple(traits)?;
        if !writer.retained.needs_no_past(side.newest()) {
            return None;
        }
        let old = simple.find(Slots(matching), lines);
        let (element, new, removed) = match (effect, old) {
            (Effect::Put(payload, len), _) => {
                let shape = simple.shape.with_value(len);
                (Element { key: simple.word, payload, shape }, own, false)
            }
            (Effect::Remove, None) => return side.still(moment).then_some(false),
            (Effect::Remove, Some((_, element))) => (element, TOMB, true),
        };
        if old.is_none() && Slots(usable).is_last() {
            ask_for_all(lines);
            return None;
        }
        let slot = slot_for(Slots(usable), wanted.hash, lines.len())?;
        let (number, at) = place_of(slot);
        let target = lines.get(number)?;
        if element.record().is_some() || has_record(target, at) {
            return None;
        }
        let base = side.base();
        if how.version(writer).saturating_sub(base) > u64::from(DELTA_MAX) - SLACK {
            return None;
        }
        let region = self.forest.region();
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
            // ORDER: durable before any thread is told, and before another writer comes.
            region.fence("nvtree.fast.fence");
        }
        Some(old.is_some())
    }
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
