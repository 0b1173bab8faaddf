//! The history of a leaf: what old versions need, where one key has more versions than its leaf has slots. It lies in
//! *history leaves*, which are written once and linked from the leaf.

use tembo_pool::Object;

use super::format::{
    HEADER_SIZE, HISTORY_MAGIC, HistoryHeader, META_REMOVED, OLD_ENTRY_SIZE, OldEntry,
    old_entries_in,
};
use super::leaf::{Element, Leaf, Meta, Shape};
use crate::error::damaged;
use crate::{Error, Retired, Stamp};

/// An entry of a history.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Old {
    pub(crate) element: Element,
    pub(crate) stamp: Stamp,
    pub(crate) removed: bool,
}

/// The history leaves of a leaf.
pub(crate) fn chain(leaf: &Leaf<'_>) -> Result<Vec<Object>, Error> {
    let mut found = Vec::new();
    let node_size = u64::from(leaf.forest.pool().geometry().node_size);
    // A damaged list may go round: a sound one fits into the pool.
    let length_max = leaf.region().size() / node_size;
    let mut object = Object::from_bits(leaf.header()?.older.load());
    while !object.is_none() {
        leaf.forest.pool().valid(object)?;
        let header: &HistoryHeader = leaf.region().get(object.offset())?;
        let is_one =
            header.shape.load() == u64::from(HISTORY_MAGIC) << 32 && object.size() == node_size;
        if !is_one || found.len() as u64 == length_max {
            return damaged(object.offset(), "a history leaf");
        }
        found.push(object);
        object = Object::from_bits(header.older.load());
    }
    Ok(found)
}

/// All entries of a leaf's history.
pub(crate) fn read(leaf: &Leaf<'_>) -> Result<Vec<Old>, Error> {
    let mut all = Vec::new();
    for object in chain(leaf)? {
        for at in 0..old_entries_in(object.size()) {
            let entry: &OldEntry = leaf.region().get(entry_offset(object, at))?;
            let (stamp, shape) = (Stamp::from_bits(entry.stamp.load()), entry.shape.load() as u32);
            if stamp.is_none() {
                break;
            }
            let element = Element {
                key: entry.pair.key.load(),
                payload: entry.pair.payload.load(),
                shape: Shape(shape & !META_REMOVED),
            };
            let removed = shape & META_REMOVED != 0;
            all.push(Old { element, stamp, removed });
        }
    }
    Ok(all)
}

fn entry_offset(object: Object, at: usize) -> u64 {
    object.offset() + HEADER_SIZE + at as u64 * OLD_ENTRY_SIZE
}

/// Adds entries to a leaf's history. The caller holds the leaf's lock and has reserved. Durable when it
/// returns; on an error nothing has changed.
pub(crate) fn push(leaf: &Leaf<'_>, entries: &[Old]) -> Result<(), Error> {
    let older = leaf.header()?.older.load();
    let made = make(leaf, entries, older)?;
    link(leaf, made.last().map_or(older, |made| made.to_bits()))
}

/// Replaces a leaf's history by one of these entries. It is durable as with [`push`].
pub(crate) fn replace(
    leaf: &Leaf<'_>,
    entries: &[Old],
    version: u64,
    retired: &mut Vec<Retired>,
) -> Result<(), Error> {
    relink(leaf, &make(leaf, entries, 0)?, version, retired)
}

/// Makes the history leaves that [`make`] has returned the whole history of a leaf. Allocates nothing. Durable when it
/// returns.
pub(crate) fn relink(
    leaf: &Leaf<'_>,
    made: &[Object],
    version: u64,
    retired: &mut Vec<Retired>,
) -> Result<(), Error> {
    let before = chain(leaf)?;
    link(leaf, made.last().map_or(0, |made| made.to_bits()))?;
    retired.extend(before.into_iter().map(|object| Retired { object, start: 0, end: version }));
    Ok(())
}

/// Writes history leaves that lead to the history leaf `older`. Returns them; the last one is the head of the chain. On
/// an error nothing is allocated.
pub(crate) fn make(leaf: &Leaf<'_>, entries: &[Old], mut older: u64) -> Result<Vec<Object>, Error> {
    let pool = leaf.forest.pool();
    let node_size = u64::from(pool.geometry().node_size);
    let mut made: Vec<Object> = Vec::new();
    for part in entries.chunks(old_entries_in(node_size)) {
        let object = pool.alloc(node_size).inspect_err(|_| pool.give_up(made.iter().copied()))?;
        made.push(object);
        write(leaf, object, older, part).inspect_err(|_| pool.give_up(made.iter().copied()))?;
        older = object.to_bits();
    }
    Ok(made)
}

fn link(leaf: &Leaf<'_>, older: u64) -> Result<(), Error> {
    let (region, header) = (leaf.region(), leaf.header()?);
    // ORDER: the history is durable before the leaf refers to it.
    region.fence("nvtree.history.fence");
    // ORDER: after the history, as above; and after the versions were given up whose entries it leaves out.
    region.commit("nvtree.history.link", &header.older, older);
    // ORDER: the link is durable before copies in the leaf are erased, and before the space of an older history is used
    // again.
    region.flush("nvtree.history.link.flush", region.offset_of(&header.older), 8);
    // ORDER: as above.
    region.fence("nvtree.history.link.fence");
    Ok(())
}

fn write(leaf: &Leaf<'_>, object: Object, older: u64, entries: &[Old]) -> Result<(), Error> {
    let region = leaf.region();
    let header: &HistoryHeader = region.get(object.offset())?;
    region.store(&header.shape, u64::from(HISTORY_MAGIC) << 32);
    region.store(&header.older, older);
    for word in &header.reserved {
        region.store(word, 0);
    }
    for at in 0..old_entries_in(object.size()) {
        let entry: &OldEntry = region.get(entry_offset(object, at))?;
        let Some(old) = entries.get(at) else {
            region.store(&entry.stamp, 0);
            continue;
        };
        region.store(&entry.pair.key, old.element.key);
        region.store(&entry.pair.payload, old.element.payload);
        let removed = if old.removed { META_REMOVED } else { 0 };
        region.store(&entry.shape, u64::from(old.element.shape.0 | removed));
        region.store(&entry.stamp, old.stamp.to_bits());
    }
    // ORDER: the history leaf is durable before the leaf refers to it.
    region.flush("nvtree.history.flush", object.offset(), object.size());
    Ok(())
}

impl Old {
    /// The entry of the history that an element of a leaf becomes.
    pub(crate) fn of(element: Element, meta: Meta, stamp: Stamp) -> Old {
        Old { element, stamp, removed: meta.is_removed() }
    }
}
