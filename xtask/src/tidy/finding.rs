//! What a check finds.

use std::fmt;

/// Something that breaks a rule.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Finding {
    pub(super) path: String,
    pub(super) line: usize,
    pub(super) what: String,
    pub(super) fix: &'static str,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {} — {}", self.path, self.line, self.what, self.fix)
    }
}

/// The lines of the findings: what the tests of the checks compare.
#[cfg(test)]
pub(super) fn lines(findings: &[Finding]) -> Vec<usize> {
    findings.iter().map(|finding| finding.line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_finding_says_where_what_and_how() {
        let finding = Finding { path: "a.rs".into(), line: 3, what: "x".into(), fix: "do y" };
        assert_eq!(finding.to_string(), "a.rs:3: x — do y");
    }
}
