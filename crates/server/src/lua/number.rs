//! Numbers of Lua as text, as C prints and reads them.

use mlua::Value;

/// The number of a value that is one.
pub(super) fn number(value: &Value) -> Option<f64> {
    match value {
        Value::Integer(number) => Some(*number as f64),
        Value::Number(number) => Some(*number),
        _ => None,
    }
}

/// The number of a value that Lua takes for one: numbers, and strings that look like numbers.
pub(super) fn coerced(value: &Value) -> Option<f64> {
    match value {
        Value::String(text) => {
            let text = text.to_str().ok()?;
            let text = text.trim();
            let (parsed, rest) = parse_prefix(text.as_bytes())?;
            rest.is_empty().then_some(parsed)
        }
        other => number(other),
    }
}

/// As C's `%.{digits}g` prints it.
pub(super) fn general(number: f64, digits: usize) -> String {
    if number.is_nan() {
        return if number.is_sign_negative() { "-nan" } else { "nan" }.to_owned();
    }
    if number.is_infinite() {
        return if number < 0.0 { "-inf" } else { "inf" }.to_owned();
    }
    let scientific = format!("{:.*e}", digits - 1, number);
    let Some((mantissa, exponent)) = scientific.split_once('e') else { return scientific };
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if exponent < -4 || exponent >= digits as i32 {
        let sign = if exponent < 0 { '-' } else { '+' };
        return format!("{}e{sign}{:02}", trimmed(mantissa), exponent.abs());
    }
    let places = (digits as i32 - 1 - exponent).max(0) as usize;
    trimmed(&format!("{number:.places$}")).to_owned()
}

/// Without zeros at the end of the fraction.
fn trimmed(text: &str) -> &str {
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { text }
}

/// The number at the beginning, as C's `strtod` takes it but for spaces, and what follows.
pub(super) fn parse_prefix(text: &[u8]) -> Option<(f64, &[u8])> {
    let (negative, unsigned) = match text {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        _ => (false, text),
    };
    let signed = |number: f64| if negative { -number } else { number };
    for (word, number) in [("infinity", f64::INFINITY), ("inf", f64::INFINITY), ("nan", f64::NAN)] {
        if unsigned.len() >= word.len()
            && unsigned[..word.len()].eq_ignore_ascii_case(word.as_bytes())
        {
            return Some((signed(number), &unsigned[word.len()..]));
        }
    }
    if let [b'0', b'x' | b'X', digits @ ..] = unsigned {
        let size = digits.iter().take_while(|digit| digit.is_ascii_hexdigit()).count();
        if size > 0 {
            let add = |sum: f64, digit: &u8| {
                sum * 16.0 + f64::from(char::from(*digit).to_digit(16).unwrap_or(0))
            };
            return Some((signed(digits[..size].iter().fold(0.0, add)), &digits[size..]));
        }
    }
    let size = decimal_size(unsigned)?;
    let number: f64 = std::str::from_utf8(&unsigned[..size]).ok()?.parse().ok()?;
    Some((signed(number), &unsigned[size..]))
}

/// Bytes of the decimal number at the beginning.
fn decimal_size(text: &[u8]) -> Option<usize> {
    let digits = |from: usize| text[from..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    let whole = digits(0);
    let mut size = whole;
    let mut count = whole;
    if text.get(size) == Some(&b'.') {
        let places = digits(size + 1);
        if whole + places > 0 {
            size += 1 + places;
            count += places;
        }
    }
    if count == 0 {
        return None;
    }
    if matches!(text.get(size), Some(b'e' | b'E')) {
        let sign = usize::from(matches!(text.get(size + 1), Some(b'+' | b'-')));
        if size + 1 + sign < text.len() && digits(size + 1 + sign) > 0 {
            size += 1 + sign + digits(size + 1 + sign);
        }
    }
    Some(size)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_printed_as_c_does() {
        let cases: [(f64, usize, &str); 12] = [
            (0.0, 14, "0"),
            (-0.0, 14, "-0"),
            (3.0, 14, "3"),
            (0.1, 14, "0.1"),
            (0.1, 17, "0.10000000000000001"),
            (1e14, 14, "1e+14"),
            (123_456_789_012_345.0, 14, "1.2345678901234e+14"),
            (1e-5, 14, "1e-05"),
            (0.0001, 14, "0.0001"),
            (99_999_999_999_999.9, 14, "1e+14"),
            (1e300, 17, "1.0000000000000001e+300"),
            (f64::NEG_INFINITY, 14, "-inf"),
        ];
        for (number, digits, text) in cases {
            assert_eq!(general(number, digits), text);
        }
    }

    #[test]
    fn a_number_ends_where_it_ends() {
        let cases: [(&str, f64, &str); 7] = [
            ("12", 12.0, ""),
            ("-1.5e2x", -150.0, "x"),
            ("1e", 1.0, "e"),
            ("1.", 1.0, ""),
            (".5,", 0.5, ","),
            ("0x1fg", 31.0, "g"),
            ("inf]", f64::INFINITY, "]"),
        ];
        for (text, number, rest) in cases {
            assert_eq!(parse_prefix(text.as_bytes()), Some((number, rest.as_bytes())), "{text}");
        }
        assert!(parse_prefix(b"x").is_none() && parse_prefix(b"-").is_none());
    }
}
