//! A vector.

use super::cells::{Cells, Ring};
use crate::{Access, Error, Layer, Persist, Place, Ptr, Slice, View};

/// Cells of the first slice.
const FIRST: u64 = 4;

/// A vector. It is changed where it stands: by the methods of its [`Place`].
///
/// ```
/// # use tembo_heap::{Error, HeapFile, PVec, Persist};
/// #[derive(Persist)]
/// struct Scores<'h> {
///     all: PVec<'h, u64>,
/// }
/// # let file = HeapFile::volatile(&Default::default())?;
/// # file.enter(|heap| {
/// let scores = heap.root_or::<_, Error>(|_| Ok(Scores { all: PVec::new() }))?.field(Scores::ALL);
/// heap.atomic(|tx| {
///     for score in [3, 1, 4] {
///         scores.push(tx, score)?;
///     }
///     // What is found is a copy, and an error of its own: another transaction may have changed what was read.
///     let mut sum = 0;
///     for score in scores.iter(tx)? {
///         sum += score?;
///     }
///     assert_eq!((sum, scores.first(tx)?, scores.last(tx)?), (8, Some(3), Some(4)));
///     scores.clear(tx)?;
///     assert!(scores.is_empty(tx)?);
///     Ok::<_, Error>(())
/// })?;
/// # Ok::<(), Error>(()) })?;
/// # Ok::<(), Error>(())
/// ```
#[derive(Persist)]
#[persist(name = "tembo.PVec")]
pub struct PVec<'h, T> {
    len: u64,
    cells: Option<Ptr<'h, Slice<T>>>,
}

impl<T> PVec<'_, T> {
    /// An empty vector, which takes no object.
    pub const fn new() -> Self {
        PVec { len: 0, cells: None }
    }
}

impl<T> Default for PVec<'_, T> {
    fn default() -> Self {
        PVec::new()
    }
}

impl<'h, T: Persist<'h>> Place<'h, PVec<'h, T>> {
    /// How many elements it has.
    ///
    /// # Errors
    /// As [`Access::read`].
    pub fn len<L: Layer>(&self, tx: &mut Access<'h, L>) -> Result<u64, Error> {
        tx.at(&self.field(PVec::LEN))
    }

    /// Whether it has no element.
    ///
    /// # Errors
    /// As [`Access::read`].
    pub fn is_empty<L: Layer>(&self, tx: &mut Access<'h, L>) -> Result<bool, Error> {
        Ok(self.len(tx)? == 0)
    }

    /// The element of that index.
    ///
    /// # Errors
    /// As [`Access::cell`].
    pub fn get<L: Layer>(&self, tx: &mut Access<'h, L>, index: u64) -> Result<T, Error> {
        self.element(&mut tx.view(), index)
    }

    fn element<'v, L: Layer>(&'v self, view: &mut View<'v, 'h, L>, index: u64) -> Result<T, Error> {
        let mut vec = view.look_at(self)?;
        let len = vec.get(PVec::LEN)?;
        let cells = vec.follow(PVec::CELLS)?.filter(|_| index < len);
        view.cell(cells.ok_or(Error::NoSuchElement { index, len })?, index)
    }

    /// Gives the element of that index another value.
    ///
    /// # Errors
    /// As [`Access::cell`].
    pub fn set<L: Layer>(&self, tx: &mut Access<'h, L>, index: u64, value: T) -> Result<(), Error> {
        let cells = self.cells(tx, index)?;
        tx.set_cell(&cells, index, value)
    }

    fn cells<L: Layer>(
        &self,
        tx: &mut Access<'h, L>,
        index: u64,
    ) -> Result<Ptr<'h, Slice<T>>, Error> {
        let PVec { len, cells } = tx.at(self)?;
        cells.filter(|_| index < len).ok_or(Error::NoSuchElement { index, len })
    }

    /// Adds an element at the end.
    ///
    /// # Errors
    /// As [`Access::alloc`].
    pub fn push<L: Layer>(&self, tx: &mut Access<'h, L>, value: T) -> Result<(), Error> {
        let PVec { len, cells } = tx.at(self)?;
        let room = cells.as_ref().map_or(Ok(0), |cells| tx.slice_len(cells))?;
        let cells = match cells {
            Some(cells) if len < room => cells,
            before => {
                if len > room {
                    let offset = self.offset();
                    return Err(Error::Damaged { what: "the length of a vector", offset });
                }
                let cells = tx.alloc_slice(room.saturating_mul(2).max(FIRST))?;
                if let Some(before) = before {
                    for index in 0..len {
                        let value = tx.cell(&before, index)?;
                        tx.set_cell(&cells, index, value)?;
                    }
                }
                tx.put(&self.field(PVec::CELLS), Some(cells.clone()))?;
                cells
            }
        };
        tx.set_cell(&cells, len, value)?;
        tx.put(&self.field(PVec::LEN), len.saturating_add(1))
    }

    /// Takes the last element.
    ///
    /// # Errors
    /// As [`Access::cell`].
    pub fn pop<L: Layer>(&self, tx: &mut Access<'h, L>) -> Result<Option<T>, Error> {
        let PVec { len, cells } = tx.at(self)?;
        let Some(cells) = cells.filter(|_| len > 0) else { return Ok(None) };
        let value = tx.cell(&cells, len - 1)?;
        tx.clear_cell(&cells, len - 1)?;
        tx.put(&self.field(PVec::LEN), len - 1)?;
        Ok(Some(value))
    }

    /// The first element.
    ///
    /// # Errors
    /// As [`Access::cell`].
    pub fn first<L: Layer>(&self, tx: &mut Access<'h, L>) -> Result<Option<T>, Error> {
        self.iter(tx)?.next().transpose()
    }

    /// The last element.
    ///
    /// # Errors
    /// As [`Access::cell`].
    pub fn last<L: Layer>(&self, tx: &mut Access<'h, L>) -> Result<Option<T>, Error> {
        self.iter(tx)?.next_back().transpose()
    }

    /// All elements, one after another, and from the end (`rev`).
    ///
    /// # Errors
    /// As [`Access::cell`], also of each of them; behind an error there are no more.
    pub fn iter<'v, L: Layer>(
        &'v self,
        tx: &'v mut Access<'h, L>,
    ) -> Result<impl DoubleEndedIterator<Item = Result<T, Error>>, Error> {
        let mut view = tx.view();
        let mut seen = view.look_at(self)?;
        let (len, cells) = (seen.get(PVec::LEN)?, seen.follow(PVec::CELLS)?);
        Cells::new(view, cells, Ring { first: 0, len })
    }

    /// Copies of all elements.
    ///
    /// # Errors
    /// As [`Access::cell`].
    pub fn to_vec<L: Layer>(&self, tx: &mut Access<'h, L>) -> Result<Vec<T>, Error> {
        self.iter(tx)?.collect()
    }

    /// Removes all elements.
    ///
    /// # Errors
    /// As [`Access::read`].
    pub fn clear<L: Layer>(&self, tx: &mut Access<'h, L>) -> Result<(), Error> {
        tx.put(self, PVec::new())
    }
}
