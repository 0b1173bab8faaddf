//! What may be looked at where others store: types of words, and ranges of bytes.
#![allow(unsafe_code)]

mod borrowed;
mod bytes;
mod format;
mod word;

pub use borrowed::{Borrowed, BorrowedBytes};
pub use bytes::{MediaBytes, crc32c};
pub use word::Word;

/// A type that a region lends out as a reference. It is [`Word`], an array of such types, or a struct of such
/// fields, which [`media!`](crate::media!) declares. So nothing that is handed out changes under a reference that says
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
// SAFETY: what an implementation promises stands above; `media!` shows it of each.
pub unsafe trait Media: Sync {}

// SAFETY: an atomic, of which every bit pattern is valid.
unsafe impl Media for Word {}

// SAFETY: as of its elements; an array has no other bytes.
unsafe impl<T: Media, const N: usize> Media for [T; N] {}
