//! Nodes written anew: one or two, by algorithm 3's choice.

use tembo_pmem::{LINE, Region, Word};
use tembo_pool::Object;

use super::edit::Item;
use super::few::Few;
use crate::cdds::format::{CAPACITY_MAX, UNBOUNDED_HEAD, shape};
use crate::cdds::node::{Bounds, Node, Order, separator};
use crate::cdds::roots::Roots;
use crate::error::damaged;
use crate::key::KeyBytes;
use crate::record::common;
use crate::{Error, Writer};

/// Objects that an unfinished operation has made, and to which nothing refers yet.
#[derive(Default)]
pub(crate) struct Fresh {
    pub(crate) record: Option<Object>,
    pub(crate) objects: Vec<Object>,
}

/// Words of the largest node, of its header, which is a line, and of an entry.
const NODE_WORDS: usize = 128;
const LINE_WORDS: usize = 8;
const ENTRY_WORDS: usize = 4;

/// What the header of a root says of the chain of roots: the stamp since which it is the root, and the root before.
/// Both are zero in a node that is no root.
#[derive(Clone, Copy, Default)]
pub(crate) struct RootLink {
    pub(crate) since: u64,
    pub(crate) older: u64,
}

/// Makes algorithm 3's choice: one new node, or two if one would be left with too little room.
pub(crate) fn pack<'k>(
    roots: &Roots,
    (level, link): (u8, RootLink),
    items: &[Item<'k>],
    bounds: &Bounds<'k>,
    writer: &Writer<'_>,
    fresh: &mut Fresh,
) -> Result<Few<Item<'k>>, Error> {
    let begin =
        |high, node: Object| Item { key: high, target: node.to_bits(), start: writer.stamp };
    if items.len() <= roots.forest.capacity - roots.live_min() {
        let node = new_node(roots, (level, link), items, bounds, writer, fresh)?;
        return Ok(Few::one(begin(bounds.high, node)));
    }
    let (left, right) = items.split_at(items.len() / 2);
    let middle = match (left.last().and_then(|item| item.key), right.first().map(|i| i.key)) {
        (Some(last), Some(Some(first))) if level == 0 => separator(last, first),
        (Some(last), _) => last,
        _ => return damaged(roots.cell, "keys on both sides of a split"),
    };
    let left_bounds = Bounds::new(bounds.low, Some(middle));
    let right_bounds = Bounds::new(Some(middle), bounds.high);
    let below = (level, RootLink::default());
    let left = new_node(roots, below, left, &left_bounds, writer, fresh)?;
    let right = new_node(roots, below, right, &right_bounds, writer, fresh)?;
    Ok(Few::and(begin(Some(middle), left), Some(begin(bounds.high, right))))
}

/// Writes a node to which nothing refers yet, with every slot of it, and flushes the lines that it has changed.
pub(crate) fn new_node(
    roots: &Roots,
    (level, link): (u8, RootLink),
    items: &[Item<'_>],
    bounds: &Bounds<'_>,
    writer: &Writer<'_>,
    fresh: &mut Fresh,
) -> Result<Object, Error> {
    let (pool, region) = (roots.forest.pool(), roots.forest.region());
    let size = u64::from(pool.geometry().node_size);
    let object = pool.alloc(size)?;
    fresh.objects.push(object);
    let mut bounds_bits = 0;
    let bounds = &guard(bounds, items);
    if *bounds != Bounds::default() {
        // The record has lines of its own: a line that it shared could be flushed again for another record.
        let record = pool.alloc(bounds.size().max(LINE))?;
        fresh.objects.push(record);
        bounds.write(region, record)?;
        bounds_bits = record.to_bits();
    }
    let guarded = !bounds.prefix.is_empty();
    let prefix_len = if guarded { bounds.prefix.len() as u16 } else { bounds.prefix_len() };
    let mut image = [0u64; NODE_WORDS];
    image[0] = shape(level, roots.forest.capacity, prefix_len, guarded);
    image[1] = writer.stamp.to_bits();
    (image[2], image[3], image[4]) = (bounds_bits, link.since, link.older);
    let order = Order { level, prefix_len, guarded, ..Order::of_first(items.len()) };
    let node = Node::new(&roots.forest, object)?;
    let guard = node.side.lock();
    let entries = image[LINE_WORDS..].as_chunks_mut::<ENTRY_WORDS>().0;
    for (slot, (item, entry)) in items.iter().zip(entries).enumerate() {
        let head = item.key.map_or(UNBOUNDED_HEAD, |key| key.head(prefix_len.into()));
        *entry = [head, item.target, 0, item.start.to_bits()];
        guard.set_head(slot, head);
    }
    (items.len()..CAPACITY_MAX).for_each(|slot| guard.free_head(slot));
    write_image(region, region.words(object.offset(), (size / 8) as usize)?, &image);
    guard.set(roots.forest.dead_epoch(), &order);
    Ok(object)
}

/// Makes the words of a node those of the image. Stores the words that differ, line by line.
fn write_image(region: &Region, words: &[Word], image: &[u64; NODE_WORDS]) {
    let lines = words.as_chunks::<LINE_WORDS>().0;
    for (words, values) in lines.iter().zip(image.as_chunks::<LINE_WORDS>().0) {
        let (mut line, mut is_changed) = (region.line_stores(), false);
        for (word, &value) in words.iter().zip(values) {
            if word.load() != value {
                line.store(word, value);
                is_changed = true;
            }
        }
        if is_changed {
            // ORDER: every line of the node that has changed is durable before the commit that links the node.
            line.flush("cdds.node.flush", &words[0]);
        }
    }
}

/// Bytes by which the prefix of a guarded node is shorter than what its keys have in common. They belong to the heads, so
/// that not every next key in a row lacks the prefix.
const GUARD_SLACK: u16 = 3;

/// The bounds of a node of these entries, with a guard if that gives it a longer prefix.
fn guard<'k>(bounds: &Bounds<'k>, items: &[Item<'k>]) -> Bounds<'k> {
    let bare = Bounds::new(bounds.low, bounds.high);
    if bounds.low.is_some() && bounds.high.is_some() {
        return bare;
    }
    let mut keys = items.iter().filter_map(|item| item.key);
    let Some(first) = keys.next() else { return bare };
    let last = match keys.next_back() {
        Some(last) => last,
        // A root of two children.
        None if items.len() > 1 => first,
        None => return bare,
    };
    let prefix_len = last.with(|last| common(first, last)).saturating_sub(GUARD_SLACK);
    let prefix = first.slice(0..prefix_len.into()).unwrap_or(KeyBytes::EMPTY);
    Bounds { prefix, ..bare }
}
