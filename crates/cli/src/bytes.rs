//! Sizes as people write and read them.

use std::fmt;

const UNITS: &[(&str, u32)] = &[("K", 10), ("M", 20), ("G", 30), ("T", 40)];

/// Reads `4096`, `64K`, `64kb`, `64MiB`, `1g`: units are powers of 1024.
pub(crate) fn parse(text: &str) -> Result<u64, String> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let wrong = || format!("`{text}` is no size: write for example 4096, 64M or 2GiB");
    let number: u64 = number.parse().map_err(|_| wrong())?;
    let unit = unit.trim().to_ascii_uppercase();
    let unit = unit.strip_suffix("IB").or_else(|| unit.strip_suffix('B')).unwrap_or(&unit);
    let shift = match UNITS.iter().find(|(name, _)| *name == unit) {
        Some((_, shift)) => *shift,
        None if unit.is_empty() => 0,
        None => return Err(wrong()),
    };
    number.checked_mul(1 << shift).ok_or_else(wrong)
}

/// Shows a count of bytes with three figures.
pub(crate) struct Bytes(pub(crate) u64);

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match UNITS.iter().rev().find(|(_, shift)| self.0 >> shift > 0) {
            None => write!(f, "{} B", self.0),
            Some((name, shift)) => {
                let number = self.0 as f64 / (1_u64 << shift) as f64;
                let places = if number >= 100.0 { 0 } else { 1 };
                write!(f, "{number:.places$} {name}iB")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_and_shown() {
        let read = ["4096", "64K", "64kb", "2MiB", "1g"].map(|text| parse(text).unwrap());
        assert_eq!(read, [4096, 65536, 65536, 2 << 20, 1 << 30]);
        for wrong in ["", "x", "1X", "-1", "99999999999T", "1.5G"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
        let shown = [0, 1023, 1536, 300 << 20].map(|size| Bytes(size).to_string());
        assert_eq!(shown, ["0 B", "1023 B", "1.5 KiB", "300 MiB"]);
    }
}
