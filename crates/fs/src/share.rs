//! Clones: a file shows what another has, in constant time.

use tembo_kv::Direction;

use crate::Error;
use crate::access::{Reads, Writes};
use crate::data::remove_pieces;
use crate::inode::{Below, Inode};
use crate::layer::{LAYERS_MAX, Layer};
use crate::records::Records;

/// Pieces that are copied between two searches.
const BATCH: usize = 64;

/// Whether a copy of the bytes of one file to the same place of another can be a clone, and is worth it: to the begin of an
/// empty file, or behind what was cloned before.
pub(crate) fn can_share<A: Reads>(
    records: &Records<A>,
    from: &Inode,
    to: &Inode,
    (offset, len): (u64, u64),
) -> bool {
    if from.number == to.number || to.pieces > 0 || to.size != offset {
        return false;
    }
    match (&to.below, &from.below) {
        (None, _) => offset == 0 && is_worth_it(records, len),
        (Some(to), Some(from_below)) => {
            // Of what was cloned the source may show less now.
            let has_all = from_below.end >= to.end;
            to.layer == from_below.layer && from.pieces == 0 && to.end == offset && has_all
        }
        (Some(_), None) => false,
    }
}

/// Whether so many bytes are more than are copied.
pub(crate) fn is_worth_it<A: Reads>(records: &Records<A>, len: u64) -> bool {
    len.div_ceil(records.layout.piece_size as u64) > records.layout.copied_max
}

/// A file shows the bytes that another has up to an end, where [`can_share`] says that it can. `number` is drawn for a
/// layer. Both inodes have to be put afterwards.
pub(crate) fn share<A: Writes>(
    records: &mut Records<A>,
    from: &mut Inode,
    to: &mut Inode,
    end: u64,
    number: u64,
) -> Result<(), Error> {
    records.raise_version()?;
    if from.pieces > 0 {
        // A shared layer lies between the own one and those that are there.
        if records.layers(from)?.len() <= LAYERS_MAX {
            freeze(records, from, number)?;
        } else {
            copy_own(records, from, to, end)?;
        }
    }
    let piece_size = records.layout.piece_size;
    if let Some(mut below) = from.below {
        below.cut(end, piece_size);
        records.put_user(below.layer, to.layer)?;
        to.below = Some(below);
    }
    to.size = end;
    Ok(())
}

/// The own layer of a file becomes a shared one, which it lies on with an empty one.
fn freeze<A: Writes>(
    records: &mut Records<A>,
    inode: &mut Inode,
    number: u64,
) -> Result<(), Error> {
    let pieces = inode.pieces_shown(records.layout.piece_size);
    let shared = Layer::Shared { pieces: inode.pieces, below: inode.below };
    records.put_layer(inode.layer, shared)?;
    records.put_layer(number, Layer::Own(inode.number))?;
    records.put_user(inode.layer, number)?;
    inode.below = Some(Below { layer: inode.layer, end: inode.size, pieces });
    (inode.layer, inode.pieces) = (number, 0);
    Ok(())
}

/// Copies the pieces of a file's own layer.
fn copy_own<A: Writes>(
    records: &mut Records<A>,
    from: &Inode,
    to: &mut Inode,
    end: u64,
) -> Result<(), Error> {
    let size = records.layout.piece_size as u64;
    let (mut next, stop) = (0, end.div_ceil(size));
    while next < stop {
        let mut found = Vec::new();
        records.pieces(from.layer, (next, stop - 1), Direction::Forward, &mut |piece, value| {
            found.push((piece, value.to_vec()));
            found.len() < BATCH
        })?;
        let Some(&(last, _)) = found.last() else { return Ok(()) };
        for (piece, mut bytes) in found {
            bytes.truncate(usize::try_from(end - piece * size).unwrap_or(usize::MAX));
            records.put_piece(to.layer, piece, &bytes)?;
            to.pieces += 1;
        }
        next = last + 1;
    }
    Ok(())
}

/// A file shows nothing of what it lies on: it has all pieces of its own, or was cut.
pub(crate) fn hides_all(inode: &Inode, piece_size: usize) -> bool {
    inode.below.is_some_and(|below| below.end == 0) || inode.is_dense(piece_size)
}

/// A file does not lie on what it lies on any more; what no other lies on is removed. The inode has to be put afterwards.
pub(crate) fn release<A: Writes>(records: &mut Records<A>, inode: &mut Inode) -> Result<(), Error> {
    let (mut layer, mut below) = (inode.layer, inode.below.take());
    while let Some(Below { layer: shared, .. }) = below {
        records.remove_user(shared, layer)?;
        if records.has_user(shared)? {
            return Ok(());
        }
        let (pieces, next) = records.shared_layer(shared)?;
        remove_pieces(records, shared, pieces)?;
        records.remove_layer(shared)?;
        (layer, below) = (shared, next);
    }
    Ok(())
}

/// Removes the bytes of a file with all its layers.
pub(crate) fn remove_bytes<A: Writes>(
    records: &mut Records<A>,
    inode: &mut Inode,
) -> Result<(), Error> {
    remove_pieces(records, inode.layer, inode.pieces)?;
    inode.pieces = 0;
    release(records, inode)?;
    if inode.layer != inode.number {
        records.remove_layer(inode.layer)?;
    }
    Ok(())
}
