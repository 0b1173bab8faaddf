//! Coming from Redis: an RDB file, an append-only file, or a Redis server that runs, into a server of ours.
//!
//! The importer stands between the two as a client. From a file it takes the values as they are, and sends each as a
//! `RESTORE`. To a server it is a replica (`PSYNC`): it gets such a file, and after it the commands that the server
//! executes, which it passes on. So nothing has to stop until the new server has all that the old one has.

mod append_only;
mod error;
mod file;
mod imported;
mod pipe;
mod source;

use std::fs::File;
use std::io::Read;
use std::path::Path;

pub use error::ImportError;
pub use imported::Imported;
pub use source::Source;

use crate::client::Client;
use crate::import::append_only::{parts, read_either};
use crate::import::file::read_file;
use crate::import::pipe::Pipe;

/// Imports an RDB file, an append-only file, or one behind the other, into the server at the other end of `target`; keys of
/// an RDB file that are there already are replaced. `observe` sees now and then how far it is.
///
/// # Errors
/// What was imported until then stays.
pub fn import_file(
    file: impl Read,
    target: Client,
    observe: &mut dyn FnMut(&Imported),
) -> Result<Imported, ImportError> {
    let mut pipe = Pipe::new(target);
    read_either(file, &mut pipe, observe)?;
    pipe.finish()
}

/// Imports an append-only file in several parts: a folder with a manifest, as Redis 7 makes it.
///
/// # Errors
/// What was imported until then stays.
pub fn import_folder(
    folder: &Path,
    target: Client,
    observe: &mut dyn FnMut(&Imported),
) -> Result<Imported, ImportError> {
    let mut pipe = Pipe::new(target);
    for part in parts(folder)? {
        let file = File::open(part).map_err(ImportError::Source)?;
        read_either(file, &mut pipe, observe)?;
    }
    pipe.finish()
}

/// Imports all that a Redis server has and then passes on what it executes, until it has ended, `source` was asked
/// to stop, or `until` says of the state that this is all.
///
/// # Errors
/// What was imported until then stays.
pub fn import_live(
    mut source: Source,
    target: Client,
    observe: &mut dyn FnMut(&Imported),
    until: &mut dyn FnMut(&Imported) -> bool,
) -> Result<Imported, ImportError> {
    let mut pipe = Pipe::new(target);
    let begun = source.begin()?;
    pipe.state.offset = begun.offset;
    read_file(&mut source, &mut pipe, observe)?;
    source.end_file(&begun)?;
    pipe.flush()?;
    source.stream(begun.offset, &mut pipe, &mut |state| {
        observe(state);
        until(state)
    })?;
    pipe.finish()
}
