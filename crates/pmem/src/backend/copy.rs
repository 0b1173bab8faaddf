//! How the bytes of a record get into the region.
#![allow(unsafe_code)]

#[cfg(all(target_arch = "x86_64", not(miri)))]
use crate::LINE;
use crate::flush::FlushInstruction;
use crate::racy;

/// Writes the parts past the cache, whole lines at a time; head and tail through it, flushed where `flush` says how.
///
/// # Safety
/// As of [`copy_parts`].
#[cfg(all(target_arch = "x86_64", not(miri)))]
pub(super) unsafe fn stream(at: *mut u8, parts: &[&[u8]], flush: Option<FlushInstruction>) {
    let mut line = [0_u8; LINE as usize];
    let mut filled = 0;
    let mut to = at;
    for part in parts {
        let mut rest = *part;
        while !rest.is_empty() {
            let room = LINE as usize - to.addr() % LINE as usize;
            if filled == 0 && room == LINE as usize && rest.len() >= LINE as usize {
                let count = rest.len() / LINE as usize;
                // SAFETY: `to` is aligned, and the caller has found room for all parts.
                unsafe { crate::flush::stream_lines(rest.as_ptr(), to, count) };
                let len = count * LINE as usize;
                (to, rest) = (to.wrapping_add(len), &rest[len..]);
                continue;
            }
            let take = rest.len().min(room - filled);
            line[filled..filled + take].copy_from_slice(&rest[..take]);
            (filled, rest) = (filled + take, &rest[take..]);
            if filled == room {
                // SAFETY: the piece lies where the parts go.
                unsafe { put_piece(&line[..filled], to, flush) };
                (to, filled) = (to.wrapping_add(filled), 0);
            }
        }
    }
    // SAFETY: the piece lies where the parts go.
    unsafe { put_piece(&line[..filled], to, flush) };
}

/// Stores a piece of one line, past the cache if it is all of the line.
///
/// # Safety
/// As of [`copy_parts`].
#[cfg(all(target_arch = "x86_64", not(miri)))]
unsafe fn put_piece(piece: &[u8], to: *mut u8, flush: Option<FlushInstruction>) {
    if piece.len() == LINE as usize {
        // SAFETY: a piece of a whole line begins at the line; the caller has found room for it.
        unsafe { crate::flush::stream_line(piece.as_ptr(), to) };
        return;
    }
    // SAFETY: the caller's promise.
    unsafe {
        racy::write(piece.as_ptr(), to, piece.len());
        if let Some(instruction) = flush {
            instruction.flush(to, piece.len() as u64);
        }
    }
}

/// There is no flush domain here.
///
/// # Safety
/// As of [`copy_parts`].
#[cfg(any(miri, not(target_arch = "x86_64")))]
pub(super) unsafe fn stream(at: *mut u8, parts: &[&[u8]], _flush: Option<FlushInstruction>) {
    // SAFETY: the caller's promise.
    unsafe { copy_parts(at, parts) }
}

/// Whether a part lies where they are all to be written.
#[inline]
pub(crate) fn overlaps(at: *const u8, len: usize, parts: &[&[u8]]) -> bool {
    let (start, end) = (at.addr(), at.addr() + len);
    parts.iter().any(|part| {
        let from = part.as_ptr().addr();
        from < end && start < from + part.len()
    })
}

/// Copies the parts one after another.
///
/// # Safety
/// There is room for all of them at `at`, in a region, and none of them lies there.
pub(super) unsafe fn copy_parts(mut at: *mut u8, parts: &[&[u8]]) {
    for part in parts {
        // SAFETY: the caller's promise.
        unsafe { racy::write(part.as_ptr(), at, part.len()) };
        at = at.wrapping_add(part.len());
    }
}
