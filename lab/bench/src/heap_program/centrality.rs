//! SSCA: how often shortest paths lead over each vertex of a scale-free graph, in one vertex's view after another's.
//!
//! Kernels 1 and 4 of SSCA 2.2 (Bader and Madduri): a directed graph by R-MAT is built, edge by edge; then each work takes one
//! vertex as the source, counts shortest paths from it by breadth, and adds what depends on each vertex to its score
//! (Brandes). Scores are whole numbers, in units of 2^-20, so that no order of additions changes them.

use super::graph::{BLOCK, add, decoded, neighbours};
use super::memory::{Form, Keyed, Memory, Program, Work};
use crate::keys::Random;

/// A graph of `1 << scale` vertices.
pub(crate) struct Ssca {
    pub(crate) scale: u32,
    pub(crate) edges: usize,
}

/// A unit of scores.
const UNIT: f64 = (1 << 20) as f64;

/// Where scores stand in a store by keys.
const SCORES: u64 = 1 << 32;

/// An edge, or a source.
pub(crate) enum Pass {
    Edge { from: u32, to: u32 },
    Source(Box<Source>),
}

/// What is found from one source.
#[derive(Default)]
pub(crate) struct Source {
    source: u32,
    /// Vertices in the order in which they were reached.
    order: Vec<u32>,
    /// Steps to each vertex, and how many shortest paths there are; no paths: it was not reached.
    distance: Vec<u32>,
    paths: Vec<f64>,
    /// Neighbours, one vertex behind another in `order`; where each begins.
    around: Vec<u32>,
    begins: Vec<usize>,
    dependency: Vec<f64>,
    scratch: Vec<u32>,
}

impl Source {
    fn of(source: u32, vertices: usize) -> Source {
        let mut this = Source { source, ..Source::default() };
        this.distance = vec![0; vertices];
        this.paths = vec![0.0; vertices];
        this.dependency = vec![0.0; vertices];
        this
    }

    /// Reads the graph, and finds out what depends on each vertex.
    fn find<F>(
        &mut self,
        mut around: impl FnMut(u32, &mut Vec<u32>) -> Result<(), F>,
    ) -> Result<(), F> {
        self.order.clear();
        self.around.clear();
        self.begins.clear();
        self.paths.fill(0.0);
        self.dependency.fill(0.0);
        self.order.push(self.source);
        self.paths[self.source as usize] = 1.0;
        self.distance[self.source as usize] = 0;
        let mut at = 0;
        while let Some(&vertex) = self.order.get(at) {
            at += 1;
            around(vertex, &mut self.scratch)?;
            // In one order over all stores: sums of fractions depend on it.
            self.scratch.sort_unstable();
            self.begins.push(self.around.len());
            self.around.extend(&self.scratch);
            let (steps, paths) = (self.distance[vertex as usize], self.paths[vertex as usize]);
            for &near in &self.scratch {
                let near = near as usize;
                if self.paths[near] == 0.0 {
                    self.distance[near] = steps + 1;
                    self.order.push(near as u32);
                }
                if self.distance[near] == steps + 1 {
                    self.paths[near] += paths;
                }
            }
        }
        let mut end = self.around.len();
        for (vertex, begin) in self.order.iter().zip(&self.begins).rev() {
            let vertex = *vertex as usize;
            for near in &self.around[*begin..end] {
                let near = *near as usize;
                if self.distance[near] == self.distance[vertex] + 1 {
                    let share = self.paths[vertex] / self.paths[near];
                    self.dependency[vertex] += share * (1.0 + self.dependency[near]);
                }
            }
            end = *begin;
        }
        Ok(())
    }

    /// What is to be added to scores, by vertex.
    fn scores(&self) -> impl Iterator<Item = (usize, u64)> {
        let others = self.order.iter().skip(1).map(|vertex| *vertex as usize);
        others
            .map(|vertex| (vertex, (self.dependency[vertex] * UNIT).round() as u64))
            .filter(|(_, score)| *score > 0)
    }
}

impl Work<BLOCK, 1> for Pass {
    fn run<M: Memory<BLOCK, 1>>(&mut self, memory: &mut M) -> Result<u64, M::Fault> {
        let source = match self {
            Pass::Edge { from, to } => {
                let mut around = Vec::new();
                neighbours(memory, *from as usize, &mut around)?;
                if !around.contains(to) {
                    add(memory, *from as usize, *to)?;
                }
                return Ok(0);
            }
            Pass::Source(source) => source,
        };
        source.find(|vertex, out| neighbours(memory, vertex as usize, out))?;
        let mut sum = 0_u64;
        for (vertex, more) in source.scores() {
            let score = memory.cell(vertex)?;
            memory.set_cell(vertex, score + more)?;
            sum = sum.wrapping_add((score + more).wrapping_mul(vertex as u64 + 1));
        }
        Ok(sum)
    }

    fn run_keyed<K: Keyed>(&mut self, entries: &mut K) -> Result<u64, K::Fault> {
        let mut value = Vec::new();
        let source = match self {
            Pass::Edge { from, to } => {
                entries.get((*from).into(), true, &mut value)?;
                if !value.chunks_exact(4).any(|bytes| bytes == to.to_le_bytes()) {
                    value.extend(to.to_le_bytes());
                    entries.put((*from).into(), &value)?;
                }
                return Ok(0);
            }
            Pass::Source(source) => source,
        };
        source.find(|vertex, out| {
            value.clear();
            entries.get(vertex.into(), false, &mut value)?;
            decoded(&value, out);
            Ok(())
        })?;
        let mut all: Vec<(usize, u64)> = source.scores().collect();
        // In one order, so that two transactions do not wait for each other.
        all.sort_unstable();
        let mut sum = 0_u64;
        for (vertex, more) in all {
            value.clear();
            entries.get(SCORES | vertex as u64, true, &mut value)?;
            let score = value.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes));
            entries.put(SCORES | vertex as u64, &(score + more).to_le_bytes())?;
            sum = sum.wrapping_add((score + more).wrapping_mul(vertex as u64 + 1));
        }
        Ok(sum)
    }
}

impl Program<BLOCK, 1> for Ssca {
    type Work = Pass;

    fn name(&self) -> &'static str {
        "SSCA"
    }

    fn form(&self) -> Form {
        let vertices = 1 << self.scale;
        Form { cells: vertices, heads: vertices, objects: vertices + self.edges }
    }

    fn payload(&self) -> u64 {
        4 * self.edges as u64 + (8 << self.scale)
    }

    fn filling(&self) -> usize {
        self.edges
    }

    /// An edge by R-MAT, with the probabilities of SSCA 2.2: 0.55, 0.1, 0.1, 0.25.
    fn fill(&self, number: usize) -> Pass {
        let mut random = Random::new(number as u64 ^ 0x55ca);
        let (mut from, mut to) = (0, 0);
        for _ in 0..self.scale {
            let (row, column) = match random.below(100) {
                0..55 => (0, 0),
                55..65 => (0, 1),
                65..75 => (1, 0),
                _ => (1, 1),
            };
            (from, to) = (from << 1 | row, to << 1 | column);
        }
        Pass::Edge { from, to }
    }

    fn work(&self, _number: u64, random: &mut Random) -> Pass {
        let vertices = 1 << self.scale;
        Pass::Source(Box::new(Source::of(random.below(vertices as u64) as u32, vertices)))
    }

    fn is_hashed(&self) -> bool {
        true
    }
}
