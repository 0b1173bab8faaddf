//! Several elements in one string: listpacks and intsets, which Redis 7 writes for small values.

use crate::number::Decimal;
use crate::rdb::reader::Broken;

/// Takes a string apart from its begin.
pub(super) struct Cursor<'a>(pub(super) &'a [u8]);

impl<'a> Cursor<'a> {
    /// So many bytes.
    pub(super) fn take(&mut self, size: usize) -> Result<&'a [u8], Broken> {
        let (taken, rest) = self.0.split_at_checked(size).ok_or(Broken::Malformed)?;
        self.0 = rest;
        Ok(taken)
    }

    /// One byte.
    pub(super) fn byte(&mut self) -> Result<u8, Broken> {
        Ok(self.take(1)?[0])
    }

    /// A number of so many bytes, the lowest first, with a sign.
    pub(super) fn signed(&mut self, size: usize) -> Result<i64, Broken> {
        let bytes = self.take(size)?;
        let negative = bytes.last().is_some_and(|last| last & 0x80 != 0);
        let mut all = [if negative { 0xff } else { 0 }; 8];
        all[..size].copy_from_slice(bytes);
        Ok(i64::from_le_bytes(all))
    }

    /// A number of so many bytes, the lowest first.
    pub(super) fn unsigned(&mut self, size: usize) -> Result<usize, Broken> {
        let mut all = [0; 8];
        all[..size].copy_from_slice(self.take(size)?);
        Ok(u64::from_le_bytes(all) as usize)
    }
}

/// A number as text.
pub(super) fn text(number: i64) -> Vec<u8> {
    Decimal::signed(number).as_bytes().to_vec()
}

/// The elements of a listpack.
pub(super) fn listpack(bytes: &[u8]) -> Result<Vec<Vec<u8>>, Broken> {
    let mut rest = Cursor(bytes);
    let (size, count) = (rest.unsigned(4)?, rest.unsigned(2)?);
    if size != bytes.len() {
        return Err(Broken::Malformed);
    }
    let mut elements = Vec::new();
    loop {
        let before = rest.0.len();
        let first = rest.byte()?;
        if first == 0xff {
            break;
        }
        let element = match first {
            0..0x80 => text(i64::from(first)),
            0x80..0xc0 => rest.take(usize::from(first & 0x3f))?.to_vec(),
            0xc0..0xe0 => {
                let number = i64::from(first & 0x1f) << 8 | i64::from(rest.byte()?);
                text(if number < 1 << 12 { number } else { number - (1 << 13) })
            }
            0xe0..0xf0 => {
                let size = usize::from(first & 0xf) << 8 | usize::from(rest.byte()?);
                rest.take(size)?.to_vec()
            }
            0xf0 => {
                let size = rest.unsigned(4)?;
                rest.take(size)?.to_vec()
            }
            0xf1 => text(rest.signed(2)?),
            0xf2 => text(rest.signed(3)?),
            0xf3 => text(rest.signed(4)?),
            0xf4 => text(rest.signed(8)?),
            _ => return Err(Broken::Malformed),
        };
        elements.push(element);
        rest.take(back_size(before - rest.0.len()))?;
    }
    let is_counted = count == 0xffff || count == elements.len();
    if rest.0.is_empty() && is_counted { Ok(elements) } else { Err(Broken::Malformed) }
}

/// The numbers of an intset.
pub(super) fn intset(bytes: &[u8]) -> Result<Vec<Vec<u8>>, Broken> {
    let mut rest = Cursor(bytes);
    let (size, count) = (rest.unsigned(4)?, rest.unsigned(4)?);
    if !matches!(size, 2 | 4 | 8) || count.checked_mul(size) != Some(rest.0.len()) {
        return Err(Broken::Malformed);
    }
    (0..count).map(|_| Ok(text(rest.signed(size)?))).collect()
}

/// Puts elements into a listpack.
#[derive(Default)]
pub(super) struct ListpackWriter {
    body: Vec<u8>,
    count: usize,
}

impl ListpackWriter {
    /// A number.
    pub(super) fn integer(&mut self, number: i64) {
        let begin = self.body.len();
        match number {
            0..0x80 => self.body.push(number as u8),
            -0x1000..0x1000 => {
                self.body.extend([0xc0 | (number >> 8 & 0x1f) as u8, number as u8]);
            }
            _ => {
                let size = match number {
                    -0x8000..0x8000 => 2,
                    -0x80_0000..0x80_0000 => 3,
                    -0x8000_0000..0x8000_0000 => 4,
                    _ => 8,
                };
                self.body.push(if size == 8 { 0xf4 } else { 0xef + size as u8 });
                self.body.extend(&number.to_le_bytes()[..size]);
            }
        }
        self.end(begin);
    }

    /// A string.
    pub(super) fn string(&mut self, string: &[u8]) {
        let begin = self.body.len();
        match string.len() {
            size @ 0..0x40 => self.body.push(0x80 | size as u8),
            size @ 0x40..0x1000 => self.body.extend([0xe0 | (size >> 8) as u8, size as u8]),
            size => {
                self.body.push(0xf0);
                self.body.extend((size as u32).to_le_bytes());
            }
        }
        self.body.extend_from_slice(string);
        self.end(begin);
    }

    /// Behind an element stands its size for a reader that goes backwards: seven bits a byte, the uppermost first; all bytes
    /// but the first have their highest bit set.
    fn end(&mut self, begin: usize) {
        let size = self.body.len() - begin;
        let count = back_size(size);
        for place in (0..count).rev() {
            let bits = (size >> (7 * place)) as u8 & 0x7f;
            self.body.push(if place + 1 == count { bits } else { bits | 0x80 });
        }
        self.count += 1;
    }

    /// The listpack.
    pub(super) fn into_bytes(self) -> Vec<u8> {
        let mut bytes = ((self.body.len() + 7) as u32).to_le_bytes().to_vec();
        bytes.extend((self.count.min(0xffff) as u16).to_le_bytes());
        bytes.extend(self.body);
        bytes.push(0xff);
        bytes
    }
}

/// How many bytes the size behind an element takes.
fn back_size(size: usize) -> usize {
    match size {
        0..=127 => 1,
        128..16_383 => 2,
        16_383..2_097_151 => 3,
        2_097_151..268_435_455 => 4,
        _ => 5,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_strings_of_all_sizes() {
        // From Redis 7.0: RPUSH l 5 -5 4095 -4096 300000 ab
        let body = b"\x05\x01\xdf\xfb\x02\xcf\xff\x02\xd0\x00\x02\xf2\xe0\x93\x04\x04\x82ab\x03";
        let mut bytes = ((body.len() + 7) as u32).to_le_bytes().to_vec();
        bytes.extend(b"\x06\0");
        bytes.extend(body);
        bytes.push(0xff);
        let elements = listpack(&bytes).unwrap();
        assert_eq!(elements, ["5", "-5", "4095", "-4096", "300000", "ab"].map(Vec::from));
        for at in 0..bytes.len() {
            assert!(listpack(&bytes[..at]).is_err());
        }
        let mut writer = ListpackWriter::default();
        [5, -5, 4095, -4096, 300_000].into_iter().for_each(|number| writer.integer(number));
        writer.string(b"ab");
        assert_eq!(writer.into_bytes(), bytes);
        let (mut writer, mut written) = (ListpackWriter::default(), Vec::new());
        for size in
            [0, 1, 63, 64, 125, 126, 127, 4095, 4096, 16_377, 16_378, 16_379, 2_097_145, 2_097_146]
        {
            writer.string(&vec![7; size]);
            written.push(vec![7; size]);
        }
        for number in [
            i64::MIN,
            -2_147_483_649,
            -2_147_483_648,
            -8_388_609,
            -32_769,
            -4097,
            127,
            128,
            32_768,
            i64::MAX,
        ] {
            writer.integer(number);
            written.push(text(number));
        }
        assert_eq!(listpack(&writer.into_bytes()).unwrap(), written);
        let numbers = b"\x02\0\0\0\x02\0\0\0\xff\xff\x07\0";
        assert_eq!(intset(numbers).unwrap(), ["-1", "7"].map(Vec::from));
        assert!(intset(&numbers[..11]).is_err());
    }
}
