//! Heaps as memories, by the layer that a program pays for.

use tembo_heap::{Error as HeapError, Field, Heap, Persist, Ptr, Slice, Transaction};

use super::load::{Extent, Measured, measured};
use super::memory::{Form, Memory, Program, Store, Work};
use crate::Error;
use crate::heap_bed::HeapBed;

/// A layer of NV-heaps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HeapLayer {
    /// Transactions that run alone.
    Tx,
    /// Transactions side by side.
    Ctx,
}

impl HeapLayer {
    pub(crate) const ALL: [HeapLayer; 2] = [HeapLayer::Tx, HeapLayer::Ctx];

    pub(crate) fn name(self) -> &'static str {
        match self {
            HeapLayer::Tx => "TX",
            HeapLayer::Ctx => "C-TX",
        }
    }
}

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

/// A heap with the arrays of a benchmark, of which the program holds the parts.
struct HeapStore<'h, const D: usize, const L: usize> {
    heap: Heap<'h>,
    layer: HeapLayer,
    cells: Vec<Words<'h>>,
    heads: Vec<Links<'h, D, L>>,
}

impl<'h, const D: usize, const L: usize> HeapStore<'h, D, L> {
    fn new(heap: Heap<'h>, layer: HeapLayer, form: Form) -> Result<Self, HeapError> {
        let parts = |count: usize| count.div_ceil(PART) as u64;
        let (cells, heads) = heap.atomic(|tx| {
            let all_cells = tx.alloc_slice::<Words<'h>>(parts(form.cells))?;
            let all_heads = tx.alloc_slice::<Links<'h, D, L>>(parts(form.heads))?;
            let root = tx.alloc((all_cells.clone(), all_heads.clone()))?;
            tx.set_root(&root)?;
            let (mut cells, mut heads) = (Vec::new(), Vec::new());
            for at in 0..parts(form.cells) {
                let part = tx.alloc_slice::<u64>(PART as u64)?;
                tx.set_cell(&all_cells, at, part.clone())?;
                cells.push(part);
            }
            for at in 0..parts(form.heads) {
                let part = tx.alloc_slice::<NodeLink<'h, D, L>>(PART as u64)?;
                tx.set_cell(&all_heads, at, part.clone())?;
                heads.push(part);
            }
            Ok::<_, HeapError>((cells, heads))
        })?;
        Ok(HeapStore { heap, layer, cells, heads })
    }
}

/// A transaction on it.
struct InTransaction<'t, 'h, const D: usize, const L: usize> {
    tx: &'t mut Transaction<'h>,
    store: &'t HeapStore<'h, D, L>,
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

impl<'h, const D: usize, const L: usize> Memory<D, L> for InTransaction<'_, 'h, D, L> {
    type Link = Ptr<'h, Node<'h, D, L>>;
    type Fault = HeapError;

    fn cell(&mut self, index: usize) -> Result<u64, HeapError> {
        self.tx.cell(&self.store.cells[index / PART], (index % PART) as u64)
    }

    fn set_cell(&mut self, index: usize, word: u64) -> Result<(), HeapError> {
        self.tx.set_cell(&self.store.cells[index / PART], (index % PART) as u64, word)
    }

    fn head(&mut self, index: usize) -> Result<Option<Self::Link>, HeapError> {
        self.tx.cell(&self.store.heads[index / PART], (index % PART) as u64)
    }

    fn set_head(&mut self, index: usize, to: Option<Self::Link>) -> Result<(), HeapError> {
        self.tx.set_cell(&self.store.heads[index / PART], (index % PART) as u64, to)
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

    fn free(&mut self, _object: Self::Link) -> Result<(), HeapError> {
        Ok(())
    }
}

impl<const D: usize, const L: usize> Store<D, L> for HeapStore<'_, D, L> {
    fn atomic<W: Work<D, L>>(&self, work: &mut W) -> Result<u64, Error> {
        let answer = match self.layer {
            HeapLayer::Tx => {
                self.heap.exclusive(|tx| work.run(&mut InTransaction { tx, store: self }))
            }
            HeapLayer::Ctx => {
                self.heap.atomic(|tx| work.run(&mut InTransaction { tx, store: self }))
            }
        };
        Ok(answer?)
    }
}

/// Measures a benchmark over a heap.
pub(crate) fn with_heap<const D: usize, const L: usize, P: Program<D, L>>(
    bed: &HeapBed,
    layer: HeapLayer,
    program: &P,
    extent: Extent,
) -> Result<Measured, Error> {
    bed.enter(|heap| {
        let store = HeapStore::<D, L>::new(heap, layer, program.form())?;
        measured(program, &store, extent, &|| Ok(bed.allocated()))
    })
}
