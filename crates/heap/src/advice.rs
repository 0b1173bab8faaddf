//! What a field can be in the place of what cannot live in a heap: advice that the compiler gives.
//!
//! A macro sees names only. So where the type of a field has a `Vec` in it, the derive macro asks [`ForVec`] for what it needs of the type. A type that
//! is [`Persist`] has that, as one can be with a program's own `Vec`; of another one the compiler says what stands here.

use crate::{Error, Persist, Reader, Shape, Writer};

macro_rules! advice {
    ($($name:ident, $label:literal, $note:literal;)*) => {$(
        /// What [`Persist`] says of a type.
        #[diagnostic::on_unimplemented(
            message = "`{Self}` cannot live in a heap",
            label = $label,
            note = $note
        )]
        pub trait $name<'h>: Sized {
            /// As [`Persist::WORDS`].
            const WORDS: u64;
            /// As [`Persist::LAYOUT`].
            const LAYOUT: u64;

            /// As [`Persist::shape`].
            fn shape() -> Shape;

            /// As [`Persist::write`].
            fn write(&self, to: &mut Writer<'_, 'h>);

            /// As [`Persist::read`].
            ///
            /// # Errors
            /// As that.
            fn read(from: &mut Reader<'_, 'h>) -> Result<Self, Error>;

            /// As [`Persist::pointers`].
            fn pointers(words: &[u64], each: &mut dyn FnMut(u64));
        }

        #[diagnostic::do_not_recommend]
        impl<'h, T: Persist<'h>> $name<'h> for T {
            const WORDS: u64 = <T as Persist<'h>>::WORDS;
            const LAYOUT: u64 = <T as Persist<'h>>::LAYOUT;

            fn shape() -> Shape {
                <T as Persist<'h>>::shape()
            }

            #[inline]
            fn write(&self, to: &mut Writer<'_, 'h>) {
                <T as Persist<'h>>::write(self, to);
            }

            #[inline]
            fn read(from: &mut Reader<'_, 'h>) -> Result<Self, Error> {
                <T as Persist<'h>>::read(from)
            }

            fn pointers(words: &[u64], each: &mut dyn FnMut(u64)) {
                <T as Persist<'h>>::pointers(words, each);
            }
        }
    )*};
}

advice! {
    ForVec, "for `Vec` use `PVec<'h, T>`", "it owns memory that is gone when the program has ended";
    ForText, "for a text use `PString<'h>`", "it owns memory that is gone when the program has ended";
    ForBox, "for `Box` use `Ptr<'h, T>`, or `PBox<'h, T>` if nothing else refers to the object",
        "it owns memory that is gone when the program has ended";
    ForShared, "for `Rc` and `Arc` use `Ptr<'h, T>`, which is counted, and `Weak<'h, T>` for the way back",
        "it owns memory that is gone when the program has ended";
    ForHashMap, "for a hash map use `PHashMap<'h, V>`, whose keys are bytes or texts; a set is a `PHashMap<'h, ()>`",
        "it owns memory that is gone when the program has ended";
    ForMap, "for an ordered map use `PMap<'h, V>`, whose keys are bytes or texts, in their order; a set is a `PMap<'h, ()>`",
        "it owns memory that is gone when the program has ended";
    ForDeque, "for `VecDeque` use `PDeque<'h, T>`", "it owns memory that is gone when the program has ended";
    ForList, "for `LinkedList` use `PList<'h, T>`", "it owns memory that is gone when the program has ended";
    ForShell, "for a cell or lock use the value in it: a transaction changes it (`Transaction::set`)",
        "transactions keep threads apart, and what changes without one would not be logged";
    ForSize, "for `usize` and `isize` use `u64` or `i64`", "its size is not the same on every machine";
    ForWide, "for 128 bits use `[u64; 2]`", "the integers of a heap have 64 bits at most";
    ForTime, "for a time use a number, such as the seconds since 1970 in a `u64`",
        "what it holds means nothing to another program";
}

/// A value of an older version becomes one of the newer: by [`From`].
#[diagnostic::on_unimplemented(
    message = "a `{Newer}` does not follow from a `{Self}`",
    label = "what of this becomes what of a `{Newer}`?",
    note = "write `impl From<{Self}> for {Newer}`"
)]
pub trait Older<Newer> {
    /// What it becomes.
    fn newer(self) -> Newer;
}

#[diagnostic::do_not_recommend]
impl<Old, Newer: From<Old>> Older<Newer> for Old {
    fn newer(self) -> Newer {
        Newer::from(self)
    }
}
