//! The report for the repository: a page of tables, and the plots as files beside it.

use std::fmt::Write;

use super::claims::{Row, rows};
use super::groups::groups;
use super::plot::{self, places};
use super::{aims, baselines, figure, overview, spread};
use crate::finding::{Chart, Claim, Duel, Finding, Measured, Report};

const TITLE: &str = "The documents' experiments, and today's rivals";
const CLAIMS: &str = "The documents' claims";
const CONTENTS: &str = "Experiments";
/// As [`baselines`] has it.
const BASELINES: &str = "Baselines";
const DUELS: &str = "What is faster at what";
const NOT_RUN: &str = "Not run yet";
const MISSING: &str = "What could not be done here";

/// The plots, each with the name of its file.
pub fn plots(report: &Report) -> Vec<(String, String)> {
    let charts = report.findings.iter().flat_map(|finding| {
        finding
            .charts
            .iter()
            .enumerate()
            .map(|(nth, chart)| (file(finding, nth), plot::file(chart)))
    });
    charts.collect()
}

fn file(finding: &Finding, nth: usize) -> String {
    format!("{}-{}.svg", finding.name, nth + 1)
}

/// The page; plots are looked for in the folder `plots` beside it.
pub fn markdown(report: &Report) -> String {
    let mut out = String::new();
    let kind = if report.quick {
        "Quick run: a smoke test with few keys and rounds, whose figures are no results"
    } else {
        "Full run"
    };
    // Writing to a string cannot fail, here and below.
    let _ = write!(
        out,
        "# {TITLE}\n\nWritten by `tembo-lab bench all`; not by hand. {}.\n{kind}. Ratios are of trials in the same round: median (least–greatest).\n",
        origin(report),
    );
    claims(&mut out, report);
    contents(&mut out, report);
    // In the order of the contents.
    for finding in groups(report).into_iter().flat_map(|(_, part)| part) {
        section(&mut out, finding);
    }
    out.push_str(&baselines::markdown(report));
    duels(&mut out, report);
    if let Some(text) = not_run(report) {
        let _ = write!(out, "\n## {NOT_RUN}\n\n{text}\n");
    }
    if !report.missing.is_empty() {
        let _ = write!(out, "\n## {MISSING}\n\n| what | why |\n|---|---|\n");
        for missing in super::missing(report) {
            let _ = writeln!(out, "| {} | {} |", cell(&missing.name), cell(&missing.reason));
        }
    }
    out
}

/// What a report was made from, for its head.
pub(super) fn origin(report: &Report) -> String {
    let parts = || report.findings.iter().filter_map(|finding| finding.measured.as_ref());
    if parts().any(|part| part.command != report.command) {
        let (first, last) =
            (parts().map(|part| part.time_s).min(), parts().map(|part| part.time_s).max());
        let [first, last] = [first, last].map(|time_s| date(time_s.unwrap_or(report.time_s)));
        let when =
            if first == last { format!("on {first}") } else { format!("from {first} to {last}") };
        return format!(
            "Measured in parts {when}; each says when, where and of which commit · seed {}",
            report.seed
        );
    }
    let mut text = format!("{}: {} · seed {}", date(report.time_s), report.machine, report.seed);
    if !report.commit.is_empty() {
        text += &format!(" · commit {}", report.commit);
    }
    if !report.command.is_empty() {
        text += &format!(" · {}", report.command);
    }
    text
}

/// When, where and how a finding was measured.
pub(super) fn measured(finding: &Finding) -> Option<String> {
    let Measured { time_s, lasted_s, machine, commit, command, rounds } =
        finding.measured.as_ref()?;
    let commit = if commit.is_empty() { "unknown" } else { commit };
    let minutes = lasted_s.div_ceil(60);
    Some(format!(
        "Measured {}, up to {rounds} rounds, {minutes} min, commit {commit}: {machine}. `{command}`",
        date(*time_s)
    ))
}

/// The experiments that this report lacks, for a run that goes on later.
pub(super) fn not_run(report: &Report) -> Option<String> {
    let names = crate::experiment::not_run(report);
    (!names.is_empty())
        .then(|| format!("This run is not complete. It lacks: {}.", names.join(", ")))
}

fn claims(out: &mut String, report: &Report) {
    let rows = rows(report);
    if rows.is_empty() {
        return;
    }
    let _ = write!(
        out,
        "\n## {CLAIMS}\n\n| experiment | claim | the document | here | direction | why |\n|---|---|---|---|---|---|\n"
    );
    for row in rows {
        let Row { finding, claim, why, .. } = &row;
        let Claim { what, document, here } = claim;
        let [what, document, here] = [what, document, here].map(|text| cell(text));
        let (name, text) = (&finding.name, row.direction());
        let _ = writeln!(out, "| {name} | {what} | {document} | {here} | {text} | {why} |");
    }
}

/// Links to all that stands below, experiments by what they come from.
fn contents(out: &mut String, report: &Report) {
    let mut anchors = Anchors::default();
    for above in [TITLE, CLAIMS, CONTENTS] {
        anchors.of(above);
    }
    let _ = write!(out, "\n## {CONTENTS}\n\n");
    for (group, part) in groups(report) {
        let _ = writeln!(out, "- {group}");
        for Finding { name, title, .. } in part {
            let _ = writeln!(out, "  - [{name}: {title}](#{})", anchors.of(title));
        }
    }
    let (wins, count) = overview::score(report);
    let score = format!(": Tembo in {wins} of {count} comparisons with other stores and servers");
    let has_duels = report.findings.iter().any(|finding| !finding.duels.is_empty());
    for (heading, is_there, more) in [
        (BASELINES, !baselines::markdown(report).is_empty(), ""),
        (DUELS, has_duels, if count > 0 { &score[..] } else { "" }),
        (NOT_RUN, not_run(report).is_some(), ""),
        (MISSING, !report.missing.is_empty(), ""),
    ] {
        if is_there {
            let _ = writeln!(out, "- [{heading}](#{}){more}", anchors.of(heading));
        }
    }
}

/// Anchors as GitHub makes them of headings: small letters, spaces as `-`, no other signs but `-` and `_`; of
/// one that is there already the next has a number behind it.
#[derive(Default)]
struct Anchors {
    taken: Vec<String>,
}

impl Anchors {
    /// That of the next heading of the page.
    fn of(&mut self, heading: &str) -> String {
        let is_kept = |letter: &char| letter.is_alphanumeric() || matches!(letter, ' ' | '-' | '_');
        let plain: String = heading.to_lowercase().chars().filter(is_kept).collect();
        let plain = plain.replace(' ', "-");
        let (mut anchor, mut again) = (plain.clone(), 0);
        while self.taken.contains(&anchor) {
            again += 1;
            anchor = format!("{plain}-{again}");
        }
        self.taken.push(anchor.clone());
        anchor
    }
}

fn duels(out: &mut String, report: &Report) {
    let mut all: Vec<&Duel> = report.findings.iter().flat_map(|finding| &finding.duels).collect();
    if all.is_empty() {
        return;
    }
    all.sort_by(|a, b| a.ratio.median.total_cmp(&b.ratio.median));
    let _ = write!(
        out,
        "\n## {DUELS}\n\nTembo's throughput divided by the other's: below 1 Tembo loses.\n\n| what | to | ratio |\n|---|---|---|\n"
    );
    for Duel { what, rival, ratio } in all {
        let _ = writeln!(out, "| {} | {} | {} |", cell(what), cell(rival), spread(*ratio));
    }
}

fn section(out: &mut String, finding: &Finding) {
    let Finding { name, title, source, sentence, charts, claims, notes, .. } = finding;
    let _ = write!(out, "\n## {title}\n\n{source}. `tembo-lab bench {name}`\n\n{sentence}\n");
    if !claims.is_empty() {
        let are_missed = aims::are_missed(finding);
        let (head, line) = if are_missed { (" why not |", "---|") } else { ("", "") };
        let _ = write!(out, "\n| | the document | here |{head}\n|---|---|---|{line}\n");
        for claim in claims {
            let [what, document, here] =
                [&claim.what, &claim.document, &claim.here].map(|text| cell(text));
            let _ = write!(out, "| {what} | {document} | {here} |");
            if are_missed {
                let _ = write!(out, " {} |", cell(aims::why(finding, claim)));
            }
            out.push('\n');
        }
    }
    for (nth, chart) in charts.iter().enumerate() {
        let _ = write!(out, "\n![{}](plots/{})\n", chart.title, file(finding, nth));
        table(out, chart);
    }
    out.push_str(&baselines::markdown_pointer(finding));
    for note in notes {
        let _ = write!(out, "\n{note}\n");
    }
    if let Some(text) = measured(finding) {
        let _ = write!(out, "\n{text}\n");
    }
}

fn table(out: &mut String, chart: &Chart) {
    let places = places(&chart.series);
    if places.len() > 40 {
        return;
    }
    let unit = if chart.y.is_empty() { String::new() } else { format!(", {}", chart.y) };
    let _ = write!(out, "\n{}{unit}:\n\n| |", chart.title);
    for place in &places {
        let _ = write!(out, " {} |", cell(place));
    }
    let _ = write!(out, "\n|---|{}\n", "---|".repeat(places.len()));
    for series in &chart.series {
        let _ = write!(out, "| {} |", cell(&series.name));
        for place in &places {
            let point = series.points.iter().find(|point| point.at == *place);
            let text = point.map_or("–".into(), |point| figure(point.value.median));
            let _ = write!(out, " {text} |");
        }
        out.push('\n');
    }
}

fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}

/// The day of a time since 1970, in UTC (Hinnant: "chrono-compatible low-level date algorithms").
pub(crate) fn date(time_s: u64) -> String {
    let days = time_s as i64 / 86_400 + 719_468;
    let (cycle, day_of_cycle) = (days / 146_097, days % 146_097);
    let year_of_cycle =
        (day_of_cycle - day_of_cycle / 1460 + day_of_cycle / 36_524 - day_of_cycle / 146_096) / 365;
    let day_of_year =
        day_of_cycle - (365 * year_of_cycle + year_of_cycle / 4 - year_of_cycle / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    let year = year_of_cycle + cycle * 400 + i64::from(month <= 2);
    format!("{year}-{month:02}-{day:02}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::Missing;
    use crate::machine::Machine;
    use crate::spread::Spread;

    #[test]
    fn anchors_are_those_of_github() {
        let mut anchors = Anchors::default();
        for (heading, expected) in [
            ("Updates, 512 B: CDDS's (7a)", "updates-512-b-cddss-7a"),
            ("YCSB A–F in memory", "ycsb-af-in-memory"),
            ("A log - a_tree", "a-log---a_tree"),
            ("YCSB A–F in memory", "ycsb-af-in-memory-1"),
            ("YCSB AF in memory", "ycsb-af-in-memory-2"),
        ] {
            assert_eq!(anchors.of(heading), expected);
        }
    }

    /// First the claims, then a link to each heading that follows, and behind all experiments the long table.
    #[test]
    fn contents_follow_claims_and_comparisons_follow_experiments() {
        let finding = |name: &str| {
            let mut finding = Finding::new(name, "Puts & gets", "Thesis 5.3");
            finding.claim("a figure", "7×", Some("2.00×".into()));
            finding.duel("puts", "redb", Some(Spread { median: 2.0, best: 2.0, worst: 2.0 }));
            finding
        };
        let missing = Missing { name: "a drive".into(), reason: "not here".into() };
        let page = markdown(&Report {
            machine: Machine::this(),
            time_s: 0,
            quick: true,
            seed: 1,
            commit: String::new(),
            command: String::new(),
            findings: vec![finding("micro"), finding("cdds-5.3")],
            missing: vec![missing],
        });
        let headings: Vec<&str> =
            page.lines().filter_map(|line| line.strip_prefix("## ")).collect();
        let puts = "Puts & gets";
        assert_eq!(headings, [CLAIMS, CONTENTS, puts, puts, DUELS, NOT_RUN, MISSING]);
        let linked = |line: &str| Some(line.split_once("](#")?.1.split(')').next()?.to_owned());
        let links: Vec<String> = page.lines().filter_map(linked).collect();
        let expected = [
            // The thesis comes before what no document has, here and below.
            "puts--gets",
            "puts--gets-1",
            "what-is-faster-at-what",
            "not-run-yet",
            "what-could-not-be-done-here",
        ];
        assert_eq!(links, expected);
        let places = ["`tembo-lab bench cdds-5.3`", "`tembo-lab bench micro`"];
        assert!(places.map(|part| page.find(part)).is_sorted());
        assert!(page.contains("): Tembo in 2 of 2 comparisons with other stores and servers"));
    }

    #[test]
    fn dates_are_those_of_the_calendar() {
        let dates = [0, 951_782_400, 1_795_305_600].map(date);
        assert_eq!(dates, ["1970-01-01", "2000-02-29", "2026-11-22"]);
    }
}
