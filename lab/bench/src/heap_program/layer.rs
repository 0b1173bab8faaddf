//! Heaps as memories, by the layer that a program pays for.

use std::sync::{Mutex, PoisonError};

use tembo_heap::{
    Access, Atomic, Base, Checkpointed, Error as HeapError, Field, Heap, Layer, Persist, Ptr, Safe,
    Slice,
};

use super::load::{Extent, Measured, measured};
use super::memory::{Form, Memory, Onward, Program, Store, WAY, Way, Work};
use crate::Error;
use crate::heap_bed::HeapBed;

/// A layer of NV-heaps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HeapLayer {
    /// Memory by hand, and checkpoints.
    Base,
    /// Objects go by themselves; checkpoints.
    Safe,
    /// Transactions that run alone.
    Tx,
    /// Transactions side by side.
    Ctx,
}

impl HeapLayer {
    pub(crate) const ALL: [HeapLayer; 4] =
        [HeapLayer::Base, HeapLayer::Safe, HeapLayer::Tx, HeapLayer::Ctx];

    pub(crate) fn name(self) -> &'static str {
        match self {
            HeapLayer::Base => "BASE",
            HeapLayer::Safe => "SAFE",
            HeapLayer::Tx => "TX",
            HeapLayer::Ctx => "C-TX",
        }
    }
}

/// Works between two checkpoints.
const CHECKPOINT: u64 = 64;

/// Entries of an array in one object. Two transactions conflict where they change one object.
const PART: usize = 64;

#[derive(Persist)]
struct Node<'h, const D: usize, const L: usize> {
    data: [u64; D],
    links: [NodeLink<'h, D, L>; L],
}

type NodeLink<'h, const D: usize, const L: usize> = Option<Ptr<'h, Node<'h, D, L>>>;

type Words<'h> = Ptr<'h, Slice<u64>>;

type Links<'h, const D: usize, const L: usize> = Ptr<'h, Slice<NodeLink<'h, D, L>>>;

/// The arrays of a benchmark, of which the program holds the parts.
struct Arrays<'h, const D: usize, const L: usize> {
    cells: Vec<Words<'h>>,
    heads: Vec<Links<'h, D, L>>,
}

impl<'h, const D: usize, const L: usize> Arrays<'h, D, L> {
    fn new(heap: &mut Access<'h, impl Layer>, form: Form) -> Result<Self, HeapError> {
        let parts = |count: usize| count.div_ceil(PART) as u64;
        let all_cells = heap.alloc_slice::<Words<'h>>(parts(form.cells))?;
        let all_heads = heap.alloc_slice::<Links<'h, D, L>>(parts(form.heads))?;
        let root = heap.alloc((all_cells.clone(), all_heads.clone()))?;
        heap.set_root(&root)?;
        let (mut cells, mut heads) = (Vec::new(), Vec::new());
        for at in 0..parts(form.cells) {
            let part = heap.alloc_slice::<u64>(PART as u64)?;
            heap.set_cell(&all_cells, at, part.clone())?;
            cells.push(part);
        }
        for at in 0..parts(form.heads) {
            let part = heap.alloc_slice::<NodeLink<'h, D, L>>(PART as u64)?;
            heap.set_cell(&all_heads, at, part.clone())?;
            heads.push(part);
        }
        Ok(Arrays { cells, heads })
    }
}

/// A heap in use.
struct InUse<'t, 'h, A: Layer, const D: usize, const L: usize> {
    tx: &'t mut Access<'h, A>,
    arrays: &'t Arrays<'h, D, L>,
}

/// What a program does with an object that it has unlinked.
trait Freeing: Layer + Sized {
    fn free<'h, T: tembo_heap::Object<'h>>(
        heap: &mut Access<'h, Self>,
        object: Ptr<'h, T>,
    ) -> Result<(), HeapError>;
}

impl Freeing for Base {
    fn free<'h, T: tembo_heap::Object<'h>>(
        heap: &mut Access<'h, Base>,
        object: Ptr<'h, T>,
    ) -> Result<(), HeapError> {
        heap.free(object)
    }
}

impl Freeing for Safe {
    fn free<'h, T: tembo_heap::Object<'h>>(
        _heap: &mut Access<'h, Safe>,
        _object: Ptr<'h, T>,
    ) -> Result<(), HeapError> {
        Ok(())
    }
}

impl Freeing for Atomic {
    fn free<'h, T: tembo_heap::Object<'h>>(
        _heap: &mut Access<'h, Atomic>,
        _object: Ptr<'h, T>,
    ) -> Result<(), HeapError> {
        Ok(())
    }
}

/// A word of an object, by its place.
fn word<'h, const D: usize, const L: usize>(at: usize) -> Field<Node<'h, D, L>, u64> {
    Field::at(at as u64)
}

/// A link of an object: links stand behind the words.
fn link<'h, const D: usize, const L: usize>(
    at: usize,
) -> Field<Node<'h, D, L>, NodeLink<'h, D, L>> {
    Field::at((D + at) as u64)
}

impl<'h, A: Freeing, const D: usize, const L: usize> Memory<D, L> for InUse<'_, 'h, A, D, L> {
    type Link = Ptr<'h, Node<'h, D, L>>;
    type Fault = HeapError;

    fn cell(&mut self, index: usize) -> Result<u64, HeapError> {
        self.tx.cell(&self.arrays.cells[index / PART], (index % PART) as u64)
    }

    fn set_cell(&mut self, index: usize, word: u64) -> Result<(), HeapError> {
        self.tx.set_cell(&self.arrays.cells[index / PART], (index % PART) as u64, word)
    }

    fn head(&mut self, index: usize) -> Result<Option<Self::Link>, HeapError> {
        self.tx.cell(&self.arrays.heads[index / PART], (index % PART) as u64)
    }

    fn set_head(&mut self, index: usize, to: Option<Self::Link>) -> Result<(), HeapError> {
        self.tx.set_cell(&self.arrays.heads[index / PART], (index % PART) as u64, to)
    }

    fn make(
        &mut self,
        data: [u64; D],
        links: [Option<Self::Link>; L],
    ) -> Result<Self::Link, HeapError> {
        self.tx.alloc(Node { data, links })
    }

    fn data(&mut self, object: &Self::Link) -> Result<[u64; D], HeapError> {
        self.tx.get(object, Node::DATA)
    }

    fn set_data(&mut self, object: &Self::Link, data: [u64; D]) -> Result<(), HeapError> {
        self.tx.set(object, Node::DATA, data)
    }

    fn word(&mut self, object: &Self::Link, at: usize) -> Result<u64, HeapError> {
        self.tx.get(object, word(at))
    }

    fn set_word(&mut self, object: &Self::Link, at: usize, value: u64) -> Result<(), HeapError> {
        self.tx.set(object, word(at), value)
    }

    fn link(&mut self, object: &Self::Link, at: usize) -> Result<Option<Self::Link>, HeapError> {
        self.tx.get(object, link(at))
    }

    fn set_link(
        &mut self,
        object: &Self::Link,
        at: usize,
        to: Option<Self::Link>,
    ) -> Result<(), HeapError> {
        self.tx.set(object, link(at), to)
    }

    fn visit(
        &mut self,
        head: usize,
        mut next: impl FnMut(&[u64; D]) -> Option<usize>,
    ) -> Result<(), HeapError> {
        let mut view = self.tx.view();
        let heads = view.at(&self.arrays.heads[head / PART])?;
        let mut at = view.follow_cell(heads, (head % PART) as u64)?;
        while let Some(node) = at {
            let mut node = view.look(node)?;
            at = match next(&node.get(Node::DATA)?) {
                Some(at) => node.follow(link(at))?,
                None => None,
            };
        }
        Ok(())
    }

    fn way(
        &mut self,
        head: usize,
        mut next: impl FnMut(&[u64; D]) -> Option<usize>,
    ) -> Result<Way<Self::Link>, HeapError> {
        let mut view = self.tx.view();
        let heads = view.at(&self.arrays.heads[head / PART])?;
        let (mut passed, mut at) = (Vec::with_capacity(WAY), None);
        let mut below = view.follow_cell(heads, (head % PART) as u64)?;
        while let Some(here) = below {
            let mut node = view.look(here)?;
            let Some(side) = next(&node.get(Node::DATA)?) else {
                at = Some(view.keep(here)?);
                break;
            };
            below = node.follow(link(side))?;
            passed.push((view.keep(here)?, side));
        }
        Ok((passed, at))
    }

    fn seek(
        &mut self,
        head: usize,
        mut next: impl FnMut(&[u64; D]) -> Onward,
    ) -> Result<Option<Self::Link>, HeapError> {
        let mut view = self.tx.view();
        let heads = view.at(&self.arrays.heads[head / PART])?;
        let mut passed = Vec::with_capacity(WAY);
        let mut below = view.follow_cell(heads, (head % PART) as u64)?;
        while let Some(here) = below {
            passed.push(here);
            let mut node = view.look(here)?;
            match next(&node.get(Node::DATA)?) {
                Onward::Link(side) => below = node.follow(link(side))?,
                Onward::Found(number) => {
                    let found = passed.get(number).copied();
                    return found.map(|found| view.keep(found)).transpose();
                }
            }
        }
        Ok(None)
    }

    fn free(&mut self, object: Self::Link) -> Result<(), HeapError> {
        A::free(self.tx, object)
    }
}

/// Each work is a transaction.
struct Transactions<'h, const D: usize, const L: usize> {
    heap: Heap<'h>,
    is_alone: bool,
    arrays: Arrays<'h, D, L>,
}

impl<const D: usize, const L: usize> Store<D, L> for Transactions<'_, D, L> {
    fn atomic<W: Work<D, L>>(&self, work: &mut W) -> Result<u64, Error> {
        let arrays = &self.arrays;
        let answer = if self.is_alone {
            self.heap.exclusive(|tx| work.run(&mut InUse { tx, arrays }))
        } else {
            self.heap.atomic(|tx| work.run(&mut InUse { tx, arrays }))
        };
        Ok(answer?)
    }
}

/// Works between checkpoints: one at a time.
struct Session<'s, 'h, A: Layer, const D: usize, const L: usize> {
    /// The heap in use, and how many works were done since the last checkpoint.
    used: Mutex<(&'s mut Access<'h, A>, u64)>,
    arrays: Arrays<'h, D, L>,
}

impl<A: Freeing + Checkpointed, const D: usize, const L: usize> Store<D, L>
    for Session<'_, '_, A, D, L>
{
    fn atomic<W: Work<D, L>>(&self, work: &mut W) -> Result<u64, Error> {
        let mut used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        let (tx, count) = &mut *used;
        let answer = work.run(&mut InUse { tx, arrays: &self.arrays })?;
        *count += 1;
        if count.is_multiple_of(CHECKPOINT) {
            tx.checkpoint()?;
        }
        Ok(answer)
    }
}

fn in_session<A: Freeing + Checkpointed, const D: usize, const L: usize, P: Program<D, L>>(
    heap: &mut Access<'_, A>,
    program: &P,
    extent: Extent,
    bed: &HeapBed,
) -> Result<Measured, Error> {
    let arrays = Arrays::<D, L>::new(heap, program.form())?;
    heap.checkpoint()?;
    let found = {
        let session = Session { used: Mutex::new((&mut *heap, 0)), arrays };
        measured(program, &session, extent, &|| Ok(bed.allocated()))?
    };
    heap.checkpoint()?;
    Ok(found)
}

/// Measures a benchmark over a heap.
pub(crate) fn with_heap<const D: usize, const L: usize, P: Program<D, L>>(
    bed: &HeapBed,
    layer: HeapLayer,
    program: &P,
    extent: Extent,
) -> Result<Measured, Error> {
    match layer {
        HeapLayer::Base => bed.base(|heap| in_session(heap, program, extent, bed)),
        HeapLayer::Safe => {
            bed.enter(|heap| heap.safe(|heap| in_session(heap, program, extent, bed)))
        }
        HeapLayer::Tx | HeapLayer::Ctx => bed.enter(|heap| {
            let arrays = heap.atomic(|tx| Arrays::<D, L>::new(tx, program.form()))?;
            let store = Transactions { heap, is_alone: layer == HeapLayer::Tx, arrays };
            measured(program, &store, extent, &|| Ok(bed.allocated()))
        }),
    }
}
