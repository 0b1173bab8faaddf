//! Does the tree keep its promises? Structure, order, ranges and space, in every retained version.

use tembo_pool::Object;

use super::Cdds;
use super::format::UNBOUNDED_HEAD;
use super::node::{Node, compare_high};
use super::record::{Bounds, FINGERPRINT_MASK, fingerprint, head, read_key};
use crate::error::damaged;
use crate::{CheckReport, DeadIntervals, Error, Retained, View};

impl Cdds {
    pub(crate) fn verify(
        &self,
        retained: &Retained,
        dead: &DeadIntervals,
    ) -> Result<CheckReport, Error> {
        for &version in retained.pins().iter().filter(|&&pin| pin >= self.birth) {
            self.verify_view(View { version, dead }, false)?;
        }
        self.verify_view(View { version: retained.visible(), dead }, true)
    }

    fn verify_view(&self, view: View<'_>, visible: bool) -> Result<CheckReport, Error> {
        let mut report = CheckReport::default();
        let root = self.root(view)?;
        let level = root.check_shape()?.level;
        self.verify_node(root, &Bounds::default(), level, view, &mut report)?;
        report.height = u32::from(level) + 1;
        let leaves_max = (report.entry_count / self.live_min() as u64).max(1);
        if visible && report.leaf_count > leaves_max {
            return damaged(root.object.offset(), "at most one leaf for every m_l live entries");
        }
        Ok(report)
    }

    fn verify_node(
        &self,
        node: Node<'_>,
        range: &Bounds<'_>,
        level: u8,
        view: View<'_>,
        report: &mut CheckReport,
    ) -> Result<(), Error> {
        let offset = node.object.offset();
        let shape = node.check_shape()?;
        let bounds = node.bounds()?;
        if shape.level != level {
            return damaged(offset, "a node one level below its parent");
        }
        // A promoted root keeps the bounds that it had as a child only if these were none.
        if bounds.low != range.low || bounds.high != range.high {
            return damaged(offset, "a node whose bounds are its place");
        }
        if usize::from(shape.prefix_len) > usize::from(bounds.prefix_len()) {
            return damaged(offset, "a prefix that all keys of the node share");
        }
        let (order, _) = node.order()?;
        let mut low = range.low.map(<[u8]>::to_vec);
        let mut count = 0;
        for slot in order.iter() {
            let seen = node.seen(slot)?;
            if !view.sees(seen.start, seen.end) {
                continue;
            }
            count += 1;
            let target = Object::from_bits(seen.target);
            let key = match level {
                0 => Some(read_key(self.forest.region(), target)?),
                _ => node.high_of(target)?,
            };
            let wanted = key.map_or(UNBOUNDED_HEAD, |key| head(key, shape.prefix_len));
            let above = low.as_deref().is_none_or(|low| key.is_none_or(|key| key > low))
                || (level == 0 && count == 1 && range.low.is_none());
            if !above || compare_high(key, range.high).is_gt() {
                return damaged(offset, "keys in order and inside the node's range");
            }
            if node.entry(slot)?.head.load() != wanted {
                return damaged(offset, "a head that its key gives");
            }
            if level == 0 {
                report.entry_count += 1;
                if key.map(fingerprint) != Some(seen.target & FINGERPRINT_MASK) {
                    return damaged(offset, "a fingerprint that its key gives");
                }
            } else {
                let child_range = Bounds { low: low.as_deref(), high: key };
                let child = Node::new(&self.forest, target)?;
                self.verify_node(child, &child_range, level - 1, view, report)?;
            }
            low = key.map(<[u8]>::to_vec);
        }
        if level == 0 {
            report.leaf_count += 1;
        } else {
            report.inner_count += 1;
            if count == 0 || compare_high(low.as_deref(), range.high).is_ne() {
                return damaged(offset, "children that cover the node's range");
            }
        }
        Ok(())
    }
}
