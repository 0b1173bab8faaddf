//! The section on xfstests: what failed and why, what was not run.

use std::collections::BTreeMap;
use std::fmt::Write;

/// Why tests are known not to pass: number, reason.
const REASONS: &str = include_str!("xfstests.tsv");

const HEAD: &str = "\
## xfstests

The generic tests of the group `quick`, outside of transactions, on two pools that its `check` mounts by mount(8) (`allow_other,size_max=8G,sync=os`).
A test that takes more than 300 s is ended.

";

fn reason(test: &str) -> &'static str {
    let mut lines = REASONS.lines().filter_map(|line| line.split_once('\t'));
    lines.find(|(number, _)| *number == test).map_or("not known", |(_, reason)| reason)
}

/// Writes it, from lines of test, verdict, and why it was not run.
pub(super) fn write(text: &mut String, lines: Option<String>) -> anyhow::Result<()> {
    text.push_str(HEAD);
    let Some(lines) = lines else {
        text.push_str("Not run where this page was made.\n");
        return Ok(());
    };
    let mut counts: BTreeMap<&str, u32> = BTreeMap::new();
    let mut failed = Vec::new();
    let mut not_run: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for line in lines.lines() {
        let mut columns = line.split('\t');
        let (test, verdict) = (columns.next().unwrap_or(""), columns.next().unwrap_or(""));
        *counts.entry(verdict).or_default() += 1;
        match verdict {
            "passed" => {}
            "not run" => not_run.entry(columns.next().unwrap_or("")).or_default().push(test),
            _ => failed.push((test, verdict)),
        }
    }
    let of = |verdict: &str| counts.get(verdict).copied().unwrap_or(0);
    writeln!(
        text,
        "{} passed, {} failed, {} took too long, {} were not run, for the reasons that the suite gives below.\n",
        of("passed"),
        of("failed"),
        of("too long"),
        of("not run")
    )?;
    writeln!(text, "| test | verdict | why |\n|---|---|---|")?;
    for (test, verdict) in failed {
        writeln!(text, "| `generic/{test}` | {verdict} | {} |", reason(test))?;
    }
    writeln!(text, "\nNot run:\n")?;
    let mut not_run: Vec<_> = not_run.into_iter().collect();
    not_run.sort_by_key(|(reason, tests)| (std::cmp::Reverse(tests.len()), *reason));
    for (reason, tests) in not_run {
        writeln!(text, "- {reason}: {}", tests.join(", "))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_known_reason_has_a_test_and_a_text() {
        for line in REASONS.lines() {
            let (test, reason) = line.split_once('\t').unwrap_or(("", ""));
            assert!(test.len() == 3 && test.bytes().all(|byte| byte.is_ascii_digit()), "{line}");
            assert!(!reason.is_empty(), "{line}");
        }
    }

    #[test]
    fn tests_are_counted_by_their_verdicts() {
        let lines =
            "001\tpassed\t\n002\tnot run\tno quota\n003\tfailed\t\n004\tnot run\tno quota\n";
        let mut text = String::new();
        assert!(write(&mut text, Some(lines.into())).is_ok());
        assert!(text.contains("1 passed, 1 failed, 0 took too long, 2 were not run"), "{text}");
        assert!(
            text.contains("| `generic/003` | failed |") && text.contains("- no quota: 002, 004\n")
        );
    }
}
