//! Algorithms 5 and 6: entries that nothing needs, and entries of dead versions, are removed from the nodes. This only
//! empties slots, so that a node's side-car stays small and a dead interval can be forgotten. Space is given back
//! elsewhere: by version, and by the sweep.

use tembo_pmem::LINE;
use tembo_pool::Object;

use crate::cdds::node::Node;
use crate::cdds::roots::Roots;
use crate::{Error, Stamp, Writer};

/// Empties the slots of dead and unneeded entries, and takes back dead ends.
pub(crate) fn scrub_one(roots: &Roots, object: Object, writer: &Writer<'_>) -> Result<(), Error> {
    let node = Node::new(&roots.forest, object)?;
    let region = roots.forest.region();
    let (guard, mut order) = node.lock()?;
    let death = node.death(writer.dead)?;
    let mut changed = 0_u32;
    for slot in 0..node.capacity() {
        let (entry, seen) = (node.entry(slot)?, node.seen(slot)?);
        if seen.start.is_none() {
            continue;
        }
        if !seen.is_needed(death, writer.dead, writer.retained) {
            // ORDER: no reader sees the entry, neither before this store nor after it.
            region.commit("cdds.scrub_one.start", &entry.start, 0);
            changed |= 1 << slot;
            order.forget(slot);
            guard.free_head(slot);
        } else if writer.dead.contains(seen.end) {
            // ORDER: a dead end means the same as none.
            region.commit("cdds.scrub_one.end", &entry.end, 0);
            changed |= 1 << slot;
        }
    }
    // ORDER: the erased starts and ends are durable before the intervals that made them void are forgotten.
    node.flush_changed(changed, |offset| region.flush("cdds.scrub_one.flush", offset, LINE))?;
    let header = node.header()?;
    if writer.dead.contains(Stamp::from_bits(header.death.load())) {
        // ORDER: a death in a dead version means the same as no death.
        region.commit("cdds.scrub_one.death", &header.death, 0);
        // ORDER: the erased death is durable before the interval that made it void is forgotten.
        region.flush("cdds.scrub_one.death.flush", region.offset_of(&header.death), 8);
    }
    guard.set(roots.forest.dead_epoch(), &order);
    Ok(())
}

/// Names the newest root that is not dead in the cell.
pub(crate) fn scrub_cell(roots: &Roots, writer: &Writer<'_>) -> Result<(), Error> {
    let (region, cell) = (roots.forest.region(), roots.cell()?);
    let root = roots.root(writer.view())?.object.to_bits();
    if cell.root.load() != root {
        // ORDER: the chain of roots has led every reader to this root before.
        region.commit("cdds.scrub_one.root", &cell.root, root);
        // ORDER: the cell names it durably before the interval that made the younger root void is forgotten.
        region.flush("cdds.scrub_one.root.flush", region.offset_of(&cell.root), 8);
    }
    Ok(())
}

pub(crate) fn collect_step(
    roots: &Roots,
    from: Option<&[u8]>,
    writer: &Writer<'_>,
) -> Result<Option<Vec<u8>>, Error> {
    let path = roots.path(Some(from.unwrap_or_default()), writer.view())?;
    let _section = roots.forest.pool().reserve(0, 64)?;
    for step in &path {
        scrub_one(roots, step.node.object, writer)?;
    }
    let Some(leaf) = path.last() else { return Ok(None) };
    Ok(leaf.node.bounds()?.high.map(|high| [&high.to_vec()[..], &[0]].concat()))
}
