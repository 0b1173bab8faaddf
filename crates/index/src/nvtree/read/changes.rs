//! What happened between two versions: leaf by leaf, without the leaves in which nothing is that new.

use crate::changes::{Changed, Period, VisitChanged};
use crate::error::damaged;
use crate::key::KeyBytes;
use crate::nvtree::image::{LeafImage, Seen};
use crate::nvtree::leaf::Leaf;
use crate::nvtree::leaves::{Leaves, Wanted};
use crate::{Error, Value};

/// A change that was found in a leaf.
struct Found<'f> {
    key: Vec<u8>,
    version: u64,
    value: Option<Value<'f>>,
}

impl Found<'_> {
    fn known(&self) -> Changed<'_> {
        Changed { key: &self.key, version: self.version, value: self.value }
    }
}

pub(crate) fn visit_changes(
    leaves: &Leaves,
    period: Period<'_>,
    from: &[u8],
    visit: &mut VisitChanged<'_>,
) -> Result<(), Error> {
    let mut start = from.to_vec();
    loop {
        // The leaf is looked for anew each time, since merges take leaves away.
        let spot = leaves.spot(Wanted::new(&start))?;
        let leaf = &spot.leaf;
        let found = gather(leaf, period);
        let next = leaf.high().map(|high| high.map(KeyBytes::to_vec));
        if !leaf.side.still(spot.moment) {
            continue;
        }
        let (found, next) = (found?, next?);
        // Elements that a merge has brought from the leaf before were visited there.
        if !found.iter().filter(|found| found.key >= start).all(|found| visit(found.known())) {
            return Ok(());
        }
        match next {
            None => return Ok(()),
            Some(next) if next <= start => {
                return damaged(leaf.offset(), "a leaf that begins behind the one before");
            }
            Some(next) => start = next,
        }
    }
}

/// The changes of a period in a leaf, by key and version.
fn gather<'f>(leaf: &Leaf<'f>, period: Period<'_>) -> Result<Vec<Found<'f>>, Error> {
    let mut found = Vec::new();
    if leaf.side.newest() <= period.after {
        return Ok(found);
    }
    let contents = LeafImage::read(leaf, period.dead)?.with_history(leaf)?;
    for key in contents.keys(leaf) {
        // They come from the newest on.
        let inside = |seen: &&Seen| period.contains(seen.stamp.version());
        for seen in key?.iter().rev().filter(inside) {
            let is_removed = seen.meta.is_removed();
            let value = (!is_removed).then(|| leaf.value(&seen.element)).transpose()?;
            let version = seen.stamp.version();
            found.push(Found { key: leaf.key_of(&seen.element)?, version, value });
        }
    }
    Ok(found)
}
