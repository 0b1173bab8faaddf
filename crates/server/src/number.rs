//! Numbers as they appear on the wire: strict parsing, printing without allocation.

/// The longest text an `i64` or `u64` has.
pub(crate) const DIGITS_MAX: usize = 20;

/// Parses a whole integer strictly: no sign but `-`, no leading zero, no space, no overflow.
pub(crate) fn parse_integer(text: &[u8]) -> Option<i64> {
    let (negative, digits) = match text {
        [b'-', rest @ ..] => (true, rest),
        _ => (false, text),
    };
    match digits {
        [] => return None,
        [b'0'] => return if negative { None } else { Some(0) },
        [b'0', ..] => return None,
        _ if digits.len() > 19 => return None,
        _ => {}
    }
    let mut value: u64 = 0;
    for &digit in digits {
        let digit = digit.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        value = value * 10 + u64::from(digit);
    }
    match (negative, value) {
        (true, 0..=0x8000_0000_0000_0000) => Some((value as i64).wrapping_neg()),
        (false, 0..=0x7fff_ffff_ffff_ffff) => Some(value as i64),
        _ => None,
    }
}

/// Parses a scan cursor, as C's `strtoul` does: one with a sign too, which counts down from the end of 64 bits. An empty
/// one is 0.
pub(crate) fn parse_cursor(text: &[u8]) -> Option<u64> {
    match text {
        [] => Some(0),
        [b'+', digits @ ..] => parse_unsigned(digits),
        [b'-', digits @ ..] => parse_unsigned(digits).map(u64::wrapping_neg),
        digits => parse_unsigned(digits),
    }
}

/// Parses an unsigned decimal number, leading zeros allowed.
pub(crate) fn parse_unsigned(text: &[u8]) -> Option<u64> {
    if text.is_empty() || text.len() > DIGITS_MAX {
        return None;
    }
    text.iter().try_fold(0u64, |value, &digit| {
        let digit = digit.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        value.checked_mul(10)?.checked_add(u64::from(digit))
    })
}

/// The decimal text of an integer, held in place.
pub(crate) struct Decimal {
    digits: [u8; DIGITS_MAX],
    start: usize,
}

impl Decimal {
    /// The text of a signed number.
    #[inline]
    pub(crate) fn signed(value: i64) -> Decimal {
        let mut text = Decimal::unsigned(value.unsigned_abs());
        if value < 0 {
            // A magnitude of an i64 has at most 19 digits: one byte is left.
            text.start -= 1;
            text.digits[text.start] = b'-';
        }
        text
    }

    /// The text of an unsigned number.
    #[inline]
    pub(crate) fn unsigned(mut value: u64) -> Decimal {
        let mut digits = [0; DIGITS_MAX];
        let mut start = DIGITS_MAX;
        loop {
            start -= 1;
            digits[start] = b'0' + (value % 10) as u8;
            value /= 10;
            if value == 0 {
                return Decimal { digits, start };
            }
        }
    }

    /// The text itself.
    #[inline]
    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.digits[self.start..]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_are_strict() {
        for (text, value) in [
            ("0", Some(0)),
            ("-1", Some(-1)),
            ("9223372036854775807", Some(i64::MAX)),
            ("-9223372036854775808", Some(i64::MIN)),
            ("9223372036854775808", None),
            ("-9223372036854775809", None),
            ("99999999999999999999", None),
            ("00", None),
            ("-0", None),
            ("+1", None),
            (" 1", None),
            ("1 ", None),
            ("", None),
            ("-", None),
            ("1a", None),
        ] {
            assert_eq!(parse_integer(text.as_bytes()), value, "{text}");
        }
    }

    #[test]
    fn printing_undoes_parsing() {
        for value in [0, 1, -1, 9, 10, 99, 12345, i64::MAX, i64::MIN] {
            assert_eq!(Decimal::signed(value).as_bytes(), value.to_string().as_bytes());
        }
        assert_eq!(Decimal::unsigned(u64::MAX).as_bytes(), u64::MAX.to_string().as_bytes());
    }

    #[test]
    fn cursors() {
        assert_eq!(parse_unsigned(b"-1"), None);
        for (text, cursor) in [
            ("", Some(0)),
            ("007", Some(7)),
            ("+7", Some(7)),
            ("-1", Some(u64::MAX)),
            ("-18446744073709551615", Some(1)),
            ("18446744073709551615", Some(u64::MAX)),
            ("18446744073709551616", None),
            ("-18446744073709551616", None),
            ("-", None),
            ("+-1", None),
            (" 1", None),
            ("1x", None),
        ] {
            assert_eq!(parse_cursor(text.as_bytes()), cursor, "{text}");
        }
    }
}
