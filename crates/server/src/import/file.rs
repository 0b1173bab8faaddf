//! An RDB file: each value goes to the server as it stands in the file, behind `RESTORE`.

use std::io::Read;

use crate::import::error::ImportError;
use crate::import::imported::Imported;
use crate::import::pipe::Pipe;
use crate::rdb::{self, Broken, Reader, Value};

/// Versions of the format that are read: of Redis 2 to 7.2.
const VERSION_MAX: u32 = 11;
/// From this version on a checksum stands at the end.
const VERSION_CHECKSUM: u32 = 5;

/// Keys between two looks at the progress.
const OBSERVED: u64 = 256;

/// What stands in front of a key, or in its place.
mod opcode {
    pub(super) const FUNCTION: u8 = 0xf5;
    pub(super) const IDLE: u8 = 0xf8;
    pub(super) const FREQUENCY: u8 = 0xf9;
    pub(super) const NOTE: u8 = 0xfa;
    pub(super) const SIZES: u8 = 0xfb;
    pub(super) const EXPIRY_MS: u8 = 0xfc;
    pub(super) const EXPIRY_S: u8 = 0xfd;
    pub(super) const DATABASE: u8 = 0xfe;
    pub(super) const END: u8 = 0xff;
}

/// Keeps what is read through it, and its checksum.
struct Tee<R> {
    source: R,
    kept: Vec<u8>,
    checksum: u64,
    count: u64,
}

impl<R: Read> Read for Tee<R> {
    fn read(&mut self, to: &mut [u8]) -> std::io::Result<usize> {
        let count = self.source.read(to)?;
        self.kept.extend_from_slice(&to[..count]);
        self.checksum = rdb::crc64(self.checksum, &to[..count]);
        self.count += count as u64;
        Ok(count)
    }
}

impl<R: Read> Tee<R> {
    fn failure(&self, broken: Broken) -> ImportError {
        let bytes = self.count;
        match broken {
            Broken::Malformed => self.damaged("it ends early, or a value is not in the format"),
            Broken::Unsupported { kind } => {
                ImportError::Unsupported { what: format!("a value of the kind {kind}"), bytes }
            }
            Broken::Io(error) => ImportError::Source(error),
        }
    }

    /// Compares the checksum of what was read with that which comes.
    fn check(&mut self) -> Result<(), ImportError> {
        let computed = self.checksum;
        let found = u64::from_le_bytes(self.item(|reader| reader.array())?);
        // 0: Redis was configured not to compute it.
        if found == 0 || found == computed {
            return Ok(());
        }
        Err(self.damaged("its checksum is wrong"))
    }

    fn damaged(&self, what: &str) -> ImportError {
        ImportError::Damaged { what: what.to_owned(), bytes: self.count }
    }

    /// Reads something, of which the bytes are kept.
    fn item<T>(
        &mut self,
        read: impl FnOnce(&mut Reader<&mut Tee<R>>) -> Result<T, Broken>,
    ) -> Result<T, ImportError> {
        self.kept.clear();
        let taken = read(&mut Reader::new(&mut *self));
        taken.map_err(|broken| self.failure(broken))
    }
}

/// Reads a file to its end, and no byte more.
pub(super) fn read_file(
    source: impl Read,
    pipe: &mut Pipe,
    observe: &mut dyn FnMut(&Imported),
) -> Result<(), ImportError> {
    let mut tee = Tee { source, kept: Vec::new(), checksum: 0, count: 0 };
    let magic = tee.item(|reader| reader.array::<9>())?;
    let version = magic.strip_prefix(b"REDIS").and_then(|text| std::str::from_utf8(text).ok());
    let version: Option<u32> = version.and_then(|text| text.parse().ok());
    let version = version.ok_or_else(|| tee.damaged("it does not begin as one"))?;
    if version > VERSION_MAX {
        let what = format!("version {version} of the format");
        return Err(ImportError::Unsupported { what, bytes: tee.count });
    }
    let mut expiry_ms = 0;
    loop {
        match tee.item(|reader| reader.byte())? {
            opcode::END => break,
            opcode::NOTE => {
                tee.item(|reader| Ok((reader.string()?, reader.string()?))).map(drop)?
            }
            opcode::SIZES => {
                tee.item(|reader| Ok((reader.length()?, reader.length()?))).map(drop)?
            }
            opcode::IDLE => tee.item(|reader| reader.length()).map(drop)?,
            opcode::FREQUENCY => tee.item(|reader| reader.byte()).map(drop)?,
            opcode::DATABASE => {
                let db = tee.item(|reader| reader.length())?;
                pipe.push(&[b"SELECT", db.to_string().as_bytes()])?;
            }
            opcode::EXPIRY_S => {
                let seconds = i32::from_le_bytes(tee.item(|reader| reader.array())?);
                expiry_ms = u64::try_from(seconds).unwrap_or(0).saturating_mul(1000).max(1);
            }
            opcode::EXPIRY_MS => {
                let ms = i64::from_le_bytes(tee.item(|reader| reader.array())?);
                expiry_ms = u64::try_from(ms).unwrap_or(0).max(1);
            }
            opcode::FUNCTION => {
                let library = tee.item(|reader| reader.string())?;
                pipe.push(&[b"FUNCTION", b"LOAD", b"REPLACE", &library])?;
            }
            kind => {
                let key = tee.item(|reader| reader.string())?;
                tee.item(|reader| Value::read_kind(reader, kind))?;
                let mut dump = vec![kind];
                dump.append(&mut tee.kept);
                rdb::seal(&mut dump);
                let ttl = std::mem::take(&mut expiry_ms).to_string();
                pipe.push(&[b"RESTORE", &key, ttl.as_bytes(), &dump, b"REPLACE", b"ABSTTL"])?;
                pipe.state.keys += 1;
                if pipe.state.keys.is_multiple_of(OBSERVED) {
                    pipe.state.bytes = tee.count;
                    observe(&pipe.state);
                }
            }
        }
    }
    if version >= VERSION_CHECKSUM {
        tee.check()?;
    }
    pipe.flush()?;
    (pipe.state.bytes, pipe.state.is_loaded) = (tee.count, true);
    observe(&pipe.state);
    Ok(())
}
