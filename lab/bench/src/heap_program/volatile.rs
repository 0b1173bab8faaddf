//! A memory without durability, and without transactions: one lock, for readers together or one writer.

use std::convert::Infallible;
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use super::memory::{Form, Memory, Store, Work};
use crate::Error;

/// All of it, in vectors; a link is an object's number.
pub(crate) struct Volatile<const D: usize, const L: usize>(RwLock<State<D, L>>);

struct State<const D: usize, const L: usize> {
    cells: Vec<u64>,
    heads: Vec<Option<u32>>,
    objects: Vec<([u64; D], [Option<u32>; L])>,
    free: Vec<u32>,
}

impl<const D: usize, const L: usize> Volatile<D, L> {
    pub(crate) fn new(form: Form) -> Self {
        let (cells, heads) = (vec![0; form.cells], vec![None; form.heads]);
        Volatile(RwLock::new(State { cells, heads, objects: Vec::new(), free: Vec::new() }))
    }

    /// Bytes that objects and arrays take.
    pub(crate) fn allocated(&self) -> u64 {
        let state = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let object = size_of::<([u64; D], [Option<u32>; L])>();
        let objects = (state.objects.len() - state.free.len()) * object;
        (objects + 8 * state.cells.len() + 8 * state.heads.len()) as u64
    }
}

/// The lock, held.
enum Held<'s, const D: usize, const L: usize> {
    Read(RwLockReadGuard<'s, State<D, L>>),
    Write(RwLockWriteGuard<'s, State<D, L>>),
}

impl<const D: usize, const L: usize> Held<'_, D, L> {
    fn state(&self) -> &State<D, L> {
        match self {
            Held::Read(state) => state,
            Held::Write(state) => state,
        }
    }

    /// Changes something. What says that it only reads changes nothing.
    fn change(&mut self, change: impl FnOnce(&mut State<D, L>)) -> Result<(), Infallible> {
        if let Held::Write(state) = self {
            change(state);
        }
        Ok(())
    }
}

impl<const D: usize, const L: usize> Memory<D, L> for Held<'_, D, L> {
    type Link = u32;
    type Fault = Infallible;

    fn cell(&mut self, index: usize) -> Result<u64, Infallible> {
        Ok(self.state().cells[index])
    }

    fn set_cell(&mut self, index: usize, word: u64) -> Result<(), Infallible> {
        self.change(|state| state.cells[index] = word)
    }

    fn head(&mut self, index: usize) -> Result<Option<u32>, Infallible> {
        Ok(self.state().heads[index])
    }

    fn set_head(&mut self, index: usize, to: Option<u32>) -> Result<(), Infallible> {
        self.change(|state| state.heads[index] = to)
    }

    fn make(&mut self, data: [u64; D], links: [Option<u32>; L]) -> Result<u32, Infallible> {
        let mut at = 0;
        self.change(|state| match state.free.pop() {
            Some(free) => {
                state.objects[free as usize] = (data, links);
                at = free;
            }
            None => {
                at = state.objects.len() as u32;
                state.objects.push((data, links));
            }
        })?;
        Ok(at)
    }

    fn data(&mut self, object: &u32) -> Result<[u64; D], Infallible> {
        Ok(self.state().objects[*object as usize].0)
    }

    fn set_data(&mut self, object: &u32, data: [u64; D]) -> Result<(), Infallible> {
        self.change(|state| state.objects[*object as usize].0 = data)
    }

    fn word(&mut self, object: &u32, at: usize) -> Result<u64, Infallible> {
        Ok(self.state().objects[*object as usize].0[at])
    }

    fn set_word(&mut self, object: &u32, at: usize, word: u64) -> Result<(), Infallible> {
        self.change(|state| state.objects[*object as usize].0[at] = word)
    }

    fn link(&mut self, object: &u32, at: usize) -> Result<Option<u32>, Infallible> {
        Ok(self.state().objects[*object as usize].1[at])
    }

    fn set_link(&mut self, object: &u32, at: usize, to: Option<u32>) -> Result<(), Infallible> {
        self.change(|state| state.objects[*object as usize].1[at] = to)
    }

    fn free(&mut self, object: u32) -> Result<(), Infallible> {
        self.change(|state| state.free.push(object))
    }
}

impl<const D: usize, const L: usize> Store<D, L> for Volatile<D, L> {
    fn atomic<W: Work<D, L>>(&self, work: &mut W) -> Result<u64, Error> {
        let mut held = if work.reads_only() {
            Held::Read(self.0.read().unwrap_or_else(PoisonError::into_inner))
        } else {
            Held::Write(self.0.write().unwrap_or_else(PoisonError::into_inner))
        };
        match work.run(&mut held) {
            Ok(answer) => Ok(answer),
        }
    }
}
