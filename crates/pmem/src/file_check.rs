//! Whether an open file is still what it was.

use std::path::Path;

use crate::{DiskFile, Error};

/// Whether a file has a name, and at least `size` bytes.
pub(crate) fn check_file(file: &dyn DiskFile, path: &Path, size: u64) -> Result<(), Error> {
    let io = |source| Error::io("measure", path, source);
    if !file.has_name().map_err(io)? {
        return Err(Error::Removed { path: path.to_owned() });
    }
    let len = file.len().map_err(io)?;
    match len < size {
        true => Err(Error::Truncated { path: path.to_owned(), len, size }),
        false => Ok(()),
    }
}
