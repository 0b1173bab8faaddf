//! Files of a directory, by the calls of the system.

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use super::files::{Files, Open};
use crate::Error;

/// A directory.
pub(crate) struct Directory(pub(crate) PathBuf);

impl Files for Directory {
    fn create(&self, name: &str) -> Result<Box<dyn Open + '_>, Error> {
        let mut options = OpenOptions::new();
        let file = options.read(true).write(true).create_new(true).open(self.0.join(name))?;
        Ok(Box::new(file))
    }

    fn open(&self, name: &str) -> Result<Box<dyn Open + '_>, Error> {
        Ok(Box::new(OpenOptions::new().read(true).write(true).open(self.0.join(name))?))
    }

    fn rename(&self, from: &str, to: &str) -> Result<(), Error> {
        Ok(fs::rename(self.0.join(from), self.0.join(to))?)
    }

    fn remove(&self, name: &str) -> Result<(), Error> {
        Ok(fs::remove_file(self.0.join(name))?)
    }

    fn size(&self, name: &str) -> Result<u64, Error> {
        Ok(fs::metadata(self.0.join(name))?.len())
    }
}

impl Open for File {
    fn read_at(&self, to: &mut [u8], offset: u64) -> Result<usize, Error> {
        Ok(FileExt::read_at(self, to, offset)?)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> Result<(), Error> {
        Ok(self.write_all_at(bytes, offset)?)
    }

    fn sync(&self) -> Result<(), Error> {
        Ok(self.sync_all()?)
    }
}
