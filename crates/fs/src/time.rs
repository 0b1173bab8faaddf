//! A time, and how it is written: as RFC 3339 has it.

use std::fmt;

use jiff::Timestamp;

/// A point in time, since 1970.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Time {
    /// Whole seconds.
    pub seconds: i64,
    /// And nanoseconds, below 10⁹.
    pub nanoseconds: u32,
}

/// The first second of the year 0, and the last of 9999 wherever on earth one is.
const FIRST: i64 = -62_167_219_200;
const LAST: i64 = 253_402_207_200;

impl Time {
    /// The time that a text of RFC 3339 as `2026-11-24T12:00:00Z` says, with up to nine digits of a second behind a point if it has any;
    /// `None`: it says none.
    pub fn of_text(text: &str) -> Option<Time> {
        let time: Timestamp = text.parse().ok()?;
        // The library's nanoseconds count from the second towards 1970.
        let seconds = time.as_second() - i64::from(time.subsec_nanosecond() < 0);
        let nanoseconds = time.subsec_nanosecond().rem_euclid(SECOND) as u32;
        Some(Time { seconds, nanoseconds })
    }
}

/// Nanoseconds.
const SECOND: i32 = 1_000_000_000;

/// In UTC; a time that has no year of four digits as seconds since 1970.
impl fmt::Display for Time {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nanoseconds = i32::try_from(self.nanoseconds).unwrap_or(SECOND);
        match Timestamp::new(self.seconds, nanoseconds) {
            Ok(time) if (FIRST..=LAST).contains(&self.seconds) => time.fmt(out),
            _ => write!(out, "{}.{:09} s", self.seconds, self.nanoseconds),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_read_as_it_is_written() {
        let known = [
            (0, 0, "1970-01-01T00:00:00Z"),
            (951_782_399, 0, "2000-02-28T23:59:59Z"),
            (951_782_400, 0, "2000-02-29T00:00:00Z"),
            (1_795_521_600, 500_000_000, "2026-11-24T12:00:00.5Z"),
            (-1, 1, "1969-12-31T23:59:59.000000001Z"),
            (-62_167_219_200, 0, "0000-01-01T00:00:00Z"),
            (LAST, 0, "9999-12-30T22:00:00Z"),
        ];
        for (seconds, nanoseconds, text) in known {
            let time = Time { seconds, nanoseconds };
            assert_eq!((time.to_string().as_str(), Time::of_text(text)), (text, Some(time)));
        }
        let elsewhere = Time { seconds: 1_795_521_600, nanoseconds: 0 };
        assert_eq!(Time::of_text("2026-11-24T13:00:00+01:00"), Some(elsewhere));
    }

    #[test]
    fn a_time_of_no_such_year_has_a_text_too() {
        let texts = [
            (LAST + 1, 0, "253402207201.000000000 s"),
            (FIRST - 1, 5, "-62167219201.000000005 s"),
            (0, u32::MAX, "0.4294967295 s"),
            (i64::MIN, 0, "-9223372036854775808.000000000 s"),
        ];
        for (seconds, nanoseconds, text) in texts {
            assert_eq!(Time { seconds, nanoseconds }.to_string(), text);
            assert_eq!(Time::of_text(text), None);
        }
    }

    #[test]
    fn what_is_no_time_is_none() {
        for text in [
            "",
            "now",
            "2026-11-24",
            "2026-11-24T12:00:00",
            "2026-11-31T12:00:00Z",
            "2026-02-29T12:00:00Z",
            "2026-00-01T12:00:00Z",
            "2026-13-01T12:00:00Z",
            "2026-11-24T24:00:00Z",
            "2026-11-24T12:60:00Z",
            "2026-11-24T12:00:00.Z",
            "2026-11-24T12:00:00.1234567890Z",
            "2026-11-24T12:00:00.5xZ",
            "+026-11-24T12:00:00Z",
            "2026-11-24T12:00:00ZZ",
            "2026-11-2\u{e9}T12:00:00Z",
        ] {
            assert_eq!(Time::of_text(text), None, "{text}");
        }
    }
}
