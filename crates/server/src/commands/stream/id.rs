//! Ids of entries as commands name them.

use crate::failure::Failure;
use crate::format::StreamId;
use crate::number::parse_integer;

/// Longest id.
const TEXT_SIZE_MAX: usize = 127;
const INVALID: &str = "ERR Invalid stream ID specified as stream command argument";

/// An id, with that sequence number if it names none.
///
/// # Errors
/// It is malformed, or `-` or `+`.
pub(super) fn strict(text: &[u8], seq: u64) -> Result<StreamId, Failure> {
    match parse(text, seq) {
        Some(id) => Ok(id),
        None => Err(INVALID.into()),
    }
}

/// As [`strict`]; `-` is the least and `+` the greatest id.
pub(super) fn lenient(text: &[u8], seq: u64) -> Result<StreamId, Failure> {
    match text {
        b"-" => Ok(StreamId::MIN),
        b"+" => Ok(StreamId::MAX),
        _ => strict(text, seq),
    }
}

/// The id of an entry to be added: its time, and its sequence number unless it is `*`.
pub(super) fn to_add(text: &[u8]) -> Result<(u64, Option<u64>), Failure> {
    match text.strip_suffix(b"-*") {
        Some(ms) if text.len() <= TEXT_SIZE_MAX => match parse_number(ms) {
            Some(ms) => Ok((ms, None)),
            None => Err(INVALID.into()),
        },
        _ => strict(text, 0).map(|id| (id.ms, Some(id.seq))),
    }
}

/// The first id of an interval; `(` leaves out the id itself.
pub(super) fn from(text: &[u8]) -> Result<StreamId, Failure> {
    match text {
        [b'(', id @ ..] if !id.is_empty() => {
            strict(id, 0)?.next().ok_or("ERR invalid start ID for the interval".into())
        }
        _ => lenient(text, 0),
    }
}

/// The last id of an interval; `(` leaves out the id itself.
pub(super) fn to(text: &[u8]) -> Result<StreamId, Failure> {
    match text {
        [b'(', id @ ..] if !id.is_empty() => {
            strict(id, u64::MAX)?.previous().ok_or("ERR invalid end ID for the interval".into())
        }
        _ => lenient(text, u64::MAX),
    }
}

fn parse(text: &[u8], seq: u64) -> Option<StreamId> {
    if text.len() > TEXT_SIZE_MAX {
        return None;
    }
    match text.iter().position(|&byte| byte == b'-') {
        Some(at) => {
            Some(StreamId { ms: parse_number(&text[..at])?, seq: parse_number(&text[at + 1..])? })
        }
        None => Some(StreamId { ms: parse_number(text)?, seq }),
    }
}

/// A number, as C's `strtoull` takes it where it is not in the usual form.
fn parse_number(text: &[u8]) -> Option<u64> {
    if let Some(number) = parse_integer(text) {
        return u64::try_from(number).ok();
    }
    let text = text.trim_ascii_start();
    let digits = text.strip_prefix(b"+").unwrap_or(text);
    if digits.is_empty() {
        return None;
    }
    digits.iter().try_fold(0_u64, |number, &digit| {
        let digit = digit.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        number.checked_mul(10)?.checked_add(u64::from(digit))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_read_as_redis_reads_them() {
        let id = |ms, seq| Some(StreamId { ms, seq });
        for (text, expected) in [
            ("5", id(5, 7)),
            ("5-3", id(5, 3)),
            ("0-0", id(0, 0)),
            ("007-01", id(7, 1)),
            ("18446744073709551615-18446744073709551615", Some(StreamId::MAX)),
            ("18446744073709551616", None),
            ("", None),
            ("5-", None),
            ("-5", None),
            ("5-3-1", None),
            ("5-*", None),
            ("x", None),
        ] {
            assert_eq!(strict(text.as_bytes(), 7).ok(), expected, "{text}");
        }
        assert_eq!(to_add(b"5-*").ok(), Some((5, None)));
        assert_eq!(to_add(b"5").ok(), Some((5, Some(0))));
        assert_eq!(from(b"(1-1").ok(), id(1, 2));
        assert_eq!(to(b"(1-0").ok(), id(0, u64::MAX));
        assert_eq!(from(b"-").ok(), Some(StreamId::MIN));
        assert!(from(b"(-").is_err() && from(b"(").is_err() && strict(b"+", 0).is_err());
    }
}
