//! What `fallocate` does, and copies of ranges.

use tembo_kv::Direction;

use crate::Error;
use crate::access::Writes;
use crate::data::{checked_end, drop_pieces, own_from, read, write, zero};
use crate::inode::Inode;
use crate::records::Records;

/// Pieces that are moved between two searches.
const BATCH: usize = 64;

/// Bytes that are copied at a time where pieces do not fit to pieces.
const COPIED: usize = 64 << 10;

/// How the bytes of a range are allocated, or given back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Allocate {
    /// The file reaches at least to the end of the range. No space is set aside: a write may find the pool full. What the limit
    /// does not leave is refused.
    Extend,
    /// The same, but the size stays: nothing is done, or it is refused.
    ExtendWithin,
    /// The range becomes zero and takes no space; the size stays.
    Punch,
    /// The range becomes zero; the file reaches at least to its end.
    Zero,
    /// The range becomes zero; the size stays.
    ZeroWithin,
    /// The range is taken out, and what lies behind it moves to its place. It begins and ends with a piece.
    Collapse,
    /// A range of zeroes is put in, and what lay there moves behind it. It begins and ends with a piece.
    Insert,
}

impl Allocate {
    /// Whether pieces of the range may be written.
    pub(crate) fn extends(self) -> bool {
        matches!(self, Allocate::Extend | Allocate::ExtendWithin)
    }
}

pub(crate) fn allocate<A: Writes>(
    records: &mut Records<A>,
    inode: &mut Inode,
    (offset, len): (u64, u64),
    how: Allocate,
) -> Result<(), Error> {
    let number = inode.number;
    let invalid = |what| Err(Error::Invalid { inode: number, what });
    if len == 0 {
        return invalid("a range of no bytes");
    }
    let end = checked_end(offset, len)?;
    let size = records.layout.piece_size as u64;
    let fits = offset.is_multiple_of(size) && len.is_multiple_of(size);
    match how {
        Allocate::Extend => inode.size = inode.size.max(end),
        Allocate::ExtendWithin => {}
        Allocate::Punch | Allocate::ZeroWithin => zero(records, inode, offset, end)?,
        Allocate::Zero => {
            zero(records, inode, offset, end)?;
            inode.size = inode.size.max(end);
        }
        Allocate::Collapse | Allocate::Insert if !fits => {
            return invalid("a range that does not begin and end with a piece");
        }
        Allocate::Collapse if end >= inode.size => return invalid("a range up to the end"),
        Allocate::Insert if offset >= inode.size => return invalid("a range behind the end"),
        Allocate::Collapse => {
            own_from(records, inode, offset / size)?;
            drop_pieces(records, inode, offset / size, end / size)?;
            let count = inode.piece_count(records.layout.piece_size);
            move_down(records, inode.layer, (end / size, count), len / size)?;
            inode.size -= len;
        }
        Allocate::Insert => {
            checked_end(inode.size, len)?;
            own_from(records, inode, offset / size)?;
            let count = inode.piece_count(records.layout.piece_size);
            move_up(records, inode.layer, (offset / size, count), len / size)?;
            inode.size += len;
        }
    }
    Ok(())
}

/// Pieces between two, at most [`BATCH`].
fn batch<A: Writes>(
    records: &mut Records<A>,
    layer: u64,
    (from, to): (u64, u64),
    direction: Direction,
) -> Result<Vec<(u64, Vec<u8>)>, Error> {
    let mut found = Vec::new();
    if from < to {
        records.pieces(layer, (from, to - 1), direction, &mut |piece, value| {
            found.push((piece, value.to_vec()));
            found.len() < BATCH
        })?;
    }
    Ok(found)
}

fn move_down<A: Writes>(
    records: &mut Records<A>,
    layer: u64,
    (mut from, to): (u64, u64),
    by: u64,
) -> Result<(), Error> {
    loop {
        let found = batch(records, layer, (from, to), Direction::Forward)?;
        let Some(&(last, _)) = found.last() else { return Ok(()) };
        for (piece, bytes) in &found {
            records.put_piece(layer, piece - by, bytes)?;
            records.remove_piece(layer, *piece)?;
        }
        from = last + 1;
    }
}

fn move_up<A: Writes>(
    records: &mut Records<A>,
    layer: u64,
    (from, mut to): (u64, u64),
    by: u64,
) -> Result<(), Error> {
    loop {
        let found = batch(records, layer, (from, to), Direction::Backward)?;
        let Some(&(last, _)) = found.last() else { return Ok(()) };
        for (piece, bytes) in &found {
            records.put_piece(layer, piece + by, bytes)?;
            records.remove_piece(layer, *piece)?;
        }
        to = last;
    }
}

/// Copies bytes of one file to another, or to another place of the same: holes stay holes. Both are as long as they have to
/// be; `to` has to be put afterwards.
pub(crate) fn copy_range<A: Writes>(
    records: &mut Records<A>,
    (from, from_offset): (&Inode, u64),
    (to, to_offset): (&mut Inode, u64),
    len: u64,
) -> Result<u64, Error> {
    let len = len.min(from.size.saturating_sub(from_offset));
    let end = checked_end(to_offset, len)?;
    let (number, size) = (to.number, records.layout.piece_size as u64);
    if from.number == number && from_offset < end && to_offset < from_offset + len {
        return Err(Error::Invalid { inode: number, what: "a copy of a range over itself" });
    }
    if len == 0 {
        return Ok(0);
    }
    zero(records, to, to_offset, end)?;
    to.size = to.size.max(end);
    let (mut next, stop) = (from_offset / size, (from_offset + len).div_ceil(size));
    let mut buffer = vec![0; COPIED.max(size as usize)];
    loop {
        // Whole runs of pieces are read at a time.
        let mut run: Option<(u64, u64)> = None;
        let most = (buffer.len() as u64 / size).max(1);
        if next >= stop {
            return Ok(len);
        }
        records.shown(from, (next, stop - 1), &mut |piece| {
            match &mut run {
                None => run = Some((piece, piece + 1)),
                Some((first, end)) if piece == *end && *end - *first < most => *end += 1,
                Some(_) => return false,
            }
            true
        })?;
        let Some((first, last)) = run else { return Ok(len) };
        let start = (first * size).max(from_offset);
        let finish = (last * size).min(from_offset + len);
        let part = &mut buffer[..(finish - start) as usize];
        let done = read(records, from, start, part)?;
        write(records, to, to_offset + (start - from_offset), &part[..done])?;
        next = last;
    }
}
