//! Recovery: what was done for a version that was never committed is undone (algorithm 6).

use std::collections::HashSet;

use tembo_pool::Object;

use super::format::LIVE;
use super::node::Node;
use super::tree::Tree;
use crate::Error;

/// Before anything else. It may itself be interrupted, and begin again.
pub(super) fn recover(tree: &Tree) -> Result<(), Error> {
    let version = tree.version()?;
    let mut nodes = Vec::new();
    visit(tree, tree.root()?, version, &mut nodes)?;
    tree.adopt(nodes)
}

fn visit(tree: &Tree, object: Object, version: u64, nodes: &mut Vec<Object>) -> Result<(), Error> {
    tree.pool().valid(object)?;
    nodes.push(object);
    let node = tree.node(object)?;
    undo(tree, &node, version);
    if node.is_leaf() {
        return Ok(());
    }
    for at in 0..node.count() {
        visit(tree, Object::from_bits(node.value(at)), version, nodes)?;
    }
    Ok(())
}

/// Leaves what is alive in `version`, each key once.
fn undo(tree: &Tree, node: &Node<'_>, version: u64) {
    let count = node.counted();
    node.set_count(tree.region(), count);
    let mut kept: Vec<usize> = Vec::new();
    let mut keys = HashSet::new();
    for at in 0..count {
        let is_old = node.start(at) <= version;
        let is_needed = node.end(at) == LIVE || node.end(at) > version;
        // An interrupted shift has left an entry twice.
        if is_old && is_needed && keys.insert(node.key(at)) {
            kept.push(at);
        }
    }
    for (to, from) in kept.iter().enumerate() {
        if to != *from {
            tree.shift(node, *from, to);
        }
    }
    tree.truncate(node, kept.len());
    for at in (0..kept.len()).filter(|at| !node.is_live(*at)) {
        tree.end(node, at, LIVE);
    }
}
