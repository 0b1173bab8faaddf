//! Several elements in one string, as Redis wrote them before version 7: ziplists and zipmaps.

use crate::rdb::pack::{Cursor, text};
use crate::rdb::reader::Broken;

/// The elements of a ziplist.
pub(super) fn ziplist(bytes: &[u8]) -> Result<Vec<Vec<u8>>, Broken> {
    let mut rest = Cursor(bytes);
    let (size, _last, count) = (rest.unsigned(4)?, rest.unsigned(4)?, rest.unsigned(2)?);
    if size != bytes.len() {
        return Err(Broken::Malformed);
    }
    let mut elements = Vec::new();
    loop {
        // The size of the element before, or the end.
        match rest.byte()? {
            0xff => break,
            0xfe => drop(rest.take(4)?),
            _ => {}
        }
        let first = rest.byte()?;
        elements.push(match first {
            0..0x40 => rest.take(usize::from(first))?.to_vec(),
            0x40..0x80 => {
                let size = usize::from(first & 0x3f) << 8 | usize::from(rest.byte()?);
                rest.take(size)?.to_vec()
            }
            0x80 => {
                let size =
                    rest.take(4)?.iter().fold(0, |size, byte| size << 8 | usize::from(*byte));
                rest.take(size)?.to_vec()
            }
            0xc0 => text(rest.signed(2)?),
            0xd0 => text(rest.signed(4)?),
            0xe0 => text(rest.signed(8)?),
            0xf0 => text(rest.signed(3)?),
            0xfe => text(rest.signed(1)?),
            0xf1..=0xfd => text(i64::from(first & 0xf) - 1),
            _ => return Err(Broken::Malformed),
        });
    }
    let is_counted = count == 0xffff || count == elements.len();
    if rest.0.is_empty() && is_counted { Ok(elements) } else { Err(Broken::Malformed) }
}

/// The fields of a zipmap, each followed by its value.
pub(super) fn zipmap(bytes: &[u8]) -> Result<Vec<Vec<u8>>, Broken> {
    let mut rest = Cursor(bytes);
    rest.byte()?;
    let mut elements = Vec::new();
    loop {
        let mut size = usize::from(rest.byte()?);
        match size {
            0xff if elements.len() % 2 == 0 && rest.0.is_empty() => return Ok(elements),
            0xff => return Err(Broken::Malformed),
            0xfe => size = rest.unsigned(4)?,
            _ => {}
        }
        // Behind a value's size stands how many bytes after it are free.
        let free = if elements.len() % 2 == 0 { 0 } else { usize::from(rest.byte()?) };
        elements.push(rest.take(size)?.to_vec());
        rest.take(free)?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ziplists() {
        let body = b"\0\x02ab\x04\xf6\x02\xfe\x80\x03\xc0\0\x01";
        let mut bytes = ((body.len() + 11) as u32).to_le_bytes().to_vec();
        bytes.extend(b"\0\0\0\0\x04\0");
        bytes.extend(body);
        bytes.push(0xff);
        assert_eq!(ziplist(&bytes).unwrap(), ["ab", "5", "-128", "256"].map(Vec::from));
        for at in 0..bytes.len() {
            assert!(ziplist(&bytes[..at]).is_err());
        }
    }

    #[test]
    fn zipmaps() {
        let bytes = b"\x02\x03foo\x03\x00bar\x05hello\x05\x01world \xff";
        assert_eq!(zipmap(bytes).unwrap(), ["foo", "bar", "hello", "world"].map(Vec::from));
        for at in 0..bytes.len() {
            assert!(zipmap(&bytes[..at]).is_err());
        }
    }
}
