//! One HTML file: first the documents' claims, then where Tembo wins and loses, then each experiment.

use std::fmt::Write;

use super::claims::{Row, Verdict, rows};
use super::groups::groups;
use super::plot::{self, places, svg};
use super::{aims, baselines, escape, overview, spread};
use crate::finding::{Chart, Claim, Duel, Finding, Report};

const STYLE: &str = include_str!("page.css");

/// Begins a page that needs nothing else.
const HEAD: &str = r#"<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width,initial-scale=1"><title>Tembo: results</title>"#;

/// The page.
pub fn html(report: &Report) -> String {
    let mut out = String::new();
    // Writing to a string cannot fail, here and below.
    let _ = write!(
        out,
        r#"{HEAD}<style>{STYLE}{}</style><h1>Tembo: results</h1><p class="faint">{}</p>"#,
        plot::STYLE,
        escape(&super::markdown::origin(report)),
    );
    if report.quick {
        out.push_str("<p class=warning><b>A quick run: a smoke test with few keys and rounds. Its figures are no results.</b></p>");
    }
    out.push_str(r#"<p class="faint">Ratios are of trials in the same round: median (least–greatest). Absolute figures are of this machine and this hour.</p>"#);
    claims(&mut out, report);
    wins_and_losses(&mut out, report);
    contents(&mut out, report);
    // In the order of the contents.
    for finding in groups(report).into_iter().flat_map(|(_, part)| part) {
        section(&mut out, finding);
    }
    out.push_str(&baselines::html(report));
    if let Some(text) = super::markdown::not_run(report) {
        let _ = write!(out, "<h2 id=later>Not run yet</h2><p class=faint>{}</p>", escape(&text));
    }
    if !report.missing.is_empty() {
        out.push_str(
            "<h2 id=missing>What could not be done here</h2><div class=wide><table class=claims>",
        );
        for missing in super::missing(report) {
            let (name, reason) = (escape(&missing.name), escape(&missing.reason));
            let _ = write!(out, "<tr><td>{name}<td>{reason}");
        }
        out.push_str("</table></div>");
    }
    out
}

/// The first table.
fn claims(out: &mut String, report: &Report) {
    let rows = rows(report);
    if rows.is_empty() {
        return;
    }
    let count = |verdict| rows.iter().filter(|row| row.verdict == verdict).count();
    let _ = write!(
        out,
        "<h2 id=claims>The documents' claims</h2><p class=sentence>{} of {} point in the document's direction here, {} are times of less than half of the document's, {} do not, {} were not measured or are for a reader to compare.</p><div class=wide><table class=claims><tr><th>Claim<th>The document<th>Here<th>Direction<th>Why",
        count(Verdict::Same),
        rows.len(),
        count(Verdict::Better),
        count(Verdict::Other),
        count(Verdict::NotMeasured) + count(Verdict::Unknown),
    );
    let mut before = "";
    for row in &rows {
        let Row { finding, claim, verdict, why, .. } = row;
        let name = escape(&finding.name);
        if before != finding.name {
            before = &finding.name;
            let _ = write!(
                out,
                r##"<tr class=group><td colspan=5><a href="#{name}">{}</a> · {}"##,
                escape(&finding.title),
                escape(&finding.source)
            );
        }
        let Claim { what, document, here } = claim;
        let [what, document, here] = [what, document, here].map(|text| escape(text));
        let (class, text) = (verdict.class(), row.direction());
        let why = escape(why);
        let _ = write!(
            out,
            "<tr><td>{what}<td>{document}<td>{here}<td class={class}>{text}<td class=faint>{why}"
        );
    }
    out.push_str("</table></div>");
}

/// The picture, and its figures for those that want them.
fn wins_and_losses(out: &mut String, report: &Report) {
    let (wins, count) = overview::score(report);
    let picture = overview::svg(report);
    if picture.is_empty() {
        return;
    }
    out.push_str("<h2 id=rivals>Where Tembo wins and loses</h2>");
    if count > 0 {
        let _ = write!(
            out,
            "<p class=sentence>Tembo is faster in {wins} of {count} comparisons with other stores and servers.</p>"
        );
    }
    let _ = write!(out, "<div class=plot>{picture}</div>");
}

/// Experiments by what they come from.
fn contents(out: &mut String, report: &Report) {
    out.push_str("<h2 id=contents>Experiments</h2><nav>");
    for (title, part) in groups(report) {
        let _ = write!(out, "<div><b>{title}</b>");
        for finding in part {
            let name = escape(&finding.name);
            let _ = write!(out, r##"<a href="#{name}">{name}: {}</a>"##, escape(&finding.title));
        }
        out.push_str("</div>");
    }
    out.push_str("</nav>");
}

fn duels(out: &mut String, duels: &[Duel]) {
    if duels.is_empty() {
        return;
    }
    out.push_str("<details><summary>Tembo to each rival</summary><table class=duels>");
    for Duel { what, rival, ratio } in duels {
        let class = if ratio.median >= 1.0 { "wins" } else { "loses" };
        let _ = write!(
            out,
            "<tr><td class=what>{}<td class=what>to {}<td class={class}>{}×",
            escape(what),
            escape(rival),
            spread(*ratio),
        );
    }
    out.push_str("</table></details>");
}

fn section(out: &mut String, finding: &Finding) {
    let Finding { name, title, source, sentence, charts, claims, notes, .. } = finding;
    let (name, title) = (escape(name), escape(title));
    let _ = write!(
        out,
        r#"<h2 id="{name}">{title}</h2><p class=faint>{} · <code>tembo-lab bench {name}</code></p><p class=sentence>{}</p>"#,
        escape(source),
        escape(sentence),
    );
    if !claims.is_empty() {
        // Claims of documents have their reasons in the first table, aims here.
        let are_missed = aims::are_missed(finding);
        out.push_str("<div class=wide><table class=claims><tr><th><th>The document<th>Here");
        out.push_str(if are_missed { "<th>Why not" } else { "" });
        for claim in claims {
            let Claim { what, document, here } = claim;
            let [what, document, here] = [what, document, here].map(|text| escape(text));
            let _ = write!(out, "<tr><td>{what}<td>{document}<td>{here}");
            if are_missed {
                let _ = write!(out, "<td class=faint>{}", escape(aims::why(finding, claim)));
            }
        }
        out.push_str("</table></div>");
    }
    duels(out, &finding.duels);
    for chart in charts {
        let _ = write!(out, "<div class=plot>{}</div>", svg(chart));
        table(out, chart);
    }
    out.push_str(&baselines::html_pointer(finding));
    for note in notes.iter().chain(&super::markdown::measured(finding)) {
        let _ = write!(out, "<p class=faint>{}</p>", escape(note));
    }
}

fn table(out: &mut String, chart: &Chart) {
    let places = places(&chart.series);
    if places.len() > 40 {
        return;
    }
    let _ =
        write!(out, "<details><summary>as a table: {}</summary><table><tr><th>", escape(&chart.y));
    for place in &places {
        let _ = write!(out, "<th>{}", escape(place));
    }
    for series in &chart.series {
        let _ = write!(out, "<tr><td>{}", escape(&series.name));
        for place in &places {
            let point = series.points.iter().find(|point| point.at == *place);
            let text = point.map_or("–".into(), |point| spread(point.value));
            let _ = write!(out, "<td>{text}");
        }
    }
    out.push_str("</table></details>");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::{Measured, Missing, Point, Series, Shape};
    use crate::machine::Machine;
    use crate::spread::Spread;

    fn report() -> Report {
        let value = |median| Spread { median, best: median * 1.1, worst: median * 0.9 };
        let points = |from: f64| {
            let point = |n: u32| Point { at: n.to_string(), value: value(from * f64::from(n)) };
            (1..6).map(point).collect()
        };
        let chart = |shape| Chart {
            title: "a & b".into(),
            x: "x".into(),
            y: "y".into(),
            shape,
            series: vec![
                Series { name: "<one>".into(), points: points(3.0) },
                Series { name: "two".into(), points: points(40.0) },
            ],
        };
        let mut finding = Finding::new("test", "A test", "nowhere");
        finding.charts = [Shape::Bars, Shape::LogBars, Shape::Lines, Shape::LogLines, Shape::Heat]
            .map(chart)
            .into();
        finding.duel("puts", "slow", Some(value(3.0)));
        finding.duel("gets", "fast", Some(value(0.5)));
        finding.claim("a figure", "7×", None);
        finding.claim("another", "7×", Some("2.00×".into()));
        let (findings, missing) = (vec![finding], Vec::new());
        let (commit, command) = ("c0ffee".into(), "tembo-lab bench test".into());
        Report {
            machine: Machine::this(),
            time_s: 0,
            quick: true,
            seed: 1,
            commit,
            command,
            findings,
            missing,
        }
    }

    /// No reader fetches anything, claims come first, then rivals, then contents, and text stays text.
    #[test]
    fn the_page_needs_nothing_else_and_begins_with_claims() {
        let page = html(&report());
        for outside in ["http://", "https://", "<script", "src="] {
            let found = page.replace("http://www.w3.org/2000/svg", "").contains(outside);
            assert!(!found, "{outside}");
        }
        let places: Vec<Option<usize>> = ["id=claims", "id=rivals", "id=contents", "id=\"test\""]
            .into_iter()
            .map(|part| page.find(part))
            .collect();
        assert!(places.iter().all(Option::is_some) && places.is_sorted(), "{places:?}");
        assert!(page.contains("faster in 1 of 2 comparisons"));
        assert!(page.contains("c0ffee") && page.contains("smoke test"));
        assert!(page.contains("prefers-color-scheme:dark") && !page.contains("<one>"));
        assert_eq!(page.matches("<svg").count(), 6);
        assert!(!page.contains("NaN") && !page.contains("inf"));
    }

    #[test]
    fn groups_without_experiments_are_left_out_and_a_page_has_one_style() {
        let mut report = report();
        let mut other = report.findings[0].clone();
        other.name = "durablefs-small".into();
        report.findings.push(other);
        let groups = groups(&report);
        assert_eq!(groups.len(), 2);
        assert!(groups.iter().all(|(_, part)| part.len() == 1));
        let page = html(&report);
        assert!(page.contains("<b>DurableFS</b><a href=\"#durablefs-small\">"));
        assert_eq!((page.matches("<style>").count(), page.matches(".c19{").count()), (1, 2));
    }

    /// A full run that went on for days: each finding says of which commit it is, and what is not there yet is named.
    #[test]
    fn a_finding_says_when_it_was_measured_and_the_page_what_it_lacks() {
        let mut report = report();
        report.findings[0].name = "micro".into();
        report.findings[0].measured = Some(Measured {
            time_s: 86_400 * 59,
            lasted_s: 61,
            machine: Machine::this(),
            commit: "decade".into(),
            command: "tembo-lab bench micro".into(),
            rounds: 3,
        });
        report.missing.push(Missing { name: "ycsb".into(), reason: "no disk".into() });
        for page in [html(&report), crate::page::markdown(&report)] {
            assert!(page.contains("Measured 1970-03-01, up to 3 rounds, 2 min, commit decade"));
            assert!(page.contains("Measured in parts on 1970-03-01;"));
            let lacks = page.split("It lacks: ").nth(1).and_then(|text| text.split('.').next());
            let lacks: Vec<&str> = lacks.unwrap_or_default().split(", ").collect();
            assert!(lacks.contains(&"transactions"), "{lacks:?}");
            assert!(!lacks.contains(&"micro") && !lacks.contains(&"ycsb"), "{lacks:?}");
        }
    }

    /// The column is there where an aim is missed, and nowhere else.
    #[test]
    fn an_aim_that_is_missed_has_its_reason_beside_it() {
        let mut report = report();
        for page in [html(&report), crate::page::markdown(&report)] {
            assert!(!page.contains("hy not"));
        }
        report.findings[0].name = "durablefs-stream".into();
        report.findings[0].claim("cached read", "aim: about 1", Some("0.33×".into()));
        report.findings[0].claim("write", "aim: at least 0.8", Some("2.55×".into()));
        for page in [html(&report), crate::page::markdown(&report)] {
            assert_eq!(page.matches("Why not").count() + page.matches("why not").count(), 1);
            assert_eq!(page.matches("out of its cache").count(), 1);
        }
    }

    #[test]
    fn what_could_not_be_done_is_named_once() {
        let mut report = report();
        for name in ["reads of PCM", "reads of PCM in real time", "reads"] {
            report.missing.push(Missing { name: name.into(), reason: "not here".into() });
        }
        for page in [html(&report), crate::page::markdown(&report)] {
            assert_eq!(page.matches("not here").count(), 1);
            assert!(page.contains("reads of PCM in real time"));
        }
    }

    #[test]
    fn an_older_report_gives_what_a_later_one_does_not_have() {
        let (mut older, mut later) = (report(), report());
        older.findings[0].name = "micro".into();
        later.findings[0].name = "ycsb".into();
        let missing = |name: &str| Missing { name: name.into(), reason: "not here".into() };
        (older.missing, later.missing) = (Vec::new(), vec![missing("a drive")]);
        older.missing.extend(["ycsb", "latency", "a server that is one by now"].map(missing));
        let both = later.with_older(older, &["micro", "latency", "ycsb"]);
        let names: Vec<&str> = both.findings.iter().map(|finding| &finding.name[..]).collect();
        assert_eq!(names, ["micro", "ycsb"]);
        let names: Vec<&str> = both.missing.iter().map(|missing| &missing.name[..]).collect();
        assert_eq!(names, ["a drive", "latency"]);
    }
}
