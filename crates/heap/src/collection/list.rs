//! A linked list.

use crate::{Access, Error, Layer, Persist, Place, Ptr, Ref, View};

#[derive(Persist)]
#[persist(name = "tembo.PList.node")]
pub(crate) struct ListNode<'h, T> {
    value: T,
    next: Option<Ptr<'h, ListNode<'h, T>>>,
}

/// A list that grows at both ends, each element an object.
///
/// ```
/// # use tembo_heap::{Error, HeapFile, PList, Persist};
/// #[derive(Persist)]
/// struct Stops<'h> {
///     all: PList<'h, u64>,
/// }
/// # let file = HeapFile::volatile(&Default::default())?;
/// # file.enter(|heap| {
/// let stops = heap.root_or::<_, Error>(|_| Ok(Stops { all: PList::new() }))?.field(Stops::ALL);
/// heap.atomic(|tx| {
///     stops.push_back(tx, 2)?;
///     stops.push_front(tx, 1)?;
///     assert_eq!((stops.front(tx)?, stops.back(tx)?), (Some(1), Some(2)));
///     let mut sum = 0;
///     for stop in stops.iter(tx)? {
///         sum += stop?;
///     }
///     assert_eq!(sum, 3);
///     stops.clear(tx)?;
///     assert!(stops.is_empty(tx)?);
///     Ok::<_, Error>(())
/// })?;
/// # Ok::<(), Error>(()) })?;
/// # Ok::<(), Error>(())
/// ```
#[derive(Persist)]
#[persist(name = "tembo.PList")]
pub struct PList<'h, T> {
    len: u64,
    first: Option<Ptr<'h, ListNode<'h, T>>>,
    last: Option<Ptr<'h, ListNode<'h, T>>>,
}

impl<T> PList<'_, T> {
    /// An empty list.
    pub const fn new() -> Self {
        PList { len: 0, first: None, last: None }
    }
}

impl<T> Default for PList<'_, T> {
    fn default() -> Self {
        PList::new()
    }
}

impl<'h, T: Persist<'h>> Place<'h, PList<'h, T>> {
    /// How many elements it has.
    ///
    /// # Errors
    /// As [`Access::read`].
    pub fn len<L: Layer>(&self, tx: &mut Access<'h, L>) -> Result<u64, Error> {
        tx.at(&self.field(PList::LEN))
    }

    /// Whether it has no element.
    ///
    /// # Errors
    /// As [`Access::read`].
    pub fn is_empty<L: Layer>(&self, tx: &mut Access<'h, L>) -> Result<bool, Error> {
        Ok(self.len(tx)? == 0)
    }

    /// Adds an element at the front.
    ///
    /// # Errors
    /// As [`Access::alloc`].
    pub fn push_front<L: Layer>(&self, tx: &mut Access<'h, L>, value: T) -> Result<(), Error> {
        let PList { len, first, last } = tx.at(self)?;
        let node = tx.alloc(ListNode { value, next: first })?;
        let last = last.or_else(|| Some(node.clone()));
        tx.put(self, PList { len: len.saturating_add(1), first: Some(node), last })
    }

    /// Adds an element at the end.
    ///
    /// # Errors
    /// As [`Access::alloc`].
    pub fn push_back<L: Layer>(&self, tx: &mut Access<'h, L>, value: T) -> Result<(), Error> {
        let PList { len, first, last } = tx.at(self)?;
        let node = tx.alloc(ListNode { value, next: None })?;
        if let Some(last) = &last {
            tx.set(last, ListNode::NEXT, Some(node.clone()))?;
        }
        let first = first.or_else(|| Some(node.clone()));
        tx.put(self, PList { len: len.saturating_add(1), first, last: Some(node) })
    }

    /// Takes the first element.
    ///
    /// # Errors
    /// As [`Access::read`].
    pub fn pop_front<L: Layer>(&self, tx: &mut Access<'h, L>) -> Result<Option<T>, Error> {
        let PList { len, first, last } = tx.at(self)?;
        let Some(node) = first else { return Ok(None) };
        let ListNode { value, next } = tx.read(&node)?;
        let last = if next.is_none() { None } else { last };
        tx.put(self, PList { len: len.saturating_sub(1), first: next, last })?;
        Ok(Some(value))
    }

    /// The first element.
    ///
    /// # Errors
    /// As [`Access::read`].
    pub fn front<L: Layer>(&self, tx: &mut Access<'h, L>) -> Result<Option<T>, Error> {
        self.iter(tx)?.next().transpose()
    }

    /// The last element.
    ///
    /// # Errors
    /// As [`Access::read`].
    pub fn back<L: Layer>(&self, tx: &mut Access<'h, L>) -> Result<Option<T>, Error> {
        let mut view = tx.view();
        let last = view.look_at(self)?.follow(PList::LAST)?;
        last.map(|node| view.get(node, ListNode::VALUE)).transpose()
    }

    /// All elements, one after another.
    ///
    /// # Errors
    /// As [`Access::read`], also of each of them; behind an error there are no more.
    pub fn iter<'v, L: Layer>(
        &'v self,
        tx: &'v mut Access<'h, L>,
    ) -> Result<impl Iterator<Item = Result<T, Error>>, Error> {
        let mut view = tx.view();
        let mut seen = view.look_at(self)?;
        let (next, most) = (seen.follow(PList::FIRST)?, seen.get(PList::LEN)?);
        Ok(Elements { view, next, most })
    }

    /// Copies of all elements.
    ///
    /// # Errors
    /// As [`Access::read`].
    pub fn to_vec<L: Layer>(&self, tx: &mut Access<'h, L>) -> Result<Vec<T>, Error> {
        self.iter(tx)?.collect()
    }

    /// Removes all elements.
    ///
    /// # Errors
    /// As [`Access::read`].
    pub fn clear<L: Layer>(&self, tx: &mut Access<'h, L>) -> Result<(), Error> {
        tx.put(self, PList::new())
    }
}

/// The elements of a list.
struct Elements<'v, 'h, T, L: Layer> {
    view: View<'v, 'h, L>,
    next: Option<Ref<'v, 'h, ListNode<'h, T>>>,
    /// How many can come: more than the list has, only a damaged one has.
    most: u64,
}

impl<'h, T: Persist<'h>, L: Layer> Elements<'_, 'h, T, L> {
    fn step(&mut self) -> Result<Option<T>, Error> {
        let Some(node) = self.next.take() else { return Ok(None) };
        let what = "the number of elements of a list";
        let damaged = Error::Damaged { what, offset: node.offset() };
        self.most = self.most.checked_sub(1).ok_or(damaged)?;
        let mut seen = self.view.look(node)?;
        let (value, next) = (seen.get(ListNode::VALUE)?, seen.follow(ListNode::NEXT)?);
        self.next = next;
        Ok(Some(value))
    }
}

impl<'h, T: Persist<'h>, L: Layer> Iterator for Elements<'_, 'h, T, L> {
    type Item = Result<T, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        self.step().transpose()
    }
}
