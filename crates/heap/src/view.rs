//! Looks at objects without pointers of the program's own: for ways through many objects.
//!
//! A [`Ptr`] that is read is counted, and counted again when it is dropped, so that its object stays. A [`Ref`] is not: it lives no
//! longer than the view, in which the transaction changes nothing, and it is followed only while all that the transaction has read is as it was.
//! So what linked its object links it still, and nothing has destroyed it.
//!
//! ```text
//! commit              all of its records are owned   clock + 1   words are stored, space is freed   clock + 1   records are given back
//! look by a Ref                       record, words, record again, and then the clock: another one than before? all that was read is validated
//! ```
//!
//! The clock says before anything is freed that a commit has begun. So words under an unchanged clock, or under one to which what was read
//! could be carried on, are those of the object, and not of what was made in its place: that is written behind a release fence, which has the clock
//! before it. (One clock for all that a reader relies on is that of
//! NOrec, Dalessandro et al. 2010.)

use std::marker::PhantomData;

use tembo_pool::Object as Space;

use crate::Error;
use crate::access::{Access, Company};
use crate::field::Field;
use crate::format::{BODY, ROOT_ROOT};
use crate::layer::Layer;
use crate::persist::{Expected, Object, Persist, Reader};
use crate::pointer::Ptr;
use crate::slice::Slice;

/// Looks at objects of the heap `'h` in a transaction, or in a use of another layer, which changes nothing meanwhile.
///
/// ```
/// # use tembo_heap::{Error, HeapFile, Persist, Ptr};
/// #[derive(Persist)]
/// struct Node<'h> {
///     value: u64,
///     next: Option<Ptr<'h, Node<'h>>>,
/// }
/// # let file = HeapFile::volatile(&Default::default())?;
/// # file.enter(|heap| {
/// # heap.atomic(|tx| {
/// #     let last = tx.alloc(Node { value: 2, next: None })?;
/// #     let first = tx.alloc(Node { value: 1, next: Some(last) })?;
/// #     tx.set_root(&first)
/// # })?;
/// let sum = heap.atomic(|tx| {
///     let mut view = tx.view();
///     let (mut sum, mut at) = (0, view.root::<Node>()?);
///     while let Some(node) = at {
///         // One look at the object, whatever is read of it.
///         let mut node = view.look(node)?;
///         sum += node.get(Node::VALUE)?;
///         at = node.follow(Node::NEXT)?;
///     }
///     Ok::<_, Error>(sum)
/// })?;
/// assert_eq!(sum, 3);
/// # Ok::<(), Error>(()) })?;
/// # Ok::<(), Error>(())
/// ```
pub struct View<'v, 'h, L: Layer> {
    pub(crate) access: &'v mut Access<'h, L>,
    of: usize,
}

/// A pointer that was read by a [`View`], and keeps nothing: it cannot leave the view, nor be stored. [`View::keep`] makes a [`Ptr`] of it.
pub struct Ref<'v, 'h, T> {
    pub(crate) bits: u64,
    /// Which transaction's it is: two of a heap can have views at a time.
    pub(crate) of: usize,
    _view: PhantomData<&'v ()>,
    _brand: PhantomData<fn(&'h ()) -> &'h ()>,
    _object: PhantomData<fn(T) -> T>,
}

impl<T> Clone for Ref<'_, '_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Ref<'_, '_, T> {}

impl<T> Ref<'_, '_, T> {
    /// Whether both point to one object.
    pub fn is(&self, other: &Self) -> bool {
        self.bits == other.bits
    }

    pub(crate) fn offset(&self) -> u64 {
        Space::from_bits(self.bits).offset()
    }
}

mod sealed {
    pub trait Sealed {}
}

/// What a field is that can be followed: a [`Ptr`], or an `Option` of one.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no pointer that a view can follow",
    note = "read it by `get`"
)]
pub trait Link<'h>: Persist<'h> + sealed::Sealed {
    /// The object's type.
    type To: Object<'h>;
}

impl<T> sealed::Sealed for Ptr<'_, T> {}
impl<T> sealed::Sealed for Option<Ptr<'_, T>> {}

impl<'h, T: Object<'h>> Link<'h> for Ptr<'h, T> {
    type To = T;
}

impl<'h, T: Object<'h>> Link<'h> for Option<Ptr<'h, T>> {
    type To = T;
}

impl<'h, L: Layer> Access<'h, L> {
    /// Begins to look at objects by pointers that are not counted. While one of these is there nothing can be changed, nor committed.
    pub fn view(&mut self) -> View<'_, 'h, L> {
        let of = std::ptr::from_ref(&*self.notes).addr();
        View { access: self, of }
    }

    /// What was read is the same, also if another commit has begun since: so what links an object that was read links it still.
    #[inline]
    fn carry_on(&mut self) -> Result<(), Error> {
        if self.company == Company::Alone || self.arena.ownership.now() == self.start {
            return Ok(());
        }
        self.extend()
    }
}

impl<'v, 'h, L: Layer> View<'v, 'h, L> {
    fn to<T>(&self, bits: u64) -> Result<Option<Ref<'v, 'h, T>>, Error> {
        if Space::from_bits(bits).to_bits() != bits {
            return Err(Error::Damaged { what: "a pointer", offset: bits });
        }
        Ok((bits != 0).then_some(self.pointer(bits)))
    }

    fn pointer<T>(&self, bits: u64) -> Ref<'v, 'h, T> {
        let (_view, _brand, _object) = Default::default();
        Ref { bits, of: self.of, _view, _brand, _object }
    }

    /// The object of a pointer, which keeps it.
    ///
    /// # Errors
    /// [`Error::NotCommitted`], [`Error::Freed`], [`Error::Conflict`].
    #[inline]
    pub fn at<T: Object<'h>>(&mut self, object: &'v Ptr<'h, T>) -> Result<Ref<'v, 'h, T>, Error> {
        let bits = object.anchor().bits();
        self.access.check_whole(bits)?;
        Ok(self.pointer(bits))
    }

    /// The root of the heap; `None` before there is one.
    ///
    /// # Errors
    /// [`Error::Conflict`], [`Error::Damaged`].
    pub fn root<T: Object<'h>>(&mut self) -> Result<Option<Ref<'v, 'h, T>>, Error> {
        let root = self.access.arena.root();
        let version = self.access.look(root)?;
        let bits = self.access.notes.change.get(self.access.arena, root, ROOT_ROOT)?;
        self.access.look_again(root, version)?;
        self.to(bits)
    }

    /// A pointer that keeps the object.
    ///
    /// # Errors
    /// [`Error::Conflict`], [`Error::Damaged`].
    pub fn keep<T: Object<'h>>(&mut self, object: Ref<'v, 'h, T>) -> Result<Ptr<'h, T>, Error> {
        self.check_own(object.of)?;
        let access = &mut *self.access;
        if let Err(error) = access.arena.pool.valid(Space::from_bits(object.bits)) {
            access.carry_on()?;
            return Err(error.into());
        }
        if L::COUNTS && !access.arena.handles.acquire(object.bits) {
            return access.conflict();
        }
        let kept = Ptr::of(access.anchor(object.bits));
        access.carry_on()?;
        Ok(kept)
    }

    /// Looks at an object once: what is read of it is of one moment.
    ///
    /// # Errors
    /// As [`Access::read`].
    #[inline]
    pub fn look<'s, T: Persist<'h>>(
        &'s mut self,
        object: Ref<'v, 'h, T>,
    ) -> Result<Seen<'s, 'v, 'h, T, L>, Error> {
        self.check_own(object.of)?;
        self.load(object.bits, Expected::of::<T>(), (BODY as u64, T::WORDS), None)?;
        Ok(Seen::of(self))
    }

    /// The value of a field.
    ///
    /// # Errors
    /// As [`Access::read`].
    #[inline]
    pub fn get<T: Persist<'h>, F: Persist<'h>>(
        &mut self,
        object: Ref<'v, 'h, T>,
        field: Field<T, F>,
    ) -> Result<F, Error> {
        let first = field.word().saturating_add(BODY as u64);
        self.check_own(object.of)?;
        self.load(object.bits, Expected::of::<T>(), (first, F::WORDS), None)?;
        self.decode(0)
    }

    /// The object to which a field points.
    ///
    /// # Errors
    /// As [`Access::read`].
    #[inline]
    pub fn follow<T: Persist<'h>, P: Link<'h>>(
        &mut self,
        object: Ref<'v, 'h, T>,
        field: Field<T, P>,
    ) -> Result<Option<Ref<'v, 'h, P::To>>, Error> {
        self.check_own(object.of)?;
        let bits = self.word(object.bits, Expected::of::<T>(), field.word(), None)?;
        self.to(bits)
    }

    /// The value in a cell of a slice, which is not empty.
    ///
    /// # Errors
    /// As [`Access::cell`].
    #[inline]
    pub fn cell<T: Persist<'h>>(
        &mut self,
        slice: Ref<'v, 'h, Slice<T>>,
        index: u64,
    ) -> Result<T, Error> {
        let first = index.saturating_mul(T::WORDS).saturating_add(BODY as u64 + 1);
        self.check_own(slice.of)?;
        self.load(slice.bits, Expected::of::<Slice<T>>(), (first, T::WORDS), Some(index))?;
        self.decode(0)
    }

    /// The object to which a cell of a slice points.
    ///
    /// # Errors
    /// As [`Access::cell`].
    #[inline]
    pub fn follow_cell<P: Link<'h>>(
        &mut self,
        slice: Ref<'v, 'h, Slice<P>>,
        index: u64,
    ) -> Result<Option<Ref<'v, 'h, P::To>>, Error> {
        self.check_own(slice.of)?;
        let (expected, at) = (Expected::of::<Slice<P>>(), index.saturating_add(1));
        let bits = self.word(slice.bits, expected, at, Some(index))?;
        self.to(bits)
    }

    /// A pointer of another transaction's view says nothing of what this one has read.
    #[inline]
    pub(crate) fn check_own(&self, of: usize) -> Result<(), Error> {
        if of == self.of { Ok(()) } else { Err(Error::Nested) }
    }

    /// A word of the fields of an object; of the cell of that index, if there is one.
    #[inline]
    pub(crate) fn word(
        &mut self,
        bits: u64,
        expected: Expected<'h>,
        at: u64,
        cell: Option<u64>,
    ) -> Result<u64, Error> {
        if let Some(word) = self.access.decode_plain::<u64>(bits, expected.mark, at, cell) {
            self.access.carry_on()?;
            return word;
        }
        self.load(bits, expected, (at.saturating_add(BODY as u64), 1), cell)?;
        Ok(self.access.notes.seen.first().copied().unwrap_or_default())
    }

    /// Puts words of an object into `seen`: so many from one on.
    #[inline]
    pub(crate) fn load(
        &mut self,
        bits: u64,
        expected: Expected<'h>,
        (first, count): (u64, u64),
        cell: Option<u64>,
    ) -> Result<(), Error> {
        let access = &mut *self.access;
        if let Some(plain) = access.plain(bits, expected.mark, first.saturating_add(count))
            && let Some(words) = plain.words.get(first as usize..)
            && cell.is_none_or(|index| index < plain.words[BODY].load())
        {
            access.notes.seen.clear();
            access.notes.seen.extend(words.iter().map(|word| word.load()));
            if !access.is_plain_still(&plain) {
                return access.conflict();
            }
            return access.carry_on();
        }
        let loaded = access.load_seen_closely(bits, expected, (first, count), cell);
        // An error may be that of what was made in the object's place.
        access.carry_on()?;
        loaded
    }

    /// A value of the words that were seen, from one on.
    #[inline]
    fn decode<F: Persist<'h>>(&mut self, at: usize) -> Result<F, Error> {
        let access = &mut *self.access;
        let words = access.notes.seen.get(at..).unwrap_or_default();
        let mut reader = Reader::new(words, access.arena, L::COUNTS);
        let value = F::read(&mut reader);
        let has_counted = reader.has_counted();
        if matches!(value, Err(Error::Conflict)) {
            return access.conflict();
        }
        if has_counted {
            access.carry_on()?;
        }
        value
    }
}

impl<'h, L: Layer> Access<'h, L> {
    #[inline(never)]
    fn load_seen_closely(
        &mut self,
        bits: u64,
        expected: Expected<'h>,
        (first, count): (u64, u64),
        cell: Option<u64>,
    ) -> Result<(), Error> {
        let kind = self.check(bits, expected)?;
        let version = self.look(bits)?;
        if let Some(index) = cell {
            let len = self.notes.change.get_inside(self.arena, bits, BODY)?;
            if index >= len {
                self.look_again(bits, version)?;
                return Err(Error::NoSuchElement { index, len });
            }
        }
        let mut seen = std::mem::take(&mut self.notes.seen);
        seen.clear();
        let (first, count) = (first as usize, count as usize);
        let read = self.notes.change.read(self.arena, bits, first, count, &mut seen);
        self.notes.seen = seen;
        self.look_again(bits, version)?;
        self.check_still(bits, kind)?;
        read
    }
}

/// An object that was [looked at](View::look): a copy of its words, of which fields are read without another look.
pub struct Seen<'s, 'v, 'h, T, L: Layer> {
    view: &'s mut View<'v, 'h, L>,
    _object: PhantomData<fn(T) -> T>,
}

impl<'s, 'v, 'h, T: Persist<'h>, L: Layer> Seen<'s, 'v, 'h, T, L> {
    pub(crate) fn of(view: &'s mut View<'v, 'h, L>) -> Seen<'s, 'v, 'h, T, L> {
        Seen { view, _object: PhantomData }
    }

    /// The value of a field.
    ///
    /// # Errors
    /// [`Error::Damaged`]; [`Error::Conflict`], where there is a [`Ptr`] in it, which is counted.
    #[inline]
    pub fn get<F: Persist<'h>>(&mut self, field: Field<T, F>) -> Result<F, Error> {
        self.view.decode(field.word() as usize)
    }

    /// The object to which a field points.
    ///
    /// # Errors
    /// [`Error::Damaged`].
    #[inline]
    pub fn follow<P: Link<'h>>(
        &self,
        field: Field<T, P>,
    ) -> Result<Option<Ref<'v, 'h, P::To>>, Error> {
        let (at, seen) = (field.word(), &self.view.access.notes.seen);
        let word = seen.get(at as usize).copied();
        self.view.to(word.ok_or(Error::Damaged { what: "a value ends early", offset: at })?)
    }
}
