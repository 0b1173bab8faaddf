//! Strings as arrays of bits: the first bit is the highest one of the first byte.

/// What happens to a number that does not fit its field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Overflow {
    /// The high bits are cut off.
    Wrap,
    /// It becomes the nearest number that fits.
    Saturate,
    /// Nothing is written.
    Fail,
}

/// A field of bits that holds an integer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Field {
    /// In two's complement.
    pub(crate) signed: bool,
    /// Its width: 1 to 64, unsigned at most 63.
    pub(crate) width: u32,
    /// Its first bit.
    pub(crate) offset: u64,
}

impl Field {
    /// The bits that hold `number`, and whether it fits. Bits above the field's width are 0. `None`: it does not fit, and the
    /// field is to be left alone.
    pub(crate) fn fit(self, number: i128, overflow: Overflow) -> Option<u64> {
        let (min, max) = if self.signed {
            let half = 1i128 << (self.width - 1);
            (-half, half - 1)
        } else {
            (0, (1i128 << self.width) - 1)
        };
        let kept = match overflow {
            _ if (min..=max).contains(&number) => number,
            Overflow::Wrap => number,
            Overflow::Saturate => number.clamp(min, max),
            Overflow::Fail => return None,
        };
        Some(kept as u64 & self.mask())
    }

    fn mask(self) -> u64 {
        u64::MAX >> (64 - self.width)
    }

    /// The number that these bits of the field mean.
    pub(crate) fn number(self, bits: u64) -> i64 {
        if self.signed {
            let unused = 64 - self.width;
            return (bits << unused) as i64 >> unused;
        }
        bits as i64
    }

    /// The field's bits; those behind the end of the string are 0.
    pub(crate) fn read(self, string: &[u8]) -> u64 {
        (0..u64::from(self.width))
            .fold(0, |bits, at| bits << 1 | u64::from(bit(string, self.offset + at)))
    }

    /// Writes the field's bits into a string that is long enough.
    pub(crate) fn write(self, string: &mut [u8], bits: u64) {
        for at in 0..u64::from(self.width) {
            let value = bits >> (u64::from(self.width) - 1 - at) & 1 == 1;
            set_bit(string, self.offset + at, value);
        }
    }
}

/// A bit; 0 behind the end.
pub(crate) fn bit(string: &[u8], offset: u64) -> bool {
    let byte = string.get((offset >> 3) as usize).copied().unwrap_or(0);
    byte >> (7 - (offset & 7)) & 1 == 1
}

/// Sets a bit of a string that is long enough.
pub(crate) fn set_bit(string: &mut [u8], offset: u64, value: bool) {
    if let Some(byte) = string.get_mut((offset >> 3) as usize) {
        let mask = 0x80 >> (offset & 7);
        *byte = if value { *byte | mask } else { *byte & !mask };
    }
}

/// Bits that are 1.
pub(crate) fn count(string: &[u8]) -> u64 {
    let (words, rest) = string.as_chunks::<8>();
    let in_words: u64 =
        words.iter().map(|word| u64::from(u64::from_ne_bytes(*word).count_ones())).sum();
    in_words + rest.iter().map(|byte| u64::from(byte.count_ones())).sum::<u64>()
}

/// Bits that are 1 from `first` to `last`, both included and within the string.
pub(crate) fn count_range(string: &[u8], first: u64, last: u64) -> u64 {
    let (start, end) = ((first >> 3) as usize, (last >> 3) as usize);
    let part = string.get(start..=end).unwrap_or_default();
    let before = part.first().map_or(0, |byte| (byte & !(0xff >> (first & 7))).count_ones());
    let behind = part.last().map_or(0, |byte| (byte & !(0xff << (7 - (last & 7)))).count_ones());
    count(part) - u64::from(before) - u64::from(behind)
}

/// The first bit of that value from `first` to `last`, both included and within the string.
pub(crate) fn find(string: &[u8], value: bool, first: u64, last: u64) -> Option<u64> {
    let skipped = if value { 0 } else { 0xff };
    let mut at = first;
    while at <= last {
        let byte = *string.get((at >> 3) as usize)?;
        if at & 7 == 0 && byte == skipped {
            // Whole words of bytes that have no such bit are skipped.
            let rest = &string[(at >> 3) as usize..];
            let (words, _) = rest.as_chunks::<8>();
            let run = words.iter().take_while(|word| **word == [skipped; 8]).count() as u64;
            at += (run * 64).max(8);
            continue;
        }
        if bit(string, at) == value {
            return Some(at);
        }
        at += 1;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_agree_with_single_bits() {
        let mut string: Vec<u8> =
            (0..40u32).map(|at| (at.wrapping_mul(0x9e37) >> 3) as u8).collect();
        string[8..26].fill(0);
        string[28..38].fill(0xff);
        let bits = string.len() as u64 * 8;
        for first in 0..bits {
            for last in (first..bits).step_by(7) {
                let ones = (first..=last).filter(|&at| bit(&string, at)).count() as u64;
                assert_eq!(count_range(&string, first, last), ones, "{first} {last}");
                for value in [false, true] {
                    let found = (first..=last).find(|&at| bit(&string, at) == value);
                    assert_eq!(find(&string, value, first, last), found, "{value} {first} {last}");
                }
            }
        }
    }

    #[test]
    fn a_field_holds_what_was_written() {
        for width in 1..=64 {
            for signed in [false, true] {
                if !signed && width == 64 {
                    continue;
                }
                let field = Field { signed, width, offset: 5 };
                let (mut ones, mut zeros) = ([0xff; 10], [0; 10]);
                for number in [0, 1, -1, 77, i128::from(i64::MIN), i128::from(i64::MAX)] {
                    let bits = field.fit(number, Overflow::Wrap).unwrap();
                    field.write(&mut ones, bits);
                    field.write(&mut zeros, bits);
                    assert_eq!((field.read(&ones), field.read(&zeros)), (bits, bits));
                    let fits = field.fit(number, Overflow::Fail).is_some();
                    assert_eq!(
                        fits,
                        i128::from(field.number(bits)) == number,
                        "{field:?} {number}"
                    );
                }
                assert_eq!((ones[0] >> 3, zeros[0] >> 3), (0x1f, 0));
            }
        }
    }

    #[test]
    fn what_does_not_fit_is_cut_or_kept_at_the_edge() {
        let unsigned = Field { signed: false, width: 8, offset: 0 };
        let signed = Field { signed: true, width: 8, offset: 0 };
        for (field, number, wrapped, saturated) in [
            (unsigned, 257, 1, 255),
            (unsigned, -1, 255, 0),
            (signed, 128, -128, 127),
            (signed, -129, 127, -128),
        ] {
            assert_eq!(field.number(field.fit(number, Overflow::Wrap).unwrap()), wrapped);
            assert_eq!(field.number(field.fit(number, Overflow::Saturate).unwrap()), saturated);
            assert_eq!(field.fit(number, Overflow::Fail), None);
        }
    }
}
