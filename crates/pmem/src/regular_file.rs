//! Opening files at names that other programs can take.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::fs::OFlags;

/// Opens what has this name if it is a file: no pipe, which would make the caller wait for another program, no device, no
/// directory. `follows`: a symbolic link at the end of the path is followed; else it is refused.
///
/// # Errors
/// `InvalidInput`: something else has the name. The system's.
pub fn open_regular(path: &Path, options: &mut OpenOptions, follows: bool) -> io::Result<File> {
    let flags = if follows { OFlags::NONBLOCK } else { OFlags::NONBLOCK | OFlags::NOFOLLOW };
    let other = || io::Error::new(io::ErrorKind::InvalidInput, "not a file");
    match options.custom_flags(flags.bits() as i32).open(path) {
        Ok(file) if file.metadata()?.is_file() => Ok(file),
        Ok(_) => Err(other()),
        // A link; a pipe that no program reads.
        Err(_) if path.symlink_metadata().is_ok_and(|found| !found.is_file() && !follows) => {
            Err(other())
        }
        Err(error) => Err(error),
    }
}
