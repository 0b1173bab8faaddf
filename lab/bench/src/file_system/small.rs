//! Small files: create, write 4 KiB, fsync, close, rename.

use super::files::Files;
use crate::Error;

/// Bytes of a small file.
pub(crate) const FILE_SIZE: usize = 4096;

/// Small files by their numbers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Small {
    pub(crate) first: u64,
    pub(crate) count: u64,
}

impl Small {
    /// Their last names.
    pub(crate) fn names(&self) -> impl Iterator<Item = String> + use<> {
        (self.first..self.first + self.count).map(|number| format!("f{number:08}"))
    }

    /// So many parts of about the same size, for threads or processes.
    pub(crate) fn parts(&self, parts: u64) -> Vec<Small> {
        let each = (self.count / parts).max(1);
        (0..parts).map(|part| Small { first: self.first + part * each, count: each }).collect()
    }

    /// Makes each of them as programs do that want it whole and durable.
    pub(crate) fn make(&self, files: &dyn Files) -> Result<(), Error> {
        let bytes = [0x5a; FILE_SIZE];
        for name in self.names() {
            let before = format!("{name}.new");
            let file = files.create(&before)?;
            file.write_at(&bytes, 0)?;
            file.sync()?;
            drop(file);
            files.rename(&before, &name)?;
        }
        Ok(())
    }
}
