//! What may be looked at where others store: types of words, and ranges of bytes.
#![allow(unsafe_code)]

mod bytes;
mod word;

pub use bytes::MediaBytes;
pub use word::Word;

/// A type that a region lends out as a reference. It is [`Word`], an array of such types, or a struct of such
/// fields, which [`media!`](crate::media!) declares. So nothing that is lent changes under a reference that says
/// that it does not, and every value is valid, whatever the medium holds.
///
/// Plain integers, and cells that only one thread may have, are not:
/// ```compile_fail,E0277
/// fn look(region: &tembo_pmem::Region) { let _ = region.get::<u64>(4096); }
/// ```
/// ```compile_fail,E0277
/// fn look(region: &tembo_pmem::Region) { let _ = region.get::<std::cell::Cell<u64>>(4096); }
/// ```
/// ```compile_fail,E0277
/// fn look(region: &tembo_pmem::Region) { let _ = region.get::<[u8; 8]>(4096); }
/// ```
/// ```compile_fail,E0277
/// fn look(region: &tembo_pmem::Region) { let _ = region.slice::<std::sync::atomic::AtomicU8>(4096, 8); }
/// ```
///
/// # Safety
/// Every bit pattern is a valid value. All bytes lie in [`Word`]s, so that they may change under a shared
/// reference. The alignment is that of [`Word`].
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be lent out of a region",
    note = "declare a struct of `Word`s with `tembo_pmem::media!`, or copy bytes with `Region::media_bytes`"
)]
pub unsafe trait Media: Sync {}

// SAFETY: an atomic, of which every bit pattern is valid.
unsafe impl Media for Word {}

// SAFETY: as of its elements; an array has no other bytes.
unsafe impl<T: Media, const N: usize> Media for [T; N] {}

/// Declares a struct of words on media, in the order of its fields: `#[repr(C)]`, [`Media`]. Other fields than
/// `Media` ones do not compile:
///
/// ```
/// #![forbid(unsafe_code)]
/// tembo_pmem::media! {
///     /// An entry.
///     #[derive(Debug)]
///     pub struct Entry {
///         /// Stored last.
///         pub version: tembo_pmem::Word,
///         value: [tembo_pmem::Word; 3],
///     }
/// }
/// assert_eq!(size_of::<Entry>(), 32);
/// ```
/// ```compile_fail,E0277
/// tembo_pmem::media! { struct Entry { version: tembo_pmem::Word, value: u64 } }
/// ```
/// ```compile_fail,E0080
/// tembo_pmem::media! { #[repr(align(64))] struct Entry { version: tembo_pmem::Word } }
/// ```
#[macro_export]
macro_rules! media {
    ($(
        $(#[$attribute:meta])*
        $visibility:vis struct $name:ident {
            $( $(#[$field_attribute:meta])* $field_visibility:vis $field:ident : $type:ty ),* $(,)?
        }
    )*) => {$(
        $(#[$attribute])*
        #[repr(C)]
        $visibility struct $name {
            $( $(#[$field_attribute])* $field_visibility $field: $type ),*
        }

        const _: () = {
            // Takes the struct as it is, whatever an attribute has made of it: there are no other fields, and
            // each is `Media`.
            fn all_fields_are_media(value: &$name) {
                fn is_media<T: $crate::Media>(_: &T) {}
                let $name { $($field),* } = value;
                $( is_media($field); )*
            }
            let _ = all_fields_are_media;
            assert!(align_of::<$name>() == align_of::<$crate::Word>());

            // SAFETY: its fields are `Media`, as shown above, and it has no others; its alignment is theirs.
            unsafe impl $crate::Media for $name {}
        };
    )*};
}
