//! What became of the tests of a unit: read from what the suite prints, kept as lines.

use std::path::Path;

use anyhow::Context;

/// Behind the name of a test that was refused by its name.
pub(super) const SKIPPED: &str = "refused by name";

/// What became of a test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Passed,
    Failed,
    /// Refused by a tag or by name before it ran; one line may stand for a group of tests.
    Ignored,
    /// The unit ended here: what stands behind it did not run.
    Ended,
}

impl Verdict {
    const ALL: [(Verdict, &'static str); 4] = [
        (Verdict::Passed, "passed"),
        (Verdict::Failed, "failed"),
        (Verdict::Ignored, "ignored"),
        (Verdict::Ended, "ended"),
    ];

    fn name(self) -> &'static str {
        Verdict::ALL.iter().find(|(verdict, _)| *verdict == self).map_or("", |(_, name)| name)
    }
}

/// One test, or one line about a group of tests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Outcome {
    pub(super) verdict: Verdict,
    /// The test's name; for ignored ones the suite's words.
    pub(super) test: String,
    /// The first line of what the suite says about a failure. Never part of the page.
    pub(super) detail: String,
}

/// Reads what the suite has printed.
pub(super) fn parse(printed: &str) -> Vec<Outcome> {
    let mut outcomes: Vec<Outcome> = Vec::new();
    for line in printed.lines() {
        if line.trim() == "The End" {
            break;
        }
        let Some((verdict, rest)) = of_line(line) else {
            if let Some(last) = outcomes.last_mut().filter(|last| last.verdict != Verdict::Passed)
                && last.detail.is_empty()
            {
                last.detail = line.trim().to_owned();
            }
            continue;
        };
        let test = match verdict {
            Verdict::Passed => rest.rsplit_once(" (").map_or(rest, |(name, _)| name),
            // What has no file is about the unit.
            Verdict::Failed => rest.rsplit_once(" in tests/").map_or("", |(name, _)| name),
            Verdict::Ignored | Verdict::Ended => rest,
        };
        let mut test = one_line(test);
        if line.starts_with("[skip]") {
            test = format!("{test}: {SKIPPED}");
        }
        outcomes.push(Outcome { verdict, test, detail: String::new() });
    }
    outcomes
}

fn of_line(line: &str) -> Option<(Verdict, &str)> {
    let (status, rest) = line.strip_prefix('[')?.split_once(']')?;
    let rest = rest.strip_prefix(": ").unwrap_or(rest);
    match status {
        "ok" => Some((Verdict::Passed, rest)),
        "err" => Some((Verdict::Failed, rest)),
        "ignore" | "skip" => Some((Verdict::Ignored, rest)),
        "exception" | "TIMEOUT" => Some((Verdict::Ended, rest)),
        _ => None,
    }
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Keeps the outcomes of a unit in a file.
pub(super) fn save(file: &Path, outcomes: &[Outcome]) -> anyhow::Result<()> {
    let mut text = String::new();
    for Outcome { verdict, test, detail } in outcomes {
        text += &format!("{}\t{test}\t{}\n", verdict.name(), one_line(detail));
    }
    std::fs::write(file, text).with_context(|| file.display().to_string())
}

/// The outcomes that were kept.
pub(super) fn load(file: &Path) -> anyhow::Result<Vec<Outcome>> {
    let text = std::fs::read_to_string(file).with_context(|| file.display().to_string())?;
    let outcome = |line: &str| {
        let mut columns = line.split('\t');
        let name = columns.next()?;
        let verdict = Verdict::ALL.iter().find(|(_, known)| *known == name)?.0;
        let mut next = || columns.next().unwrap_or_default().to_owned();
        Some(Outcome { verdict, test: next(), detail: next() })
    };
    Ok(text.lines().filter_map(outcome).collect())
}

/// How many have this verdict.
pub(super) fn count(outcomes: &[Outcome], verdict: Verdict) -> usize {
    outcomes.iter().filter(|outcome| outcome.verdict == verdict).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_the_suite_are_read() {
        let printed = "Starting test server at port 21079\n[ready]: 12\nTesting unit/type/incr\n\
            [ok]: INCR (of a key) (3 ms)\n[err]: DECR in a loop in tests/unit/type/incr.tcl\n\
            Expected '1' to equal '2'\nmore\n[ignore]: Not supported on external server\n\
            [skip]: INCR: twice\n\
            [1/1 done]: unit/type/incr (1 seconds)\n\n                   The End\n\n\
            *** [err]: DECR in a loop in tests/unit/type/incr.tcl\n";
        let outcomes = parse(printed);
        let named: Vec<_> = outcomes.iter().map(|o| (o.verdict, o.test.as_str())).collect();
        assert_eq!(
            named,
            [
                (Verdict::Passed, "INCR (of a key)"),
                (Verdict::Failed, "DECR in a loop"),
                (Verdict::Ignored, "Not supported on external server"),
                (Verdict::Ignored, "INCR: twice: refused by name"),
            ]
        );
        assert_eq!(outcomes[1].detail, "Expected '1' to equal '2'");
        let file = std::env::temp_dir().join(format!("outcomes-{}", std::process::id()));
        save(&file, &outcomes).unwrap();
        assert_eq!(load(&file).unwrap(), outcomes);
        std::fs::remove_file(file).unwrap();
    }
}
