//! The page `docs/redis-compatibility.md`.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;

use anyhow::Context;

use super::outcome::{self, Outcome, SKIPPED, Verdict};
use super::{reasons, unit};

const HEAD: &str = "\
# Redis's own tests

Redis 7.0 comes with tests that can be run against any server that speaks its protocol. `cargo xtask redis-suite` runs
them from a checkout of Redis's sources, unit by unit, each on an empty pool, and makes this page. Only names of tests stand
here.

```
cargo xtask redis-suite --path CHECKOUT --redis redis-server --page
```

";

const COLUMNS: &str = "\
- *Redis*: tests that Redis 7.0.15 passes when it is run in the same way. That is the bar.
- *passed*, *failed*: tests of this server. `+` is how many of Redis's tests did not run, because the unit stopped before them.
- *refused*: lines of the suite about tests that it did not run: they need a server that the suite starts
  itself, or much memory, or one of its processes. One line can stand for a group of tests. Redis has the same number unless
  a number follows in brackets.
- Both servers allow `DEBUG` ([what it does here](redis-differences.md#debug)).

";

/// Why a test fails, if nothing is known.
const UNKNOWN: &str = "not looked into yet";

/// The page, from what the last runs have left.
pub(super) fn write(results: &Path) -> anyhow::Result<String> {
    let (tembo, redis) = (load(&results.join("tembo"))?, load(&results.join("redis"))?);
    let mut text = HEAD.to_owned();
    table(&mut text, &tembo, &redis)?;
    text += COLUMNS;
    failures(&mut text, &tembo)?;
    refusals(&mut text, &tembo)?;
    Ok(text)
}

type Units = BTreeMap<String, Vec<Outcome>>;

fn load(folder: &Path) -> anyhow::Result<Units> {
    let read = std::fs::read_dir(folder)
        .with_context(|| format!("{}: run the suite first", folder.display()))?;
    let mut units = Units::new();
    for entry in read {
        let path = entry?.path();
        let name = path.file_stem().unwrap_or_default().to_string_lossy().replace('+', "/");
        debug_assert_eq!(path.file_name(), Some(unit::file_name(&name).as_ref()));
        units.insert(name, outcome::load(&path)?);
    }
    Ok(units)
}

fn counts(outcomes: &[Outcome]) -> [usize; 4] {
    [Verdict::Passed, Verdict::Failed, Verdict::Ignored, Verdict::Ended]
        .map(|verdict| outcome::count(outcomes, verdict))
}

fn table(text: &mut String, tembo: &Units, redis: &Units) -> anyhow::Result<()> {
    writeln!(text, "| unit | Redis | passed | failed | refused |")?;
    writeln!(text, "|---|--:|--:|--:|--:|")?;
    let (mut ours, mut theirs) = ([0; 4], [0; 4]);
    for (unit, outcomes) in tembo {
        let own = counts(outcomes);
        let bar = redis.get(unit).map_or([0; 4], |outcomes| counts(outcomes));
        for at in 0..4 {
            ours[at] += own[at];
            theirs[at] += bar[at];
        }
        if own[0] + own[1] + own[3] + bar[0] > 0 {
            row(text, unit, own, bar)?;
        }
    }
    row(text, "**all**", ours, theirs)?;
    writeln!(
        text,
        "\nUnits of which the suite runs nothing against a server that it did not start count in the last line.\n"
    )?;
    Ok(())
}

fn row(text: &mut String, unit: &str, own: [usize; 4], bar: [usize; 4]) -> std::fmt::Result {
    let missing = bar[0].saturating_sub(own[0] + own[1]);
    let failed = match missing {
        0 => own[1].to_string(),
        _ => format!("{} (+{missing})", own[1]),
    };
    let refused =
        if own[2] == bar[2] { own[2].to_string() } else { format!("{} ({})", own[2], bar[2]) };
    writeln!(text, "| {unit} | {} | {} | {failed} | {refused} |", bar[0], own[0])
}

fn failures(text: &mut String, tembo: &Units) -> std::fmt::Result {
    writeln!(text, "## Failing tests, and why\n")?;
    writeln!(text, "| unit | test | reason |\n|---|---|---|")?;
    for (unit, outcomes) in tembo {
        let failed =
            |outcome: &&Outcome| matches!(outcome.verdict, Verdict::Failed | Verdict::Ended);
        let mut tests: BTreeMap<&str, usize> = BTreeMap::new();
        for outcome in outcomes.iter().filter(failed) {
            let is_named = outcome.verdict == Verdict::Failed && !outcome.test.is_empty();
            *tests.entry(if is_named { &outcome.test } else { "(the unit ended)" }).or_default() +=
                1;
        }
        for (test, count) in tests {
            let reason = reasons::of(unit, test).unwrap_or(UNKNOWN);
            let times = if count > 1 { format!(" ({count} times)") } else { String::new() };
            writeln!(text, "| {unit} | {}{times} | {reason} |", escape(test))?;
        }
    }
    writeln!(text)
}

fn refusals(text: &mut String, tembo: &Units) -> std::fmt::Result {
    writeln!(text, "## Refused tests, and why\n")?;
    writeln!(text, "| unit | why | lines | tests that are named |\n|---|---|--:|---|")?;
    for (unit, outcomes) in tembo {
        let mut by_reason: BTreeMap<&str, (usize, Vec<String>)> = BTreeMap::new();
        for outcome in outcomes.iter().filter(|outcome| outcome.verdict == Verdict::Ignored) {
            let (test, words) = outcome.test.rsplit_once(": ").unwrap_or(("", &outcome.test));
            let (test, words) = match test.strip_suffix(": Tag") {
                Some(test) => (test, words),
                None if test == "Tag" => ("", words),
                None => (test, words),
            };
            let (count, tests) = by_reason.entry(reason(words)).or_default();
            *count += 1;
            if !test.is_empty() {
                tests.push(escape(test));
            }
        }
        for (reason, (count, tests)) in by_reason {
            writeln!(text, "| {unit} | {reason} | {count} | {} |", tests.join("; "))?;
        }
    }
    Ok(())
}

/// The suite's words, in ours.
fn reason(words: &str) -> &'static str {
    if words == SKIPPED {
        "kills a process that the server has forked"
    } else if words.contains("external") {
        "needs a server that the suite starts"
    } else if words.contains("large memory") {
        "needs much memory"
    } else {
        "other"
    }
}

/// A name that does not end a cell of the table, or begin anything else.
fn escape(name: &str) -> String {
    let mut escaped = String::new();
    for letter in name.chars() {
        if matches!(letter, '|' | '*' | '_' | '<' | '[' | '`' | '\\' | '#') {
            escaped.push('\\');
        }
        escaped.push(letter);
    }
    escaped
}
