//! The ring in the log's file: positions only grow, and wrap at the capacity.
#![allow(unsafe_code)]

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use zerocopy::{FromZeros, IntoBytes};

use crate::disk::WatchedFile;
use crate::format::{BLOCK, Block, LOG_HEADER_SIZE};
use crate::mapping::Mapping;
use crate::{DiskFile, racy};

/// The smallest ring, in bytes.
pub(super) const CAPACITY_MIN: u64 = 64 << 10;
/// What is long, and zeroes, are written in pieces of this many bytes.
pub(super) const PIECE: usize = 256 << 10;
/// A ring may have this many bytes, whatever the size of the pool and of the memory.
const LIMIT_MIN: u64 = 8 << 20;
/// A ring has so many bytes at most for each of the pool.
const POOL_SHARE: u64 = 2;
/// A ring has one part in so many of the memory that the process may have: what lies in the system's memory of the log
/// takes the place of pages of the pool.
const MEMORY_SHARE: u64 = 8;

/// Bytes of a ring that is to have `wanted`.
pub(super) fn capacity(wanted: u64) -> u64 {
    wanted.max(CAPACITY_MIN).next_multiple_of(LOG_HEADER_SIZE)
}

/// Bytes of a ring of at most `log_size`, beside a pool of `pool_size` bytes, in a process that may have so much `memory`, if that
/// is known.
pub(super) fn limit(log_size: u64, pool_size: u64, memory: Option<u64>) -> u64 {
    let memory_part = memory.map_or(u64::MAX, |memory| memory / MEMORY_SHARE);
    let part = pool_size.saturating_mul(POOL_SHARE).min(memory_part);
    capacity(log_size.min(part.max(LIMIT_MIN)))
}

/// A file's ring.
pub(super) struct Ring {
    pub(super) file: Arc<WatchedFile>,
    /// Bytes in the ring; whole pages.
    capacity: AtomicU64,
    blocks: Mutex<Blocks>,
}

/// The blocks that were [written whole](Ring::write_durably) last.
#[derive(Default)]
struct Blocks {
    /// The first begins with what the last block written held before `end`.
    buffer: Vec<Block>,
    /// The position where they ended.
    end: u64,
}

impl Ring {
    /// The ring in a file, of `capacity` bytes.
    pub(super) fn new(file: Arc<WatchedFile>, capacity: u64) -> Ring {
        Ring { file, capacity: AtomicU64::new(capacity), blocks: Mutex::default() }
    }

    /// Bytes in the ring.
    pub(super) fn capacity(&self) -> u64 {
        self.capacity.load(Ordering::Relaxed)
    }

    /// The ring has more room from now on. No position in use or being written is at or behind the old capacity: so each
    /// lies where it lay before.
    pub(super) fn extend(&self, capacity: u64) {
        self.capacity.store(capacity, Ordering::Relaxed);
    }

    /// Writes at `position`, around the end where it is reached.
    pub(super) fn write(&self, step: &'static str, bytes: &[u8], position: u64) -> io::Result<()> {
        let (first, second) = bytes.split_at(self.before_end(position, bytes.len()));
        self.write_piecewise(step, first, self.offset(position))?;
        self.write_piecewise(step, second, LOG_HEADER_SIZE)
    }

    /// Whether so many bytes at `position` can be [written as blocks](Ring::write_durably).
    pub(super) fn takes_blocks(&self, position: u64, len: usize) -> bool {
        self.before_end(position, len) == len && self.file.is_direct()
    }

    /// Writes at `position` what [may be](Ring::takes_blocks), and makes it durable. All before it is durable already.
    ///
    /// ```text
    ///    block                block                block
    /// ──┬────────────────────┬────────────────────┬────────────────────┬──
    ///   │ groups before │ bytes                       │ zeroes         │
    /// ──┴───────────────▲────┴────────────────────┴───▲────────────────┴──
    ///                position                        end
    /// ```
    ///
    /// The groups before it are written once more with the bytes that they have, so that no tear can harm them. The ring
    /// keeps [a block](super::RedoLog::fits) free behind the end for the zeroes.
    pub(super) fn write_durably(
        &self,
        write_step: &'static str,
        sync_step: &'static str,
        bytes: &[u8],
        position: u64,
    ) -> io::Result<()> {
        let blocks = &mut *self.blocks.lock().unwrap_or_else(PoisonError::into_inner);
        let offset = self.offset(position);
        let before = (offset % BLOCK) as usize;
        let end = before + bytes.len();
        let count = end.div_ceil(BLOCK as usize).max(1);
        if blocks.buffer.len() < count {
            blocks.buffer.resize(count, Block::new_zeroed());
        }
        let all = blocks.buffer[..count].as_mut_bytes();
        if blocks.end != position {
            self.file.read_at(&mut all[..before], offset - before as u64)?;
        }
        all[before..end].copy_from_slice(bytes);
        all[end..].fill(0);
        blocks.end = position;
        self.file.write_durably(write_step, sync_step, all, offset - before as u64)?;
        blocks.end = position + bytes.len() as u64;
        let last = end - end % BLOCK as usize;
        all.copy_within(last..end, 0);
        Ok(())
    }

    /// Lets the disk take in the first pieces of what is long while the others are copied.
    fn write_piecewise(&self, step: &'static str, bytes: &[u8], mut offset: u64) -> io::Result<()> {
        let mut pieces = bytes.chunks(PIECE).peekable();
        while let Some(piece) = pieces.next() {
            self.file.write_at(step, piece, offset)?;
            if pieces.peek().is_some() {
                self.file.begin_writing(offset, piece.len() as u64);
            }
            offset += piece.len() as u64;
        }
        Ok(())
    }

    /// `len` bytes from `position` on, at most all of the ring, in one piece.
    pub(super) fn view(&self, position: u64, len: u64) -> io::Result<View> {
        let capacity = self.capacity();
        let len = len.min(capacity) as usize;
        match self.map(position, len, capacity) {
            Ok(Some(mapped)) => Ok(mapped),
            // An old system cannot say beforehand what it cannot read.
            Err(error) if error.kind() != io::ErrorKind::InvalidInput => Err(error),
            _ => self.read(position, len),
        }
    }

    fn map(&self, position: u64, len: usize, capacity: u64) -> io::Result<Option<View>> {
        let Some(file) = self.file.descriptor() else {
            return Ok(None);
        };
        let mapping = Mapping::twice(file, LOG_HEADER_SIZE, capacity)?;
        let at = position % capacity;
        mapping.populate(at, len as u64)?;
        Ok(Some(View::Mapped { mapping, at, len }))
    }

    fn read(&self, position: u64, len: usize) -> io::Result<View> {
        let mut bytes = vec![0; len];
        let (first, second) = bytes.split_at_mut(self.before_end(position, len));
        self.file.read_at(first, self.offset(position))?;
        if !second.is_empty() {
            self.file.read_at(second, LOG_HEADER_SIZE)?;
        }
        Ok(View::Read(bytes))
    }

    /// Where a position lies in the file.
    pub(super) fn offset(&self, position: u64) -> u64 {
        LOG_HEADER_SIZE + position % self.capacity()
    }

    fn before_end(&self, position: u64, len: usize) -> usize {
        let capacity = self.capacity();
        len.min((capacity - position % capacity) as usize)
    }
}

/// A part of a ring, in one piece.
pub(super) enum View {
    Mapped { mapping: Mapping, at: u64, len: usize },
    Read(Vec<u8>),
}

impl View {
    /// The bytes.
    ///
    /// # Safety
    /// None of them changes while they are borrowed.
    pub(super) unsafe fn bytes(&self) -> &[u8] {
        match self {
            // SAFETY: the range is mapped as long as the view lives: twice the capacity is, and the start and the length of the
            // view are at most that. It does not change, says the caller.
            View::Mapped { mapping, at, len } => unsafe {
                std::slice::from_raw_parts(mapping.base().at(*at), *len)
            },
            View::Read(bytes) => bytes,
        }
    }

    fn len(&self) -> usize {
        match self {
            View::Mapped { len, .. } => *len,
            View::Read(bytes) => bytes.len(),
        }
    }

    /// Copies the bytes from `from` on, as far as there are some, each as it is then.
    pub(super) fn copy_to(&self, from: usize, to: &mut [u8]) {
        let from = from.min(self.len());
        let count = to.len().min(self.len() - from);
        match self {
            View::Mapped { mapping, at, .. } => {
                let from = mapping.base().at(*at + from as u64);
                // SAFETY: the range is a part of the view, which is mapped as long as it lives; `to` has so many bytes.
                unsafe { racy::read(from, to.as_mut_ptr(), count) };
            }
            View::Read(bytes) => to[..count].copy_from_slice(&bytes[from..from + count]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Disk, OsDisk};

    /// Whatever lies before them in a block stays, behind them are zeroes up to the end of one, and no byte beyond it changes.
    #[test]
    fn blocks_keep_what_lies_before_and_nothing_behind_them_is_harmed() {
        let path = std::env::temp_dir().join(format!("tembo-ring-{}", std::process::id()));
        let file = OsDisk.create("test.create", &path).unwrap();
        let capacity = 64 << 10;
        let mut expected = vec![0xee_u8; (LOG_HEADER_SIZE + capacity) as usize];
        file.write_at("test.fill", &expected, 0).unwrap();
        let ring = Ring::new(WatchedFile::new(file), capacity);
        let lens = [1_usize, 63, 4032, 4096, 1, 4095, 8193, 200, 12_000];
        let mut position = 3 * capacity + 100;
        for (round, len) in lens.into_iter().cycle().take(60).enumerate() {
            let bytes = vec![round as u8; len];
            let at = ring.offset(position) as usize;
            if !ring.takes_blocks(position, len) {
                // Round the end, or where the file system has no such files.
                ring.write("test.write", &bytes, position).unwrap();
                let first = len.min(expected.len() - at);
                expected[at..at + first].fill(round as u8);
                expected[LOG_HEADER_SIZE as usize..][..len - first].fill(round as u8);
            } else {
                ring.write_durably("test.write", "test.sync", &bytes, position).unwrap();
                expected[at..at + len].fill(round as u8);
                let end = (at + len).next_multiple_of(BLOCK as usize);
                expected[at + len..end].fill(0);
            }
            position += len as u64;
            let mut found = vec![0; expected.len()];
            ring.file.read_at(&mut found, 0).unwrap();
            assert!(found == expected, "round {round}");
        }
        std::fs::remove_file(path).unwrap();
    }
}
