//! A rollback journal that a process has left behind: which pages the database gets back.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::Path;

use super::format::{
    JOURNAL_HEADER_SIZE, JournalHeader, SUPER_JOURNAL_TRAILER, super_journal_name,
};
use super::overlay::Overlay;

/// Longest path of a super-journal, in bytes.
const NAME_SIZE_MAX: u32 = 4096;

/// What the journal gives back; `None`: the transaction was complete, or had not begun to write to the database.
///
/// The caller knows that no process is in the transaction.
pub(super) fn read(file: File) -> io::Result<Option<Overlay>> {
    let len = file.metadata()?.len();
    let mut first = [0; JOURNAL_HEADER_SIZE];
    if len < first.len() as u64 {
        return Ok(None);
    }
    file.read_exact_at(&mut first, 0)?;
    let Some(first) = JournalHeader::of(&first) else { return Ok(None) };
    if is_over(&file, len)? {
        return Ok(None);
    }
    let mut overlay = Overlay {
        page_size: first.page_size,
        page_count: first.page_count,
        pages: HashMap::new(),
        file,
    };
    let mut at = 0;
    while let Some(next) = read_part(&mut overlay, &first, at, len)? {
        at = next.next_multiple_of(first.sector_size.into());
    }
    Ok(Some(overlay))
}

/// Reads the part that begins at `at`; where it ends. `None`: the journal ends in it.
fn read_part(
    overlay: &mut Overlay,
    first: &JournalHeader,
    at: u64,
    len: u64,
) -> io::Result<Option<u64>> {
    let mut header = [0; JOURNAL_HEADER_SIZE];
    let records = at + u64::from(first.sector_size);
    if records > len {
        return Ok(None);
    }
    overlay.file.read_exact_at(&mut header, at)?;
    let Some(mut header) = JournalHeader::of(&header) else { return Ok(None) };
    header.page_size = first.page_size;
    let size = header.record_size();
    let count = match header.record_count {
        u32::MAX => (len - records) / size,
        count => u64::from(count),
    };
    let mut record = vec![0; size as usize];
    for n in 0..count {
        let at = records + n * size;
        if at + size > len {
            return Ok(None);
        }
        overlay.file.read_exact_at(&mut record, at)?;
        let Some(number) = header.record(&record) else { return Ok(None) };
        if number <= overlay.page_count {
            // The first is what the page was before the transaction.
            overlay.pages.entry(number).or_insert(at + 4);
        }
    }
    Ok(Some(records + count * size))
}

/// Whether the journal names a super-journal that was removed: then all of its databases are committed.
fn is_over(file: &File, len: u64) -> io::Result<bool> {
    let Some(at) = len.checked_sub(SUPER_JOURNAL_TRAILER) else { return Ok(false) };
    let mut trailer = [0; SUPER_JOURNAL_TRAILER as usize];
    file.read_exact_at(&mut trailer, at)?;
    let Some((size, sum)) = super_journal_name(&trailer) else { return Ok(false) };
    if size == 0 || size > NAME_SIZE_MAX || u64::from(size) > at {
        return Ok(false);
    }
    let mut name = vec![0; size as usize];
    file.read_exact_at(&mut name, at - u64::from(size))?;
    // Its bytes are summed with their signs.
    let found = name.iter().fold(0_u32, |sum, byte| sum.wrapping_add(*byte as i8 as u32));
    let path = Path::new(std::ffi::OsStr::from_bytes(&name));
    Ok(found == sum && !path.try_exists()?)
}
