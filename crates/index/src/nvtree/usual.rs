//! The usual change: key and value are short, nobody needs old versions of the leaf, and there is a
//! slot. It is what `change.rs` does, without what that must be ready for; that and nothing else is
//! why it is there twice: a fence takes as long as some hundred instructions, and a processor that
//! comes to the end of one change early begins the next while the fence of the first lasts.

use super::NvTree;
use super::change::How;
use super::contents::place_of;
use super::element::{Element, Meta, Shape};
use super::format::{DELTA_MAX, Line};
use super::leaf::{Leaf, has_record, read_of, write};
use super::prints::{FREE, STALE, Slots, TOMB, all_slots, line, print};
use super::side::Traits;
use crate::record::head;
use crate::simd::Bytes48;
use crate::{Retained, Stamp, Writer};

// What is not above this mark is in a slot that nobody needs.
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

/// A key in a leaf whose keys all have the prefix.
struct Plain {
    word: u64,
    shape: Shape,
    hash: u64,
}

impl NvTree {
    /// Performs the change if it is usual; whether the key was there. `None`: it is not, or somebody
    /// was quicker, and nothing has changed.
    #[inline(always)]
    pub(crate) fn change_usual(
        &self,
        key: &[u8],
        (effect, hash): (Effect, u64),
        how: How<'_>,
        writer: &Writer<'_>,
    ) -> Option<bool> {
        let (leaf, moment) = self.leaf_at_once(key, hash)?;
        leaf.side.prefetch_rest();
        let (bytes, traits) = leaf.side.bytes();
        let key_len = key.len().checked_sub(traits.prefix_len.into()).filter(|&len| len <= 8)?;
        if !is_calm(&leaf, traits, writer.retained) {
            return None;
        }
        let (word, shape) = (head(key, traits.prefix_len), Shape::new(key_len, 0, false));
        let lines = leaf.all_lines().ok()?;
        let old = Plain { word, shape, hash }.find(bytes, lines);
        let element = match (effect, old) {
            (Effect::Put(payload, len), _) => {
                Element { key: word, payload, shape: shape.with_value(len) }
            }
            (Effect::Remove, None) => return leaf.side.still(moment).then_some(false),
            (Effect::Remove, Some((_, element))) => element,
        };
        let slot =
            slot_for(Slots(bytes.at_most(STALE) & all_slots(lines.len())), hash, lines.len())?;
        let (number, at) = place_of(slot);
        let line = lines.get(number)?;
        if element.record().is_some() || has_record(line, at) {
            return None;
        }
        let base = leaf.side.base();
        if how.version(writer).saturating_sub(base) > u64::from(DELTA_MAX) - SLACK {
            return None;
        }
        let region = self.forest.region();
        let _section = region.reserve(1).ok()?;
        let guard = leaf.side.lock_at(moment)?;
        let stamp = match how {
            How::Grouped => writer.stamp,
            How::Single(turn) => Stamp::single(turn.draw(), writer.stamp.lane()),
        };
        let removed = matches!(effect, Effect::Remove);
        let meta = Meta::new(stamp, removed, traits.base, base)?;
        write(region, line, at, &element, meta);
        if let Some((old, _)) = old {
            guard.set_print(old, STALE);
        }
        guard.set_print(slot, if removed { TOMB } else { print(hash) });
        guard.set_newest(stamp.version());
        if let How::Single(_) = how {
            // ORDER: durable before anybody is told, and before another writer comes.
            region.fence("nvtree.usual.fence");
        }
        Some(old.is_some())
    }
}

/// Whether what was ended in the leaf is needed by nobody, and all its keys have the prefix.
#[inline]
fn is_calm(leaf: &Leaf<'_>, traits: Traits, retained: &Retained) -> bool {
    !traits.guarded && retained.needs_no_past(leaf.side.newest())
}

impl Plain {
    #[inline(always)]
    fn find(&self, bytes: Bytes48, lines: &[Line]) -> Option<(usize, Element)> {
        Slots(bytes.equal(print(self.hash)) & all_slots(lines.len())).find_map(|slot| {
            let (number, at) = place_of(slot);
            Some((slot, read_of(lines.get(number)?, at, self.word, self.shape)?))
        })
    }
}

/// Of slots in which something is that was ended, or nothing, the one to use: best in the line where a
/// search looks first.
#[inline(always)]
pub(crate) fn slot_for(usable: Slots, hash: u64, lines: usize) -> Option<usize> {
    usable.near(line(hash, lines))
}
