//! The bytes of a file, in pieces.
//!
//! A piece that is missing, or shorter than its place, is zero from there on; but what is missing in a file that lies on a
//! shared [layer](crate::layer) is there what that shows. No piece reaches beyond the size of the file, and an inode says how
//! many of its own pieces are there: so whether they have holes is known without a search, and what is cut off without holes is
//! counted without one.

use tembo_kv::{Direction, Value};

use crate::Error;
use crate::access::{Reads, Writes};
use crate::bounds::FILE_SIZE_MAX;
use crate::inode::Inode;
use crate::layer::Shown;
use crate::records::Records;

/// Pieces that are looked for between two changes, or put together.
const BATCH: usize = 1024;

/// The end of what begins at an offset.
///
/// # Errors
/// [`Error::FileTooBig`].
pub(crate) fn checked_end(offset: u64, len: u64) -> Result<u64, Error> {
    let end = offset.saturating_add(len);
    if end > FILE_SIZE_MAX { Err(Error::FileTooBig { size: end }) } else { Ok(end) }
}

/// Reads from an offset on; how many bytes.
pub(crate) fn read<A: Reads>(
    records: &mut Records<A>,
    inode: &Inode,
    offset: u64,
    to: &mut [u8],
) -> Result<usize, Error> {
    let left = inode.size.saturating_sub(offset);
    let len = usize::try_from(left).map_or(to.len(), |left| left.min(to.len()));
    let to = &mut to[..len];
    if len == 0 {
        return Ok(0);
    }
    let size = records.layout.piece_size as u64;
    let end = offset + len as u64;
    let pieces = (offset / size, (end - 1) / size);
    if inode.below.is_some() {
        read_layers(records, inode, offset, to)?;
        return Ok(len);
    }
    let mut done = 0;
    let mut copy = |piece: u64, value: Value<'_>| {
        done = copy_part((piece * size, value), offset, to, done);
    };
    if pieces.0 == pieces.1 {
        records.one_piece(inode.layer, pieces.0, |value| copy(pieces.0, value))?;
    } else {
        records.pieces(inode.layer, pieces, Direction::Forward, &mut |piece, value| {
            copy(piece, value);
            true
        })?;
    }
    to[done..].fill(0);
    Ok(len)
}

/// Copies what a piece, which begins at `start`, has of the bytes from `offset` on, of which the first `done` are there already;
/// zeroes up to it what no piece has. How many are there then.
fn copy_part((start, piece): (u64, Value<'_>), offset: u64, to: &mut [u8], done: usize) -> usize {
    let from = start.max(offset);
    let end = (start + piece.len() as u64).min(offset + to.len() as u64);
    if from >= end {
        return done;
    }
    let of_piece = (from - start) as usize..(end - start) as usize;
    let of_buffer = (from - offset) as usize..(end - offset) as usize;
    if let Some(hole) = to.get_mut(done..of_buffer.start) {
        hole.fill(0);
    }
    let filled = of_buffer.end;
    if let (Some(piece), Some(to)) = (piece.slice(of_piece), to.get_mut(of_buffer)) {
        piece.copy_to(to);
    }
    filled
}

/// Reads from an offset on what all layers show, the lower ones first. `to` is not empty, and ends within the file.
fn read_layers<A: Reads>(
    records: &mut Records<A>,
    inode: &Inode,
    offset: u64,
    to: &mut [u8],
) -> Result<(), Error> {
    to.fill(0);
    let (size, stop) = (records.layout.piece_size as u64, offset + to.len() as u64);
    for Shown { layer, end } in records.layers(inode)?.into_iter().rev() {
        let end = end.min(stop);
        if end > offset {
            let pieces = (offset / size, (end - 1) / size);
            records.pieces(layer, pieces, Direction::Forward, &mut |piece, value| {
                paint((piece * size, size), value, (offset, end), to);
                true
            })?;
        }
    }
    Ok(())
}

/// Puts a piece over what lower layers have in its place: of it what lies before an end, and zeroes behind it.
fn paint((start, size): (u64, u64), piece: Value<'_>, (offset, end): (u64, u64), to: &mut [u8]) {
    let clip = |at: u64| (at.clamp(offset, offset + to.len() as u64) - offset) as usize;
    let data_end = (start + piece.len() as u64).min(end);
    let (from, filled, place_end) = (clip(start), clip(data_end), clip(start + size));
    if from < filled {
        let begin = start.max(offset);
        let of_piece = (begin - start) as usize..(data_end - start) as usize;
        if let Some(piece) = piece.slice(of_piece) {
            piece.copy_to(&mut to[from..filled]);
        }
    }
    to[filled.max(from)..place_end].fill(0);
}

/// Writes bytes at an offset. The inode has to be put afterwards.
pub(crate) fn write<A: Writes>(
    records: &mut Records<A>,
    inode: &mut Inode,
    offset: u64,
    bytes: &[u8],
) -> Result<(), Error> {
    let end = checked_end(offset, bytes.len() as u64)?;
    let piece_size = records.layout.piece_size;
    // Whether there are holes is known of what was there before.
    let before =
        Before { count: inode.piece_count(piece_size), is_dense: inode.is_dense(piece_size) };
    let mut done = 0;
    while done < bytes.len() {
        let at = offset + done as u64;
        let (piece, start) = (at / piece_size as u64, (at % piece_size as u64) as usize);
        let rest = &bytes[done..];
        let whole = if start == 0 { rest.len() / piece_size } else { 0 };
        let len = match whole {
            0 => rest.len().min(piece_size - start),
            _ => whole.min(BATCH) * piece_size,
        };
        let was_there = match whole {
            0 => write_part(records, inode, (piece, start, &rest[..len]), &before)?,
            _ => write_whole(records, inode, (piece, &rest[..len]), &before)?,
        };
        inode.pieces += len.div_ceil(piece_size) as u64 - was_there;
        done += len;
    }
    if !bytes.is_empty() {
        inode.size = inode.size.max(end);
    }
    Ok(())
}

/// The pieces of a file before a write.
struct Before {
    /// So many fit in its size.
    count: u64,
    /// They are all there.
    is_dense: bool,
}

/// Writes whole pieces from one on; how many of them were there.
fn write_whole<A: Writes>(
    records: &mut Records<A>,
    inode: &Inode,
    (first, bytes): (u64, &[u8]),
    before: &Before,
) -> Result<u64, Error> {
    let end = first + (bytes.len() / records.layout.piece_size) as u64;
    let known = first..end.min(before.count);
    let mut were_there = known.end.saturating_sub(first);
    if !before.is_dense {
        were_there = 0;
        for piece in known {
            were_there += u64::from(records.has_piece(inode.layer, piece)?);
        }
    }
    records.put_pieces(inode.layer, first, bytes)?;
    Ok(were_there)
}

/// Writes a part of a piece; 1 if the piece was there.
fn write_part<A: Writes>(
    records: &mut Records<A>,
    inode: &Inode,
    (piece, start, part): (u64, usize, &[u8]),
    before: &Before,
) -> Result<u64, Error> {
    let may_be_there = piece < before.count;
    let old = if may_be_there { records.piece(inode.layer, piece)? } else { None };
    let was_there = old.is_some();
    let below = if was_there { None } else { records.piece_below(inode, piece)? };
    let mut new = old.or(below).unwrap_or_default();
    new.resize(new.len().max(start + part.len()), 0);
    new[start..start + part.len()].copy_from_slice(part);
    records.put_piece(inode.layer, piece, &new)?;
    Ok(was_there.into())
}

/// Sets the size. The inode has to be put afterwards.
pub(crate) fn resize<A: Writes>(
    records: &mut Records<A>,
    inode: &mut Inode,
    size: u64,
) -> Result<(), Error> {
    checked_end(size, 0)?;
    if size < inode.size {
        let piece_size = records.layout.piece_size as u64;
        drop_pieces(records, inode, size.div_ceil(piece_size), u64::MAX)?;
        let rest = (size % piece_size) as usize;
        let last = size / piece_size;
        if rest > 0
            && let Some(mut piece) = records.piece(inode.layer, last)?
            && piece.len() > rest
        {
            piece.truncate(rest);
            records.put_piece(inode.layer, last, &piece)?;
        }
        cut_below(inode, size, piece_size as usize);
    }
    inode.size = size;
    Ok(())
}

/// Shows no more of what lies below than so many bytes.
fn cut_below(inode: &mut Inode, end: u64, piece_size: usize) {
    if let Some(below) = &mut inode.below {
        below.cut(end, piece_size);
    }
}

/// Removes all pieces of a layer, of which there are so many.
pub(crate) fn remove_pieces<A: Writes>(
    records: &mut Records<A>,
    layer: u64,
    pieces: u64,
) -> Result<(), Error> {
    match pieces {
        0 => Ok(()),
        _ if pieces <= records.layout.singly_max => {
            remove_singly(records, layer, (0, u64::MAX)).map(drop)
        }
        _ => records.remove_pieces(layer, 0, u64::MAX),
    }
}

/// Removes pieces from one up to and including another, one by one; how many there were.
fn remove_singly<A: Writes>(
    records: &mut Records<A>,
    layer: u64,
    (first, last): (u64, u64),
) -> Result<u64, Error> {
    let mut pieces = Vec::new();
    records.pieces(layer, (first, last), Direction::Forward, &mut |piece, _| {
        pieces.push(piece);
        true
    })?;
    for &piece in &pieces {
        records.remove_piece(layer, piece)?;
    }
    Ok(pieces.len() as u64)
}

/// Removes own pieces from one up to another, without that; the size stays. The inode has to be put afterwards.
pub(crate) fn drop_pieces<A: Writes>(
    records: &mut Records<A>,
    inode: &mut Inode,
    from: u64,
    to: u64,
) -> Result<(), Error> {
    let piece_size = records.layout.piece_size;
    let count = inode.piece_count(piece_size);
    let to = to.min(count);
    if from >= to || inode.pieces == 0 {
        return Ok(());
    }
    let known = match (inode.is_dense(piece_size), from == 0 && to == count) {
        (true, _) => Some(to - from),
        (false, true) => Some(inode.pieces),
        (false, false) => None,
    };
    let removed = if known.unwrap_or(inode.pieces) <= records.layout.singly_max {
        remove_singly(records, inode.layer, (from, to - 1))?
    } else {
        let mut found = 0;
        if known.is_none() {
            records.pieces(inode.layer, (from, to - 1), Direction::Forward, &mut |_, _| {
                found += 1;
                true
            })?;
        }
        records.remove_pieces(inode.layer, from, to - 1)?;
        known.unwrap_or(found)
    };
    inode.pieces = inode
        .pieces
        .checked_sub(removed)
        .ok_or(Error::Damaged { inode: inode.number, what: "it has more pieces than it says" })?;
    Ok(())
}

/// Makes the bytes from one offset up to another zero; whole pieces are removed. Nothing behind the size is changed. The
/// inode has to be put afterwards.
pub(crate) fn zero<A: Writes>(
    records: &mut Records<A>,
    inode: &mut Inode,
    from: u64,
    to: u64,
) -> Result<(), Error> {
    let piece_size = records.layout.piece_size as u64;
    let to = to.min(inode.size);
    if from >= to {
        return Ok(());
    }
    let (first, start) = (from / piece_size, (from % piece_size) as usize);
    let (last, stop) = (to / piece_size, (to % piece_size) as usize);
    // What lies behind the size is zero.
    let stop_is_end = to == inode.size;
    if first == last && !(start == 0 && stop_is_end) {
        return zero_part(records, inode, first, start, stop);
    }
    if start > 0 {
        zero_part(records, inode, first, start, piece_size as usize)?;
    }
    let whole_from = from.div_ceil(piece_size);
    if stop_is_end {
        drop_pieces(records, inode, whole_from, to.div_ceil(piece_size))?;
        cut_below(inode, whole_from * piece_size, piece_size as usize);
        return Ok(());
    }
    drop_pieces(records, inode, whole_from, last)?;
    put_below(records, inode, (whole_from, last), |_, _, _| Ok(Some(Vec::new())))?;
    if stop > 0 {
        zero_part(records, inode, last, 0, stop)?;
    }
    Ok(())
}

/// Puts own pieces, as `piece` says, where a file shows some from one up to another, without that. The inode has to be put
/// afterwards.
fn put_below<A: Writes>(
    records: &mut Records<A>,
    inode: &mut Inode,
    (mut from, to): (u64, u64),
    piece: impl Fn(&mut Records<A>, &Inode, u64) -> Result<Option<Vec<u8>>, Error>,
) -> Result<(), Error> {
    while inode.below.is_some() && from < to {
        let mut found = Vec::new();
        records.shown(inode, (from, to - 1), &mut |piece| {
            found.push(piece);
            found.len() < BATCH
        })?;
        let Some(&last) = found.last() else { return Ok(()) };
        for number in found {
            if let Some(bytes) = piece(records, inode, number)? {
                records.put_piece(inode.layer, number, &bytes)?;
                inode.pieces += 1;
            }
        }
        from = last + 1;
    }
    Ok(())
}

/// Copies what a file shows of others from a piece on to its own layer. The inode has to be put afterwards.
pub(crate) fn own_from<A: Writes>(
    records: &mut Records<A>,
    inode: &mut Inode,
    from: u64,
) -> Result<(), Error> {
    let piece_size = records.layout.piece_size;
    let count = inode.piece_count(piece_size);
    put_below(records, inode, (from, count), |records, inode, piece| {
        if records.has_piece(inode.layer, piece)? {
            return Ok(None);
        }
        records.piece_below(inode, piece)
    })?;
    cut_below(inode, from * piece_size as u64, piece_size);
    Ok(())
}

/// Makes a part of a piece zero, if it is there. The inode has to be put afterwards.
fn zero_part<A: Writes>(
    records: &mut Records<A>,
    inode: &mut Inode,
    piece: u64,
    start: usize,
    stop: usize,
) -> Result<(), Error> {
    let own = records.piece(inode.layer, piece)?;
    let is_own = own.is_some();
    let below = if is_own { None } else { records.piece_below(inode, piece)? };
    let Some(mut bytes) = own.or(below) else { return Ok(()) };
    if start >= bytes.len() {
        return Ok(());
    }
    if stop >= bytes.len() {
        bytes.truncate(start);
    } else {
        bytes[start..stop].fill(0);
    }
    records.put_piece(inode.layer, piece, &bytes)?;
    inode.pieces += u64::from(!is_own);
    Ok(())
}

/// The first byte at or behind an offset that lies in a piece that is there; `None`: there is none.
pub(crate) fn seek_data<A: Reads>(
    records: &mut Records<A>,
    inode: &Inode,
    offset: u64,
) -> Result<Option<u64>, Error> {
    let piece_size = records.layout.piece_size as u64;
    if offset >= inode.size {
        return Ok(None);
    }
    let (mut found, last) = (None, (inode.size - 1) / piece_size);
    records.shown(inode, (offset / piece_size, last), &mut |piece| {
        found = Some(offset.max(piece * piece_size));
        false
    })?;
    Ok(found)
}

/// The first byte at or behind an offset that lies in no piece: the size at the latest. `None`: the offset is behind that.
pub(crate) fn seek_hole<A: Reads>(
    records: &mut Records<A>,
    inode: &Inode,
    offset: u64,
) -> Result<Option<u64>, Error> {
    let piece_size = records.layout.piece_size as u64;
    if offset >= inode.size {
        return Ok(None);
    }
    if inode.below.is_none() && inode.is_dense(records.layout.piece_size) {
        return Ok(Some(inode.size));
    }
    let mut next = offset / piece_size;
    let last = (inode.size - 1) / piece_size;
    records.shown(inode, (next, last), &mut |piece| {
        let goes_on = piece == next;
        next += u64::from(goes_on);
        goes_on
    })?;
    Ok(Some(offset.max(next.saturating_mul(piece_size)).min(inode.size)))
}
