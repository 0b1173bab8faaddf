//! What happened between two versions: leaf by leaf, those in which nothing is that new passed over.

use super::NvTree;
use super::contents::{Contents, Seen};
use super::leaf::Leaf;
use super::prints;
use crate::changes::{Changed, Period, VisitChanged, VisitDiffering};
use crate::error::damaged;
use crate::{Error, Value};

/// A change that was found in a leaf.
struct Found<'f> {
    key: Vec<u8>,
    version: u64,
    value: Option<Value<'f>>,
}

/// Of the elements of a key, from the newest to the oldest, those that are told of, the oldest first.
type Choose = fn(&[Seen], Period<'_>) -> Vec<Seen>;

impl NvTree {
    pub(crate) fn walk_changes(
        &self,
        period: Period<'_>,
        from: &[u8],
        visit: &mut VisitChanged<'_>,
    ) -> Result<(), Error> {
        self.walk_leaves(period, from, every, &mut |found| {
            let Found { key, version, value } = found;
            visit(Changed { key, version: *version, value: value.as_deref() })
        })
    }

    pub(crate) fn walk_difference(
        &self,
        period: Period<'_>,
        from: &[u8],
        visit: &mut VisitDiffering<'_>,
    ) -> Result<(), Error> {
        self.walk_leaves(period, from, last, &mut |found| visit(&found.key, found.value.as_deref()))
    }

    fn walk_leaves(
        &self,
        period: Period<'_>,
        from: &[u8],
        choose: Choose,
        visit: &mut dyn FnMut(&Found<'_>) -> bool,
    ) -> Result<(), Error> {
        let mut start = from.to_vec();
        loop {
            // Found anew each time, since merges take leaves away.
            let spot = self.spot(&start, prints::hash(&start))?;
            let leaf = &spot.leaf;
            let found = gather(leaf, period, choose);
            let next = leaf.high().map(|high| high.map(<[u8]>::to_vec));
            if !leaf.side.still(spot.moment) {
                continue;
            }
            let (found, next) = (found?, next?);
            // What a merge has brought here from the leaf before was visited there.
            if !found.iter().filter(|found| found.key >= start).all(&mut *visit) {
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
}

/// What a leaf tells of a period, by key and version.
fn gather<'f>(
    leaf: &Leaf<'f>,
    period: Period<'_>,
    choose: Choose,
) -> Result<Vec<Found<'f>>, Error> {
    let mut found = Vec::new();
    if leaf.side.newest() <= period.after {
        return Ok(found);
    }
    let contents = Contents::read(leaf, period.dead)?.with_history(leaf)?;
    for key in contents.keys(leaf) {
        for seen in choose(key?, period) {
            let is_removed = seen.meta.is_removed();
            let value = (!is_removed).then(|| leaf.copied_value(&seen.element)).transpose()?;
            let version = seen.stamp.version();
            found.push(Found { key: leaf.key_of(&seen.element)?, version, value });
        }
    }
    Ok(found)
}

fn every(key: &[Seen], period: Period<'_>) -> Vec<Seen> {
    let inside = |seen: &&Seen| period.contains(seen.stamp.version());
    key.iter().rev().filter(inside).copied().collect()
}

fn last(key: &[Seen], period: Period<'_>) -> Vec<Seen> {
    let last = key.iter().find(|seen| seen.stamp.version() <= period.until);
    last.filter(|seen| period.contains(seen.stamp.version())).copied().into_iter().collect()
}
