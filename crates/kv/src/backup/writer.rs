//! Writing a backup, block by block.

use std::fs::File;
use std::io::Write;
use std::path::Path;

use tembo_index::Value;
use zerocopy::IntoBytes;

use super::error::BackupError;
use super::files::io;
use super::format::{
    BLOCK_MAGIC, BLOCK_SIZE, BlockHeader, END_MAGIC, End, EntryHeader, Header, KIND_PUT,
    KIND_REMOVED,
};

/// A backup that is being written.
pub(super) struct Writer<'p> {
    path: &'p Path,
    file: File,
    /// The block that is being filled.
    block: Vec<u8>,
    block_count: u32,
    /// What was written so far.
    pub(super) so_far: SoFar,
}

/// What a file has of a backup: whole blocks.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct SoFar {
    pub(super) bytes: u64,
    pub(super) blocks: u32,
    pub(super) entries: u64,
    /// CRC-32C of the bytes.
    pub(super) crc: u32,
}

impl<'p> Writer<'p> {
    /// Goes on behind what the file has.
    pub(super) fn new(path: &'p Path, file: File, so_far: SoFar) -> Writer<'p> {
        Writer { path, file, block: Vec::with_capacity(BLOCK_SIZE + 4096), block_count: 0, so_far }
    }

    pub(super) fn header(&mut self, mut header: Header) -> Result<(), BackupError> {
        header.crc = crc32c::crc32c(&header.as_bytes()[..size_of::<Header>() - 4]).into();
        self.write(header.as_bytes())
    }

    /// Writes the block, if it is large enough; how many bytes that were.
    pub(super) fn entry(
        &mut self,
        kind: u32,
        key: &[u8],
        value: Value<'_>,
    ) -> Result<u64, BackupError> {
        let header = EntryHeader {
            kind: kind.into(),
            key_len: (key.len() as u32).into(),
            value_len: (value.len() as u32).into(),
        };
        self.block.extend_from_slice(header.as_bytes());
        self.block.extend_from_slice(key);
        value.append_to(&mut self.block);
        self.block_count += 1;
        self.so_far.entries += u64::from(kind == KIND_PUT || kind == KIND_REMOVED);
        if self.block.len() >= BLOCK_SIZE { self.flush() } else { Ok(0) }
    }

    /// Writes what waits.
    pub(super) fn flush(&mut self) -> Result<u64, BackupError> {
        if self.block.is_empty() {
            return Ok(0);
        }
        let block = std::mem::take(&mut self.block);
        let count = std::mem::take(&mut self.block_count);
        self.write_block(BLOCK_MAGIC, count, &block)?;
        let size = block.len() as u64;
        self.block = block;
        self.block.clear();
        Ok(size)
    }

    /// Writes the trailer. Durable when it returns.
    pub(super) fn finish(mut self) -> Result<SoFar, BackupError> {
        self.flush()?;
        let end = End {
            count: self.so_far.entries.into(),
            crc: self.so_far.crc.into(),
            reserved: 0.into(),
        };
        self.write_block(END_MAGIC, 0, end.as_bytes())?;
        io(self.path, self.file.sync_all())?;
        Ok(self.so_far)
    }

    fn write_block(&mut self, magic: u32, count: u32, payload: &[u8]) -> Result<(), BackupError> {
        let mut header = BlockHeader {
            magic: magic.into(),
            number: self.so_far.blocks.into(),
            size: (payload.len() as u64).into(),
            count: count.into(),
            crc: 0.into(),
        };
        header.crc = block_crc(&header, payload).into();
        self.write(header.as_bytes())?;
        self.write(payload)?;
        self.so_far.blocks += 1;
        Ok(())
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), BackupError> {
        io(self.path, self.file.write_all(bytes))?;
        self.so_far.crc = crc32c::crc32c_append(self.so_far.crc, bytes);
        self.so_far.bytes += bytes.len() as u64;
        Ok(())
    }
}

/// The checksum of a block.
pub(super) fn block_crc(header: &BlockHeader, payload: &[u8]) -> u32 {
    let fields = &header.as_bytes()[..size_of::<BlockHeader>() - 4];
    crc32c::crc32c_append(crc32c::crc32c(fields), payload)
}
