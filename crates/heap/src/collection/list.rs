//! A linked list.

use crate::{Access, Error, Layer, Persist, Place, Ptr};

#[derive(Persist)]
#[persist(name = "tembo.PList.node")]
pub(crate) struct ListNode<'h, T> {
    value: T,
    next: Option<Ptr<'h, ListNode<'h, T>>>,
}

/// A list that grows at both ends, each element an object.
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

    /// Adds an element at the front.
    ///
    /// # Errors
    /// As [`Access::alloc`].
    pub fn push_front<L: Layer>(&self, tx: &mut Access<'h, L>, value: T) -> Result<(), Error> {
        let PList { len, first, last } = tx.at(self)?;
        let node = tx.alloc(ListNode { value, next: first })?;
        let last = last.or_else(|| Some(node.clone()));
        tx.put(self, PList { len: len + 1, first: Some(node), last })
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
        tx.put(self, PList { len: len + 1, first, last: Some(node) })
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

    /// Copies of all elements.
    ///
    /// # Errors
    /// As [`Access::read`].
    pub fn to_vec<L: Layer>(&self, tx: &mut Access<'h, L>) -> Result<Vec<T>, Error> {
        let mut view = tx.view();
        let mut at = view.look_at(self)?.follow(PList::FIRST)?;
        let mut all = Vec::new();
        while let Some(node) = at {
            let mut node = view.look(node)?;
            all.push(node.get(ListNode::VALUE)?);
            at = node.follow(ListNode::NEXT)?;
        }
        Ok(all)
    }
}
