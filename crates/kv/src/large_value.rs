//! Large values in pieces, so that a part is read and changed without the rest.
//!
//! A value of the store is one record: a change of one byte writes all of it. A *large value* is laid out over
//! several keys instead, in a keyspace that the caller chooses for such values and for nothing else:
//!
//! ```text
//!  length of the name (2 bytes) | name | 0                    header: size of a piece, length
//!  length of the name (2 bytes) | name | 1 | 0 (8 bytes)      bytes 0 ..            size
//!  length of the name (2 bytes) | name | 1 | 1 (8 bytes)      bytes size ..     2 * size
//!  ...                                                        the last one may be shorter
//! ```
//! Numbers in keys have the highest byte first, so that the keys of one value lie together and in order. A piece that is
//! missing, or shorter than its place, is zero from there on: a hole takes no space. No piece reaches beyond the length. The
//! layout is public: `docs/formats/store.md`.
//!
//! # Conflicts
//! What is read and written goes through a snapshot, a transaction or the exclusive writer, and is as atomic, isolated and
//! durable as these are. Transactions conflict where they write the same piece, and where both change the length.
//!
//! Two more rules keep the last sentence above true whatever the isolation. A write that makes a piece longer, or fills
//! a hole, *holds* the header: it fails if the length changes before it commits. A cut *holds* all pieces behind
//! the new length. Else one transaction could fill a hole that another one, which does not see it, cuts off.
//!
//! # Without an order of keys
//! Over a hash index no range of pieces can be asked for. There pieces are removed by their numbers, up to the length:
//! holes take time too. And a range cannot be held, so a write that makes a piece longer, or fills a hole, *writes* the
//! header unchanged. So such a write conflicts with a cut, which writes the header too, with another such write, and with
//! every serialisable transaction that has read the header.

mod access;

use std::ops::{Bound, Range};

use tembo_index::Value;
use zerocopy::{FromBytes, IntoBytes};

pub use access::{LargeValueRead, LargeValueWrite};

use crate::bounds::{KEY_SIZE_MAX, LARGE_VALUE_SIZE_MAX, PIECE_SIZE_MAX, PIECE_SIZE_MIN};
use crate::media::{LARGE_HEADER, LARGE_PIECE, LargeValueHeader};
use crate::{Error, Keyspace};

/// Bytes that the key of a piece has beside the name.
const KEY_EXTRA: usize = 2 + 1 + 8;

/// Keys that are removed before the next ones are looked for.
const BATCH: usize = 1024;

/// A value of up to 2⁴⁸ bytes, of which a part is read or changed without the rest: a file, a device, a database of pages.
///
/// It is opened through a handle, and is part of what that handle sees and commits: `&mut` [`Transaction`](crate::Transaction),
/// `&mut` [`Exclusive`](crate::Exclusive), or, only for reading, a [`Snapshot`](crate::Snapshot), owned or borrowed. Opening
/// costs one lookup. It has a name within a keyspace, which should hold nothing else.
///
/// A change writes each piece that it touches whole. Bytes that were never written are zero and take no space.
/// Transactions that write different pieces, and do not change the length, do not conflict.
///
/// In a store whose keys have [no order](crate::Store::is_ordered), two transactions that fill holes or make pieces longer
/// conflict, and one that does so conflicts with every serialisable transaction that has opened the value and writes. To cut,
/// clear or remove takes time there in proportion to the bytes that are removed, holes included, and in a serialisable
/// transaction memory for the key of each piece.
///
/// ```
/// use tembo_kv::{Durability, Isolation, LargeValue, Options, Store};
/// # fn main() -> Result<(), tembo_kv::Error> {
/// let store = Store::volatile(&Options::default())?;
/// let files = store.keyspace("files")?;
///
/// let mut tx = store.transaction(Isolation::Snapshot)?;
/// let mut file = LargeValue::create(&mut tx, files, b"disk.img", 4096)?;
/// file.truncate(1 << 30)?;
/// file.write_at(500_000_000, b"a page")?;
/// tx.commit(Durability::Strict)?;
///
/// let mut file = LargeValue::open(store.snapshot()?, files, b"disk.img")?.expect("was made above");
/// let mut page = [0; 8];
/// assert_eq!(file.read_at(500_000_000, &mut page)?, 8);
/// assert_eq!(&page, b"a page\0\0");
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct LargeValue<A> {
    access: A,
    keyspace: Keyspace,
    /// The bytes with which all its keys begin.
    prefix: Vec<u8>,
    piece_size: usize,
    len: u64,
}

impl<A: LargeValueRead> LargeValue<A> {
    /// The large value of that name; `None`: there is none.
    ///
    /// # Errors
    /// [`Error::KeyTooLong`], [`Error::NoSuchKeyspace`]; damage.
    pub fn open(
        mut access: A,
        keyspace: Keyspace,
        name: &[u8],
    ) -> Result<Option<LargeValue<A>>, Error> {
        let prefix = prefix(name)?;
        let mut header = None;
        access.read(keyspace, &header_key(&prefix), &mut |value| {
            header = value.map(|value| value.to_vec());
        })?;
        let Some(header) = header else { return Ok(None) };
        let damaged = || Error::Damaged { what: "the header of a large value" };
        let header = LargeValueHeader::read_from_bytes(&header).map_err(|_| damaged())?;
        let piece_size = usize::try_from(header.piece_size.get()).map_err(|_| damaged())?;
        let len = header.len.get();
        if !is_piece_size(piece_size) || len > LARGE_VALUE_SIZE_MAX {
            return Err(damaged());
        }
        Ok(Some(LargeValue { access, keyspace, prefix, piece_size, len }))
    }

    /// Its length, in bytes.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether its length is 0.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The size of its pieces, in bytes.
    pub fn piece_size(&self) -> usize {
        self.piece_size
    }

    /// All its keys. [`Exclusive::remove_range`](crate::Exclusive::remove_range) of them removes it in time
    /// independent of its length.
    pub fn keys(&self) -> Range<Vec<u8>> {
        header_key(&self.prefix)..[&self.prefix[..], &[LARGE_PIECE + 1]].concat()
    }

    /// Reads from `offset` on into `to`. Returns how many bytes it has read: fewer than asked for at the end of the value, none
    /// behind it. It reads the pieces that it touches.
    ///
    /// # Errors
    /// Damage.
    pub fn read_at(&mut self, offset: u64, to: &mut [u8]) -> Result<usize, Error> {
        let left = self.len.saturating_sub(offset);
        let len = usize::try_from(left).map_or(to.len(), |left| left.min(to.len()));
        let mut done = 0;
        while done < len {
            let (number, start) = self.place(offset + done as u64);
            let part = &mut to[done..len.min(done + self.piece_size - start)];
            done += part.len();
            self.piece(number, |piece| copy_part(piece.as_ref(), start, part))?;
        }
        Ok(len)
    }

    /// The piece in which a byte lies, and the place in the piece.
    fn place(&self, offset: u64) -> (u64, usize) {
        let size = self.piece_size as u64;
        (offset / size, (offset % size) as usize)
    }

    /// Calls `with` with a piece, if it is there, and returns the result.
    fn piece<T>(
        &mut self,
        number: u64,
        with: impl FnOnce(Option<Value<'_>>) -> T,
    ) -> Result<T, Error> {
        let damaged = || Error::Damaged { what: "a piece of a large value" };
        let key = piece_key(&self.prefix, number);
        let (mut with, mut done) = (Some(with), None);
        let size = self.piece_size;
        self.access.read(self.keyspace, &key, &mut |piece| {
            if piece.as_ref().is_none_or(|piece| piece.len() <= size) {
                done = with.take().map(|with| with(piece));
            }
        })?;
        done.ok_or_else(damaged)
    }
}

impl<A: LargeValueWrite> LargeValue<A> {
    /// Makes an empty large value, whose pieces have `piece_size` bytes: a power of two from 512 ([`PIECE_SIZE_MIN`]) to
    /// 65,536 ([`PIECE_SIZE_MAX`]). The name has at most [`KEY_SIZE_MAX`] − 11 bytes.
    ///
    /// # Errors
    /// [`Error::PieceSize`], [`Error::KeyTooLong`], [`Error::LargeValueExists`], and as of
    /// [`Transaction::put`](crate::Transaction::put): nothing has changed.
    pub fn create(
        access: A,
        keyspace: Keyspace,
        name: &[u8],
        piece_size: usize,
    ) -> Result<LargeValue<A>, Error> {
        if !is_piece_size(piece_size) {
            return Err(Error::PieceSize { size: piece_size });
        }
        let prefix = prefix(name)?;
        let mut value = LargeValue { access, keyspace, prefix, piece_size, len: 0 };
        let header = header_key(&value.prefix);
        let mut is_there = false;
        value.access.read(keyspace, &header, &mut |value| is_there = value.is_some())?;
        if is_there {
            return Err(Error::LargeValueExists { name: name.to_vec() });
        }
        value.put_len(0)?;
        Ok(value)
    }

    /// Writes `bytes` at `offset`. The value gets longer if they reach beyond its end; what lies between is zero.
    ///
    /// # Errors
    /// [`Error::LargeValueTooLong`]: nothing has changed. As of [`Transaction::put`](crate::Transaction::put): a part may
    /// have been written, so drop the transaction or go back to a savepoint.
    pub fn write_at(&mut self, offset: u64, bytes: &[u8]) -> Result<(), Error> {
        let end = checked_end(offset, bytes.len() as u64)?;
        let mut done = 0;
        while done < bytes.len() {
            let (number, start) = self.place(offset + done as u64);
            let part = &bytes[done..bytes.len().min(done + self.piece_size - start)];
            done += part.len();
            self.write_piece(number, start, part)?;
        }
        if end > self.len && !bytes.is_empty() { self.put_len(end) } else { Ok(()) }
    }

    /// Writes a part of a piece.
    fn write_piece(&mut self, number: u64, start: usize, part: &[u8]) -> Result<(), Error> {
        let key = piece_key(&self.prefix, number);
        let end = start + part.len();
        if part.len() == self.piece_size {
            let size = self.piece(number, |piece| piece.map(|piece| piece.len()))?;
            self.hold_if_longer(size, end)?;
            return self.access.set(self.keyspace, &key, Some(part));
        }
        let (mut piece, size) = self.piece(number, |piece| {
            let size = piece.as_ref().map(Value::len);
            (piece.map(|piece| piece.to_vec()).unwrap_or_default(), size)
        })?;
        self.hold_if_longer(size, end)?;
        piece.resize(piece.len().max(end), 0);
        piece[start..end].copy_from_slice(part);
        self.access.set(self.keyspace, &key, Some(&piece))
    }

    /// Holds the header if a piece is new or gets longer: another transaction might cut that off.
    fn hold_if_longer(&mut self, before: Option<usize>, after: usize) -> Result<(), Error> {
        if before.is_some_and(|before| before >= after) {
            return Ok(());
        }
        let header = self.header(self.len);
        self.access.hold_key(self.keyspace, &header_key(&self.prefix), header.as_bytes())
    }

    fn header(&self, len: u64) -> LargeValueHeader {
        LargeValueHeader { piece_size: (self.piece_size as u64).into(), len: len.into() }
    }

    /// Writes `bytes` at the end.
    ///
    /// # Errors
    /// As of [`write_at`](LargeValue::write_at).
    pub fn append(&mut self, bytes: &[u8]) -> Result<(), Error> {
        self.write_at(self.len, bytes)
    }

    /// Makes `len` bytes from `offset` on zero: pieces that lie within are removed, one by one, and take no space. The length
    /// stays; what lies behind it is passed over.
    ///
    /// # Errors
    /// As of [`write_at`](LargeValue::write_at).
    pub fn clear_range(&mut self, offset: u64, len: u64) -> Result<(), Error> {
        let end = offset.saturating_add(len).min(self.len);
        if offset >= end {
            return Ok(());
        }
        let ((first, start), (last, stop)) = (self.place(offset), self.place(end));
        if first == last {
            return self.clear_in_piece(first, start..stop);
        }
        // The last piece may be shorter than the others.
        let stop = if end == self.len && stop > 0 { self.piece_size } else { stop };
        if start > 0 {
            self.clear_in_piece(first, start..self.piece_size)?;
        }
        if stop > 0 && stop < self.piece_size {
            self.clear_in_piece(last, 0..stop)?;
        }
        let whole = first + u64::from(start > 0)..last + u64::from(stop == self.piece_size);
        self.remove_pieces(whole)
    }

    /// Makes a part of a piece zero, if the piece is there.
    fn clear_in_piece(&mut self, number: u64, part: Range<usize>) -> Result<(), Error> {
        let Some(mut piece) = self.piece(number, |piece| piece.map(|piece| piece.to_vec()))? else {
            return Ok(());
        };
        let (start, stop) = (part.start.min(piece.len()), part.end.min(piece.len()));
        if stop == piece.len() {
            piece.truncate(start);
        } else {
            piece[start..stop].fill(0);
        }
        let key = piece_key(&self.prefix, number);
        let left = (!piece.is_empty()).then_some(&piece[..]);
        self.access.set(self.keyspace, &key, left)
    }

    /// Gives it another length. Bytes behind the new end are cut off; added bytes are zero and take no space. Pieces that are
    /// cut off are removed one by one.
    ///
    /// # Errors
    /// As of [`write_at`](LargeValue::write_at).
    pub fn truncate(&mut self, len: u64) -> Result<(), Error> {
        checked_end(len, 0)?;
        if len < self.len {
            let (number, kept) = self.place(len);
            self.hold_pieces(number)?;
            if kept > 0 {
                self.clear_in_piece(number, kept..self.piece_size)?;
            }
            self.remove_pieces(number + u64::from(kept > 0)..u64::MAX)?;
        }
        if len == self.len { Ok(()) } else { self.put_len(len) }
    }

    /// Removes the value with all its pieces. For a value with many pieces see [`keys`](LargeValue::keys).
    ///
    /// # Errors
    /// As of [`Transaction::remove`](crate::Transaction::remove): a part may have been removed, so drop the transaction or go
    /// back to a savepoint.
    pub fn remove(mut self) -> Result<(), Error> {
        self.hold_pieces(0)?;
        self.remove_pieces(0..u64::MAX)?;
        self.access.set(self.keyspace, &header_key(&self.prefix), None)
    }

    /// Holds the pieces from this one on, so that no other transaction changes one. Without an order of keys nothing is held:
    /// the header, which the caller writes, protects them.
    fn hold_pieces(&mut self, from: u64) -> Result<(), Error> {
        if !self.access.has_order() {
            return Ok(());
        }
        let (from, to) = (piece_key(&self.prefix, from), piece_key(&self.prefix, u64::MAX));
        self.access.hold_range(self.keyspace, (Bound::Included(&from), Bound::Included(&to)))
    }

    fn remove_pieces(&mut self, numbers: Range<u64>) -> Result<(), Error> {
        if !self.access.has_order() {
            return self.remove_by_number(numbers);
        }
        let end = piece_key(&self.prefix, numbers.end);
        let mut from = Bound::Included(piece_key(&self.prefix, numbers.start));
        loop {
            let range = (from.as_ref().map(Vec::as_slice), Bound::Excluded(&end[..]));
            let mut keys = self.access.keys(self.keyspace, range, BATCH)?;
            for key in &keys {
                self.access.set(self.keyspace, key, None)?;
            }
            match keys.pop() {
                Some(last) if keys.len() + 1 == BATCH => from = Bound::Excluded(last),
                _ => return Ok(()),
            }
        }
    }

    /// As `remove_pieces`, with a lookup for each number up to the length. Behind the length there is no piece.
    fn remove_by_number(&mut self, numbers: Range<u64>) -> Result<(), Error> {
        let end = numbers.end.min(self.len.div_ceil(self.piece_size as u64));
        for number in numbers.start..end {
            let key = piece_key(&self.prefix, number);
            let mut is_there = false;
            // A piece that is too long, because the pool is damaged, can be removed too.
            self.access.read(self.keyspace, &key, &mut |piece| is_there = piece.is_some())?;
            if is_there {
                self.access.set(self.keyspace, &key, None)?;
            }
        }
        Ok(())
    }

    fn put_len(&mut self, len: u64) -> Result<(), Error> {
        let header = self.header(len);
        self.access.set(self.keyspace, &header_key(&self.prefix), Some(header.as_bytes()))?;
        self.len = len;
        Ok(())
    }
}

/// Copies the bytes of a piece from `start` on. Missing bytes are zero.
fn copy_part(piece: Option<&Value<'_>>, start: usize, to: &mut [u8]) {
    let there = piece.map_or(0, |piece| piece.len().saturating_sub(start)).min(to.len());
    let (from_piece, zero) = to.split_at_mut(there);
    if let Some(bytes) = piece.and_then(|piece| piece.slice(start..start + there)) {
        bytes.copy_to(from_piece);
    }
    zero.fill(0);
}

fn checked_end(offset: u64, len: u64) -> Result<u64, Error> {
    let end = offset.saturating_add(len);
    if end > LARGE_VALUE_SIZE_MAX {
        return Err(Error::LargeValueTooLong { size: end });
    }
    Ok(end)
}

fn is_piece_size(size: usize) -> bool {
    size.is_power_of_two() && (PIECE_SIZE_MIN..=PIECE_SIZE_MAX).contains(&size)
}

/// The bytes with which all keys of a large value begin.
fn prefix(name: &[u8]) -> Result<Vec<u8>, Error> {
    let size = name.len() + KEY_EXTRA;
    match u16::try_from(name.len()) {
        Ok(len) if size <= KEY_SIZE_MAX => Ok([&len.to_be_bytes(), name].concat()),
        _ => Err(Error::KeyTooLong { size }),
    }
}

fn header_key(prefix: &[u8]) -> Vec<u8> {
    [prefix, &[LARGE_HEADER]].concat()
}

fn piece_key(prefix: &[u8], number: u64) -> Vec<u8> {
    [prefix, &[LARGE_PIECE], &number.to_be_bytes()].concat()
}
