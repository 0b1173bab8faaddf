//! Fields of objects, and places: where a field of one object is.

use std::marker::PhantomData;

use crate::arena::Arena;
use crate::persist::{Expected, Object};
use crate::pointer::{Anchor, Ptr};

/// A field of type `F` in an object of type `T`. `#[derive(Persist)]` makes a constant for each field of a struct, in upper case.
pub struct Field<T, F> {
    at: u64,
    _types: PhantomData<fn(T) -> F>,
}

impl<T, F> Field<T, F> {
    /// The field that begins at a word of the object's fields. For the derive macro: a wrong number gives errors and wrong
    /// values, and where it names pointers wrong counts, so that other objects of the heap can be lost. Memory stays safe.
    #[doc(hidden)]
    pub const fn at(at: u64) -> Field<T, F> {
        Field { at, _types: PhantomData }
    }

    pub(crate) const fn word(self) -> u64 {
        self.at
    }

    /// A field of this field.
    pub const fn then<G>(self, inner: Field<F, G>) -> Field<T, G> {
        Field::at(self.at.saturating_add(inner.at))
    }
}

impl<T, F> Clone for Field<T, F> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T, F> Copy for Field<T, F> {}

/// A field of one object, which it keeps.
pub struct Place<'h, F> {
    anchor: Anchor<'h>,
    /// The type of the whole object.
    expected: Expected<'h>,
    at: u64,
    _field: PhantomData<fn(F) -> F>,
}

impl<'h, F> Place<'h, F> {
    fn of(anchor: Anchor<'h>, expected: Expected<'h>, at: u64) -> Place<'h, F> {
        Place { anchor, expected, at, _field: PhantomData }
    }

    pub(crate) fn arena(&self) -> &'h Arena {
        self.anchor.arena()
    }

    /// Where the object lies.
    pub(crate) fn offset(&self) -> u64 {
        tembo_pool::Object::from_bits(self.anchor.bits()).offset()
    }

    /// The object, the type that it is to have, and the word of its fields.
    pub(crate) fn parts(&self) -> (u64, Expected<'h>, u64) {
        (self.anchor.bits(), self.expected, self.at)
    }

    /// A field of what is here.
    pub fn field<G>(&self, field: Field<F, G>) -> Place<'h, G> {
        Place::of(self.anchor.clone(), self.expected, self.at.saturating_add(field.word()))
    }
}

impl<F> Clone for Place<'_, F> {
    fn clone(&self) -> Self {
        Place::of(self.anchor.clone(), self.expected, self.at)
    }
}

impl<'h, T: Object<'h>> Ptr<'h, T> {
    /// A field of the object.
    pub fn field<F>(&self, field: Field<T, F>) -> Place<'h, F> {
        Place::of(self.anchor().clone(), Expected::of::<T>(), field.word())
    }
}
