//! Cycles of dependencies.
//!
//! **What it decides.** A history is serialisable if and only if its graph of dependencies ([`Graph`]) has
//! no cycle (Adya, Liskov and O'Neil, ICDE 2000: no G0, G1c, G2). It is allowed under snapshot isolation
//! if and only if each cycle has two *rw* edges one after the other (Fekete et al., TODS 2005, for what
//! is needed; Cerone and Gotsman, JACM 2018, that it suffices): lost updates, read skew and long forks
//! are cycles without such a pair, write skew is one with it. This does not trust the snapshots'
//! versions, only the order of each key's versions, and so it is a second opinion to
//! [`check_snapshots`](super::check_snapshots), and the one that separates the two levels.
//!
//! A key that was found absent may have been put and removed since: then two graphs explain the history, and one
//! of them without a cycle is enough. (To mix both is not tried: a store validates all that a transaction
//! has read at the same version.)
//!
//! **How.** A path that never takes two *rw* edges in succession is a path in a graph of twice the nodes:
//! each transaction is there once as reached by *rw*, and once as reached otherwise, and from the first
//! no *rw* edge leads on. So one search for strong components (Tarjan 1972, with a stack of its own)
//! decides both levels, in O(nodes + edges). What it finds is reported as the shortest cycle of the smallest
//! component, since that is the one a person understands.

use std::collections::{HashMap, VecDeque};

use super::broken::{Broken, Dependency, Edge};
use super::database::Isolation;
use super::graph::{Absence, Graph};
use super::record::History;

/// From so many nodes of a component a shortest cycle is looked for.
const STARTS: usize = 2000;

/// Whether there is no cycle that the isolation level forbids.
///
/// # Errors
/// The shortest one found; or a read of what was never committed.
pub fn check_cycles(history: &History, isolation: Isolation) -> Result<(), Broken> {
    let mut found = Vec::new();
    for absence in [Absence::AtSnapshot, Absence::AtCommit] {
        let graph = Graph::of(history, absence)?;
        let walk = Walk { graph: &graph, isolation };
        let Some(component) = walk.smallest_component() else { return Ok(()) };
        found = walk.shortest_cycle(&component);
    }
    Err(Broken::Cycle { isolation, edges: found })
}

/// The graph of the walks that an isolation level forbids to return.
struct Walk<'g> {
    graph: &'g Graph,
    isolation: Isolation,
}

/// What Tarjan's search knows of a node.
#[derive(Clone, Copy, Default)]
struct Mark {
    /// When it was found, from 1; 0: not yet.
    found: u32,
    /// The earliest that is known to be reached from it.
    low: u32,
    on_stack: bool,
}

impl Walk<'_> {
    /// Nodes are transactions twice over: even ones, odd ones reached by *rw*.
    fn node_count(&self) -> usize {
        2 * self.graph.node_count()
    }

    /// Where an edge leads from a node, if the walk may take it.
    fn step(&self, node: usize, edge: &Edge) -> Option<usize> {
        match (self.isolation, edge.dependency) {
            (Isolation::Snapshot, Dependency::Rw) if node % 2 == 1 => None,
            (Isolation::Snapshot, Dependency::Rw) => Some(2 * edge.to + 1),
            _ => Some(2 * edge.to),
        }
    }

    /// The smallest strong component of more than one node: there is a cycle in it.
    fn smallest_component(&self) -> Option<Vec<usize>> {
        let mut marks = vec![Mark::default(); self.node_count()];
        let (mut stack, mut path, mut time) = (Vec::new(), Vec::new(), 0);
        let mut smallest: Option<Vec<usize>> = None;
        for root in 0..self.node_count() {
            if marks[root].found == 0 {
                path.push((root, 0));
            }
            while let Some((node, next)) = path.pop() {
                if next == 0 {
                    time += 1;
                    marks[node] = Mark { found: time, low: time, on_stack: true };
                    stack.push(node);
                }
                let edges = self.graph.from(node / 2);
                let Some(edge) = edges.get(next) else {
                    let Mark { found, low, .. } = marks[node];
                    if let Some(&(parent, _)) = path.last() {
                        let parent: usize = parent;
                        marks[parent].low = marks[parent].low.min(low);
                    }
                    if found == low {
                        let component = pop_component(&mut stack, &mut marks, node);
                        let is_smaller =
                            smallest.as_ref().is_none_or(|s| component.len() < s.len());
                        if component.len() > 1 && is_smaller {
                            smallest = Some(component);
                        }
                    }
                    continue;
                };
                path.push((node, next + 1));
                let Some(to) = self.step(node, edge) else { continue };
                if marks[to].found == 0 {
                    path.push((to, 0));
                } else if marks[to].on_stack {
                    marks[node].low = marks[node].low.min(marks[to].found);
                }
            }
        }
        smallest
    }

    /// The shortest cycle through one of the first nodes of a component.
    fn shortest_cycle(&self, component: &[usize]) -> Vec<Edge> {
        let inside: HashMap<usize, usize> =
            component.iter().enumerate().map(|(at, &node)| (node, at)).collect();
        let cycles = component.iter().take(STARTS);
        cycles
            .filter_map(|&start| self.cycle_from(start, &inside))
            .min_by_key(Vec::len)
            .unwrap_or_default()
    }

    /// The shortest way from `start` back to it, breadth first.
    fn cycle_from(&self, start: usize, inside: &HashMap<usize, usize>) -> Option<Vec<Edge>> {
        let mut came: Vec<Option<(usize, Edge)>> = vec![None; inside.len()];
        let mut queue = VecDeque::from([start]);
        while let Some(node) = queue.pop_front() {
            for edge in self.graph.from(node / 2) {
                let Some(to) = self.step(node, edge) else { continue };
                let Some(&at) = inside.get(&to).filter(|&&at| came[at].is_none()) else { continue };
                came[at] = Some((node, *edge));
                if to == start {
                    let mut edges = Vec::new();
                    let mut at = to;
                    while let Some((from, edge)) = came[inside[&at]] {
                        edges.push(edge);
                        at = from;
                        if at == start {
                            break;
                        }
                    }
                    edges.reverse();
                    return Some(edges);
                }
                queue.push_back(to);
            }
        }
        None
    }
}

/// Takes the component of `root` from Tarjan's stack.
fn pop_component(stack: &mut Vec<usize>, marks: &mut [Mark], root: usize) -> Vec<usize> {
    let at = stack.iter().rposition(|&node| node == root).unwrap_or(0);
    let component = stack.split_off(at);
    for &node in &component {
        marks[node].on_stack = false;
    }
    component
}
