//! Whether a key has changed since a version: what a transaction asks when it commits.

use super::NvTree;
use super::history;
use super::lookup::{Spot, Wanted};
use crate::{Error, Stamp, View};

impl NvTree {
    /// The last version above `since` that `now` sees and that put or removed the key.
    pub(crate) fn changed_after(
        &self,
        key: &[u8],
        since: u64,
        now: View<'_>,
    ) -> Result<Option<u64>, Error> {
        let wanted = Wanted::new(key);
        loop {
            let spot = self.spot(wanted)?;
            let newest = spot.leaf.side.newest();
            let changed = if newest <= since { Ok(None) } else { spot.changed_after(since, now) };
            if spot.leaf.side.still(spot.moment) {
                return changed;
            }
        }
    }
}

impl Spot<'_, '_> {
    /// Sound if the moment still is.
    fn changed_after(&self, since: u64, now: View<'_>) -> Result<Option<u64>, Error> {
        let bases = self.leaf.bases()?;
        let mut last = since;
        let is_later = |last: u64, stamp: Stamp| {
            // A record is read only where the element was whole; then it is kept, being newer than
            // what is visible or what is pinned.
            stamp.version() > last && now.sees(stamp, Stamp::NONE) && self.is_still()
        };
        for slot in self.prints.used(self.leaf.lines()) {
            let (element, meta) = self.leaf.element(slot)?;
            let stamp = meta.stamp(bases);
            if !meta.is_empty()
                && is_later(last, stamp)
                && self.leaf.is_of(&element, &self.placed)?
            {
                last = stamp.version();
            }
        }
        if self.traits.older {
            for old in history::read(&self.leaf)? {
                if is_later(last, old.stamp) && self.leaf.is_of(&old.element, &self.placed)? {
                    last = old.stamp.version();
                }
            }
        }
        Ok((last > since).then_some(last))
    }

    fn is_still(&self) -> bool {
        self.leaf.side.still(self.moment)
    }
}
