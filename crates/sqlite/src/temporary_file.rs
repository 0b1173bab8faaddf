//! A temporary file of the VFS that was the default, which puts it where the program's temporary files are, and removes it.

use std::ffi::c_int;
use std::ptr::{null, null_mut};

use crate::code::{
    Code, OK, OPEN_CREATE, OPEN_DELETEONCLOSE, OPEN_EXCLUSIVE, OPEN_READWRITE, OPEN_TEMP_JOURNAL,
};
use crate::ffi::{DefaultVfs, IoMethods, SqliteFile};

/// As SQLite opens one for the journal of a temporary database.
const FLAGS: c_int =
    OPEN_READWRITE | OPEN_CREATE | OPEN_EXCLUSIVE | OPEN_DELETEONCLOSE | OPEN_TEMP_JOURNAL;

/// The most bytes of a read or write: SQLite's own VFS takes fewer than 128 KiB, and SQLite asks for a page at a time.
const PART_MAX: usize = 64 << 10;

/// Bytes of a word of the memory for an open file.
const WORD: usize = size_of::<u64>();

/// An open temporary file.
pub(crate) struct TemporaryFile {
    /// A [`SqliteFile`], and what the VFS keeps behind its first field.
    file: Box<[u64]>,
    len: u64,
}

impl TemporaryFile {
    /// # Errors
    /// Those of the VFS: no folder, no file descriptor.
    pub(crate) fn new(vfs: DefaultVfs) -> Result<TemporaryFile, Code> {
        let words = vfs.file_size().max(size_of::<SqliteFile>()).div_ceil(WORD);
        let mut file = TemporaryFile { file: vec![0; words].into(), len: 0 };
        // SAFETY: the VFS stays registered; the place has as many bytes as it asks for, and none of them is used otherwise. Without a
        // name it is a temporary file.
        let code = unsafe { vfs.open(null(), file.place(), FLAGS, null_mut()) };
        match (code, file.methods()) {
            (OK, Some(_)) => Ok(file),
            (OK, None) => Err(Code::CANTOPEN),
            (code, _) => Err(Code(code)),
        }
    }

    fn place(&mut self) -> *mut SqliteFile {
        self.file.as_mut_ptr().cast()
    }

    /// Its functions; none, if it is not open.
    fn methods(&self) -> Option<&'static IoMethods> {
        // SAFETY: the memory has room for the structure, of which the first field is null, or what the VFS has put there: a table that
        // stays.
        unsafe { (*self.file.as_ptr().cast::<SqliteFile>()).methods.as_ref() }
    }

    fn opened(&self) -> Result<&'static IoMethods, Code> {
        self.methods().ok_or(Code::IOERR)
    }

    /// Reads; how many bytes: fewer at the end.
    pub(crate) fn read(&mut self, offset: u64, to: &mut [u8]) -> Result<usize, Code> {
        let left = usize::try_from(self.len.saturating_sub(offset)).unwrap_or(usize::MAX);
        let done = left.min(to.len());
        let methods = self.opened()?;
        for (number, part) in (0..).zip(to[..done].chunks_mut(PART_MAX)) {
            let (len, at) = (part.len() as c_int, position(offset, number)?);
            // SAFETY: the file is open, and so many bytes may be written.
            done_with(unsafe { (methods.read)(self.place(), part.as_mut_ptr().cast(), len, at) })?;
        }
        Ok(done)
    }

    /// # Errors
    /// Those of the VFS: no space.
    pub(crate) fn write(&mut self, offset: u64, bytes: &[u8]) -> Result<(), Code> {
        let methods = self.opened()?;
        for (number, part) in (0..).zip(bytes.chunks(PART_MAX)) {
            let (len, at) = (part.len() as c_int, position(offset, number)?);
            // SAFETY: the file is open, and so many bytes may be read.
            done_with(unsafe { (methods.write)(self.place(), part.as_ptr().cast(), len, at) })?;
        }
        self.len = self.len.max(offset.saturating_add(bytes.len() as u64));
        Ok(())
    }

    pub(crate) fn truncate(&mut self, len: u64) -> Result<(), Code> {
        if len >= self.len {
            return Ok(());
        }
        let (methods, at) = (self.opened()?, position(len, 0)?);
        // SAFETY: the file is open.
        done_with(unsafe { (methods.truncate)(self.place(), at) })?;
        self.len = len;
        Ok(())
    }

    pub(crate) fn len(&self) -> u64 {
        self.len
    }
}

impl Drop for TemporaryFile {
    fn drop(&mut self) {
        if let Some(methods) = self.methods() {
            // SAFETY: it is open, and is used no more. What SQLite asks: also after an open that has failed.
            unsafe { (methods.close)(self.place()) };
        }
    }
}

fn done_with(code: c_int) -> Result<(), Code> {
    if code == OK { Ok(()) } else { Err(Code(code)) }
}

/// Where a part of an access stands.
fn position(offset: u64, part: u64) -> Result<i64, Code> {
    i64::try_from(offset + part * PART_MAX as u64).map_err(|_| Code::FULL)
}
