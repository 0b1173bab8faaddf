//! Decimal fractions for INCRBYFLOAT: exact addition of decimals, doubles for larger numbers.
//!
//! Redis adds in 80-bit long doubles and prints 17 places. Adding decimals exactly and rounding to 17
//! places gives the same text for every sum whose operands a long double holds well, and a better one
//! otherwise; numbers too large for it fall back to doubles.

/// Places kept after the point.
const PLACES: u32 = 17;
/// Below this magnitude a number and its sums fit the fixed-point form.
const WHOLE_MAX: i128 = 1_000_000_000_000_000_000_000;

/// A number for INCRBYFLOAT.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Float {
    /// The number times 10^17.
    Fixed(i128),
    /// Too large for that.
    Double(f64),
}

impl Float {
    /// Parses what C's `strtold` takes, without spaces, not-a-number and hexadecimal.
    pub(crate) fn parse(text: &[u8]) -> Option<Float> {
        let text = std::str::from_utf8(text).ok()?;
        if text.is_empty() || text.len() > 256 {
            return None;
        }
        if let Some(fixed) = parse_fixed(text.as_bytes()) {
            return Some(Float::Fixed(fixed));
        }
        let value: f64 = text.parse().ok()?;
        if value.is_nan() { None } else { Some(Float::Double(value)) }
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

/// Parses what C's `strtod` takes, without spaces, not-a-number and hexadecimal; what is too large or too small for
/// a double is none.
pub(crate) fn parse_double(text: &[u8]) -> Option<f64> {
    // Whole numbers of few digits, which a double holds exactly, are the most frequent.
    if (1..=15).contains(&text.len()) && text.iter().all(u8::is_ascii_digit) {
        let number = text.iter().fold(0, |number, digit| number * 10 + u64::from(digit - b'0'));
        return Some(number as f64);
    }
    let text = std::str::from_utf8(text).ok()?;
    let number: f64 = text.parse().ok()?;
    let has = |set: &str| text.chars().any(|c| set.contains(c.to_ascii_lowercase()));
    let mantissa = text.split(['e', 'E']).next().unwrap_or(text);
    let is_exact = match number {
        number if number.is_nan() => false,
        number if number.is_infinite() => has("n"),
        number => number != 0.0 || !mantissa.bytes().any(|byte| (b'1'..=b'9').contains(&byte)),
    };
    is_exact.then_some(number)
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
    if scaled / 10i128.pow(PLACES) >= WHOLE_MAX / 100 {
        return None;
    }
    Some(if negative { -scaled } else { scaled })
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
        for (text, number) in
            [("1", 1.0), ("-2.5e1", -25.0), (".5", 0.5), ("5.", 5.0), ("+3", 3.0), ("0e5", 0.0)]
        {
            assert_eq!(parse_double(text.as_bytes()), Some(number), "{text}");
        }
        assert_eq!(parse_double(b"-Inf"), Some(f64::NEG_INFINITY));
        assert_eq!(parse_double(b"+infinity"), Some(f64::INFINITY));
        for text in ["", " 1", "1 ", "nan", "1e400", "1e-400", "x", "1e", "--1"] {
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

    #[test]
    fn malformed() {
        for text in ["", "nan", "1x", "--1", ".", "e5", " 1", "1 ", "0x10"] {
            assert_eq!(Float::parse(text.as_bytes()), None, "{text:?}");
        }
        assert!(Float::parse(b"1e300").unwrap().add(Float::parse(b"1e300").unwrap()).is_some());
        assert!(Float::parse(b"inf").unwrap().add(Float::parse(b"1").unwrap()).is_none());
    }
}
