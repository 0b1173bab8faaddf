//! Both implementations, against slices.

use std::cmp::Ordering;

use super::*;

const SIZES: usize = 300;

/// Bytes that begin at a word, with `shift` of them before those that count.
fn range(words: &[u64], shift: usize) -> *const u8 {
    words.as_ptr().cast::<u8>().wrapping_add(shift)
}

/// An implementation.
struct Access {
    read: unsafe fn(*const u8, *mut u8, usize),
    write: unsafe fn(*const u8, *mut u8, usize),
    equals: unsafe fn(*const u8, &[u8]) -> bool,
    mismatch: unsafe fn(*const u8, &[u8]) -> Option<Mismatch>,
    load_byte: unsafe fn(*const u8) -> u8,
    crc32c: unsafe fn(u32, *const u8, usize) -> u32,
}

fn each() -> [Access; 2] {
    use super::portable as p;
    [
        Access { read, write, equals, mismatch, load_byte, crc32c },
        Access {
            read: p::read,
            write: p::write,
            equals: p::equals,
            mismatch: p::mismatch,
            load_byte: p::load_byte,
            crc32c: p::crc32c,
        },
    ]
}

fn lens() -> impl Iterator<Item = usize> {
    let most = if cfg!(miri) { 40 } else { SIZES };
    (0..most).chain([1023, 1024, 1025, 5000])
}

#[test]
fn a_copy_is_exactly_what_was_there() {
    for access in each() {
        for len in lens() {
            for shift in [0, 1, 3, 7] {
                let source: Vec<u8> = (0..len).map(|i| (i * 7 + shift) as u8).collect();
                let mut words = vec![!0_u64; (shift + len).div_ceil(8) + 2];
                let to = words.as_mut_ptr().cast::<u8>().wrapping_add(shift);
                let mut copy = vec![0xee; len + 2];
                // SAFETY: `words` has room for `shift + len` bytes, `copy` for `len` behind the first.
                unsafe {
                    (access.write)(source.as_ptr(), to, len);
                    (access.read)(to, copy.as_mut_ptr().add(1), len);
                    if len > 0 {
                        assert_eq!((access.load_byte)(to), source[0]);
                    }
                }
                assert_eq!(copy[1..=len], source);
                assert_eq!((copy[0], copy[len + 1]), (0xee, 0xee));
                let all: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
                assert_eq!(all[shift..shift + len], source);
                let around = [&all[..shift], &all[shift + len..]];
                assert!(around.concat().iter().all(|byte| *byte == 0xff), "{len} {shift}");
            }
        }
    }
}

#[test]
fn the_first_byte_that_differs_is_found() {
    for access in each() {
        for len in lens() {
            let mut words = vec![0_u64; len.div_ceil(8) + 2];
            let plain: Vec<u8> = (0..len).map(|i| i as u8).collect();
            let at = words.as_mut_ptr().cast::<u8>().wrapping_add(3);
            // SAFETY: `words` has room for `3 + len` bytes.
            unsafe {
                (access.write)(plain.as_ptr(), at, len);
                let at = range(&words, 3);
                assert!((access.equals)(at, &plain), "{len}");
                assert_eq!((access.mismatch)(at, &plain), None);
                for index in (0..len).step_by(if len > SIZES { 97 } else { 1 }) {
                    let mut other = plain.clone();
                    other[index] ^= 0x80;
                    // A later difference must not be taken for the first.
                    other[len - 1] = !plain[len - 1];
                    let byte = plain[index];
                    assert!(!(access.equals)(at, &other), "{len} {index}");
                    assert_eq!((access.mismatch)(at, &other), Some(Mismatch { index, byte }));
                    assert_eq!(plain[..].cmp(&other), byte.cmp(&other[index]));
                    assert_ne!(byte.cmp(&other[index]), Ordering::Equal);
                }
            }
        }
    }
}

/// How a checksum is made where there is no wider instruction.
///
/// # Safety
/// As of [`crc32c`].
#[cfg(all(target_arch = "x86_64", not(miri)))]
unsafe fn narrow_crc32c(init: u32, at: *const u8, len: usize) -> u32 {
    assert!(super::crc32c::is_supported());
    // SAFETY: the caller's promise; the processor has the instructions.
    !unsafe { super::crc32c::narrow((!init).into(), at, len) }
}

fn each_crc32c() -> Vec<unsafe fn(u32, *const u8, usize) -> u32> {
    let mut each: Vec<unsafe fn(u32, *const u8, usize) -> u32> =
        each().into_iter().map(|access| access.crc32c).collect();
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    each.push(narrow_crc32c);
    each
}

/// RFC 3720, B.4, and the library that other checksums are made by, for each length and at each place in a word.
#[test]
fn a_checksum_is_that_of_the_standard() {
    let most = if cfg!(miri) { 100 } else { 9000 };
    let bytes: Vec<u8> = (0..most + 8).map(|i| (i * i / 7) as u8).collect();
    let words: Vec<u64> =
        bytes.chunks_exact(8).map(|word| u64::from_ne_bytes(word.try_into().unwrap())).collect();
    for crc32c in each_crc32c() {
        let of = |init, at: usize, len: usize| {
            // SAFETY: within `words`, which has the same bytes.
            unsafe { crc32c(init, range(&words, at), len) }
        };
        let long = [1000, 1023, 2048, 4095, 4096, 8192].into_iter().filter(|len| *len < most);
        for len in (0..most.min(700)).chain(long) {
            for at in [0, 1, 5] {
                let expected = ::crc32c::crc32c(&bytes[at..at + len]);
                assert_eq!(of(0, at, len), expected, "{len} at {at}");
                let (first, second) = (of(0, at, len / 3), len - len / 3);
                assert_eq!(of(first, at + len / 3, second), expected, "{len} at {at} in two");
            }
        }
        for (byte, expected) in [(0, 0x8a91_36aa_u32), (u64::MAX, 0x62a8_ab43)] {
            let words = [byte; 4];
            // SAFETY: all of the words.
            assert_eq!(unsafe { crc32c(0, range(&words, 0), 32) }, expected);
        }
    }
}
