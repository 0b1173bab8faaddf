//! One HTML file: first what is faster at what and where Tembo loses, then each experiment.

use std::fmt::Write;

use super::plot::{places, svg};
use super::{escape, spread};
use crate::finding::{Chart, Claim, Duel, Finding, Report};

const STYLE: &str = include_str!("page.css");

/// Ratios beyond this fill the bar.
const RATIO_MAX: f64 = 16.0;

/// The page.
pub fn html(report: &Report) -> String {
    let mut out = String::new();
    // Writing to a string cannot fail, here and below.
    let _ = write!(
        out,
        r#"<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width,initial-scale=1"><title>Tembo: results</title><style>{STYLE}</style><h1>Tembo: results</h1><p class="faint">{} · {} · seed {}{}</p><p class="faint">Ratios are of trials in the same round: median (least–greatest). Absolute figures are of this machine and this hour.</p>"#,
        escape(&report.machine.to_string()),
        super::markdown::date(report.time_s),
        report.seed,
        if report.quick { " · <b>quick run: few keys and rounds</b>" } else { "" },
    );
    duels(&mut out, report);
    out.push_str("<nav>");
    for finding in &report.findings {
        let name = escape(&finding.name);
        let _ = write!(out, r##"<a href="#{name}">{name}: {}</a>"##, escape(&finding.title));
    }
    out.push_str("</nav>");
    for finding in &report.findings {
        section(&mut out, finding);
    }
    if !report.missing.is_empty() {
        out.push_str("<h2>What could not be done here</h2><table class=claims>");
        for missing in &report.missing {
            let (name, reason) = (escape(&missing.name), escape(&missing.reason));
            let _ = write!(out, "<tr><td>{name}<td>{reason}");
        }
        out.push_str("</table>");
    }
    out
}

/// The first view.
fn duels(out: &mut String, report: &Report) {
    let all = || {
        report.findings.iter().flat_map(|finding| finding.duels.iter().map(move |d| (finding, d)))
    };
    let (wins, count) = (all().filter(|(_, duel)| duel.ratio.median >= 1.0).count(), all().count());
    if count == 0 {
        return;
    }
    let _ = write!(out, "<p class=sentence>Tembo is faster in {wins} of {count} comparisons.</p>");
    for (title, won) in [("Where Tembo loses", false), ("Where Tembo is faster", true)] {
        let mut part: Vec<_> =
            all().filter(|(_, duel)| (duel.ratio.median >= 1.0) == won).collect();
        if part.is_empty() {
            continue;
        }
        part.sort_by(|a, b| a.1.ratio.median.total_cmp(&b.1.ratio.median));
        if won {
            part.reverse();
        }
        let _ = write!(out, "<h3>{title}</h3><table class=duels>");
        for (finding, duel) in part {
            row(out, finding, duel);
        }
        out.push_str("</table>");
    }
}

fn row(out: &mut String, finding: &Finding, duel: &Duel) {
    let Duel { what, rival, ratio } = duel;
    let share = (ratio.median.clamp(1.0 / RATIO_MAX, RATIO_MAX).ln() / RATIO_MAX.ln()) * 50.0;
    let (class, left, width) =
        if share >= 0.0 { ("win", 50.0, share) } else { ("lose", 50.0 + share, -share) };
    let _ = write!(
        out,
        r##"<tr><td class=what><a href="#{}">{}</a><td class=what>to {}<td><div class=bar><i class={class} style="left:{left:.1}%;width:{width:.1}%"></i></div><td class={class}s style="background:none">{}×"##,
        escape(&finding.name),
        escape(what),
        escape(rival),
        spread(*ratio),
    );
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
        out.push_str("<table class=claims><tr><th><th>The document<th>Here");
        for Claim { what, document, here } in claims {
            let [what, document, here] = [what, document, here].map(|text| escape(text));
            let _ = write!(out, "<tr><td>{what}<td>{document}<td>{here}");
        }
        out.push_str("</table>");
    }
    for chart in charts {
        out.push_str(&svg(chart));
        table(out, chart);
    }
    for note in notes {
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
    use crate::finding::{Point, Series, Shape};
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
        let (findings, missing) = (vec![finding], Vec::new());
        Report { machine: Machine::this(), time_s: 0, quick: true, seed: 1, findings, missing }
    }

    /// No reader fetches anything, losses come first, and text stays text.
    #[test]
    fn the_page_needs_nothing_else_and_begins_with_losses() {
        let page = html(&report());
        for outside in ["http://", "https://", "<script", "src="] {
            let found = page.replace("http://www.w3.org/2000/svg", "").contains(outside);
            assert!(!found, "{outside}");
        }
        assert!(page.find("Where Tembo loses") < page.find("Where Tembo is faster"));
        assert!(page.contains("faster in 1 of 2 comparisons"));
        assert!(page.contains("prefers-color-scheme:dark") && !page.contains("<one>"));
        assert_eq!(page.matches("<svg").count(), 5);
        assert!(!page.contains("NaN") && !page.contains("inf"));
    }

    #[test]
    fn an_older_report_gives_what_a_later_one_does_not_have() {
        let (mut older, mut later) = (report(), report());
        older.findings[0].name = "micro".into();
        later.findings[0].name = "ycsb".into();
        let both = later.with_older(older, &["micro", "ycsb"]);
        let names: Vec<&str> = both.findings.iter().map(|finding| &finding.name[..]).collect();
        assert_eq!(names, ["micro", "ycsb"]);
    }
}
