//! Six degrees of separation: a large scale-free graph in lists of pages with up to 256 edges each. A search is a transaction that
//! reads, and an insertion or removal of an edge one that changes the lists of both its ends.
//!
//! Edges weigh the same, so that Dijkstra's algorithm is a search in breadth. It goes six edges deep, but through no more
//! nodes than it is given: the thesis does not say what it does when a search reaches most of the graph.

use std::collections::{BTreeSet, VecDeque};

use super::{KIND, Random};
use crate::store::Store;

/// Edges of a page.
const EDGES: usize = 256;

/// Bytes of a page: the number of the next one, the count of edges, edges of 4 bytes.
const PAGE: u64 = 1088;

/// Where the edges begin.
const HEAD: usize = 16;

/// How many edges a search goes.
const DEGREES: u32 = 6;

/// A page as it is read.
struct Page {
    number: u64,
    next: u64,
    edges: Vec<u32>,
}

impl Page {
    fn bytes(&self) -> Vec<u8> {
        let words = [self.next, self.edges.len() as u64].into_iter().flat_map(u64::to_le_bytes);
        words.chain(self.edges.iter().flat_map(|edge| edge.to_le_bytes())).collect()
    }
}

/// The graph: a page for each node, and pages behind them.
pub struct Graph {
    nodes: u64,
    pages: u64,
    pages_max: u64,
}

type Writes = Vec<(u64, Vec<u8>)>;

impl Graph {
    /// A graph without edges in a store of zeros.
    pub fn new(nodes: u64) -> Graph {
        Graph { nodes, pages: nodes, pages_max: 2 * nodes }
    }

    /// Bytes that it takes.
    pub fn size(&self) -> u64 {
        self.pages_max * PAGE
    }

    /// A node by preference for low numbers, which makes the graph scale-free: as likely below `n` as below `2 n`,
    /// less a half.
    pub fn node(&self, random: &mut Random) -> u64 {
        let bits = 64 - self.nodes.leading_zeros();
        let below = 1 << (1 + random.below(bits.into()));
        random.below(self.nodes.min(below))
    }

    fn page<S: Store>(store: &mut S, number: u64) -> Result<Page, S::Error> {
        let mut bytes = vec![0; HEAD + 4 * EDGES];
        store.read(number * PAGE, &mut bytes)?;
        let (head, edges) = bytes.split_at(HEAD);
        let word = |at: usize| head[at..].first_chunk().map_or(0, |word| u64::from_le_bytes(*word));
        let count = (word(8) as usize).min(EDGES);
        let (edges, _) = edges.as_chunks::<4>();
        let edges = edges[..count].iter().map(|edge| u32::from_le_bytes(*edge)).collect();
        Ok(Page { number, next: word(0), edges })
    }

    fn list<S: Store>(store: &mut S, node: u64) -> Result<Vec<Page>, S::Error> {
        let mut list = vec![Graph::page(store, node)?];
        while let Some(next) = list.last().map(|last| last.next).filter(|next| *next > 0) {
            list.push(Graph::page(store, next)?);
        }
        Ok(list)
    }

    /// The neighbours of a node.
    ///
    /// # Errors
    /// Those of the store.
    pub fn neighbours<S: Store>(&self, store: &mut S, node: u64) -> Result<Vec<u32>, S::Error> {
        Ok(Graph::list(store, node)?.into_iter().flat_map(|page| page.edges).collect())
    }

    /// How many edges lie between two nodes, if it is six at most and is found by reading `reads` nodes.
    ///
    /// # Errors
    /// Those of the store.
    pub fn search<S: Store>(
        &self,
        store: &mut S,
        (from, to): (u64, u64),
        reads: usize,
    ) -> Result<Option<u32>, S::Error> {
        let (mut seen, mut queue) = (BTreeSet::from([from]), VecDeque::from([(from, 0)]));
        for _ in 0..reads {
            let Some((node, degree)) = queue.pop_front() else { return Ok(None) };
            if node == to {
                return Ok(Some(degree));
            }
            if degree == DEGREES {
                continue;
            }
            for next in self.neighbours(store, node)? {
                if u64::from(next) == to {
                    return Ok(Some(degree + 1));
                }
                if seen.insert(next.into()) {
                    queue.push_back((next.into(), degree + 1));
                }
            }
        }
        Ok(None)
    }

    /// Takes an edge out of a list, or puts it in; what that writes, and whether it is in it then. `None`: no page is left.
    fn change(&mut self, list: &mut [Page], to: u32) -> Option<(Writes, bool)> {
        let found = list.iter().enumerate().find_map(|(number, page)| {
            Some((number, page.edges.iter().position(|edge| *edge == to)?))
        });
        if let Some((number, at)) = found {
            let page = &mut list[number];
            page.edges.swap_remove(at);
            let (from, bytes) = (page.number * PAGE, page.bytes());
            // The count, and the edge that takes its place.
            let mut writes = vec![(from, bytes[..HEAD].to_vec())];
            if at < page.edges.len() {
                let edge = HEAD + 4 * at;
                writes.push((from + edge as u64, bytes[edge..edge + 4].to_vec()));
            }
            return Some((writes, false));
        }
        if let Some(page) = list.iter_mut().find(|page| page.edges.len() < EDGES) {
            page.edges.push(to);
            let (from, bytes) = (page.number * PAGE, page.bytes());
            let edge = bytes.len() - 4;
            let writes =
                vec![(from, bytes[..HEAD].to_vec()), (from + edge as u64, bytes[edge..].to_vec())];
            return Some((writes, true));
        }
        if self.pages == self.pages_max {
            return None;
        }
        let first = &mut list[0];
        let fresh = Page { number: self.pages, next: first.next, edges: vec![to] };
        (self.pages, first.next) = (self.pages + 1, fresh.number);
        let link = (first.number * PAGE, first.bytes()[..8].to_vec());
        Some((vec![(fresh.number * PAGE, fresh.bytes()), link], true))
    }

    /// Inserts an edge that is not there, removes one that is; which, and nothing if there is no page for it.
    ///
    /// # Errors
    /// Those of the store.
    pub fn toggle<S: Store>(
        &mut self,
        store: &mut S,
        (one, other): (u64, u64),
    ) -> Result<Option<bool>, S::Error> {
        if one == other {
            return Ok(None);
        }
        let locks = [one.min(other), one.max(other)].map(|node| (3 * KIND) | node);
        locks.iter().for_each(|lock| store.lock(*lock));
        let pages = self.pages;
        let (mut ones, mut others) = (Graph::list(store, one)?, Graph::list(store, other)?);
        let changed = self.change(&mut ones, other as u32);
        let both =
            changed.and_then(|changed| Some((changed, self.change(&mut others, one as u32)?)));
        let done = match both {
            Some(((mut writes, is_in), (more, _))) => {
                writes.extend(more);
                store.update(writes)?;
                Some(is_in)
            }
            None => {
                self.pages = pages;
                None
            }
        };
        locks.iter().for_each(|lock| store.unlock(*lock));
        Ok(done)
    }
}
