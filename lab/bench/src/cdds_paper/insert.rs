//! Insertion, and splits (algorithms 2 and 3).

use super::format::{FIRST_VERSION, LIVE};
use super::node::{Node, Pair};
use super::tree::{Path, Tree};
use crate::Error;

/// Enters a key that is not there, in a version that is not committed yet.
pub(super) fn insert(tree: &Tree, entry: Pair, version: u64) -> Result<(), Error> {
    let (leaf, path) = tree.path_to(entry.0)?;
    add(tree, path, &leaf, &[entry], version).map(drop)
}

/// The result of an insertion into a node.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Added {
    InPlace,
    /// Others have taken its place.
    Replaced,
}

/// Puts entries into a node: where there is room, over dead ones, or by copying what is alive.
pub(super) fn add(
    tree: &Tree,
    path: Path<'_>,
    node: &Node<'_>,
    entries: &[Pair],
    version: u64,
) -> Result<Added, Error> {
    let missing = (node.count() + entries.len()).saturating_sub(node.capacity());
    if missing > 0 && !reuse(tree, node, missing)? {
        split_insert(tree, path, node, entries, version)?;
        return Ok(Added::Replaced);
    }
    for entry in entries {
        put_in(tree, node, *entry, version);
    }
    Ok(Added::InPlace)
}

/// Makes room for so many entries by removing dead ones, if there are as many: algorithm 2's
/// `can_reuse_version`.
fn reuse(tree: &Tree, node: &Node<'_>, count: usize) -> Result<bool, Error> {
    let consistent = tree.version()?;
    let is_dead = |at: &usize| node.end(*at) != LIVE && node.end(*at) < consistent;
    let dead: Vec<usize> = (0..node.count()).filter(is_dead).take(count).collect();
    if dead.len() < count {
        return Ok(false);
    }
    // From the last on, so that the others stay where they are.
    for at in dead.into_iter().rev() {
        let last = node.count() - 1;
        if tree.is_sorted(node) {
            for from in at + 1..=last {
                tree.shift(node, from, from - 1);
            }
        } else if at != last {
            tree.shift(node, last, at);
        }
        tree.truncate(node, last);
    }
    Ok(true)
}

/// Puts an entry into a node that has room.
pub(super) fn put_in(tree: &Tree, node: &Node<'_>, entry: Pair, version: u64) {
    let count = node.count();
    let at = if tree.is_sorted(node) { node.upper_bound(entry.0) } else { count };
    for from in (at..count).rev() {
        tree.shift(node, from, from + 1);
    }
    tree.put(node, at, entry, version);
    node.set_count(tree.region(), count + 1);
}

/// Algorithm 3: what is alive goes on in one fresh node or in two, with the entries that had no room.
fn split_insert(
    tree: &Tree,
    path: Path<'_>,
    node: &Node<'_>,
    entries: &[Pair],
    version: u64,
) -> Result<(), Error> {
    let live = node.live_entries();
    let mut all = [&live[..], entries].concat();
    all.sort_unstable();
    let bound = path.last().map_or(u64::MAX, |(parent, slot)| parent.key(*slot));
    let mut children = Vec::with_capacity(2);
    let mut rest = &all[..];
    if live.len() > 4 * tree.min_live(node) {
        let middle = live[live.len() / 2 - 1].0;
        let (left, right) = all.split_at(all.partition_point(|(key, _)| *key <= middle));
        children.push((middle, tree.make(node.level(), &started(left, version))?.to_bits()));
        rest = right;
    }
    children.push((bound, tree.make(node.level(), &started(rest, version))?.to_bits()));
    tree.end_all(node, version, |_| true);
    tree.retire();
    replace(tree, path, node.level(), &children, version)
}

/// Entries of a fresh node.
pub(super) fn started(entries: &[Pair], version: u64) -> Vec<[u64; 4]> {
    entries.iter().map(|(key, value)| [*key, *value, version, LIVE]).collect()
}

/// Names fresh nodes where an old one, of `level`, was named.
fn replace(
    tree: &Tree,
    mut path: Path<'_>,
    level: u64,
    children: &[Pair],
    version: u64,
) -> Result<(), Error> {
    if let Some((parent, slot)) = path.pop() {
        tree.end(&parent, slot, version);
        return add(tree, path, &parent, children, version).map(drop);
    }
    // The root overflows: a new one names the old one, for versions that are, and its successors.
    let old = [u64::MAX, tree.root()?.to_bits(), FIRST_VERSION, version];
    let mut entries = started(children, version);
    entries.push(old);
    entries.sort_unstable_by_key(|[key, _, start, _]| (*key, *start));
    tree.set_root(tree.make(level + 1, &entries)?)
}
