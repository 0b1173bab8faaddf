//! The calls that measured loops make, on a directory or through a library.

use crate::Error;

/// Files by their names, in one directory.
pub(crate) trait Files: Sync {
    /// A new file, open.
    fn create(&self, name: &str) -> Result<Box<dyn Open + '_>, Error>;

    /// Opens a file that is there.
    fn open(&self, name: &str) -> Result<Box<dyn Open + '_>, Error>;

    fn rename(&self, from: &str, to: &str) -> Result<(), Error>;

    fn remove(&self, name: &str) -> Result<(), Error>;

    /// Bytes of a file, by its name.
    fn size(&self, name: &str) -> Result<u64, Error>;
}

/// A file that is open; dropping it closes it.
pub(crate) trait Open: Sync {
    /// Bytes that were read: fewer than wanted at the end of the file only.
    fn read_at(&self, to: &mut [u8], offset: u64) -> Result<usize, Error>;

    fn write_at(&self, bytes: &[u8], offset: u64) -> Result<(), Error>;

    /// Makes everything that was written durable when it returns.
    fn sync(&self) -> Result<(), Error>;
}

impl dyn Files + '_ {
    /// A new file of `size` bytes in pieces of `piece`, closed.
    pub(crate) fn fill(&self, name: &str, size: u64, piece: usize) -> Result<(), Error> {
        let file = self.create(name)?;
        let bytes = vec![0x5a; piece];
        let mut offset = 0;
        while offset < size {
            let len = (size - offset).min(piece as u64);
            file.write_at(&bytes[..len as usize], offset)?;
            offset += len;
        }
        Ok(())
    }

    /// Opens a file, reads all of it in pieces as long as `to`, and closes it; its bytes.
    pub(crate) fn read_all(&self, name: &str, to: &mut [u8]) -> Result<u64, Error> {
        let file = self.open(name)?;
        let mut offset = 0;
        loop {
            let len = file.read_at(to, offset)? as u64;
            offset += len;
            if len < to.len() as u64 {
                return Ok(offset);
            }
        }
    }

    /// Opens a file, writes behind its end, and closes it.
    pub(crate) fn append(&self, name: &str, bytes: &[u8]) -> Result<(), Error> {
        let end = self.size(name)?;
        self.open(name)?.write_at(bytes, end)
    }
}
