//! Fields of objects, and places: where a field of one object is.

use std::marker::PhantomData;

use crate::arena::Arena;
use crate::pointer::{Anchor, Ptr};

/// A field of type `F` in an object of type `T`. `#[derive(Persist)]` makes a constant for each field of a struct, in upper case.
pub struct Field<T, F> {
    at: u64,
    _types: PhantomData<fn(T) -> F>,
}

impl<T, F> Field<T, F> {
    /// The field that begins at a word of the object's fields. For the derive macro: a wrong number gives errors and wrong
    /// values of this object.
    #[doc(hidden)]
    pub const fn at(at: u64) -> Field<T, F> {
        Field { at, _types: PhantomData }
    }

    pub(crate) const fn word(self) -> u64 {
        self.at
    }

    /// A field of this field.
    pub const fn then<G>(self, inner: Field<F, G>) -> Field<T, G> {
        Field::at(self.at + inner.at)
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
    at: u64,
    _field: PhantomData<fn(F) -> F>,
}

impl<'h, F> Place<'h, F> {
    pub(crate) fn of(anchor: Anchor<'h>, at: u64) -> Place<'h, F> {
        Place { anchor, at, _field: PhantomData }
    }

    pub(crate) fn arena(&self) -> &'h Arena {
        self.anchor.arena()
    }

    pub(crate) fn parts(&self) -> (u64, u64) {
        (self.anchor.bits(), self.at)
    }

    /// A field of what is here.
    pub fn field<G>(&self, field: Field<F, G>) -> Place<'h, G> {
        Place::of(self.anchor.clone(), self.at + field.word())
    }
}

impl<F> Clone for Place<'_, F> {
    fn clone(&self) -> Self {
        Place::of(self.anchor.clone(), self.at)
    }
}

impl<'h, T> Ptr<'h, T> {
    /// A field of the object.
    pub fn field<F>(&self, field: Field<T, F>) -> Place<'h, F> {
        Place::of(self.anchor().clone(), field.word())
    }
}
