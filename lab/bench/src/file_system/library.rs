//! Files of a pool through `tembo::fs`, in this process.

use std::time::{SystemTime, UNIX_EPOCH};

use tembo_fs::{FileKind, Format, Fs, New, ROOT, Rename, Time};
use tembo_kv::{Durability, Store};

use super::files::{Files, Open};
use super::small::{FILE_SIZE, Small};
use crate::Error;

/// A file system of a store; the files lie in its root.
pub(crate) struct Library {
    pub(crate) fs: Fs,
}

const NEW: New =
    New { kind: FileKind::Regular, permissions: 0o644, user: 0, group: 0, device: 0, umask: None };

/// The time of a change.
pub(crate) fn now() -> Time {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Time { seconds: since.as_secs() as i64, nanoseconds: since.subsec_nanos() }
}

impl Library {
    pub(crate) fn format(store: &Store) -> Result<Library, Error> {
        Ok(Library { fs: Fs::format(store, &Format::default(), now())? })
    }

    /// Each of these small files as one strict commit under its last name: what a program does that has the library.
    pub(crate) fn whole(&self, small: &Small) -> Result<(), Error> {
        let bytes = [0x5a; FILE_SIZE];
        for name in small.names() {
            self.fs.write(now(), Durability::Strict, |tree| {
                let file = tree.create(ROOT, name.as_bytes(), &NEW)?;
                tree.write(file.number, 0, &bytes)
            })?;
        }
        Ok(())
    }

    /// Writes all of these small files as one strict commit.
    pub(crate) fn one_commit(&self, small: &Small) -> Result<(), Error> {
        let bytes = [0x5a; FILE_SIZE];
        self.fs.write(now(), Durability::Strict, |tree| {
            for name in small.names() {
                let file = tree.create(ROOT, name.as_bytes(), &NEW)?;
                tree.write(file.number, 0, &bytes)?;
            }
            Ok(())
        })?;
        Ok(())
    }

    /// Writes all of these small files in one transaction, which may be larger than memory.
    pub(crate) fn one_transaction(&self, small: &Small) -> Result<(), Error> {
        let bytes = [0x5a; FILE_SIZE];
        let mut transaction = self.fs.transaction()?;
        for name in small.names() {
            transaction.change(now(), |tree| {
                let file = tree.create(ROOT, name.as_bytes(), &NEW)?;
                tree.write(file.number, 0, &bytes)
            })?;
        }
        transaction.commit(Durability::Strict)?;
        Ok(())
    }
}

struct OpenFile<'l> {
    fs: &'l Fs,
    number: u64,
}

impl Drop for OpenFile<'_> {
    fn drop(&mut self) {
        // What could not be removed is removed by the next open of the file system.
        let _ = self.fs.close_inode(self.number);
    }
}

impl Open for OpenFile<'_> {
    fn read_at(&self, to: &mut [u8], offset: u64) -> Result<usize, Error> {
        Ok(self.fs.snapshot()?.read(self.number, offset, to)?)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> Result<(), Error> {
        self.fs
            .write(now(), Durability::Buffered, |tree| tree.write(self.number, offset, bytes))?;
        Ok(())
    }

    fn sync(&self) -> Result<(), Error> {
        Ok(self.fs.sync()?)
    }
}

impl Library {
    fn opened(&self, number: u64) -> Result<Box<dyn Open + '_>, Error> {
        self.fs.open_inode(number)?;
        Ok(Box::new(OpenFile { fs: &self.fs, number }))
    }
}

impl Files for Library {
    fn create(&self, name: &str) -> Result<Box<dyn Open + '_>, Error> {
        let make = self
            .fs
            .write(now(), Durability::Buffered, |tree| tree.create(ROOT, name.as_bytes(), &NEW));
        self.opened(make?.number)
    }

    fn open(&self, name: &str) -> Result<Box<dyn Open + '_>, Error> {
        self.opened(self.fs.snapshot()?.lookup(ROOT, name.as_bytes())?.number)
    }

    fn rename(&self, from: &str, to: &str) -> Result<(), Error> {
        let (from, to) = ((ROOT, from.as_bytes()), (ROOT, to.as_bytes()));
        self.fs
            .write(now(), Durability::Buffered, |tree| tree.rename(from, to, Rename::Replace))?;
        Ok(())
    }

    fn remove(&self, name: &str) -> Result<(), Error> {
        self.fs.write(now(), Durability::Buffered, |tree| tree.unlink(ROOT, name.as_bytes()))?;
        Ok(())
    }

    fn size(&self, name: &str) -> Result<u64, Error> {
        Ok(self.fs.snapshot()?.lookup(ROOT, name.as_bytes())?.size)
    }
}
