//! Prepared transactions as entries of the catalogue.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use tembo_index::{Direction, Op, Range, VersionedIndex, View};
use zerocopy::{FromBytes, IntoBytes};

use crate::commit::WriteSet;
use crate::held::Hold;
use crate::media::{
    BOUND_EXCLUDED, BOUND_INCLUDED, BOUND_UNBOUNDED, ITEM_KEY_READ, ITEM_PUT, ITEM_RANGE_READ,
    ITEM_REMOVE, PREPARED_PIECE_SIZE, PREPARED_TAG, PreparedHeader, PreparedItem,
};
use crate::read_set::ReadSet;
use crate::trees::{Catalogue, Directory};
use crate::{Error, Keyspace, Prepared};

const DAMAGED: Error = Error::Damaged { what: "a prepared transaction" };

/// The key of a piece in the catalogue.
pub(super) fn piece_key(id: &[u8], piece: u32) -> Vec<u8> {
    [&[PREPARED_TAG, id.len() as u8], id, &piece.to_be_bytes()].concat()
}

/// The id and the number in the key of a piece.
fn decode_key(key: &[u8]) -> Option<(&[u8], u32)> {
    let (&[_, size], rest) = key.split_first_chunk::<2>()?;
    let (id, piece) = rest.split_at_checked(size.into())?;
    Some((id, u32::from_be_bytes(piece.try_into().ok()?)))
}

/// Puts a piece under its number.
type PutPiece<'p> = dyn FnMut(u32, &[u8]) -> Result<(), Error> + 'p;

/// Encodes a transaction that is to be prepared in pieces, and calls `put` with each and its number. Returns how many there
/// are.
pub(super) fn encode(
    version: u64,
    writes: &WriteSet,
    reads: Option<&ReadSet>,
    put: &mut PutPiece<'_>,
) -> Result<u32, Error> {
    let (mut size, mut items) = (0, 0);
    each_item(writes, reads, &mut |parts| {
        size += parts.iter().map(|part| part.len() as u64).sum::<u64>();
        items += 1;
        Ok(())
    })?;
    let header = PreparedHeader {
        version: version.into(),
        size: size.into(),
        items: items.into(),
        is_serialisable: u64::from(reads.is_some()).into(),
    };
    let mut pieces = Pieces { buffer: Vec::with_capacity(PREPARED_PIECE_SIZE), count: 0, put };
    pieces.write(header.as_bytes())?;
    each_item(writes, reads, &mut |parts| parts.iter().try_for_each(|part| pieces.write(part)))?;
    pieces.end()
}

/// Pieces that are being filled.
struct Pieces<'p> {
    buffer: Vec<u8>,
    count: u32,
    put: &'p mut PutPiece<'p>,
}

impl Pieces<'_> {
    fn write(&mut self, mut bytes: &[u8]) -> Result<(), Error> {
        while !bytes.is_empty() {
            if self.buffer.len() == PREPARED_PIECE_SIZE {
                self.put()?;
            }
            let fits = bytes.len().min(PREPARED_PIECE_SIZE - self.buffer.len());
            self.buffer.extend_from_slice(&bytes[..fits]);
            bytes = &bytes[fits..];
        }
        Ok(())
    }

    fn put(&mut self) -> Result<(), Error> {
        (self.put)(self.count, &self.buffer)?;
        self.buffer.clear();
        self.count += 1;
        Ok(())
    }

    fn end(mut self) -> Result<u32, Error> {
        self.put()?;
        Ok(self.count)
    }
}

type EachItem<'e> = dyn FnMut([&[u8]; 3]) -> Result<(), Error> + 'e;

/// Calls the function with each item and its bytes: the last write of each key, then what was read.
fn each_item(
    writes: &WriteSet,
    reads: Option<&ReadSet>,
    each: &mut EachItem<'_>,
) -> Result<(), Error> {
    let mut item = |keyspace: Keyspace, (kind, from, to), (first, second): (&[u8], &[u8])| {
        let item = PreparedItem {
            keyspace: keyspace.id.into(),
            kind,
            from,
            to,
            reserved: 0,
            first_size: (first.len() as u32).into(),
            second_size: (second.len() as u32).into(),
        };
        each([item.as_bytes(), first, second])
    };
    writes.each_last(|keyspace, op| match op {
        Op::Put { key, value } => {
            // A write set has each value in one part.
            let value = value.first().copied().unwrap_or_default();
            item(keyspace, (ITEM_PUT, 0, 0), (key, value))
        }
        Op::Remove { key } => item(keyspace, (ITEM_REMOVE, 0, 0), (key, &[])),
    })?;
    let Some(reads) = reads else { return Ok(()) };
    for (&keyspace, keys) in &reads.keys {
        for key in keys {
            item(keyspace, (ITEM_KEY_READ, 0, 0), (key, &[]))?;
        }
    }
    for read in &reads.ranges {
        let Range { from, to, .. } = read.range();
        let ((from, first), (to, second)) = (bound_bytes(from), bound_bytes(to));
        item(read.keyspace, (ITEM_RANGE_READ, from, to), (first, second))?;
    }
    Ok(())
}

fn bound_bytes(bound: Bound<&[u8]>) -> (u8, &[u8]) {
    match bound {
        Bound::Unbounded => (BOUND_UNBOUNDED, &[]),
        Bound::Included(key) => (BOUND_INCLUDED, key),
        Bound::Excluded(key) => (BOUND_EXCLUDED, key),
    }
}

fn bound(kind: u8, key: &[u8]) -> Result<Bound<&[u8]>, Error> {
    match kind {
        BOUND_UNBOUNDED => Ok(Bound::Unbounded),
        BOUND_INCLUDED => Ok(Bound::Included(key)),
        BOUND_EXCLUDED => Ok(Bound::Excluded(key)),
        _ => Err(DAMAGED),
    }
}

/// A prepared transaction, read from the catalogue.
pub(super) struct Stored {
    header: PreparedHeader,
    pieces: u32,
    items: Vec<u8>,
}

/// What an item says.
enum Item<'s> {
    Put(&'s [u8], &'s [u8]),
    Remove(&'s [u8]),
    KeyRead(&'s [u8]),
    RangeRead(Range<'s>),
}

impl Stored {
    /// The transaction whose pieces, one after another, are these bytes.
    fn of(pieces: u32, mut bytes: Vec<u8>) -> Result<Stored, Error> {
        let (header, rest) = PreparedHeader::read_from_prefix(&bytes).map_err(|_| DAMAGED)?;
        if header.size.get() != rest.len() as u64 {
            return Err(DAMAGED);
        }
        let items = bytes.split_off(size_of::<PreparedHeader>());
        Ok(Stored { header, pieces, items })
    }

    /// The transaction of that id, in a view.
    pub(super) fn find(
        catalogue: &Catalogue,
        view: View<'_>,
        id: &[u8],
    ) -> Result<Option<Stored>, Error> {
        let (from, to) = (piece_key(id, 0), piece_key(id, u32::MAX));
        let found = all(catalogue, view, Bound::Included(&from), Bound::Included(&to))?;
        Ok(found.into_values().next())
    }

    /// Calls the function with each write and the number of its keyspace.
    pub(super) fn each_write(
        &self,
        mut each: impl FnMut(u32, Op<'_>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        self.each(&mut |keyspace, item| match item {
            Item::Put(key, value) => each(keyspace, Op::Put { key, value: &[value] }),
            Item::Remove(key) => each(keyspace, Op::Remove { key }),
            Item::KeyRead(_) | Item::RangeRead(_) => Ok(()),
        })
    }

    fn each(&self, each: &mut dyn FnMut(u32, Item<'_>) -> Result<(), Error>) -> Result<(), Error> {
        let mut rest = &self.items[..];
        let mut count = 0;
        while !rest.is_empty() {
            let (item, after) = PreparedItem::read_from_prefix(rest).map_err(|_| DAMAGED)?;
            let split = |bytes: &'_ [u8], size: u32| -> Option<usize> {
                usize::try_from(size).ok().filter(|&size| size <= bytes.len())
            };
            let first_size = split(after, item.first_size.get()).ok_or(DAMAGED)?;
            let (first, after) = after.split_at(first_size);
            let second_size = split(after, item.second_size.get()).ok_or(DAMAGED)?;
            let (second, after) = after.split_at(second_size);
            let direction = Direction::Forward;
            let found = match item.kind {
                ITEM_PUT => Item::Put(first, second),
                ITEM_REMOVE => Item::Remove(first),
                ITEM_KEY_READ => Item::KeyRead(first),
                ITEM_RANGE_READ => Item::RangeRead(Range {
                    from: bound(item.from, first)?,
                    to: bound(item.to, second)?,
                    direction,
                }),
                _ => return Err(DAMAGED),
            };
            each(item.keyspace.get(), found)?;
            count += 1;
            rest = after;
        }
        if count == self.header.items.get() { Ok(()) } else { Err(DAMAGED) }
    }

    /// The keys and ranges that the transaction holds.
    fn hold(&self, trees: &Directory) -> Result<Hold, Error> {
        let is_serialisable = self.header.is_serialisable.get() != 0;
        let (mut writes, mut reads) = (Vec::new(), ReadSet::default());
        self.each(&mut |id, item| {
            let keyspace = trees.by_id(id).ok_or(DAMAGED)?;
            match item {
                Item::Put(key, _) | Item::Remove(key) => writes.push((keyspace, Arc::from(key))),
                Item::KeyRead(key) => reads.key(keyspace, key),
                Item::RangeRead(range) => reads.range(keyspace, range, None),
            }
            Ok(())
        })?;
        let reads = is_serialisable.then_some(reads);
        Ok(Hold { version: self.header.version.get(), pieces: self.pieces, writes, reads })
    }
}

/// All prepared transactions of a view, by id, with what they hold.
///
/// # Errors
/// [`Error::Damaged`].
pub(crate) fn load(
    catalogue: &Catalogue,
    view: View<'_>,
    trees: &Directory,
) -> Result<Vec<(Vec<u8>, Hold)>, Error> {
    everything(catalogue, view)?
        .into_iter()
        .map(|(id, stored)| Ok((id, stored.hold(trees)?)))
        .collect()
}

/// All prepared transactions of a view, by id.
///
/// # Errors
/// [`Error::Damaged`].
pub(crate) fn list(catalogue: &Catalogue, view: View<'_>) -> Result<Vec<Prepared>, Error> {
    everything(catalogue, view)?
        .into_iter()
        .map(|(id, stored)| {
            let mut writes = 0;
            stored.each_write(|_, _| {
                writes += 1;
                Ok(())
            })?;
            let (version, is_serialisable) =
                (stored.header.version.get(), stored.header.is_serialisable.get() != 0);
            Ok(Prepared { id, version, writes, is_serialisable })
        })
        .collect()
}

fn everything(catalogue: &Catalogue, view: View<'_>) -> Result<BTreeMap<Vec<u8>, Stored>, Error> {
    let (from, to) = ([PREPARED_TAG], [PREPARED_TAG + 1]);
    all(catalogue, view, Bound::Included(&from), Bound::Excluded(&to))
}

/// The prepared transactions of a range of the catalogue.
fn all(
    catalogue: &Catalogue,
    view: View<'_>,
    from: Bound<&[u8]>,
    to: Bound<&[u8]>,
) -> Result<BTreeMap<Vec<u8>, Stored>, Error> {
    let mut found: BTreeMap<Vec<u8>, (u32, Vec<u8>)> = BTreeMap::new();
    let mut is_sound = true;
    catalogue.tree().range(from, to, Direction::Forward, view, &mut |key, value| {
        let Some((id, piece)) = decode_key(key) else {
            is_sound = false;
            return false;
        };
        let (pieces, bytes) = found.entry(id.to_vec()).or_default();
        is_sound = *pieces == piece;
        *pieces += 1;
        value.append_to(bytes);
        is_sound
    })?;
    if !is_sound {
        return Err(DAMAGED);
    }
    let stored = |(id, (pieces, bytes))| Ok((id, Stored::of(pieces, bytes)?));
    found.into_iter().map(stored).collect()
}
