//! The report for the repository: a page of tables, and the plots as files beside it.

use std::fmt::Write;

use super::claims::{Row, rows};
use super::plot::{places, svg};
use super::{figure, spread};
use crate::finding::{Chart, Claim, Duel, Finding, Measured, Report};

/// The plots, each with the name of its file.
pub fn plots(report: &Report) -> Vec<(String, String)> {
    let charts = report.findings.iter().flat_map(|finding| {
        finding.charts.iter().enumerate().map(|(nth, chart)| (file(finding, nth), svg(chart)))
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
        "# The documents' experiments, and today's rivals\n\nWritten by `tembo-lab bench all`; not by hand. {}.\n{kind}. Ratios are of trials in the same round: median (least–greatest).\n",
        origin(report),
    );
    claims(&mut out, report);
    duels(&mut out, report);
    for finding in &report.findings {
        section(&mut out, finding);
    }
    if let Some(text) = not_run(report) {
        let _ = write!(out, "\n## Not run yet\n\n{text}\n");
    }
    if !report.missing.is_empty() {
        out.push_str("\n## What could not be done here\n\n| what | why |\n|---|---|\n");
        for missing in &report.missing {
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
    out.push_str("\n## The documents' claims\n\n| experiment | claim | the document | here | direction | why |\n|---|---|---|---|---|---|\n");
    for row in rows {
        let Row { finding, claim, why, .. } = &row;
        let Claim { what, document, here } = claim;
        let [what, document, here] = [what, document, here].map(|text| cell(text));
        let (name, text) = (&finding.name, row.direction());
        let _ = writeln!(out, "| {name} | {what} | {document} | {here} | {text} | {why} |");
    }
}

fn duels(out: &mut String, report: &Report) {
    let mut all: Vec<&Duel> = report.findings.iter().flat_map(|finding| &finding.duels).collect();
    if all.is_empty() {
        return;
    }
    all.sort_by(|a, b| a.ratio.median.total_cmp(&b.ratio.median));
    out.push_str("\n## What is faster at what\n\nTembo's throughput divided by the other's: below 1 Tembo loses.\n\n| what | to | ratio |\n|---|---|---|\n");
    for Duel { what, rival, ratio } in all {
        let _ = writeln!(out, "| {} | {} | {} |", cell(what), cell(rival), spread(*ratio));
    }
}

fn section(out: &mut String, finding: &Finding) {
    let Finding { name, title, source, sentence, charts, claims, notes, .. } = finding;
    let _ = write!(out, "\n## {title}\n\n{source}. `tembo-lab bench {name}`\n\n{sentence}\n");
    if !claims.is_empty() {
        out.push_str("\n| | the document | here |\n|---|---|---|\n");
        for Claim { what, document, here } in claims {
            let _ = writeln!(out, "| {} | {} | {} |", cell(what), cell(document), cell(here));
        }
    }
    for (nth, chart) in charts.iter().enumerate() {
        let _ = write!(out, "\n![{}](plots/{})\n", chart.title, file(finding, nth));
        table(out, chart);
    }
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

    #[test]
    fn dates_are_those_of_the_calendar() {
        let dates = [0, 951_782_400, 1_795_305_600].map(date);
        assert_eq!(dates, ["1970-01-01", "2000-02-29", "2026-11-22"]);
    }
}
