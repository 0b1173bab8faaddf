//! Rollback journals, which no other process finds: after a crash there is none, and none is needed. A small one lies in memory, a
//! larger one in a temporary file.

use std::sync::Arc;

use crate::bytes::Bytes;
use crate::code::Code;
use crate::ffi::DefaultVfs;
use crate::temporary_file::TemporaryFile;

/// The most bytes of a journal that are kept in memory.
const MEMORY_MAX: u64 = 4 << 20;

enum Place {
    Memory(Bytes),
    File(TemporaryFile),
}

/// An open journal.
pub(crate) struct Journal {
    place: Place,
    /// Which makes temporary files.
    vfs: DefaultVfs,
    /// The super-journal that it names. While it does, SQLite may look for that.
    super_journal: Option<Arc<str>>,
}

impl Journal {
    pub(crate) fn new(vfs: DefaultVfs) -> Journal {
        Journal { place: Place::Memory(Bytes::default()), vfs, super_journal: None }
    }

    /// Reads; how many bytes: fewer at the end.
    pub(crate) fn read(&mut self, offset: u64, to: &mut [u8]) -> Result<usize, Code> {
        match &mut self.place {
            Place::Memory(bytes) => Ok(bytes.read(offset, to)),
            Place::File(file) => file.read(offset, to),
        }
    }

    /// # Errors
    /// [`Code::FULL`]: there is no memory. Those of the temporary file. Where the system gives none, all stays in memory.
    pub(crate) fn write(&mut self, offset: u64, bytes: &[u8]) -> Result<(), Code> {
        if offset == 0 && bytes.first() == Some(&0) {
            // So SQLite ends a journal that it keeps (`journal_mode = PERSIST`).
            self.super_journal = None;
        }
        if let Place::Memory(kept) = &self.place
            && offset.saturating_add(bytes.len() as u64) > MEMORY_MAX
            && let Ok(mut file) = TemporaryFile::new(self.vfs)
        {
            file.write(0, kept.as_slice())?;
            self.place = Place::File(file);
        }
        match &mut self.place {
            Place::Memory(kept) => kept.write(offset, bytes),
            Place::File(file) => file.write(offset, bytes),
        }
    }

    pub(crate) fn truncate(&mut self, len: u64) -> Result<(), Code> {
        if len == 0 {
            *self = Journal::new(self.vfs);
            return Ok(());
        }
        match &mut self.place {
            Place::Memory(bytes) => bytes.truncate(len),
            Place::File(file) => file.truncate(len)?,
        }
        Ok(())
    }

    pub(crate) fn len(&self) -> u64 {
        match &self.place {
            Place::Memory(bytes) => bytes.len(),
            Place::File(file) => file.len(),
        }
    }

    /// It names a super-journal, which is held until the journal ends.
    pub(crate) fn name(&mut self, super_journal: Arc<str>) {
        self.super_journal = Some(super_journal);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn journal() -> Journal {
        // SAFETY: SQLite's own function; null asks for the default, which stays.
        let vfs = unsafe { rusqlite::ffi::sqlite3_vfs_find(std::ptr::null()) };
        // SAFETY: as above; it is the same structure, declared twice.
        Journal::new(unsafe { DefaultVfs::new(vfs.cast()) })
    }

    #[test]
    fn a_journal_holds_what_was_written_at_its_end_over_it_and_behind_it() {
        let mut journal = journal();
        journal.write(0, &[1; 20_000]).unwrap();
        journal.write(20_000, &[2; 4]).unwrap();
        journal.write(19_999, &[3; 6]).unwrap();
        journal.write(20_007, &[4]).unwrap();
        assert_eq!(journal.len(), 20_008);
        let mut read = [9; 12];
        assert_eq!(journal.read(19_998, &mut read), Ok(10));
        assert_eq!(read, [1, 3, 3, 3, 3, 3, 3, 0, 0, 4, 9, 9]);
        journal.truncate(0).unwrap();
        journal.write(0, b"x").unwrap();
        assert_eq!(journal.len(), 1);
    }

    #[test]
    fn a_large_journal_goes_on_in_a_file() {
        let (mut journal, part) = (journal(), 60_000_u64);
        for number in 0..100_u8 {
            let offset = u64::from(number) * part;
            journal.write(offset, &[number; 60_000]).unwrap();
            let is_large = offset + part > MEMORY_MAX;
            assert_eq!(matches!(journal.place, Place::File(_)), is_large, "{number}");
        }
        assert_eq!(journal.len(), 100 * part);
        let mut read = vec![0; 60_000];
        for number in 0..100_u8 {
            assert_eq!(journal.read(u64::from(number) * part, &mut read), Ok(60_000));
            assert_eq!(read, [number; 60_000]);
        }
        // Over what is there, at the end, and behind it.
        journal.write(30_000, &[200; 60_000]).unwrap();
        assert_eq!(journal.read(60_000, &mut read), Ok(60_000));
        assert_eq!((read[29_999], read[30_000]), (200, 1));
        assert_eq!(journal.read(100 * part - 1, &mut read), Ok(1));
        assert_eq!(journal.read(100 * part, &mut read), Ok(0));
        journal.truncate(90_000).unwrap();
        assert_eq!((journal.len(), journal.read(60_000, &mut read)), (90_000, Ok(30_000)));
        journal.write(90_002, &[5]).unwrap();
        assert_eq!(journal.read(89_999, &mut read), Ok(4));
        assert_eq!(read[..4], [200, 0, 0, 5]);
        // The next transaction begins in memory.
        journal.truncate(0).unwrap();
        assert!(matches!(journal.place, Place::Memory(_)));
        assert_eq!((journal.len(), journal.read(0, &mut read)), (0, Ok(0)));
    }

    #[test]
    fn a_super_journal_is_held_until_the_journal_ends() {
        let name: Arc<str> = "db-mj000000900".into();
        let ends: [fn(&mut Journal); 2] =
            [|journal| journal.truncate(0).unwrap(), |journal| journal.write(0, &[0; 28]).unwrap()];
        for end in ends {
            let mut journal = journal();
            journal.write(0, &[0xd9; 512]).unwrap();
            journal.name(name.clone());
            journal.write(512, &[0; 4]).unwrap();
            journal.write(0, &[0xd9; 12]).unwrap();
            assert_eq!(Arc::strong_count(&name), 2);
            end(&mut journal);
            assert_eq!(Arc::strong_count(&name), 1);
        }
    }
}
