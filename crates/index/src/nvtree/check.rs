//! Does the tree keep its promises? Order, ranges and versions, in the list and in the inner nodes.

use super::NvTree;
use super::contents::{Contents, NO_SLOT};
use super::leaf::Leaf;
use crate::error::damaged;
use crate::{CheckReport, DeadIntervals, Error, Retained};

impl NvTree {
    pub(crate) fn verify(
        &self,
        retained: &Retained,
        dead: &DeadIntervals,
    ) -> Result<CheckReport, Error> {
        self.complete()?;
        let mut report = CheckReport::default();
        let mut leaf = Leaf::of(&self.forest, self.first()?)?;
        if !leaf.low()?.is_empty() {
            return damaged(leaf.offset(), "a first leaf without a low key");
        }
        loop {
            report.leaf_count += 1;
            self.verify_leaf(&leaf, retained, dead, &mut report)?;
            let Some(next) = leaf.next()? else { break };
            if next.low()? <= leaf.low()? {
                return damaged(next.offset(), "leaves in the order of their low keys");
            }
            leaf = next;
        }
        let inner = self.inner()?;
        if inner.leaf_count() as u64 != report.leaf_count {
            return damaged(self.cell, "no more leaves than the list has");
        }
        report.inner_count = inner.node_count() as u64;
        report.height = inner.height() as u32 + 1;
        Ok(report)
    }

    fn verify_leaf(
        &self,
        leaf: &Leaf<'_>,
        retained: &Retained,
        dead: &DeadIntervals,
        report: &mut CheckReport,
    ) -> Result<(), Error> {
        leaf.check()?;
        let (low, high) = (leaf.low()?, leaf.high()?);
        let (found, _) = self.inner()?.find(low, &*self.forest)?;
        if found != leaf.id {
            return damaged(leaf.offset(), "a leaf that is found by its low key");
        }
        let contents = Contents::read(leaf, dead)?.with_history(leaf)?;
        for key in contents.keys(leaf) {
            let key = key?;
            let name = leaf.key_of(&key[0].element)?;
            if *name < *low || high.is_some_and(|high| *name >= *high) {
                return damaged(leaf.offset(), "keys inside the leaf's range");
            }
            let falls = key.windows(2).all(|two| {
                let (newer, older) = (two[0].stamp.version(), two[1].stamp.version());
                // What is raised to a base may meet its own copy in the history.
                newer > older || newer == older && two[1].slot == NO_SLOT
            });
            if !falls || key[0].stamp.version() > retained.visible() {
                return damaged(leaf.offset(), "versions that have been, each once");
            }
            for seen in key {
                if let Some(record) = seen.element.record() {
                    self.forest.pool().valid(record)?;
                    let (stored, _) =
                        crate::cdds::record::read_record(self.forest.region(), record)?;
                    if stored != name {
                        return damaged(record.offset(), "a record of the element's key");
                    }
                }
            }
            report.entry_count += u64::from(!key[0].meta.is_removed());
        }
        Ok(())
    }
}
