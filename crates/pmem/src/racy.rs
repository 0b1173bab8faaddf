//! Loads and stores of memory that other threads may load and store at the same time.
//!
//! A plain load beside a store is a data race, whatever the processor makes of it. What is on media can be
//! stored to at any time: a pool may be damaged and name one piece of space twice. So the bytes of a region are
//! touched by two means only: as a [`Word`](crate::Word), and here.
//!
//! On x86-64 each access is one instruction in an `asm!` block, which the compiler neither sees into nor
//! repeats nor leaves out. The processor gives to each byte a value that was stored there. (The language has no such
//! access of its own yet: RFC 3301, `AtomicPerByte`; crossbeam's `AtomicCell` rests on the same argument.)
//! Elsewhere, and under Miri, all accesses are relaxed atomic ones of whole aligned words, so that no two
//! accesses of different sizes meet. That needs a range whose words are all in the region: a region is a
//! multiple of eight bytes.
//!
//! What is read is a value that the memory had, byte by byte; bytes that change meanwhile may be of different times.
#![allow(unsafe_code)]

#[cfg(all(target_arch = "x86_64", not(miri)))]
mod crc32c;
#[cfg(any(test, miri, not(target_arch = "x86_64")))]
mod portable;
#[cfg(all(target_arch = "x86_64", not(miri)))]
mod x86_64;

#[cfg(any(miri, not(target_arch = "x86_64")))]
pub(crate) use portable::{crc32c, equals, load_byte, mismatch, read, write};
#[cfg(all(target_arch = "x86_64", not(miri)))]
pub(crate) use x86_64::{crc32c, equals, load_byte, mismatch, read, write};

/// Where two ranges of bytes differ first, and what the first of the two has there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mismatch {
    pub(crate) index: usize,
    pub(crate) byte: u8,
}

#[cfg(test)]
mod tests;
