//! How a layout of words is declared.

/// Declares a struct of words on media, in the order of its fields: `#[repr(C)]`, [`Media`](crate::Media). Other fields than
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
