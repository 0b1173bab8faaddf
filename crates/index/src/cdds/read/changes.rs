//! What happened between two versions: leaf by leaf of the later one, with all that has been in the
//! range of its keys since the earlier one.
//!
//! An entry is copied with its start when its node is replaced, so one entry may stand in many nodes.
//! It ended in the version that one of them says; or, if none does and all of these nodes have died, in
//! the death of the last, whose successor was made without it.

use std::collections::{BTreeMap, BTreeSet};

use tembo_pmem::MediaBytes;
use tembo_pool::Object;

use crate::cdds::node::{Bounds, Node};
use crate::cdds::roots::Roots;
use crate::changes::{Changed, Period, VisitChanged};
use crate::error::damaged;
use crate::key::KeyBytes;
use crate::record::read_record;
use crate::{Error, Stamp, Value};

/// The lives of keys: by key and start.
type Lives<'f> = BTreeMap<(Vec<u8>, u64), Life<'f>>;

/// An entry in all nodes that have it.
#[derive(Clone, Copy)]
struct Life<'f> {
    value: MediaBytes<'f>,
    /// The version in which the entry ended, if one of the nodes says so.
    ended: Option<u64>,
    /// The version in which the last of the nodes died. `u64::MAX`: it lives.
    died: u64,
}

impl Life<'_> {
    fn end(&self) -> u64 {
        self.ended.unwrap_or(self.died)
    }
}

/// A search for all entries that have been in a range of keys.
struct Search<'f, 'w> {
    period: Period<'w>,
    range: &'w Bounds<'f>,
    nodes: BTreeSet<u64>,
    lives: Lives<'f>,
}

impl Search<'_, '_> {
    /// Whether a node with these bounds may have keys of the range.
    fn meets(&self, bounds: &Bounds<'_>) -> bool {
        let apart = |high: Option<KeyBytes<'_>>, low: Option<KeyBytes<'_>>| {
            high.zip(low).is_some_and(|(high, low)| high <= low)
        };
        !apart(bounds.high, self.range.low) && !apart(self.range.high, bounds.low)
    }

    fn contains(&self, key: &[u8]) -> bool {
        self.range.low.is_none_or(|low| low.compare(key).is_lt())
            && self.range.high.is_none_or(|high| high.compare(key).is_ge())
    }
}

pub(crate) fn visit_changes(
    roots: &Roots,
    period: Period<'_>,
    from: &[u8],
    visit: &mut VisitChanged<'_>,
) -> Result<(), Error> {
    each_leaf(roots, period, from, &mut |range| {
        let (nodes, lives) = (BTreeSet::new(), BTreeMap::new());
        let mut search = Search { period, range, nodes, lives };
        search_roots(roots, &mut search)?;
        Ok(publish(&search.lives, period, from, visit))
    })
}

/// Calls `each` with the bounds of the leaves of the last version, until it returns false.
fn each_leaf<'f>(
    roots: &'f Roots,
    period: Period<'_>,
    from: &[u8],
    each: &mut dyn FnMut(&Bounds<'f>) -> Result<bool, Error>,
) -> Result<(), Error> {
    let mut next = from.to_vec();
    loop {
        let (leaf, _, _) = roots.leaf(Some(&next), period.last())?;
        let bounds = leaf.bounds()?;
        if !each(&bounds)? {
            return Ok(());
        }
        let Some(high) = bounds.high else { return Ok(()) };
        if high.compare(&next).is_lt() {
            return damaged(leaf.object.offset(), "a leaf that covers the key sought");
        }
        // The least key above `high`.
        next = [&high.to_vec()[..], &[0]].concat();
    }
}

/// Searches from each root of the period, and from that of the version before.
fn search_roots<'f>(roots: &'f Roots, search: &mut Search<'f, '_>) -> Result<(), Error> {
    let period = search.period;
    let mut object = Object::from_bits(roots.cell()?.root.load());
    let mut younger = u64::MAX;
    loop {
        let node = Node::new(&roots.forest, object)?;
        let since = Stamp::from_bits(node.header()?.root_since.load());
        if !period.dead.contains(since) && since.version() <= period.until {
            search_node(roots, (object, None), search)?;
            if since.version() <= period.after {
                return Ok(());
            }
        }
        object = Object::from_bits(node.header()?.older_root.load());
        if object.to_bits() == 0 {
            return Ok(());
        }
        if since.version() >= younger {
            return damaged(node.object.offset(), "an older root");
        }
        roots.forest.pool().valid(object)?;
        younger = since.version();
    }
}

/// Searches a node, of a level that is known unless it is a root: so a damaged tree ends.
fn search_node<'f>(
    roots: &'f Roots,
    (object, expected): (Object, Option<u8>),
    search: &mut Search<'f, '_>,
) -> Result<(), Error> {
    roots.forest.pool().valid(object)?;
    if !search.nodes.insert(object.offset()) {
        return Ok(());
    }
    let node = Node::new(&roots.forest, object)?;
    if !search.meets(&node.bounds()?) {
        return Ok(());
    }
    let level = node.check_shape()?.level;
    if expected.is_some_and(|expected| level != expected) {
        return damaged(object.offset(), "a node one level below its parent");
    }
    let (period, death) = (search.period, node.death(search.period.dead)?);
    for seen in node.all_seen()? {
        let is_void = seen.start.is_none() || period.dead.contains(seen.start);
        let ended = !seen.end.is_none() && !period.dead.contains(seen.end);
        let ended = ended.then(|| seen.end.version());
        let dropped = ended.unwrap_or(u64::MAX).min(death);
        let start = seen.start.version();
        // An entry that one version has both made and ended is in no view.
        if is_void || start > period.until || dropped <= period.after.max(start) {
            continue;
        }
        let target = Object::from_bits(seen.target);
        if level > 0 {
            search_node(roots, (target, Some(level - 1)), search)?;
            continue;
        }
        let (key, value) = read_record(&roots.forest, target)?;
        let key = key.to_vec();
        if search.contains(&key) {
            let life = Life { value, ended, died: death };
            let known = search.lives.entry((key, start)).or_insert(life);
            known.ended = known.ended.or(ended);
            known.died = known.died.max(death);
        }
    }
    Ok(())
}

/// Visits the changes, by key and version. Returns false if the visitor has had enough.
fn publish(
    lives: &Lives<'_>,
    period: Period<'_>,
    from: &[u8],
    visit: &mut VisitChanged<'_>,
) -> bool {
    lives.iter().filter(|((key, _), _)| key[..] >= *from).all(|((key, start), life)| {
        let (start, end) = (*start, life.end());
        let put = Changed { key, version: start, value: Some(Value::in_pool(life.value)) };
        let is_removed = period.contains(end) && !lives.contains_key(&(key.clone(), end));
        (!period.contains(start) || visit(put))
            && (!is_removed || visit(Changed { key, version: end, value: None }))
    })
}
