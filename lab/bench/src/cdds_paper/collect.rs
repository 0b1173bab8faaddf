//! Garbage collection: entries of inner nodes that no version needs, then nodes that nothing names
//! (algorithm 5).

use std::collections::HashSet;

use tembo_pool::Object;

use super::format::LIVE;
use super::node::Node;
use super::tree::Tree;
use crate::Error;

/// Between operations.
pub(super) fn collect(tree: &Tree) -> Result<(), Error> {
    let version = tree.version()?;
    loop {
        let root = tree.node(tree.root()?)?;
        forget_dead(tree, &root, version);
        if root.is_leaf() || root.count() != 1 {
            break;
        }
        tree.set_root(Object::from_bits(root.value(0)))?;
    }
    let mut named = HashSet::new();
    visit(tree, tree.root()?, version, &mut named)?;
    tree.free_others(|node| named.contains(&node.to_bits()));
    Ok(())
}

fn visit(tree: &Tree, object: Object, version: u64, named: &mut HashSet<u64>) -> Result<(), Error> {
    named.insert(object.to_bits());
    let node = tree.node(object)?;
    if node.is_leaf() {
        return Ok(());
    }
    forget_dead(tree, &node, version);
    for at in 0..node.count() {
        visit(tree, Object::from_bits(node.value(at)), version, named)?;
    }
    Ok(())
}

/// Removes entries of an inner node that ended before the consistent version.
fn forget_dead(tree: &Tree, node: &Node<'_>, version: u64) {
    if node.is_leaf() {
        return;
    }
    let is_kept = |at: &usize| node.end(*at) == LIVE || node.end(*at) >= version;
    let kept: Vec<usize> = (0..node.count()).filter(is_kept).collect();
    for (to, from) in kept.iter().enumerate().filter(|(to, from)| to != *from) {
        tree.shift(node, *from, to);
    }
    tree.truncate(node, kept.len());
}
