//! The check of a tree: its structure, order, ranges and space, in every retained version.

use tembo_pool::Object;

use crate::cdds::format::UNBOUNDED_HEAD;
use crate::cdds::node::{Bounds, FINGERPRINT_MASK, Node, Order, compare_high, fingerprint};
use crate::cdds::roots::Roots;
use crate::error::damaged;
use crate::key::KeyBytes;
use crate::record::{read_record, verify};
use crate::{CheckReport, DeadIntervals, Error, KEY_SIZE_MAX, Retained, Stamp, View};

/// Verifies all retained versions of a tree that was made in version `birth`.
pub(crate) fn verify_tree(
    roots: &Roots,
    birth: u64,
    retained: &Retained,
    dead: &DeadIntervals,
) -> Result<CheckReport, Error> {
    let newest = retained.visible();
    for &version in retained.pins().iter().filter(|&&pin| pin >= birth) {
        verify_view(roots, Verified { view: View { version, dead }, newest })?;
    }
    verify_view(roots, Verified { view: View { version: newest, dead }, newest })
}

fn verify_view(roots: &Roots, verified: Verified<'_>) -> Result<CheckReport, Error> {
    let mut report = CheckReport::default();
    let root = roots.root(verified.view)?;
    let level = root.check_shape()?.level;
    verify_node(roots, root, &Bounds::default(), level, verified, &mut report)?;
    report.height = u32::from(level) + 1;
    let leaves_max = (report.entry_count / roots.live_min() as u64).max(1);
    if verified.is_newest() && report.leaf_count > leaves_max {
        return damaged(root.object.offset(), "at most one leaf for every m_l live entries");
    }
    Ok(report)
}

fn verify_node(
    roots: &Roots,
    node: Node<'_>,
    range: &Bounds<'_>,
    level: u8,
    verified: Verified<'_>,
    report: &mut CheckReport,
) -> Result<(), Error> {
    let offset = node.object.offset();
    let (shape, bounds) = verify_shape(node, range, level)?;
    verify_stamps(node, verified)?;
    let (order, _) = node.order()?;
    let mut low = range.low;
    let mut count = 0;
    for slot in order.iter() {
        let seen = node.seen(slot)?;
        if !verified.view.sees(seen.start, seen.end) {
            continue;
        }
        count += 1;
        let target = Object::from_bits(seen.target);
        let key = match level {
            0 => {
                verify(&roots.forest, target)?;
                Some(KeyBytes::from(read_record(&roots.forest, target)?.0))
            }
            _ => node.high_of(target)?,
        };
        if key.is_some_and(|key| key.len() > KEY_SIZE_MAX) {
            return damaged(offset, "keys of at most 65,535 bytes");
        }
        let above = low.is_none_or(|low| key.is_none_or(|key| key > low));
        let has_prefix = |prefix: &[u8]| key.is_none_or(|key| key.starts_with(prefix));
        let guarded = bounds.prefix.with(has_prefix);
        if !above || !guarded || compare_high(key, range.high).is_gt() {
            return damaged(offset, "keys in order and inside the node's range");
        }
        let wanted = key.map_or(UNBOUNDED_HEAD, |key| key.head(shape.prefix_len.into()));
        if node.entry(slot)?.head.load() != wanted {
            return damaged(offset, "a head that its key gives");
        }
        if level == 0 {
            report.entry_count += 1;
            if key.map(|key| key.with(fingerprint)) != Some(seen.target & FINGERPRINT_MASK) {
                return damaged(offset, "a fingerprint that its key gives");
            }
        } else {
            let child = Node::new(&roots.forest, target)?;
            verify_node(roots, child, &Bounds::new(low, key), level - 1, verified, report)?;
        }
        low = key;
    }
    if level == 0 {
        report.leaf_count += 1;
        return Ok(());
    }
    report.inner_count += 1;
    if count == 0 || compare_high(low, range.high).is_ne() {
        return damaged(offset, "children that cover the node's range");
    }
    Ok(())
}

/// A version of a tree that is verified.
#[derive(Clone, Copy)]
struct Verified<'v> {
    view: View<'v>,
    /// The visible version. Later versions have not happened yet, or are dead.
    newest: u64,
}

impl Verified<'_> {
    fn is_newest(&self) -> bool {
        self.view.version == self.newest
    }

    /// Whether a stamp may stand in a sound tree.
    fn may_be(&self, stamp: Stamp) -> bool {
        stamp.version() <= self.newest || self.view.dead.contains(stamp)
    }
}

/// Verifies that the node lives in the version that sees it, and that no stamp in it is of a version to come: such a
/// stamp would end entries that are needed, or have their space given back.
fn verify_stamps(node: Node<'_>, verified: Verified<'_>) -> Result<(), Error> {
    let version = verified.view.version;
    if node.birth()?.version() > version || node.death(verified.view.dead)? <= version {
        return damaged(node.object.offset(), "a node that lives while it is seen");
    }
    let header = node.header()?;
    let stamps = [&header.death, &header.root_since].map(|word| Stamp::from_bits(word.load()));
    let entries = node.all_seen()?;
    let mut all = stamps.into_iter().chain(entries.iter().flat_map(|seen| [seen.start, seen.end]));
    if all.all(|stamp| verified.may_be(stamp)) {
        return Ok(());
    }
    damaged(node.object.offset(), "no version that is yet to come")
}

/// Verifies the node's shape and its bounds, which must be those of its place. Returns the bounds.
fn verify_shape<'f>(
    node: Node<'f>,
    range: &Bounds<'_>,
    level: u8,
) -> Result<(Order, Bounds<'f>), Error> {
    let offset = node.object.offset();
    let (shape, bounds) = (node.check_shape()?, node.bounds()?);
    if shape.level != level {
        return damaged(offset, "a node one level below its parent");
    }
    if bounds.low != range.low || bounds.high != range.high {
        return damaged(offset, "a node whose bounds are its place");
    }
    let prefix_sound = if shape.guarded {
        usize::from(shape.prefix_len) == bounds.prefix.len()
    } else {
        shape.prefix_len <= bounds.prefix_len() && bounds.prefix.is_empty()
    };
    if prefix_sound { Ok((shape, bounds)) } else { damaged(offset, "a prefix of all its keys") }
}
