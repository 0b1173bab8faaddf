//! SixDegrees: paths of length six at most in a scale-free graph, which is changed meanwhile.

use super::memory::{Form, Keyed, Memory, Program, Work};
use crate::keys::{Random, scramble};

/// An undirected graph.
pub(crate) struct SixDegrees {
    pub(crate) vertices: usize,
    /// Edges when it is filled, about.
    pub(crate) edges: usize,
}

/// Neighbours in one object of a list.
const ROOM: usize = 6;

/// Words of an object: how many neighbours it has, and these.
pub(super) const BLOCK: usize = ROOM + 1;

/// Edges of a path at most.
const DEGREES: u32 = 6;

/// A change of the graph, or a search.
pub(crate) enum Step {
    /// An edge is there afterwards.
    Add { ends: [u32; 2] },
    /// Inserts an edge, or removes it.
    Toggle { ends: [u32; 2] },
    /// How long the shortest path is, if it has six edges at most.
    Search { ends: [u32; 2], scratch: Scratch },
}

/// What a search remembers.
#[derive(Default)]
pub(crate) struct Scratch {
    seen: Vec<bool>,
    frontier: Vec<u32>,
    next: Vec<u32>,
    /// Neighbours of one vertex.
    around: Vec<u32>,
}

impl Scratch {
    pub(super) fn of(vertices: usize) -> Scratch {
        Scratch { seen: vec![false; vertices], ..Scratch::default() }
    }
}

/// Calls `each` with all neighbours of a vertex.
pub(super) fn neighbours<M: Memory<BLOCK, 1>>(
    memory: &mut M,
    of: usize,
    out: &mut Vec<u32>,
) -> Result<(), M::Fault> {
    out.clear();
    memory.visit(of, |data| {
        out.extend(data[1..].iter().take(data[0] as usize).map(|to| *to as u32));
        Some(0)
    })
}

/// Adds a neighbour, which is not there.
pub(super) fn add<M: Memory<BLOCK, 1>>(
    memory: &mut M,
    from: usize,
    to: u32,
) -> Result<(), M::Fault> {
    let first = memory.head(from)?;
    if let Some(block) = &first {
        let count = memory.word(block, 0)? as usize;
        if count < ROOM {
            memory.set_word(block, 1 + count, to.into())?;
            return memory.set_word(block, 0, count as u64 + 1);
        }
    }
    let mut data = [0; BLOCK];
    data[..2].copy_from_slice(&[1, to.into()]);
    let block = memory.make(data, [first])?;
    memory.set_head(from, Some(block))
}

/// Removes a neighbour; whether it was there. The last one of the first block takes its place.
fn remove<M: Memory<BLOCK, 1>>(memory: &mut M, from: usize, to: u32) -> Result<bool, M::Fault> {
    let Some(first) = memory.head(from)? else { return Ok(false) };
    let mut at = Some(first.clone());
    while let Some(block) = at {
        let data = memory.data(&block)?;
        let here = data[1..].iter().take(data[0] as usize).position(|here| *here == u64::from(to));
        if let Some(place) = here {
            let count = memory.word(&first, 0)? as usize;
            let last = memory.word(&first, count)?;
            memory.set_word(&block, 1 + place, last)?;
            if count > 1 {
                memory.set_word(&first, 0, count as u64 - 1)?;
            } else {
                let next = memory.link(&first, 0)?;
                memory.set_head(from, next)?;
                memory.free(first)?;
            }
            return Ok(true);
        }
        at = memory.link(&block, 0)?;
    }
    Ok(false)
}

/// Neighbours of a vertex in a value of four bytes each.
pub(super) fn decoded(value: &[u8], out: &mut Vec<u32>) {
    out.clear();
    out.extend(
        value
            .chunks_exact(4)
            .filter_map(|bytes| bytes.first_chunk())
            .map(|bytes| u32::from_le_bytes(*bytes)),
    );
}

/// Changes the entry of a vertex; whether the neighbour is there afterwards.
fn change_keyed<K: Keyed>(
    entries: &mut K,
    from: u32,
    to: u32,
    removes: bool,
) -> Result<u64, K::Fault> {
    let mut value = Vec::new();
    entries.get(from.into(), true, &mut value)?;
    let place = value.chunks_exact(4).position(|bytes| bytes == to.to_le_bytes());
    match place {
        Some(_) if !removes => return Ok(1),
        Some(place) => drop(value.drain(4 * place..4 * place + 4)),
        None => value.extend(to.to_le_bytes()),
    }
    entries.put(from.into(), &value)?;
    Ok(u64::from(place.is_none()))
}

impl Scratch {
    /// Searches by breadth; `around` fills the neighbours of a vertex.
    fn search<F>(
        &mut self,
        [from, to]: [u32; 2],
        mut around: impl FnMut(u32, &mut Vec<u32>) -> Result<(), F>,
    ) -> Result<u64, F> {
        self.seen.fill(false);
        self.frontier.clear();
        self.frontier.push(from);
        self.seen[from as usize] = true;
        for degree in 1..=DEGREES {
            self.next.clear();
            for &vertex in &self.frontier {
                around(vertex, &mut self.around)?;
                for &near in &self.around {
                    if near == to {
                        return Ok(degree.into());
                    }
                    if let Some(seen) = self.seen.get_mut(near as usize)
                        && !std::mem::replace(seen, true)
                    {
                        self.next.push(near);
                    }
                }
            }
            std::mem::swap(&mut self.frontier, &mut self.next);
        }
        Ok(0)
    }
}

impl Work<BLOCK, 1> for Step {
    fn reads_only(&self) -> bool {
        matches!(self, Step::Search { .. })
    }

    fn run<M: Memory<BLOCK, 1>>(&mut self, memory: &mut M) -> Result<u64, M::Fault> {
        match self {
            Step::Search { ends, scratch } => {
                scratch.search(*ends, |vertex, out| neighbours(memory, vertex as usize, out))
            }
            Step::Add { ends: [one, other] } => {
                let mut around = Vec::new();
                neighbours(memory, *one as usize, &mut around)?;
                if !around.contains(other) {
                    add(memory, *one as usize, *other)?;
                    add(memory, *other as usize, *one)?;
                }
                Ok(1)
            }
            Step::Toggle { ends: [one, other] } => {
                if remove(memory, *one as usize, *other)? {
                    remove(memory, *other as usize, *one)?;
                    return Ok(0);
                }
                add(memory, *one as usize, *other)?;
                add(memory, *other as usize, *one)?;
                Ok(1)
            }
        }
    }

    fn run_keyed<K: Keyed>(&mut self, entries: &mut K) -> Result<u64, K::Fault> {
        let (&mut [one, other], removes) = match self {
            Step::Search { ends, scratch } => {
                let mut value = Vec::new();
                return scratch.search(*ends, |vertex, out| {
                    value.clear();
                    entries.get(vertex.into(), false, &mut value)?;
                    decoded(&value, out);
                    Ok(())
                });
            }
            Step::Add { ends } => (ends, false),
            Step::Toggle { ends } => (ends, true),
        };
        // In one order, so that two transactions do not wait for each other.
        change_keyed(entries, one.min(other), one.max(other), removes)?;
        change_keyed(entries, one.max(other), one.min(other), removes)
    }
}

/// An edge of a graph in which few vertices have many edges: ends are drawn by the product of two numbers.
fn edge(random: &mut Random, vertices: usize) -> [u32; 2] {
    let count = vertices as u64;
    let often = |random: &mut Random| {
        let near_zero = random.below(count) * random.below(count) / count;
        (scramble(near_zero) % count) as u32
    };
    let one = often(random);
    let other = random.below(count - 1) as u32;
    [one, other + u32::from(other >= one)]
}

impl Program<BLOCK, 1> for SixDegrees {
    type Work = Step;

    fn name(&self) -> &'static str {
        "SixDegrees"
    }

    fn form(&self) -> Form {
        let (heads, objects) = (self.vertices, self.vertices + self.edges);
        Form { cells: 0, heads, objects }
    }

    fn payload(&self) -> u64 {
        2 * 4 * self.edges as u64
    }

    fn filling(&self) -> usize {
        self.edges
    }

    fn fill(&self, number: usize) -> Step {
        Step::Add { ends: edge(&mut Random::new(number as u64), self.vertices) }
    }

    fn work(&self, number: u64, random: &mut Random) -> Step {
        let ends = edge(random, self.vertices);
        if number.is_multiple_of(2) {
            return Step::Toggle { ends };
        }
        Step::Search { ends, scratch: Scratch::of(self.vertices) }
    }

    fn is_hashed(&self) -> bool {
        true
    }
}
