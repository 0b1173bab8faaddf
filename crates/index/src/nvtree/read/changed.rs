//! Whether a key has changed since a version: what a transaction asks when it commits.

use crate::nvtree::history;
use crate::nvtree::leaves::{Leaves, Spot, Wanted};
use crate::{Error, Stamp, View};

/// The last version above `since` that `now` sees and that put or removed the key.
pub(crate) fn changed_after(
    leaves: &Leaves,
    key: &[u8],
    since: u64,
    now: View<'_>,
) -> Result<Option<u64>, Error> {
    let wanted = Wanted::new(key);
    loop {
        let spot = leaves.spot(wanted)?;
        let newest = spot.leaf.side.newest();
        let changed =
            if newest <= since { Ok(None) } else { spot_changed_after(&spot, since, now) };
        if spot.leaf.side.still(spot.moment) {
            return changed;
        }
    }
}

/// As `changed_after`, in a spot. The result is sound if the spot's moment still is.
fn spot_changed_after(
    spot: &Spot<'_, '_>,
    since: u64,
    now: View<'_>,
) -> Result<Option<u64>, Error> {
    let bases = spot.leaf.bases()?;
    let mut last = since;
    let is_later = |last: u64, stamp: Stamp| {
        // A record is read only where the element was read whole. Then the record is kept, since it is newer than the
        // visible version or than a pinned one.
        stamp.version() > last && now.sees(stamp, Stamp::NONE) && is_still(spot)
    };
    for slot in spot.prints.used(spot.leaf.lines()) {
        let (element, meta) = spot.leaf.element(slot)?;
        let stamp = meta.stamp(bases);
        if !meta.is_empty() && is_later(last, stamp) && spot.leaf.is_of(&element, &spot.placed)? {
            last = stamp.version();
        }
    }
    if spot.traits.older {
        for old in history::read(&spot.leaf)? {
            if is_later(last, old.stamp) && spot.leaf.is_of(&old.element, &spot.placed)? {
                last = old.stamp.version();
            }
        }
    }
    Ok((last > since).then_some(last))
}

fn is_still(spot: &Spot<'_, '_>) -> bool {
    spot.leaf.side.still(spot.moment)
}
