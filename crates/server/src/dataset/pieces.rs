//! Large strings: their bytes lie in pieces, which are elements. So a change of a part leaves the others as they are,
//! and the expiry and the key of a string change without its bytes.

use std::ops::Range;

use tembo_kv::{Error, Exclusive};

use crate::dataset::elements::Elements;
use crate::failure::Failure;
use crate::format::{PAYLOAD_SIZE_MAX, PIECE_SIZE, Part};

/// A string of so many bytes is laid down in pieces. A smaller one is copied in a few milliseconds.
pub(crate) const LARGE_STRING_SIZE: usize = 4 << 20;

/// Refuses a string that is too long.
pub(crate) fn check_string(size: usize) -> Result<(), Failure> {
    if size > PAYLOAD_SIZE_MAX {
        return Err("ERR string exceeds maximum allowed size (proto-max-bulk-len)".into());
    }
    Ok(())
}

/// Writes bytes from an offset on, into the pieces of a database and id.
pub(super) fn write(
    elements: &mut Elements,
    transaction: &mut Exclusive,
    (db, id): (usize, u64),
    offset: usize,
    bytes: &[u8],
) -> Result<(), Error> {
    let (mut at, mut rest) = (offset, bytes);
    while !rest.is_empty() {
        let (number, from) = piece_of(at);
        let (part, others) = rest.split_at(rest.len().min(PIECE_SIZE - from));
        let key = number.to_be_bytes();
        if part.len() == PIECE_SIZE {
            elements.put(transaction, db, ((id, Part::Main), &[&key]), &[part])?;
        } else {
            let before = elements.get(transaction, db, (id, Part::Main), &[&key])?;
            let mut piece = before.map(|piece| piece.to_vec()).unwrap_or_default();
            let to = from + part.len();
            piece.resize(piece.len().max(to), 0);
            piece[from..to].copy_from_slice(part);
            elements.put(transaction, db, ((id, Part::Main), &[&key]), &[&piece])?;
        }
        at += part.len();
        rest = others;
    }
    Ok(())
}

/// Appends a range of the bytes that lie in the pieces of a database and id. What is missing is zero.
pub(super) fn read(
    elements: &mut Elements,
    transaction: &Exclusive,
    (db, id): (usize, u64),
    range: Range<usize>,
    bytes: &mut Vec<u8>,
) -> Result<(), Error> {
    bytes.reserve(range.len());
    let mut at = range.start;
    while at < range.end {
        let (number, from) = piece_of(at);
        let size = (range.end - at).min(PIECE_SIZE - from);
        let until = bytes.len() + size;
        let found = elements.get(transaction, db, (id, Part::Main), &[&number.to_be_bytes()])?;
        if let Some(piece) = found
            && let Some(part) = piece.slice(from.min(piece.len())..(from + size).min(piece.len()))
        {
            part.append_to(bytes);
        }
        bytes.resize(until, 0);
        at += size;
    }
    Ok(())
}

/// The piece that has the byte at an offset, and where in it.
fn piece_of(offset: usize) -> (u64, usize) {
    ((offset / PIECE_SIZE) as u64, offset % PIECE_SIZE)
}
