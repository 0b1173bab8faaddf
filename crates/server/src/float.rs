//! Numbers with a fraction: doubles, and the decimal fractions of INCRBYFLOAT, which are added exactly.
//!
//! Redis adds in 80-bit long doubles and prints 17 places. Adding decimals exactly and rounding to 17
//! places gives the same text for every sum whose operands a long double holds well, and a better one
//! otherwise; numbers too large for it fall back to doubles.

use crate::hexadecimal::{Hexadecimal, LONG_DOUBLE};

/// Places kept after the point.
const PLACES: u32 = 17;
/// Below this magnitude a number and its sums fit the fixed-point form.
const WHOLE_MAX: i128 = 1_000_000_000_000_000_000_000;
/// A text that is to be a long double is shorter than this.
const LONG_DOUBLE_TEXT_SIZE: usize = 5 << 10;
/// Decimal places by which a long double that no double holds is moved to be compared with the two bounds that follow.
const MOVED_PLACES: i64 = 4900;
/// The greatest long double, moved.
const LONG_DOUBLE_MAX_MOVED: f64 = 1.189_731_495_357_231_8e32;
/// Half the least long double, moved.
const LONG_DOUBLE_LEAST_MOVED: f64 = 1.822_599_765_941_237_3e-51;

/// A number for INCRBYFLOAT.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Float {
    /// The number times 10^17.
    Fixed(i128),
    /// Too large for that.
    Double(f64),
}

impl Float {
    /// Parses what C's `strtold` takes, without spaces and not-a-number; what is too large or too small for a long double is
    /// none.
    pub(crate) fn parse(text: &[u8]) -> Option<Float> {
        if text.is_empty() || text.len() >= LONG_DOUBLE_TEXT_SIZE {
            return None;
        }
        if let Some(number) = Hexadecimal::parse(text) {
            return Float::of_hexadecimal(number);
        }
        if let Some(fixed) = parse_fixed(text) {
            return Some(Float::Fixed(fixed));
        }
        let text = std::str::from_utf8(text).ok()?;
        let value: f64 = text.parse().ok()?;
        (!value.is_nan() && is_long_double(text, value)).then_some(Float::Double(value))
    }

    fn of_hexadecimal(number: Hexadecimal) -> Option<Float> {
        let (mantissa, exponent) = number.round(LONG_DOUBLE);
        let bits = i64::from(128 - mantissa.leading_zeros());
        let is_too_small = mantissa == 0 && !number.is_zero();
        if is_too_small || mantissa != 0 && exponent + bits > 16_384 {
            return None;
        }
        // At most 64 bits times 10^17, which has 57.
        let units = mantissa as i128 * 10i128.pow(PLACES);
        let scaled = match exponent {
            ..-126 => Some(0),
            -126..0 => Some(((units >> (-exponent - 1)) + 1) >> 1),
            0..126 => units.checked_mul(1 << exponent),
            _ => None,
        };
        match scaled.filter(|&scaled| is_fixed(scaled)) {
            Some(scaled) => Some(Float::Fixed(if number.is_negative { -scaled } else { scaled })),
            None => Some(Float::Double(number.to_double())),
        }
    }

    /// The sum; None when it is infinite or not a number.
    pub(crate) fn add(self, other: Float) -> Option<Float> {
        if let (Float::Fixed(a), Float::Fixed(b)) = (self, other) {
            return Some(Float::Fixed(a + b));
        }
        let sum = self.to_double() + other.to_double();
        sum.is_finite().then_some(Float::Double(sum))
    }

    /// Whether it is neither infinity.
    pub(crate) fn is_finite(self) -> bool {
        self.to_double().is_finite()
    }

    /// The nearest double.
    pub(crate) fn to_double(self) -> f64 {
        match self {
            Float::Fixed(value) => value as f64 / 1e17,
            Float::Double(value) => value,
        }
    }

    /// Its text, without exponent and without trailing zeros.
    pub(crate) fn text(self) -> String {
        match self {
            Float::Double(value) => format!("{value}"),
            Float::Fixed(value) => {
                let one = 10i128.pow(PLACES);
                let sign = if value < 0 { "-" } else { "" };
                let magnitude = value.abs();
                let text = format!("{sign}{}.{:017}", magnitude / one, magnitude % one);
                text.trim_end_matches('0').trim_end_matches('.').to_owned()
            }
        }
    }
}

/// A double as C's `%.17g` prints it.
pub(crate) fn double_text(number: f64) -> String {
    if number.is_infinite() {
        return if number > 0.0 { "inf" } else { "-inf" }.to_owned();
    }
    if number.is_nan() {
        return "nan".to_owned();
    }
    // The digits of a small whole number are known without a search for them. -0 has a sign.
    if number.abs() < 1e15
        && number.trunc() == number
        && (number != 0.0 || number.is_sign_positive())
    {
        return (number as i64).to_string();
    }
    let text = format!("{number:.16e}");
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let trimmed = |text: &str| match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text.to_owned(),
    };
    if !(-4..17).contains(&exponent) {
        let sign = if exponent < 0 { '-' } else { '+' };
        return format!("{}e{sign}{:02}", trimmed(mantissa), exponent.abs());
    }
    trimmed(&format!("{number:.*}", (16 - exponent) as usize))
}

/// Parses what C's `strtod` takes, without spaces and not-a-number; what is too large or too small for a double is none.
pub(crate) fn parse_double(text: &[u8]) -> Option<f64> {
    // Whole numbers of few digits, which a double holds exactly, are the most frequent.
    if (1..=15).contains(&text.len()) && text.iter().all(u8::is_ascii_digit) {
        let number = text.iter().fold(0, |number, digit| number * 10 + u64::from(digit - b'0'));
        return Some(number as f64);
    }
    let number = nearest_double(text)?;
    let is_exact = match number {
        0.0 => is_zero(text),
        number if number.is_infinite() => is_named(text),
        _ => true,
    };
    is_exact.then_some(number)
}

/// As [`parse_double`], but what is too large is infinite, and what is too small is 0.
pub(crate) fn nearest_double(text: &[u8]) -> Option<f64> {
    if let Some(number) = Hexadecimal::parse(text) {
        return Some(number.to_double());
    }
    let number: f64 = std::str::from_utf8(text).ok()?.parse().ok()?;
    (!number.is_nan()).then_some(number)
}

/// A text without the white space that C passes over before a number.
pub(crate) fn without_spaces(text: &[u8]) -> &[u8] {
    let begin = text.iter().position(|byte| !matches!(byte, b' ' | b'\t'..=b'\r'));
    &text[begin.unwrap_or(text.len())..]
}

/// Seconds in milliseconds, rounded up; what no i64 holds is the least one, as where C converts it. What is not 0 and becomes
/// it is 1, or 0 if it is negative.
pub(crate) fn parse_seconds_as_ms(text: &[u8]) -> Option<i64> {
    /// Units of the fixed-point form in a millisecond.
    const MS: i128 = 10i128.pow(PLACES - 3);
    let seconds = Float::parse(text)?;
    if seconds.to_double() == 0.0 {
        return Some(i64::from(!is_zero(text) && !text.starts_with(b"-")));
    }
    let ms = match seconds {
        Float::Fixed(seconds) => seconds.div_euclid(MS) + i128::from(seconds.rem_euclid(MS) > 0),
        Float::Double(seconds) => (seconds * 1000.0).ceil() as i128,
    };
    Some(i64::try_from(ms).unwrap_or(i64::MIN))
}

/// Whether a number is 0 before it is rounded.
fn is_zero(text: &[u8]) -> bool {
    match Hexadecimal::parse(text) {
        Some(number) => number.is_zero(),
        None => {
            let mut mantissa = text.iter().take_while(|byte| !matches!(byte, b'e' | b'E'));
            !mantissa.any(|byte| (b'1'..=b'9').contains(byte))
        }
    }
}

/// Whether a number is infinity by its name.
fn is_named(text: &[u8]) -> bool {
    text.iter().any(|byte| matches!(byte, b'n' | b'N'))
}

/// Whether a decimal number, of which the nearest double is given, is one that a long double holds.
fn is_long_double(text: &str, nearest: f64) -> bool {
    let is_too_small = nearest == 0.0;
    if !is_too_small && nearest.is_finite() || is_named(text.as_bytes()) || is_zero(text.as_bytes())
    {
        return true;
    }
    let (mantissa, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
    let Ok(exponent) = exponent.parse::<i64>() else { return false };
    let moved = exponent.saturating_add(if is_too_small { MOVED_PLACES } else { -MOVED_PLACES });
    let magnitude = format!("{mantissa}e{moved}").parse().map_or(f64::NAN, f64::abs);
    if is_too_small {
        magnitude > LONG_DOUBLE_LEAST_MOVED
    } else {
        magnitude < LONG_DOUBLE_MAX_MOVED
    }
}

/// Parses `[+-]digits[.digits][e[+-]digits]`, rounding to 17 places; None if malformed or too large.
fn parse_fixed(text: &[u8]) -> Option<i128> {
    let (negative, text) = match text {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        _ => (false, text),
    };
    let (mantissa, exponent) = match text.iter().position(|byte| matches!(byte, b'e' | b'E')) {
        Some(at) => (&text[..at], std::str::from_utf8(&text[at + 1..]).ok()?.parse::<i32>().ok()?),
        None => (text, 0),
    };
    let mut value: i128 = 0;
    let mut places: i32 = 0;
    let mut point = false;
    let mut digits = 0;
    for &byte in mantissa {
        match byte {
            b'.' if !point => point = true,
            b'0'..=b'9' => {
                digits += 1;
                if value >= 10i128.pow(36) {
                    return None;
                }
                value = value * 10 + i128::from(byte - b'0');
                places += i32::from(point);
            }
            _ => return None,
        }
    }
    if digits == 0 || !(-300..=300).contains(&exponent) {
        return None;
    }
    let shift = PLACES as i32 + exponent - places;
    let scaled = if shift >= 0 {
        10i128.checked_pow(shift as u32).and_then(|unit| value.checked_mul(unit))?
    } else {
        match 10i128.checked_pow(shift.unsigned_abs()) {
            Some(unit) => (value + unit / 2) / unit,
            None => 0,
        }
    };
    is_fixed(scaled).then_some(if negative { -scaled } else { scaled })
}

/// Whether a magnitude, times 10^17, and its sums fit the fixed-point form.
fn is_fixed(scaled: i128) -> bool {
    scaled / 10i128.pow(PLACES) < WHOLE_MAX / 100
}

#[cfg(test)]
mod tests {
    #[test]
    fn doubles_are_printed_as_c_does() {
        let cases = [
            (0.0, "0"),
            (-0.0, "-0"),
            (1.0, "1"),
            (-7.0, "-7"),
            (999_999_999_999_999.0, "999999999999999"),
            (-1e15, "-1000000000000000"),
            (-2.5, "-2.5"),
            (3.3, "3.2999999999999998"),
            (0.1, "0.10000000000000001"),
            (1e16, "10000000000000000"),
            (1e17, "1e+17"),
            (123_456_789_012_345_680.0, "1.2345678901234568e+17"),
            (0.0001, "0.0001"),
            (0.000_01, "1.0000000000000001e-05"),
            (1e-300, "1e-300"),
            (f64::MAX, "1.7976931348623157e+308"),
            (f64::INFINITY, "inf"),
            (f64::NEG_INFINITY, "-inf"),
        ];
        for (number, text) in cases {
            assert_eq!(super::double_text(number), text, "{number:e}");
        }
    }

    #[test]
    fn doubles_are_parsed_as_redis_does() {
        use super::parse_double;
        for (text, number) in [
            ("1", 1.0),
            ("-2.5e1", -25.0),
            (".5", 0.5),
            ("5.", 5.0),
            ("+3", 3.0),
            ("0e5", 0.0),
            ("0x10", 16.0),
            ("-0x1.8p3", -12.0),
            ("0x0", 0.0),
            ("0x1p-1074", 5e-324),
        ] {
            assert_eq!(parse_double(text.as_bytes()), Some(number), "{text}");
        }
        assert_eq!(parse_double(b"-Inf"), Some(f64::NEG_INFINITY));
        assert_eq!(parse_double(b"+infinity"), Some(f64::INFINITY));
        for text in [
            "",
            " 1",
            "1 ",
            "nan",
            "1e400",
            "1e-400",
            "x",
            "1e",
            "--1",
            "0x",
            "0x1p1024",
            "-0x1p1024",
            "0x1p-1075",
            "0x1p",
        ] {
            assert_eq!(parse_double(text.as_bytes()), None, "{text}");
        }
    }

    use super::*;

    fn sum(a: &str, b: &str) -> String {
        let a = Float::parse(a.as_bytes()).unwrap();
        a.add(Float::parse(b.as_bytes()).unwrap()).unwrap().text()
    }

    #[test]
    fn sums() {
        assert_eq!(sum("0.1", "0.2"), "0.3");
        assert_eq!(sum("10.50", "0.1"), "10.6");
        assert_eq!(sum("5.0e3", "2.0e2"), "5200");
        assert_eq!(sum("-1.5", "1.5"), "0");
        assert_eq!(sum("3", "-0.25"), "2.75");
        assert_eq!(sum("1e30", "0"), "1000000000000000000000000000000");
    }

    /// What Redis 7.0.15 has answered to `INCRBYFLOAT` where nothing was.
    #[test]
    fn hexadecimal_sums() {
        assert_eq!(sum("0x10", "0"), "16");
        assert_eq!(sum("-0x1.8p3", "0.5"), "-11.5");
        assert_eq!(sum("0x.1", "0"), "0.0625");
        assert_eq!(sum("0x1p-57", "0"), "0.00000000000000001");
        assert_eq!(sum("0x1p-58", "0"), "0");
        assert_eq!(sum("0x1p-16445", "0"), "0");
        assert_eq!(sum("0x0p-99999999999", "0"), "0");
        assert_eq!(sum("0x7fffffffffffffff", "0"), "9223372036854775807");
    }

    /// What Redis 7.0.15 has answered to `BLPOP`: 0 waits without end, and what is negative is refused.
    #[test]
    fn seconds_are_rounded_up_to_milliseconds() {
        for (text, ms) in [
            ("0", 0),
            ("-0", 0),
            ("0x0p-99999999999", 0),
            ("1", 1000),
            ("0.0001", 1),
            ("0.001", 1),
            ("0.0011", 2),
            ("1e-20", 1),
            ("1e-400", 1),
            ("1e-4950", 1),
            ("0x1p-20", 1),
            ("0x1p-2000", 1),
            ("0x1p-16445", 1),
            ("-1e-300", 0),
            ("-1e-400", 0),
            ("-0.0001", 0),
            ("-0.0015", -1),
            ("-1", -1000),
            ("-0x1", -1000),
            ("0x.1", 63),
            ("0x1p-3", 125),
            ("1.0000000000000000000000000000000000000000000", 1000),
            ("9223372036854775.807", i64::MAX),
            ("9223372036854775.8075", i64::MIN),
            ("9223372036854775807", i64::MIN),
            ("0x20c49ba5e353f7.ce", 9_223_372_036_854_775_805),
            ("0x20c49ba5e353f7.cf", i64::MIN),
            ("1e400", i64::MIN),
            ("-1e400", i64::MIN),
            ("1e4932", i64::MIN),
            ("0x1p16383", i64::MIN),
            ("inf", i64::MIN),
            ("-Infinity", i64::MIN),
        ] {
            assert_eq!(parse_seconds_as_ms(text.as_bytes()), Some(ms), "{text}");
        }
        for text in [
            "",
            "nan",
            "1e5000",
            "2e4932",
            "1e-5000",
            "0x1p17000",
            "0x1p-16446",
            "0x",
            "1 ",
            " 1",
            "1e",
            ".",
        ] {
            assert_eq!(parse_seconds_as_ms(text.as_bytes()), None, "{text}");
        }
        let long = format!("{}1", "0".repeat(300));
        assert_eq!(parse_seconds_as_ms(long.as_bytes()), Some(1000));
    }

    #[test]
    fn malformed() {
        for text in [
            "",
            "nan",
            "1x",
            "--1",
            ".",
            "e5",
            " 1",
            "1 ",
            "0x",
            "0x1p",
            "1e5000",
            "-1e5000",
            "1e-5000",
            "2e4932",
            "0x1p16384",
            "0x1p-16446",
            "1e99999999999999999999",
            "1e-99999999999999999999",
        ] {
            assert_eq!(Float::parse(text.as_bytes()), None, "{text:?}");
        }
        assert!(Float::parse(b"1e300").unwrap().add(Float::parse(b"1e300").unwrap()).is_some());
        assert!(Float::parse(b"inf").unwrap().add(Float::parse(b"1").unwrap()).is_none());
    }
}
