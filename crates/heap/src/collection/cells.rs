//! The cells of a slice that hold a row of elements, one after another.

use std::ops::Range;

use crate::{Error, Layer, Persist, Ref, Slice, View};

/// Which cells hold elements, in a ring.
#[derive(Clone, Copy)]
pub(super) struct Ring {
    /// The cell of the first one.
    pub(super) first: u64,
    /// How many there are.
    pub(super) len: u64,
}

/// Elements in cells.
pub(super) struct Cells<'v, 'h, T, L: Layer> {
    view: View<'v, 'h, L>,
    cells: Option<Ref<'v, 'h, Slice<T>>>,
    ring: Ring,
    /// Cells of the slice.
    room: u64,
    /// The elements that are to come.
    indices: Range<u64>,
}

impl<'v, 'h, T: Persist<'h>, L: Layer> Cells<'v, 'h, T, L> {
    pub(super) fn new(
        mut view: View<'v, 'h, L>,
        cells: Option<Ref<'v, 'h, Slice<T>>>,
        ring: Ring,
    ) -> Result<Self, Error> {
        let room = cells.map_or(Ok(0), |cells| view.len(cells))?;
        Ok(Cells { view, cells, ring, room, indices: 0..ring.len })
    }

    /// The element of that index.
    pub(super) fn get(&mut self, index: u64) -> Result<T, Error> {
        let len = self.ring.len;
        let cells = self.cells.filter(|_| index < len && index < self.room);
        let cells = cells.ok_or(Error::NoSuchElement { index, len })?;
        // Both are less than the cells of a slice if nothing is damaged.
        let at = self.ring.first.wrapping_add(index) % self.room;
        self.view.cell(cells, at)
    }

    fn give(&mut self, index: Option<u64>) -> Option<Result<T, Error>> {
        let element = self.get(index?);
        if element.is_err() {
            self.indices = 0..0;
        }
        Some(element)
    }
}

impl<'h, T: Persist<'h>, L: Layer> Iterator for Cells<'_, 'h, T, L> {
    type Item = Result<T, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        let index = self.indices.next();
        self.give(index)
    }
}

impl<'h, T: Persist<'h>, L: Layer> DoubleEndedIterator for Cells<'_, 'h, T, L> {
    fn next_back(&mut self) -> Option<Self::Item> {
        let index = self.indices.next_back();
        self.give(index)
    }
}
