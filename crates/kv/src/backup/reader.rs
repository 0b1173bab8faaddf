//! Reading a backup: what it says is taken for true only when the checksum of its block is right.

use std::fs::{File, OpenOptions};
use std::io::{BufReader, ErrorKind, Read};
use std::path::{Path, PathBuf};

use tembo_pmem::open_regular;
use zerocopy::{FromBytes, IntoBytes};

use super::error::BackupError;
use super::files::io;
use super::format::{
    BLOCK_HEADER_SIZE, BLOCK_MAGIC, BlockHeader, END_MAGIC, ENTRY_HEADER_SIZE, End, EntryHeader,
    HEADER_SIZE, Header, KIND_PUT, KIND_REMOVED, MAGIC, VERSION,
};
use super::info::BackupInfo;
use super::writer::{SoFar, block_crc};

/// A backup that is being read.
pub(super) struct Reader {
    path: PathBuf,
    file: BufReader<File>,
    size: u64,
    pub(super) header: Header,
    /// What was read and found sound.
    pub(super) so_far: SoFar,
    /// What the trailer says, once it was read.
    end: Option<End>,
    payload: Vec<u8>,
}

/// An entry of a block.
pub(super) struct Entry<'b> {
    pub(super) kind: u32,
    pub(super) key: &'b [u8],
    pub(super) value: &'b [u8],
}

impl Reader {
    pub(super) fn open(path: &Path) -> Result<Reader, BackupError> {
        let not_one = || BackupError::NotABackup { path: path.to_owned() };
        let file = match open_regular(path, OpenOptions::new().read(true), true) {
            Err(error) if error.kind() == ErrorKind::InvalidInput => return Err(not_one()),
            opened => io(path, opened)?,
        };
        let size = io(path, file.metadata())?.len();
        let mut file = BufReader::with_capacity(1 << 20, file);
        let mut bytes = [0; HEADER_SIZE];
        file.read_exact(&mut bytes).map_err(|_| not_one())?;
        let header = Header::read_from_bytes(&bytes).map_err(|_| not_one())?;
        if header.magic.get() != MAGIC {
            return Err(not_one());
        }
        let version = header.version.get();
        if version > VERSION {
            return Err(BackupError::NewerVersion {
                path: path.to_owned(),
                version,
                known: VERSION,
            });
        }
        let crc = crc32c::crc32c(&bytes[..HEADER_SIZE - 4]);
        let so_far =
            SoFar { bytes: HEADER_SIZE as u64, crc: crc32c::crc32c(&bytes), ..SoFar::default() };
        let (path, payload) = (path.to_owned(), Vec::new());
        let reader = Reader { path, file, size, header, so_far, end: None, payload };
        let (since, until) = (header.since.get(), header.until.get());
        if header.crc.get() != crc || since > until || version == 0 {
            return Err(reader.damaged("a header with its checksum"));
        }
        Ok(reader)
    }

    pub(super) fn damaged(&self, what: &'static str) -> BackupError {
        BackupError::Damaged { path: self.path.clone(), offset: self.so_far.bytes, what }
    }

    /// The next block; `None`: the trailer was read.
    pub(super) fn next_block(&mut self) -> Result<Option<&[u8]>, BackupError> {
        let mut bytes = [0; BLOCK_HEADER_SIZE];
        self.fill(&mut bytes)?;
        let Ok(block) = BlockHeader::read_from_bytes(&bytes) else {
            return Err(self.damaged("a block"));
        };
        let (magic, size) = (block.magic.get(), block.size.get());
        let left = self.size.saturating_sub(self.so_far.bytes + BLOCK_HEADER_SIZE as u64);
        if magic != BLOCK_MAGIC && magic != END_MAGIC || block.number.get() != self.so_far.blocks {
            return Err(self.damaged("the next block"));
        }
        if size > left {
            return Err(self.damaged("the rest of a block"));
        }
        let mut payload = std::mem::take(&mut self.payload);
        payload.resize(size as usize, 0);
        self.fill(&mut payload)?;
        self.payload = payload;
        if block_crc(&block, &self.payload) != block.crc.get() {
            return Err(self.damaged("a block with its checksum"));
        }
        if magic == END_MAGIC {
            let end = End::read_from_bytes(&self.payload).ok();
            let Some(end) = end.filter(|end| self.is_end(end)) else {
                return Err(self.damaged("a trailer that is right about what comes before"));
            };
            self.end = Some(end);
            return Ok(None);
        }
        let mut count = 0;
        let mut changes = 0;
        let mut rest = &self.payload[..];
        while let Some(entry) = take_entry(&mut rest) {
            count += 1;
            changes += u64::from(entry.kind == KIND_PUT || entry.kind == KIND_REMOVED);
        }
        if !rest.is_empty() || count != block.count.get() {
            return Err(self.damaged("as many entries as the block says"));
        }
        let crc = crc32c::crc32c_append(self.so_far.crc, block.as_bytes());
        self.so_far = SoFar {
            bytes: self.so_far.bytes + BLOCK_HEADER_SIZE as u64 + size,
            blocks: self.so_far.blocks + 1,
            entries: self.so_far.entries + changes,
            crc: crc32c::crc32c_append(crc, &self.payload),
        };
        Ok(Some(&self.payload))
    }

    fn is_end(&self, end: &End) -> bool {
        end.count.get() == self.so_far.entries && end.crc.get() == self.so_far.crc
    }

    fn fill(&mut self, bytes: &mut [u8]) -> Result<(), BackupError> {
        match self.file.read_exact(bytes) {
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => {
                Err(self.damaged("a trailer: the file was cut off"))
            }
            read => io(&self.path, read),
        }
    }

    /// What the backup is, when it was read to its end.
    pub(super) fn finish(mut self) -> Result<BackupInfo, BackupError> {
        if self.end.is_none() || io(&self.path, self.file.read(&mut [0]))? > 0 {
            return Err(self.damaged("the end of the file behind the trailer"));
        }
        let Header { since, until, identity, .. } = self.header;
        Ok(BackupInfo {
            identity: u128::from_le_bytes(identity),
            since: Some(since.get()).filter(|&since| since != 0),
            until: until.get(),
            entries: self.so_far.entries,
            bytes: self.so_far.bytes + (BLOCK_HEADER_SIZE + size_of::<End>()) as u64,
        })
    }
}

/// Takes an entry from the front; `None`: there is none, or no whole one.
pub(super) fn take_entry<'b>(rest: &mut &'b [u8]) -> Option<Entry<'b>> {
    let (header, behind) = EntryHeader::read_from_prefix(rest).ok()?;
    debug_assert_eq!(rest.len() - behind.len(), ENTRY_HEADER_SIZE);
    let (key, behind) = behind.split_at_checked(header.key_len.get() as usize)?;
    let (value, behind) = behind.split_at_checked(header.value_len.get() as usize)?;
    *rest = behind;
    Some(Entry { kind: header.kind.get(), key, value })
}

/// Of which pool a backup says that it is, and of which version; nothing else of it is read.
///
/// # Errors
/// [`BackupError::NotABackup`], [`BackupError::Damaged`], [`BackupError::Io`].
pub fn peek(path: &Path) -> Result<(u128, u64), BackupError> {
    let header = Reader::open(path)?.header;
    Ok((u128::from_le_bytes(header.identity), header.until.get()))
}

/// Reads a backup, all of it, and says what it is.
///
/// # Errors
/// [`BackupError::Damaged`], [`BackupError::Io`].
pub fn verify(path: &Path, progress: &mut dyn FnMut(u64)) -> Result<BackupInfo, BackupError> {
    let mut reader = Reader::open(path)?;
    while let Some(block) = reader.next_block()? {
        progress(block.len() as u64);
    }
    reader.finish()
}
