//! Blocks of a stream: several entries, one after the other, in the order of their ids.
//!
//! ```text
//! milliseconds   of the id, less those of the block's id
//! number         of the id; within the milliseconds of the block's id less that one's number
//! size           of what follows
//! fields         each followed by its value, packed
//! ```
//! Numbers have 7 bits a byte, the lowest first; bit 7: another byte follows. A block has the id that its first entry had
//! when it was begun: no entry of it has a lesser one.

use std::ops::Range;

use crate::format::stream::StreamId;
use crate::format::unknown_layout::UnknownLayout;

/// Bytes of a block, unless one entry is longer: that one is a block of its own.
pub const STREAM_BLOCK_SIZE: usize = 1024;

/// Bytes before the fields of an entry, at most.
const HEAD_MAX: usize = 10 + 10 + 5;

fn push_number(to: &mut Vec<u8>, mut number: u64) {
    while number > 0x7f {
        to.push(number as u8 | 0x80);
        number >>= 7;
    }
    to.push(number as u8);
}

/// Whether a block of so many bytes that has entries takes another one.
pub fn fits_in_block(size: usize, packed: &[u8]) -> bool {
    size + HEAD_MAX + packed.len() <= STREAM_BLOCK_SIZE
}

/// Appends an entry to a block, whose id is not greater; false: it has no room for it. An empty one has room for any.
pub fn push_to_block(block: &mut Vec<u8>, of: StreamId, id: StreamId, packed: &[u8]) -> bool {
    if !block.is_empty() && !fits_in_block(block.len(), packed) {
        return false;
    }
    let ms = id.ms.wrapping_sub(of.ms);
    push_number(block, ms);
    push_number(block, if ms == 0 { id.seq.wrapping_sub(of.seq) } else { id.seq });
    push_number(block, packed.len() as u64);
    block.extend_from_slice(packed);
    true
}

/// An entry of a block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockEntry {
    /// Its id.
    pub id: StreamId,
    /// Where it begins in the block.
    pub begin: usize,
    /// Where its fields and values are; it ends with them.
    pub packed: Range<usize>,
}

/// The entries of a block, in order.
#[derive(Clone, Debug)]
pub struct StreamBlock<'a> {
    of: StreamId,
    bytes: &'a [u8],
    at: usize,
}

impl<'a> StreamBlock<'a> {
    /// Of the block with an id.
    pub fn new(of: StreamId, bytes: &'a [u8]) -> StreamBlock<'a> {
        StreamBlock { of, bytes, at: 0 }
    }

    /// The entries of that block from where one of them begins.
    pub fn from_place(of: StreamId, bytes: &'a [u8], begin: usize) -> StreamBlock<'a> {
        StreamBlock { of, bytes, at: begin.min(bytes.len()) }
    }

    fn number(&mut self) -> Option<u64> {
        let (mut number, mut shift) = (0, 0);
        loop {
            let byte = *self.bytes.get(self.at)?;
            self.at += 1;
            let bits = u64::from(byte & 0x7f);
            if shift == 63 && bits > 1 {
                return None;
            }
            number |= bits << shift;
            shift += 7;
            if byte & 0x80 == 0 {
                return Some(number);
            }
            if shift > 63 {
                return None;
            }
        }
    }

    fn entry(&mut self) -> Option<BlockEntry> {
        let begin = self.at;
        let (ms, seq, size) = (self.number()?, self.number()?, self.number()?);
        let ms_of = self.of.ms.checked_add(ms)?;
        let seq = if ms == 0 { self.of.seq.checked_add(seq)? } else { seq };
        let end = self.at.checked_add(usize::try_from(size).ok()?)?;
        if end > self.bytes.len() {
            return None;
        }
        let packed = self.at..end;
        self.at = end;
        Some(BlockEntry { id: StreamId { ms: ms_of, seq }, begin, packed })
    }
}

impl Iterator for StreamBlock<'_> {
    type Item = Result<BlockEntry, UnknownLayout>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.at == self.bytes.len() {
            return None;
        }
        let entry = self.entry().ok_or(UnknownLayout);
        if entry.is_err() {
            self.at = self.bytes.len();
        }
        Some(entry)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(ms: u64, seq: u64) -> StreamId {
        StreamId { ms, seq }
    }

    #[test]
    fn entries_come_back_with_their_ids() {
        let of = id(1_700_000_000_000, 5);
        let ids = [of, id(of.ms, u64::MAX), id(of.ms + 1, 0), id(of.ms + 300, 7), StreamId::MAX];
        let (mut block, packed) = (Vec::new(), b"\x01f\x01v");
        for id in ids {
            assert!(push_to_block(&mut block, of, id, packed));
        }
        let found: Vec<BlockEntry> =
            StreamBlock::new(of, &block).collect::<Result<_, _>>().unwrap();
        assert!(found.iter().map(|entry| entry.id).eq(ids));
        assert!(found.iter().all(|entry| block[entry.packed.clone()] == *packed));
        assert_eq!(block[..7], [0, 0, 4, 1, b'f', 1, b'v']);
    }

    #[test]
    fn a_block_has_room_for_one_entry_of_any_size_or_for_so_many_bytes() {
        let (of, mut block) = (id(1, 1), Vec::new());
        assert!(push_to_block(&mut block, of, of, &[0; 5000]));
        assert!(!push_to_block(&mut block, of, id(1, 2), b""));
        let (mut block, mut count) = (Vec::new(), 0);
        while push_to_block(&mut block, of, id(1, 1 + count), &[0; 10]) {
            count += 1;
        }
        assert!(block.len() <= STREAM_BLOCK_SIZE && count > 70);
    }

    #[test]
    fn what_is_cut_is_refused() {
        for bytes in [
            b"\x00".as_slice(),
            b"\x00\x00\x02a",
            b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\x00\x00",
            b"\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x00\x00\x00",
        ] {
            let entries: Vec<_> = StreamBlock::new(id(1, 0), bytes).collect();
            assert_eq!(entries, [Err(UnknownLayout)]);
        }
    }
}
