//! The usual change: key and value are short, nobody needs old versions of the leaf, and there is a
//! slot. It is what `change.rs` does, without what that must be ready for; that and nothing else is
//! why it is there twice: a fence takes as long as some hundred instructions, and a processor that
//! comes to the end of one change early begins the next while the fence of the first lasts.

use super::NvTree;
use super::change::How;
use super::contents::place_of;
use super::element::{Element, Meta, Shape};
use super::format::DELTA_MAX;
use super::leaf::{Leaf, Lines, write};
use super::prints::{FREE, Prints, STALE, TOMB, line, print};
use super::side::Traits;
use crate::cdds::record::head;
use crate::{Retained, Stamp, Writer};

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
    #[inline]
    pub(crate) fn change_usual(
        &self,
        key: &[u8],
        (effect, hash): (Effect, u64),
        how: How<'_>,
        writer: &Writer<'_>,
    ) -> Option<bool> {
        let (leaf, moment) = self.leaf_of(key, hash).ok()?;
        let (prints, traits) = leaf.side.prints();
        if !is_calm(&leaf, traits, writer.retained)
            || key.len() > usize::from(traits.prefix_len) + 8
        {
            return None;
        }
        let key_len = key.len().checked_sub(traits.prefix_len.into())?;
        let plain = Plain {
            word: head(key, traits.prefix_len),
            shape: Shape::new(key_len, 0, false),
            hash,
        };
        let lines = leaf.all_lines().ok()?;
        let old = plain.find(&prints, &lines, leaf.lines());
        let element = match (effect, old) {
            (Effect::Put(payload, len), _) => {
                Element { key: plain.word, payload, shape: plain.shape.with_value(len) }
            }
            (Effect::Remove, None) => return leaf.side.still(moment).then_some(false),
            (Effect::Remove, Some((_, element))) => element,
        };
        let slot = slot_for(&prints, hash, leaf.lines())?;
        if element.record().is_some()
            || prints.get(slot) != FREE && lines.read(slot).0.record().is_some()
        {
            return None;
        }
        let base = leaf.side.base();
        if how.version(writer).saturating_sub(base) > u64::from(DELTA_MAX) - SLACK {
            return None;
        }
        let (number, at) = place_of(slot);
        let line = leaf.line(number).ok()?;
        let region = self.forest.region();
        let _section = region.reserve(1).ok()?;
        let guard = leaf.side.lock_at(moment)?;
        let stamp = match how {
            How::Grouped => writer.stamp,
            How::Single(clock) => Stamp::single(clock.draw(), writer.stamp.lane()),
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
    #[inline]
    fn find(&self, prints: &Prints, lines: &Lines<'_>, count: usize) -> Option<(usize, Element)> {
        prints.matching(print(self.hash), count).find_map(|slot| {
            let (element, _) = lines.read(slot);
            let same = element.key == self.word && element.shape.same_key(self.shape);
            same.then_some((slot, element))
        })
    }
}

/// A slot in which something is that was ended, or nothing, best in the line where a search looks
/// first.
#[inline]
pub(crate) fn slot_for(prints: &Prints, hash: u64, lines: usize) -> Option<usize> {
    let preferred = line(hash, lines);
    let (free, stale) = (prints.matching(FREE, lines), prints.matching(STALE, lines));
    let here = stale.of_line(preferred).first().or(free.of_line(preferred).first());
    here.or_else(|| stale.near(preferred)).or_else(|| free.near(preferred))
}
