//! A queue with two ends.

use super::cells::{Cells, Ring};
use crate::{Access, Error, Layer, Persist, Place, Ptr, Slice};

/// Cells of the first slice.
const FIRST: u64 = 4;

/// A queue with two ends, in a ring of cells.
///
/// ```
/// # use tembo_heap::{Error, HeapFile, PDeque, Persist};
/// #[derive(Persist)]
/// struct Jobs<'h> {
///     all: PDeque<'h, u64>,
/// }
/// # let file = HeapFile::volatile(&Default::default())?;
/// # file.enter(|heap| {
/// let jobs = heap.root_or::<_, Error>(|_| Ok(Jobs { all: PDeque::new() }))?.field(Jobs::ALL);
/// heap.atomic(|tx| {
///     jobs.push_back(tx, 2)?;
///     jobs.push_back(tx, 3)?;
///     jobs.push_front(tx, 1)?;
///     assert_eq!((jobs.front(tx)?, jobs.back(tx)?, jobs.get(tx, 1)?), (Some(1), Some(3), 2));
///     let backwards: Result<Vec<u64>, Error> = jobs.iter(tx)?.rev().collect();
///     assert_eq!(backwards?, [3, 2, 1]);
///     jobs.clear(tx)?;
///     assert!(jobs.is_empty(tx)?);
///     Ok::<_, Error>(())
/// })?;
/// # Ok::<(), Error>(()) })?;
/// # Ok::<(), Error>(())
/// ```
#[derive(Persist)]
#[persist(name = "tembo.PDeque")]
pub struct PDeque<'h, T> {
    first: u64,
    len: u64,
    cells: Option<Ptr<'h, Slice<T>>>,
}

impl<T> PDeque<'_, T> {
    /// An empty queue, which takes no object.
    pub const fn new() -> Self {
        PDeque { first: 0, len: 0, cells: None }
    }
}

impl<T> Default for PDeque<'_, T> {
    fn default() -> Self {
        PDeque::new()
    }
}

/// The first element, how many there are, and the cells, with their number.
type Found<'h, T> = (u64, u64, Option<Ptr<'h, Slice<T>>>, u64);

impl<'h, T: Persist<'h>> Place<'h, PDeque<'h, T>> {
    /// How many elements it has.
    ///
    /// # Errors
    /// As [`Access::read`].
    pub fn len<L: Layer>(&self, tx: &mut Access<'h, L>) -> Result<u64, Error> {
        tx.at(&self.field(PDeque::LEN))
    }

    /// Whether it has no element.
    ///
    /// # Errors
    /// As [`Access::read`].
    pub fn is_empty<L: Layer>(&self, tx: &mut Access<'h, L>) -> Result<bool, Error> {
        Ok(self.len(tx)? == 0)
    }

    /// The ring as it is.
    fn read<L: Layer>(&self, tx: &mut Access<'h, L>) -> Result<Found<'h, T>, Error> {
        let PDeque { first, len, cells } = tx.at(self)?;
        let room = cells.as_ref().map_or(Ok(0), |cells| tx.slice_len(cells))?;
        if len > room || first > room || room > u64::MAX / 2 {
            let offset = self.offset();
            return Err(Error::Damaged { what: "the cells of a deque", offset });
        }
        Ok((first, len, cells, room))
    }

    /// The ring with a free cell; its first element, its elements, its cells.
    #[allow(clippy::type_complexity)]
    fn ring<L: Layer>(
        &self,
        tx: &mut Access<'h, L>,
    ) -> Result<(Ptr<'h, Slice<T>>, u64, u64, u64), Error> {
        let (first, len, cells, room) = self.read(tx)?;
        if let Some(cells) = cells.clone().filter(|_| len < room) {
            return Ok((cells, first, len, room));
        }
        let larger = (2 * room).max(FIRST);
        let ring = tx.alloc_slice(larger)?;
        if let Some(before) = cells {
            for index in 0..len {
                let value = tx.cell(&before, (first + index) % room)?;
                tx.set_cell(&ring, index, value)?;
            }
        }
        tx.put(&self.field(PDeque::CELLS), Some(ring.clone()))?;
        tx.put(&self.field(PDeque::FIRST), 0)?;
        Ok((ring, 0, len, larger))
    }

    /// Adds an element at the end.
    ///
    /// # Errors
    /// As [`Access::alloc`].
    pub fn push_back<L: Layer>(&self, tx: &mut Access<'h, L>, value: T) -> Result<(), Error> {
        let (ring, first, len, room) = self.ring(tx)?;
        tx.set_cell(&ring, (first + len) % room, value)?;
        tx.put(&self.field(PDeque::LEN), len + 1)
    }

    /// Adds an element at the front.
    ///
    /// # Errors
    /// As [`Access::alloc`].
    pub fn push_front<L: Layer>(&self, tx: &mut Access<'h, L>, value: T) -> Result<(), Error> {
        let (ring, first, len, room) = self.ring(tx)?;
        let first = (first + room - 1) % room;
        tx.set_cell(&ring, first, value)?;
        tx.put(&self.field(PDeque::FIRST), first)?;
        tx.put(&self.field(PDeque::LEN), len + 1)
    }

    /// Takes the first element.
    ///
    /// # Errors
    /// As [`Access::cell`].
    pub fn pop_front<L: Layer>(&self, tx: &mut Access<'h, L>) -> Result<Option<T>, Error> {
        self.pop(tx, true)
    }

    /// Takes the last element.
    ///
    /// # Errors
    /// As [`Access::cell`].
    pub fn pop_back<L: Layer>(&self, tx: &mut Access<'h, L>) -> Result<Option<T>, Error> {
        self.pop(tx, false)
    }

    fn pop<L: Layer>(&self, tx: &mut Access<'h, L>, is_front: bool) -> Result<Option<T>, Error> {
        let (first, len, cells, room) = self.read(tx)?;
        let Some(cells) = cells.filter(|_| len > 0) else { return Ok(None) };
        let at = if is_front { first % room } else { (first + len - 1) % room };
        let value = tx.cell(&cells, at)?;
        tx.clear_cell(&cells, at)?;
        if is_front {
            tx.put(&self.field(PDeque::FIRST), (first + 1) % room)?;
        }
        tx.put(&self.field(PDeque::LEN), len - 1)?;
        Ok(Some(value))
    }

    /// The element of that index, counted from the front.
    ///
    /// # Errors
    /// As [`Access::cell`].
    pub fn get<L: Layer>(&self, tx: &mut Access<'h, L>, index: u64) -> Result<T, Error> {
        self.cells(tx)?.get(index)
    }

    /// The first element.
    ///
    /// # Errors
    /// As [`Access::cell`].
    pub fn front<L: Layer>(&self, tx: &mut Access<'h, L>) -> Result<Option<T>, Error> {
        self.cells(tx)?.next().transpose()
    }

    /// The last element.
    ///
    /// # Errors
    /// As [`Access::cell`].
    pub fn back<L: Layer>(&self, tx: &mut Access<'h, L>) -> Result<Option<T>, Error> {
        self.cells(tx)?.next_back().transpose()
    }

    fn cells<'v, L: Layer>(
        &'v self,
        tx: &'v mut Access<'h, L>,
    ) -> Result<Cells<'v, 'h, T, L>, Error> {
        let mut view = tx.view();
        let mut seen = view.look_at(self)?;
        let (first, len) = (seen.get(PDeque::FIRST)?, seen.get(PDeque::LEN)?);
        let cells = seen.follow(PDeque::CELLS)?;
        Cells::new(view, cells, Ring { first, len })
    }

    /// All elements, one after another, and from the end (`rev`).
    ///
    /// # Errors
    /// As [`Access::cell`], also of each of them; behind an error there are no more.
    pub fn iter<'v, L: Layer>(
        &'v self,
        tx: &'v mut Access<'h, L>,
    ) -> Result<impl DoubleEndedIterator<Item = Result<T, Error>>, Error> {
        self.cells(tx)
    }

    /// Copies of all elements.
    ///
    /// # Errors
    /// As [`Access::cell`].
    pub fn to_vec<L: Layer>(&self, tx: &mut Access<'h, L>) -> Result<Vec<T>, Error> {
        self.cells(tx)?.collect()
    }

    /// Removes all elements.
    ///
    /// # Errors
    /// As [`Access::read`].
    pub fn clear<L: Layer>(&self, tx: &mut Access<'h, L>) -> Result<(), Error> {
        tx.put(self, PDeque::new())
    }
}
