//! Hexadecimal numbers as C's `strtod` and `strtold` take them: a fraction and a power of two may follow.

/// Digits are kept while the mantissa is below this; it has at most 120 bits then.
const MANTISSA_MAX: u128 = 1 << 116;
/// An exponent beyond this is as good as this one: no text is so long that its digits make up for it.
const EXPONENT_MAX: i64 = 1 << 40;

/// How exact a type of floating-point numbers is.
#[derive(Clone, Copy)]
pub(crate) struct Precision {
    /// Bits of the mantissa.
    bits: i64,
    /// The power of two of the last bit of the least numbers.
    least: i64,
}

/// A double.
const DOUBLE: Precision = Precision { bits: 53, least: -1074 };
/// An 80-bit long double.
pub(crate) const LONG_DOUBLE: Precision = Precision { bits: 64, least: -16_445 };

/// A number that was read: the mantissa times a power of two.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Hexadecimal {
    pub(crate) is_negative: bool,
    mantissa: u128,
    exponent: i64,
    /// Digits that are not zero were left out behind the mantissa.
    has_more: bool,
}

impl Hexadecimal {
    /// Parses `[+-]0xdigits[.digits][p[+-]digits]`; `None`: it is none.
    #[inline]
    pub(crate) fn parse(text: &[u8]) -> Option<Hexadecimal> {
        let (is_negative, text) = match text {
            [b'-', rest @ ..] => (true, rest),
            [b'+', rest @ ..] => (false, rest),
            _ => (false, text),
        };
        match text {
            [b'0', b'x' | b'X', rest @ ..] => Hexadecimal::parse_digits(rest, is_negative),
            _ => None,
        }
    }

    fn parse_digits(text: &[u8], is_negative: bool) -> Option<Hexadecimal> {
        let end = text.iter().position(|byte| matches!(byte, b'p' | b'P'));
        let (digits, power) = text.split_at(end.unwrap_or(text.len()));
        let mut number = Hexadecimal { is_negative, mantissa: 0, exponent: 0, has_more: false };
        let (mut count, mut has_point) = (0, false);
        for &byte in digits {
            if byte == b'.' && !has_point {
                has_point = true;
                continue;
            }
            let digit = char::from(byte).to_digit(16)?;
            count += 1;
            let is_kept = number.mantissa < MANTISSA_MAX;
            if is_kept {
                number.mantissa = number.mantissa * 16 + u128::from(digit);
            } else {
                number.has_more |= digit != 0;
            }
            number.exponent += 4 * (i64::from(!is_kept) - i64::from(has_point));
        }
        if let [_, power @ ..] = power {
            number.exponent += parse_power(power)?;
        }
        (count > 0).then_some(number)
    }

    /// Whether it is 0 before it is rounded.
    pub(crate) fn is_zero(self) -> bool {
        self.mantissa == 0
    }

    /// The nearest number of a precision, the even one of two: a mantissa, and the power of two that it is multiplied by.
    /// The exponent has no upper bound.
    pub(crate) fn round(self, precision: Precision) -> (u128, i64) {
        let bits = i64::from(128 - self.mantissa.leading_zeros());
        let last = (self.exponent + bits - precision.bits).max(precision.least);
        let left_out = last - self.exponent;
        if left_out <= 0 || self.is_zero() {
            return (self.mantissa, self.exponent);
        }
        if left_out >= 128 {
            // The mantissa has less bits than that, so that it is nearer to 0.
            return (0, last);
        }
        let kept = self.mantissa >> left_out;
        let (rest, half) = (self.mantissa - (kept << left_out), 1 << (left_out - 1));
        let is_upper = rest > half || rest == half && (self.has_more || kept % 2 == 1);
        (kept + u128::from(is_upper), last)
    }

    /// The nearest double; infinite if it is too large for one.
    pub(crate) fn to_double(self) -> f64 {
        let (mantissa, exponent) = self.round(DOUBLE);
        // Exact: the mantissa has no more bits than a double.
        let magnitude = scaled(mantissa as f64, exponent);
        if self.is_negative { -magnitude } else { magnitude }
    }
}

/// The power of two behind `p`.
fn parse_power(text: &[u8]) -> Option<i64> {
    let (sign, digits) = match text {
        [b'-', rest @ ..] => (-1, rest),
        [b'+', rest @ ..] => (1, rest),
        _ => (1, text),
    };
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let add = |power: i64, digit: &u8| (power * 10 + i64::from(digit - b'0')).min(EXPONENT_MAX);
    Some(sign * digits.iter().fold(0, add))
}

/// A whole number times a power of two, where the product is a double or too large for one.
fn scaled(mut number: f64, mut exponent: i64) -> f64 {
    if number == 0.0 {
        return number;
    }
    while exponent > 1023 && number.is_finite() {
        (number, exponent) = (number * power_of_two(1023), exponent - 1023);
    }
    number * power_of_two(exponent.min(1023))
}

/// 2 to a power that a double holds.
fn power_of_two(exponent: i64) -> f64 {
    match exponent {
        ..-1074 => 0.0,
        -1074..-1022 => f64::from_bits(1 << (exponent + 1074)),
        _ => f64::from_bits(((exponent + 1023) as u64) << 52),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What Redis 7.0.15 has answered to `ZADD` and `ZSCORE`, or what follows from the rules of rounding.
    #[test]
    fn doubles_are_the_nearest_ones() {
        for (text, number) in [
            ("0x10", 16.0),
            ("0X1f", 31.0),
            ("-0xA", -10.0),
            ("+0x.8", 0.5),
            ("0x1.", 1.0),
            ("0x1.8p3", 12.0),
            ("0X1.8P+3", 12.0),
            ("0x.8p-1", 0.25),
            ("0x0p99999999999999999999", 0.0),
            ("0x20000000000001", 9_007_199_254_740_992.0),
            ("0x20000000000003", 9_007_199_254_740_996.0),
            ("0x20000000000001.00000000000000000000000000000000000001", 9_007_199_254_740_994.0),
            ("0x1.fffffffffffffp1023", f64::MAX),
            ("0x1.fffffffffffff7p1023", f64::MAX),
            ("0x1.fffffffffffff8p1023", f64::INFINITY),
            ("-0x1p1024", f64::NEG_INFINITY),
            ("0x1p99999999999999999999", f64::INFINITY),
            ("0x1p-1022", f64::MIN_POSITIVE),
            ("0x1p-1074", f64::from_bits(1)),
            ("0x1.8p-1074", f64::from_bits(2)),
            ("0x1p-1075", 0.0),
            ("0x1.0000000000000000000000000000000000001p-1075", f64::from_bits(1)),
            ("0x1.8p-1075", f64::from_bits(1)),
            ("0x1p-1076", 0.0),
            ("0x1p-99999999999999999999", 0.0),
        ] {
            let found = Hexadecimal::parse(text.as_bytes()).unwrap().to_double();
            assert_eq!(found.to_bits(), number.to_bits(), "{text}: {found:e}");
        }
        let long = format!("0x{}.{}p-4000", "0".repeat(100), "f".repeat(1000));
        assert_eq!(Hexadecimal::parse(long.as_bytes()).unwrap().to_double(), 0.0);
        let long = format!("0x{}p-4000", "f".repeat(1000));
        assert_eq!(Hexadecimal::parse(long.as_bytes()).unwrap().to_double(), 1.0);
        let long = format!("0x.{}1p4004", "0".repeat(1000));
        assert_eq!(Hexadecimal::parse(long.as_bytes()).unwrap().to_double(), 1.0);
    }

    #[test]
    fn other_texts_are_no_numbers() {
        for text in [
            "", "0", "x", "0x", "0x.", "0x.p1", "0x1p", "0x1p+", "0x1p0x1", "0x1..", "0x1.2.3",
            "--0x1", "00x1", "1x0", " 0x1", "0x1 ", "0x-1", "0xg", "0x1,8", "0x1p1.5",
        ] {
            assert!(Hexadecimal::parse(text.as_bytes()).is_none(), "{text:?}");
        }
    }
}
