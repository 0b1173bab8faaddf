//! Pointers: what a program holds, and what stands in the fields of objects.

use std::fmt;
use std::marker::PhantomData;

use crate::Error;
use crate::arena::Arena;
use crate::persist::{Object, Persist, Reader, Writer};
use crate::shape::{Shape, hash, mix};

/// Makes a lifetime a brand: two that are not the same cannot be exchanged.
type Brand<'h> = PhantomData<fn(&'h ()) -> &'h ()>;

/// Keeps an object of a heap, unless it is bare.
pub(crate) struct Anchor<'h> {
    arena: &'h Arena,
    bits: u64,
    /// It is not counted.
    is_bare: bool,
    _brand: Brand<'h>,
}

impl<'h> Anchor<'h> {
    /// One that has been counted.
    pub(crate) fn counted(arena: &'h Arena, bits: u64) -> Anchor<'h> {
        Anchor { arena, bits, is_bare: false, _brand: PhantomData }
    }

    /// One that is not.
    pub(crate) fn bare(arena: &'h Arena, bits: u64) -> Anchor<'h> {
        Anchor { arena, bits, is_bare: true, _brand: PhantomData }
    }

    pub(crate) fn bits(&self) -> u64 {
        self.bits
    }

    pub(crate) fn arena(&self) -> &'h Arena {
        self.arena
    }
}

impl Clone for Anchor<'_> {
    #[inline]
    fn clone(&self) -> Self {
        if !self.is_bare {
            // The object has a pointer, so that it is not being destroyed.
            self.arena.handles.acquire(self.bits);
        }
        let Anchor { arena, bits, is_bare, _brand } = *self;
        Anchor { arena, bits, is_bare, _brand }
    }
}

impl Drop for Anchor<'_> {
    #[inline]
    fn drop(&mut self) {
        if !self.is_bare {
            self.arena.release(self.bits);
        }
    }
}

/// A pointer to an object of the heap `'h`: in a field of an object, or held by the program. Either keeps the object. It cannot
/// leave its heap: another heap has another `'h`, and what is in memory is not [`Persist`]. In the layer [`Base`](crate::Base) a pointer of the
/// program keeps nothing. On a way through many objects a [`Ref`](crate::Ref) costs less.
pub struct Ptr<'h, T> {
    anchor: Anchor<'h>,
    _object: PhantomData<fn(T) -> T>,
}

impl<'h, T> Ptr<'h, T> {
    pub(crate) fn of(anchor: Anchor<'h>) -> Ptr<'h, T> {
        Ptr { anchor, _object: PhantomData }
    }

    pub(crate) fn anchor(&self) -> &Anchor<'h> {
        &self.anchor
    }

    /// Whether both point to one object.
    pub fn is(&self, other: &Ptr<'h, T>) -> bool {
        self.anchor.bits == other.anchor.bits
    }

    /// Where the object lies, for a person: bytes from the start of the pool.
    pub fn offset(&self) -> u64 {
        tembo_pool::Object::from_bits(self.anchor.bits).offset()
    }
}

impl<T> Clone for Ptr<'_, T> {
    fn clone(&self) -> Self {
        Ptr::of(self.anchor.clone())
    }
}

impl<T> PartialEq for Ptr<'_, T> {
    fn eq(&self, other: &Self) -> bool {
        self.anchor.bits == other.anchor.bits
    }
}

impl<T> Eq for Ptr<'_, T> {}

impl<T> fmt::Debug for Ptr<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Ptr({:#x})", self.offset())
    }
}

impl<'h, T: Object<'h>> Persist<'h> for Ptr<'h, T> {
    const WORDS: u64 = 1;
    const NAME: u64 = mix(hash(0, "Ptr"), T::OBJECT);
    const LAYOUT: u64 = Self::NAME;
    const NEVER_ZERO: bool = true;

    fn name() -> String {
        format!("Ptr<{}>", T::object_name())
    }

    fn shape() -> Shape {
        Shape::Pointer(T::object_name())
    }

    fn write(&self, to: &mut Writer<'_, 'h>) {
        to.word(self.anchor.bits);
    }

    #[inline]
    fn read(from: &mut Reader<'_, 'h>) -> Result<Self, Error> {
        Ok(Ptr::of(anchor(from)?))
    }

    fn pointers(words: &[u64], each: &mut dyn FnMut(u64)) {
        words.first().into_iter().filter(|bits| **bits != 0).for_each(|bits| each(*bits));
    }
}

#[inline]
fn anchor<'h>(from: &mut Reader<'_, 'h>) -> Result<Anchor<'h>, Error> {
    let bits = from.word()?;
    let (arena, object) = (from.arena(), tembo_pool::Object::from_bits(bits));
    if object.is_none() || object.to_bits() != bits {
        return Err(Error::Damaged { what: "a pointer", offset: bits });
    }
    arena.pool.valid(object)?;
    if !from.counts() {
        return Ok(Anchor::bare(arena, bits));
    }
    if !arena.handles.acquire(bits) {
        return Err(Error::Conflict);
    }
    from.note_counted();
    Ok(Anchor::counted(arena, bits))
}

/// A pointer that does not keep its object. While something else does,
/// [`upgrade`](crate::Transaction::upgrade) gives a pointer that does; from then on `None`.
pub struct Weak<'h, T> {
    anchor: Anchor<'h>,
    _object: PhantomData<fn(T) -> T>,
}

impl<'h, T> Weak<'h, T> {
    pub(crate) fn of(anchor: Anchor<'h>) -> Weak<'h, T> {
        Weak { anchor, _object: PhantomData }
    }

    pub(crate) fn anchor(&self) -> &Anchor<'h> {
        &self.anchor
    }
}

impl<T> Clone for Weak<'_, T> {
    fn clone(&self) -> Self {
        Weak::of(self.anchor.clone())
    }
}

impl<T> fmt::Debug for Weak<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Weak")
    }
}

impl<'h, T: Object<'h>> Persist<'h> for Weak<'h, T> {
    const WORDS: u64 = 1;
    const NAME: u64 = mix(hash(0, "Weak"), T::OBJECT);
    const LAYOUT: u64 = Self::NAME;
    const NEVER_ZERO: bool = true;

    fn name() -> String {
        format!("Weak<{}>", T::object_name())
    }

    fn shape() -> Shape {
        Shape::Weak(T::object_name())
    }

    fn write(&self, to: &mut Writer<'_, 'h>) {
        to.word(self.anchor.bits);
    }

    #[inline]
    fn read(from: &mut Reader<'_, 'h>) -> Result<Self, Error> {
        Ok(Weak::of(anchor(from)?))
    }

    fn pointers(words: &[u64], each: &mut dyn FnMut(u64)) {
        words.first().into_iter().filter(|bits| **bits != 0).for_each(|bits| each(*bits));
    }
}
