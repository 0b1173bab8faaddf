//! A time, and how it is written: as RFC 3339 has it, in UTC.

use std::fmt;

/// A point in time, since 1970.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Time {
    /// Whole seconds.
    pub seconds: i64,
    /// And nanoseconds, below 10⁹.
    pub nanoseconds: u32,
}

const DAY: i64 = 24 * 60 * 60;

/// Days of 400 years, after which the calendar is the same again.
const DAYS_OF_CYCLE: i64 = 146_097;

/// Days from the first of March of the year 0 to the first of January 1970.
const DAYS_BEFORE: i64 = 719_468;

/// Days since 1970 of a date. Years begin with March, so that the day that leap years have more is their last.
fn days((year, month, day): (i64, i64, i64)) -> i64 {
    let year = year - i64::from(month <= 2);
    let (cycle, of_cycle) = (year.div_euclid(400), year.rem_euclid(400));
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    cycle * DAYS_OF_CYCLE + of_cycle * 365 + of_cycle / 4 - of_cycle / 100 + of_year - DAYS_BEFORE
}

/// Year, month and day of a day since 1970.
fn date(days: i64) -> (i64, i64, i64) {
    let days = days + DAYS_BEFORE;
    let (cycle, of_cycle) = (days.div_euclid(DAYS_OF_CYCLE), days.rem_euclid(DAYS_OF_CYCLE));
    let year = (of_cycle - of_cycle / 1460 + of_cycle / 36_524 - of_cycle / 146_096) / 365;
    let of_year = of_cycle - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (cycle * 400 + year + i64::from(month <= 2), month, day)
}

/// Takes a number of so many digits and what follows it.
fn take(text: &str, digits: usize, behind: &str) -> Option<(i64, String)> {
    let (number, rest) = text.split_at_checked(digits)?;
    let is_number = number.bytes().all(|byte| byte.is_ascii_digit());
    let rest = rest.strip_prefix(behind)?;
    Some((number.parse().ok().filter(|_| is_number)?, rest.to_owned()))
}

impl Time {
    /// The time that a text as `2026-11-24T12:00:00Z` says, with up to nine digits of a second behind a point if it has any; `None`: it
    /// says none.
    pub fn of_text(text: &str) -> Option<Time> {
        let (year, rest) = take(text, 4, "-")?;
        let (month, rest) = take(&rest, 2, "-")?;
        let (day, rest) = take(&rest, 2, "T")?;
        let (hour, rest) = take(&rest, 2, ":")?;
        let (minute, rest) = take(&rest, 2, ":")?;
        let (second, rest) = take(&rest, 2, "")?;
        let fraction = match rest.strip_suffix('Z')? {
            "" => "0",
            rest => rest.strip_prefix('.')?,
        };
        let is_fraction = (1..=9).contains(&fraction.len());
        let (nanoseconds, _) = take(&format!("{fraction:0<9}"), 9, "")?;
        let days = days((year, month, day));
        let is_time = hour < 24 && minute < 60 && second < 60 && is_fraction;
        if date(days) != (year, month, day) || !is_time {
            return None;
        }
        let seconds = days * DAY + hour * 3600 + minute * 60 + second;
        Some(Time { seconds, nanoseconds: nanoseconds as u32 })
    }
}

impl fmt::Display for Time {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (year, month, day) = date(self.seconds.div_euclid(DAY));
        let of_day = self.seconds.rem_euclid(DAY);
        let (hour, minute, second) = (of_day / 3600, of_day / 60 % 60, of_day % 60);
        write!(out, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}")?;
        match self.nanoseconds {
            0 => write!(out, "Z"),
            nanoseconds => write!(out, ".{nanoseconds:09}Z"),
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
            (1_795_521_600, 500_000_000, "2026-11-24T12:00:00.500000000Z"),
            (-1, 1, "1969-12-31T23:59:59.000000001Z"),
            (-62_167_219_200, 0, "0000-01-01T00:00:00Z"),
            (253_402_300_799, 0, "9999-12-31T23:59:59Z"),
        ];
        for (seconds, nanoseconds, text) in known {
            let time = Time { seconds, nanoseconds };
            assert_eq!((time.to_string().as_str(), Time::of_text(text)), (text, Some(time)));
        }
        for day in -800_000..800_000 {
            assert_eq!(days(date(day)), day);
        }
        let half = Time { seconds: 0, nanoseconds: 500_000_000 };
        assert_eq!(Time::of_text("1970-01-01T00:00:00.5Z"), Some(half));
    }

    #[test]
    fn what_is_no_time_is_none() {
        for text in [
            "",
            "now",
            "2026-11-24",
            "2026-11-24T12:00:00",
            "2026-11-24T12:00:00+01:00",
            "2026-11-31T12:00:00Z",
            "2026-02-29T12:00:00Z",
            "2026-00-01T12:00:00Z",
            "2026-13-01T12:00:00Z",
            "2026-11-24T24:00:00Z",
            "2026-11-24T12:60:00Z",
            "2026-11-24T12:00:60Z",
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
