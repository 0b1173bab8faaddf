//! What may live in a heap.

use std::marker::PhantomData;

use crate::Error;
use crate::arena::Arena;
use crate::shape::{Shape, hash, mix};
use crate::types::{TypeInfo, mark};

/// A value that may live in the heap `'h`: of fixed layout, without addresses, without pointers to other heaps. Derive it.
///
/// A value takes whole words of eight bytes on media; it is copied to and from them, so that no reference into the heap exists.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot live in a heap",
    label = "is not `Persist` in this heap",
    note = "addresses, and what owns memory, mean nothing after the program has ended: for `Vec` use `PVec`, for `String` `PString`, for `Box` `PBox` or `Ptr`, for `Rc` and references `Ptr`, for `HashMap` `PHashMap`, for `BTreeMap` `PMap`",
    note = "a struct or enum of fields that can live in a heap gets `#[derive(Persist)]`"
)]
pub trait Persist<'h>: Sized {
    /// Words that a value takes.
    const WORDS: u64;
    /// The hash of the type's name.
    const NAME: u64;
    /// The hash of its layout.
    const LAYOUT: u64;
    /// The version of its layout.
    const VERSION: u32 = 0;
    /// Whether the first word of a value is never 0, so that an `Option` needs no word more.
    const NEVER_ZERO: bool = false;

    /// The type's name, by which a heap knows it.
    fn name() -> String;

    /// The layout.
    fn shape() -> Shape;

    /// Writes [`WORDS`](Persist::WORDS) words.
    fn write(&self, to: &mut Writer<'_, 'h>);

    /// Reads as many.
    ///
    /// # Errors
    /// [`Error::Damaged`]: they are no value. [`Error::Conflict`].
    fn read(from: &mut Reader<'_, 'h>) -> Result<Self, Error>;

    /// Reads so many values, one behind another.
    ///
    /// # Errors
    /// As [`read`](Persist::read).
    #[doc(hidden)]
    #[inline]
    fn read_array<const N: usize>(from: &mut Reader<'_, 'h>) -> Result<[Self; N], Error> {
        let values: Result<Vec<Self>, Error> = (0..N).map(|_| Self::read(from)).collect();
        values?.try_into().map_err(|_| from.no_variant())
    }

    /// The hash of the layout that a version of the type has or had; `None`: a value of it does not become one of this version.
    /// `#[persist(version = 2, from = …)]` says so.
    fn layout_of(version: u32) -> Option<u64> {
        (version == Self::VERSION).then_some(Self::LAYOUT)
    }

    /// Reads a value of a version that [`layout_of`](Persist::layout_of) knows, and makes one of this version of it.
    ///
    /// # Errors
    /// As [`read`](Persist::read).
    fn read_version(version: u32, from: &mut Reader<'_, 'h>) -> Result<Self, Error> {
        if version == Self::VERSION { Self::read(from) } else { Err(from.no_variant()) }
    }

    /// Calls `each` with every pointer in the words of a value, which may all be 0.
    fn pointers(_words: &[u64], _each: &mut dyn FnMut(u64)) {}
}

/// What a pointer can point to: any [`Persist`] type, and slices.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be an object of a heap",
    note = "derive `Persist` for it"
)]
pub trait Object<'h> {
    /// The hash of its name.
    const OBJECT: u64;

    /// Stands for what [`info`](Object::info) says.
    #[doc(hidden)]
    const MARK: u64;

    /// The name.
    fn object_name() -> String;

    /// What the heap notes of the type.
    fn info() -> TypeInfo;

    /// The words of a value, made of those that it has in an older version of that layout. `None`: it does not follow from that.
    ///
    /// # Errors
    /// As [`Persist::read`].
    #[doc(hidden)]
    fn renew(
        _version: u32,
        _layout: u64,
        _from: &mut Reader<'_, 'h>,
    ) -> Result<Option<Vec<u64>>, Error> {
        Ok(None)
    }
}

impl<'h, T: Persist<'h>> Object<'h> for T {
    const OBJECT: u64 = T::NAME;
    const MARK: u64 = mark(mix(T::NAME, T::VERSION as u64), T::LAYOUT, T::WORDS);

    fn object_name() -> String {
        T::name()
    }

    fn info() -> TypeInfo {
        TypeInfo {
            name_hash: T::NAME,
            version: T::VERSION,
            layout: T::LAYOUT,
            words: T::WORDS,
            name: T::name,
            shape: T::shape,
        }
    }

    fn renew(
        version: u32,
        layout: u64,
        from: &mut Reader<'_, 'h>,
    ) -> Result<Option<Vec<u64>>, Error> {
        if T::layout_of(version) != Some(layout) {
            return Ok(None);
        }
        let (value, mut words) = (T::read_version(version, from)?, Vec::new());
        value.write(&mut Writer::new(&mut words));
        Ok(Some(words))
    }
}

/// How the words of a value of an older version become those of this one: see [`Object::renew`].
type Renew<'h> = fn(u32, u64, &mut Reader<'_, 'h>) -> Result<Option<Vec<u64>>, Error>;

/// The type that a program expects an object to have.
pub(crate) struct Expected<'h> {
    pub(crate) info: fn() -> TypeInfo,
    /// Stands for that.
    pub(crate) mark: u64,
    pub(crate) renew: Renew<'h>,
}

impl<'h> Expected<'h> {
    pub(crate) fn of<T: Object<'h>>() -> Expected<'h> {
        Expected { info: T::info, mark: T::MARK, renew: T::renew }
    }
}

impl Clone for Expected<'_> {
    fn clone(&self) -> Self {
        *self
    }
}

impl Copy for Expected<'_> {}

/// Where the pointers in the words of a value are.
#[derive(Clone, Copy)]
pub(crate) struct Pointers {
    /// See [`Persist::pointers`].
    pub(crate) each: fn(&[u64], &mut dyn FnMut(u64)),
    pub(crate) shape: fn() -> Shape,
}

impl Pointers {
    pub(crate) fn of<'h, T: Persist<'h>>() -> Pointers {
        Pointers { each: T::pointers, shape: T::shape }
    }
}

/// Where the words of a value are written.
pub struct Writer<'w, 'h> {
    words: &'w mut Vec<u64>,
    _heap: PhantomData<fn(&'h ()) -> &'h ()>,
}

impl<'w> Writer<'w, '_> {
    pub(crate) fn new(words: &'w mut Vec<u64>) -> Self {
        Writer { words, _heap: PhantomData }
    }

    /// The next word.
    #[inline]
    pub fn word(&mut self, word: u64) {
        self.words.push(word);
    }

    /// So many zeroes.
    pub fn zeroes(&mut self, count: u64) {
        self.words.resize(self.words.len() + count as usize, 0);
    }

    /// Zeroes until there are `count` words from `from` on.
    pub fn fill(&mut self, from: usize, count: u64) {
        self.words.resize(from + count as usize, 0);
    }

    /// Words written so far.
    #[inline]
    pub fn at(&self) -> usize {
        self.words.len()
    }
}

/// Where the words of a value are read.
pub struct Reader<'r, 'h> {
    words: &'r [u64],
    at: usize,
    arena: &'h Arena,
    counts: bool,
    has_counted: bool,
}

impl<'r, 'h> Reader<'r, 'h> {
    #[inline]
    pub(crate) fn new(words: &'r [u64], arena: &'h Arena, counts: bool) -> Reader<'r, 'h> {
        Reader { words, at: 0, arena, counts, has_counted: false }
    }

    /// Whether pointers that are read are counted.
    #[inline]
    pub(crate) fn counts(&self) -> bool {
        self.counts
    }

    pub(crate) fn note_counted(&mut self) {
        self.has_counted = true;
    }

    /// Whether a pointer was counted.
    #[inline]
    pub(crate) fn has_counted(&self) -> bool {
        self.has_counted
    }

    #[inline]
    pub(crate) fn arena(&self) -> &'h Arena {
        self.arena
    }

    /// The next word.
    ///
    /// # Errors
    /// [`Error::Damaged`]: there is none.
    #[inline]
    pub fn word(&mut self) -> Result<u64, Error> {
        let word = self.peek()?;
        self.at += 1;
        Ok(word)
    }

    /// The next word, which is read again.
    ///
    /// # Errors
    /// As [`word`](Reader::word).
    #[inline]
    pub fn peek(&self) -> Result<u64, Error> {
        let damaged = || Error::Damaged { what: "a value ends early", offset: self.at as u64 };
        self.words.get(self.at).copied().ok_or_else(damaged)
    }

    #[inline]
    fn words(&mut self, count: usize) -> Result<&'r [u64], Error> {
        let words = self.words.get(self.at..).and_then(|words| words.get(..count));
        let at = self.at as u64;
        self.at += count;
        words.ok_or_else(|| Error::Damaged { what: "a value ends early", offset: at })
    }

    /// Words read so far.
    #[inline]
    pub fn at(&self) -> usize {
        self.at
    }

    /// Goes on behind `count` words from `from` on.
    #[inline]
    pub fn go_to(&mut self, from: usize, count: u64) {
        self.at = from + count as usize;
    }

    /// The error of a variant that does not exist.
    pub fn no_variant(&self) -> Error {
        Error::Damaged { what: "a variant", offset: self.at as u64 }
    }
}

macro_rules! scalar {
    ($($type:ident: $to:expr, $from:expr;)*) => {$(
        impl<'h> Persist<'h> for $type {
            const WORDS: u64 = 1;
            const NAME: u64 = hash(0, stringify!($type));
            const LAYOUT: u64 = Self::NAME;

            fn name() -> String {
                stringify!($type).to_owned()
            }

            fn shape() -> Shape {
                Shape::Plain { name: Self::name(), words: 1 }
            }

            #[inline]
            fn write(&self, to: &mut Writer<'_, 'h>) {
                let word: fn($type) -> u64 = $to;
                to.word(word(*self));
            }

            #[inline]
            fn read(from: &mut Reader<'_, 'h>) -> Result<Self, Error> {
                let value: fn(u64) -> Option<$type> = $from;
                value(from.word()?).ok_or_else(|| from.no_variant())
            }

            #[inline]
            fn read_array<const N: usize>(from: &mut Reader<'_, 'h>) -> Result<[Self; N], Error> {
                let of_word: fn(u64) -> Option<$type> = $from;
                let mut values = [<$type>::default(); N];
                for (value, word) in values.iter_mut().zip(from.words(N)?) {
                    *value = of_word(*word).ok_or_else(|| from.no_variant())?;
                }
                Ok(values)
            }
        }
    )*};
}

scalar! {
    u64: |value| value, Some;
    i64: |value| value as u64, |word| Some(word as i64);
    u32: u64::from, |word| word.try_into().ok();
    i32: |value| i64::from(value) as u64, |word| (word as i64).try_into().ok();
    u16: u64::from, |word| word.try_into().ok();
    i16: |value| i64::from(value) as u64, |word| (word as i64).try_into().ok();
    u8: u64::from, |word| word.try_into().ok();
    i8: |value| i64::from(value) as u64, |word| (word as i64).try_into().ok();
    bool: u64::from, |word| (word < 2).then_some(word == 1);
    char: |value| u64::from(u32::from(value)), |word| char::from_u32(word.try_into().ok()?);
    f64: f64::to_bits, |word| Some(f64::from_bits(word));
    f32: |value| u64::from(value.to_bits()), |word| Some(f32::from_bits(word.try_into().ok()?));
}

impl<'h> Persist<'h> for () {
    const WORDS: u64 = 0;
    const NAME: u64 = hash(0, "()");
    const LAYOUT: u64 = Self::NAME;

    fn name() -> String {
        "()".to_owned()
    }

    fn shape() -> Shape {
        Shape::Fields(Vec::new())
    }

    fn write(&self, _to: &mut Writer<'_, 'h>) {}

    fn read(_from: &mut Reader<'_, 'h>) -> Result<Self, Error> {
        Ok(())
    }
}

impl<'h, T: Persist<'h>> Persist<'h> for Option<T> {
    const WORDS: u64 = T::WORDS + if T::NEVER_ZERO { 0 } else { 1 };
    const NAME: u64 = mix(hash(0, "Option"), T::NAME);
    const LAYOUT: u64 = mix(hash(0, "Option"), T::LAYOUT);

    fn name() -> String {
        format!("Option<{}>", T::name())
    }

    fn shape() -> Shape {
        if T::NEVER_ZERO {
            return T::shape();
        }
        let none = ("None".to_owned(), Shape::Fields(Vec::new()));
        Shape::Variants(vec![none, ("Some".to_owned(), T::shape())])
    }

    #[inline]
    fn write(&self, to: &mut Writer<'_, 'h>) {
        match self {
            None => to.zeroes(Self::WORDS),
            Some(value) => {
                if !T::NEVER_ZERO {
                    to.word(1);
                }
                value.write(to);
            }
        }
    }

    #[inline]
    fn read(from: &mut Reader<'_, 'h>) -> Result<Self, Error> {
        let (start, first) = (from.at(), if Self::WORDS == 0 { 0 } else { from.peek()? });
        if first == 0 {
            from.go_to(start, Self::WORDS);
            return Ok(None);
        }
        if !T::NEVER_ZERO && from.word()? != 1 {
            return Err(from.no_variant());
        }
        T::read(from).map(Some)
    }

    #[inline]
    fn read_array<const N: usize>(from: &mut Reader<'_, 'h>) -> Result<[Self; N], Error> {
        let mut values = [const { None }; N];
        for value in &mut values {
            *value = Self::read(from)?;
        }
        Ok(values)
    }

    fn pointers(words: &[u64], each: &mut dyn FnMut(u64)) {
        let skip = usize::from(!T::NEVER_ZERO);
        if words.first().is_some_and(|first| *first != 0) {
            T::pointers(&words[skip..], each);
        }
    }
}

impl<'h, T: Persist<'h>, const N: usize> Persist<'h> for [T; N] {
    const WORDS: u64 = T::WORDS * N as u64;
    const NAME: u64 = mix(mix(hash(0, "array"), N as u64), T::NAME);
    const LAYOUT: u64 = mix(mix(hash(0, "array"), N as u64), T::LAYOUT);

    fn name() -> String {
        format!("[{}; {N}]", T::name())
    }

    fn shape() -> Shape {
        Shape::Array(N as u64, Box::new(T::shape()))
    }

    #[inline]
    fn write(&self, to: &mut Writer<'_, 'h>) {
        self.iter().for_each(|value| value.write(to));
    }

    #[inline]
    fn read(from: &mut Reader<'_, 'h>) -> Result<Self, Error> {
        T::read_array(from)
    }

    fn pointers(words: &[u64], each: &mut dyn FnMut(u64)) {
        if T::WORDS > 0 {
            words.chunks(T::WORDS as usize).for_each(|words| T::pointers(words, each));
        }
    }
}

macro_rules! tuple {
    ($($name:ident $at:tt),*) => {
        impl<'h, $($name: Persist<'h>),*> Persist<'h> for ($($name,)*) {
            const WORDS: u64 = 0 $(+ $name::WORDS)*;
            const NAME: u64 = { let hash = hash(0, "tuple"); $(let hash = mix(hash, $name::NAME);)* hash };
            const LAYOUT: u64 = { let hash = hash(0, "tuple"); $(let hash = mix(hash, $name::LAYOUT);)* hash };

            fn name() -> String {
                let names = [$($name::name()),*];
                format!("({})", names.join(", "))
            }

            fn shape() -> Shape {
                Shape::Fields(vec![$((stringify!($at).to_owned(), $name::shape())),*])
            }

            #[inline]
            fn write(&self, to: &mut Writer<'_, 'h>) {
                $(self.$at.write(to);)*
            }

            #[inline]
            fn read(from: &mut Reader<'_, 'h>) -> Result<Self, Error> {
                Ok(($($name::read(from)?,)*))
            }

            fn pointers(words: &[u64], each: &mut dyn FnMut(u64)) {
                let rest = words;
                $(
                    let (first, rest) = rest.split_at($name::WORDS as usize);
                    $name::pointers(first, each);
                )*
                let _ = rest;
            }
        }
    };
}

tuple!(A 0);
tuple!(A 0, B 1);
tuple!(A 0, B 1, C 2);
tuple!(A 0, B 1, C 2, D 3);
