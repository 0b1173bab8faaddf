//! SQLite's own file formats, as far as they are read here: the header of a database, a WAL, a rollback journal.
//!
//! Source: <https://www.sqlite.org/fileformat2.html>. Numbers have the highest byte first. Nothing of it is trusted: a
//! reader of damaged bytes gets `None`.

use crate::page_one::MAGIC;

/// Bytes of the header, at the begin of page 1.
pub(crate) const HEADER_SIZE: usize = 100;

/// A database, as its first 100 bytes describe it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DatabaseHeader {
    /// Bytes in a page: a power of two from 512 to 65,536.
    pub page_size: u32,
    /// Pages, as SQLite has noted them; 0 if it has not.
    pub page_count: u32,
    /// Pages of these that are free.
    pub free_page_count: u32,
    /// The number of the schema: it changes with it.
    pub schema_version: u32,
    /// The encoding of texts: 1 UTF-8, 2 UTF-16LE, 3 UTF-16BE; 0 before the first table.
    pub encoding: u32,
    /// `PRAGMA user_version`.
    pub user_version: u32,
    /// `PRAGMA application_id`.
    pub application_id: u32,
    /// The version of SQLite that has written it last: 3045001 is 3.45.1.
    pub sqlite_version: u32,
}

/// The four bytes at `at`.
fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_be_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

/// That a page has so many bytes.
fn page_size(size: u32) -> Option<u32> {
    (size.is_power_of_two() && (512..=65_536).contains(&size)).then_some(size)
}

impl DatabaseHeader {
    /// The header in the first bytes of a database. `None`: it is no database.
    pub fn of(bytes: &[u8]) -> Option<DatabaseHeader> {
        if !bytes.starts_with(MAGIC) {
            return None;
        }
        let size = u16::from_be_bytes(bytes.get(16..18)?.try_into().ok()?);
        // 65,536 does not fit.
        let size = if size == 1 { 65_536 } else { u32::from(size) };
        let is_noted = word(bytes, 24) == word(bytes, 92);
        Some(DatabaseHeader {
            page_size: page_size(size)?,
            page_count: if is_noted { word(bytes, 28)? } else { 0 },
            free_page_count: word(bytes, 36)?,
            schema_version: word(bytes, 40)?,
            encoding: word(bytes, 56)?,
            user_version: word(bytes, 60)?,
            application_id: word(bytes, 68)?,
            sqlite_version: word(bytes, 96)?,
        })
    }
}

/// Bytes before the frames of a WAL.
pub(super) const WAL_HEADER_SIZE: usize = 32;

/// Bytes before the page of a frame.
pub(super) const FRAME_HEADER_SIZE: usize = 24;

/// The version of the format of all WALs that there are.
const WAL_VERSION: u32 = 3_007_000;

/// Two sums over pairs of words, each of which goes into the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct WalSum {
    is_big_endian: bool,
    sums: (u32, u32),
}

impl WalSum {
    fn add(&mut self, bytes: &[u8]) {
        let word = |bytes: &[u8]| {
            let bytes = bytes.try_into().unwrap_or_default();
            if self.is_big_endian { u32::from_be_bytes(bytes) } else { u32::from_le_bytes(bytes) }
        };
        let (mut a, mut b) = self.sums;
        for pair in bytes.chunks_exact(8) {
            a = a.wrapping_add(word(&pair[..4])).wrapping_add(b);
            b = b.wrapping_add(word(&pair[4..])).wrapping_add(a);
        }
        self.sums = (a, b);
    }

    fn is(&self, bytes: &[u8], at: usize) -> bool {
        word(bytes, at) == Some(self.sums.0) && word(bytes, at + 4) == Some(self.sums.1)
    }
}

/// What a WAL begins with.
#[derive(Clone, Copy, Debug)]
pub(super) struct WalHeader {
    pub(super) page_size: u32,
    salts: (u32, u32),
    pub(super) sum: WalSum,
}

impl WalHeader {
    /// `None`: there is no WAL, as far as SQLite is concerned.
    pub(super) fn of(bytes: &[u8]) -> Option<WalHeader> {
        let magic = word(bytes, 0)?;
        if magic & !1 != 0x377f_0682 || word(bytes, 4)? != WAL_VERSION {
            return None;
        }
        let mut sum = WalSum { is_big_endian: magic & 1 == 1, sums: (0, 0) };
        sum.add(bytes.get(..24)?);
        let (page_size, salts) =
            (page_size(word(bytes, 8)?)?, (word(bytes, 16)?, word(bytes, 20)?));
        sum.is(bytes, 24).then_some(WalHeader { page_size, salts, sum })
    }

    /// A frame that follows what `sum` is of: the number of its page, and the pages of the database if it ends a transaction,
    /// else 0. `None`: the WAL ends before it.
    pub(super) fn frame(&self, sum: &mut WalSum, head: &[u8], page: &[u8]) -> Option<(u32, u32)> {
        if (word(head, 8)?, word(head, 12)?) != self.salts {
            return None;
        }
        sum.add(head.get(..8)?);
        sum.add(page);
        let number = word(head, 0)?;
        (sum.is(head, 16) && number > 0).then_some((number, word(head, 4)?))
    }
}

/// What each part of a rollback journal begins with.
#[derive(Clone, Copy, Debug)]
pub(super) struct JournalHeader {
    /// Records that follow; all bits: as many as there are.
    pub(super) record_count: u32,
    nonce: u32,
    /// Pages of the database before the transaction.
    pub(super) page_count: u32,
    /// Bytes that the header takes with what is left free behind it; the next one begins at a multiple of it.
    pub(super) sector_size: u32,
    pub(super) page_size: u32,
}

/// What a rollback journal, and each part of it, begins with.
const JOURNAL_MAGIC: [u8; 8] = [0xd9, 0xd5, 0x05, 0xf9, 0x20, 0xa1, 0x63, 0xd7];

/// Bytes of it that mean something.
pub(super) const JOURNAL_HEADER_SIZE: usize = 28;

/// Bytes that follow the name of a super-journal at the end of a journal: length, checksum, magic.
pub(super) const SUPER_JOURNAL_TRAILER: u64 = 16;

impl JournalHeader {
    /// `None`: the journal ends here.
    pub(super) fn of(bytes: &[u8]) -> Option<JournalHeader> {
        if !bytes.starts_with(&JOURNAL_MAGIC) {
            return None;
        }
        let sector_size = word(bytes, 20)?;
        let fits = sector_size.is_power_of_two() && (32..=65_536).contains(&sector_size);
        fits.then_some(JournalHeader {
            record_count: word(bytes, 8)?,
            nonce: word(bytes, 12)?,
            page_count: word(bytes, 16)?,
            sector_size,
            page_size: page_size(word(bytes, 24)?)?,
        })
    }

    /// Bytes of a record: the number of a page, the page, a checksum.
    pub(super) fn record_size(&self) -> u64 {
        u64::from(self.page_size) + 8
    }

    /// The number of the page of a record. `None`: the record was not written whole.
    pub(super) fn record(&self, bytes: &[u8]) -> Option<u32> {
        let size = self.page_size as usize;
        let (number, page) = (word(bytes, 0)?, bytes.get(4..4 + size)?);
        // Each two-hundredth byte from the end, but for those at the begin.
        let bytes_summed = (1..).map_while(|n| size.checked_sub(200 * n).filter(|at| *at > 0));
        let sum = bytes_summed.fold(self.nonce, |sum, at| sum.wrapping_add(page[at].into()));
        (number > 0 && word(bytes, 4 + size)? == sum).then_some(number)
    }
}

/// The length and the sum of the name of a super-journal, from the trailer of a journal. `None`: there is none.
pub(super) fn super_journal_name(trailer: &[u8]) -> Option<(u32, u32)> {
    trailer.ends_with(&JOURNAL_MAGIC).then_some((word(trailer, 0)?, word(trailer, 4)?))
}
