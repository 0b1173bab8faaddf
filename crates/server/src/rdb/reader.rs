//! Lengths, strings and numbers as RDB has them.

use std::io::{ErrorKind, Read};

use crate::number::Decimal;
use crate::rdb::lzf;

/// So many bytes are asked for at once: a length that was never written must not take memory.
const READ_AT_ONCE: u64 = 1 << 20;
/// Longest string.
const STRING_SIZE_MAX: u64 = 512 << 20;

/// Why no value could be read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Broken {
    /// It is not in the format.
    #[error("the value is not in the format of an RDB file")]
    Malformed,
    /// It is of a kind that is not read: a module's value.
    #[error("values of the kind {kind} of an RDB file are not known")]
    Unsupported {
        /// The number of the kind.
        kind: u8,
    },
    /// The source failed.
    #[error("reading a value failed: {0}")]
    Io(std::io::Error),
}

impl From<std::io::Error> for Broken {
    fn from(error: std::io::Error) -> Broken {
        match error.kind() {
            ErrorKind::UnexpectedEof => Broken::Malformed,
            _ => Broken::Io(error),
        }
    }
}

/// A length, or how a string is encoded that has none.
enum Length {
    Bytes(u64),
    Encoded(u8),
}

/// Reads from a file, a socket or bytes in memory. It reads no byte that does not belong to what is asked for.
pub(crate) struct Reader<R> {
    source: R,
}

impl<R: Read> Reader<R> {
    /// Reads from there.
    pub(crate) fn new(source: R) -> Reader<R> {
        Reader { source }
    }

    /// So many bytes, as an array.
    pub(crate) fn array<const SIZE: usize>(&mut self) -> Result<[u8; SIZE], Broken> {
        let mut bytes = [0; SIZE];
        self.source.read_exact(&mut bytes)?;
        Ok(bytes)
    }

    /// One byte.
    pub(crate) fn byte(&mut self) -> Result<u8, Broken> {
        Ok(self.array::<1>()?[0])
    }

    /// So many bytes.
    pub(crate) fn bytes(&mut self, size: u64) -> Result<Vec<u8>, Broken> {
        if size > STRING_SIZE_MAX {
            return Err(Broken::Malformed);
        }
        let (mut bytes, mut left) = (Vec::new(), size);
        while left > 0 {
            let part = left.min(READ_AT_ONCE);
            if (&mut self.source).take(part).read_to_end(&mut bytes)? as u64 != part {
                return Err(Broken::Malformed);
            }
            left -= part;
        }
        Ok(bytes)
    }

    fn length_or_encoding(&mut self) -> Result<Length, Broken> {
        let first = self.byte()?;
        Ok(match first >> 6 {
            0 => Length::Bytes(u64::from(first)),
            1 => Length::Bytes(u64::from(first & 0x3f) << 8 | u64::from(self.byte()?)),
            2 if first == 0x80 => Length::Bytes(u64::from(u32::from_be_bytes(self.array()?))),
            2 if first == 0x81 => Length::Bytes(u64::from_be_bytes(self.array()?)),
            3 => Length::Encoded(first & 0x3f),
            _ => return Err(Broken::Malformed),
        })
    }

    /// A length.
    pub(crate) fn length(&mut self) -> Result<u64, Broken> {
        match self.length_or_encoding()? {
            Length::Bytes(length) => Ok(length),
            Length::Encoded(_) => Err(Broken::Malformed),
        }
    }

    /// A string, however it is encoded.
    pub(crate) fn string(&mut self) -> Result<Vec<u8>, Broken> {
        let number = match self.length_or_encoding()? {
            Length::Bytes(size) => return self.bytes(size),
            Length::Encoded(0) => i64::from(i8::from_le_bytes(self.array()?)),
            Length::Encoded(1) => i64::from(i16::from_le_bytes(self.array()?)),
            Length::Encoded(2) => i64::from(i32::from_le_bytes(self.array()?)),
            Length::Encoded(3) => {
                let (packed, size) = (self.length()?, self.length()?);
                if size > STRING_SIZE_MAX {
                    return Err(Broken::Malformed);
                }
                let packed = self.bytes(packed)?;
                return lzf::decompress(&packed, size as usize).ok_or(Broken::Malformed);
            }
            Length::Encoded(_) => return Err(Broken::Malformed),
        };
        Ok(Decimal::signed(number).as_bytes().to_vec())
    }

    /// A number of eight bytes.
    pub(crate) fn double(&mut self) -> Result<f64, Broken> {
        Ok(f64::from_le_bytes(self.array()?))
    }

    /// A number as text, as Redis 2 had it.
    pub(crate) fn double_text(&mut self) -> Result<f64, Broken> {
        match self.byte()? {
            253 => Ok(f64::NAN),
            254 => Ok(f64::INFINITY),
            255 => Ok(f64::NEG_INFINITY),
            size => {
                crate::float::parse_double(&self.bytes(u64::from(size))?).ok_or(Broken::Malformed)
            }
        }
    }
}
