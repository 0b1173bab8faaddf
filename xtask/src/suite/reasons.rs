//! Why tests are known not to pass, from `reasons.tsv`: unit, test and reason, with `*` for any text at the end of the
//! first two.

const LINES: &str = include_str!("reasons.tsv");

/// The reason of the first line that fits.
pub(super) fn of(unit: &str, test: &str) -> Option<&'static str> {
    LINES.lines().filter(|line| !line.starts_with('#')).find_map(|line| {
        let mut columns = line.split('\t');
        let fits = |pattern: &str, text: &str| match pattern.strip_suffix('*') {
            Some(start) => text.starts_with(start),
            None => pattern == text,
        };
        let (of_unit, of_test) = (columns.next()?, columns.next()?);
        (fits(of_unit, unit) && fits(of_test, test)).then(|| columns.next()).flatten()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_has_a_unit_a_test_and_a_reason() {
        for line in LINES.lines().filter(|line| !line.starts_with('#')) {
            assert_eq!(line.split('\t').filter(|column| !column.is_empty()).count(), 3, "{line}");
        }
        assert_eq!(of("unit/none", "no such test"), None);
    }
}
