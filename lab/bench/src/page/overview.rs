//! Where Tembo wins and loses, as one picture: a row for each rival, a dot for each comparison.

use std::fmt::Write;

use super::escape;
use super::scale::figure;
use crate::finding::{Duel, Report};

const WIDTH: f64 = 760.0;
const LEFT: f64 = 170.0;
const RIGHT: f64 = 96.0;
const TOP: f64 = 46.0;
const ROW: f64 = 22.0;
/// Ratios beyond this stand at the edge.
const RATIO_MAX: f64 = 32.0;

/// Trees that only the documents have: not what a user would otherwise pick.
pub(super) const BASELINES: [&str; 4] =
    ["LCB+-Tree", "CDDS as published", "NV-Tree as published", "NV-Tree as published, fixed"];

/// The duels with a rival.
struct Row<'r> {
    rival: &'r str,
    duels: Vec<&'r Duel>,
}

impl Row<'_> {
    fn wins(&self) -> usize {
        self.duels.iter().filter(|duel| duel.ratio.median >= 1.0).count()
    }
}

/// With other stores and servers, how often Tembo is faster, and how often it was compared.
pub(super) fn score(report: &Report) -> (usize, usize) {
    let rows = rows(report);
    let others = rows.iter().filter(|row| !BASELINES.contains(&row.rival));
    others.fold((0, 0), |(wins, all), row| (wins + row.wins(), all + row.duels.len()))
}

/// The picture as one SVG element; empty if nothing was compared.
pub(super) fn svg(report: &Report) -> String {
    let rows = rows(report);
    if rows.is_empty() {
        return String::new();
    }
    let bottom = TOP + ROW * rows.len() as f64;
    let height = bottom + 34.0;
    let mut out = String::new();
    // Writing to a string cannot fail, here and below.
    let _ = write!(
        out,
        r#"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img" aria-label="Where Tembo wins and loses"><rect class="ground" width="{WIDTH}" height="{height}"/><text class="title" x="8" y="18">Tembo's throughput to each rival's: a dot for each comparison</text><text class="tick" x="8" y="36">times as fast: left of 1 Tembo loses</text>"#,
    );
    for ratio in [1.0 / 32.0, 0.125, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 32.0] {
        let (x, class) = (place(ratio), if ratio == 1.0 { "even" } else { "grid" });
        let text = if ratio < 1.0 { format!("1/{:.0}", 1.0 / ratio) } else { figure(ratio) };
        let _ = write!(
            out,
            r#"<line class="{class}" x1="{x:.1}" x2="{x:.1}" y1="{TOP}" y2="{bottom}"/><text class="tick middle" x="{x:.1}" y="{:.1}">{text}</text>"#,
            bottom + 16.0,
        );
    }
    for (nth, row) in rows.iter().enumerate() {
        let y = TOP + ROW * (nth as f64 + 0.5);
        let _ = write!(
            out,
            r#"<text class="tick end" x="{:.1}" y="{:.1}">{}</text><text class="tick end" x="{:.1}" y="{:.1}">{} of {}</text>"#,
            LEFT - 8.0,
            y + 4.0,
            escape(row.rival),
            WIDTH - 8.0,
            y + 4.0,
            row.wins(),
            row.duels.len(),
        );
        for Duel { what, ratio, .. } in &row.duels {
            let class = if ratio.median >= 1.0 { "won" } else { "lost" };
            let _ = write!(
                out,
                r#"<circle class="{class}" cx="{:.1}" cy="{y:.1}" r="4.5"><title>{}: {}×</title></circle>"#,
                place(ratio.median),
                escape(what),
                super::spread(*ratio),
            );
        }
    }
    let _ = write!(
        out,
        r#"<text class="tick end" x="{:.1}" y="{:.1}">Tembo faster</text></svg>"#,
        WIDTH - 8.0,
        TOP - 8.0
    );
    out
}

/// Where a ratio stands, by its logarithm.
fn place(ratio: f64) -> f64 {
    let share = ratio.clamp(1.0 / RATIO_MAX, RATIO_MAX).ln() / RATIO_MAX.ln();
    LEFT + (WIDTH - LEFT - RIGHT) * (share + 1.0) / 2.0
}

/// Rivals, stores first, those to which Tembo loses most on top.
fn rows(report: &Report) -> Vec<Row<'_>> {
    let mut rows: Vec<Row<'_>> = Vec::new();
    for duel in report.findings.iter().flat_map(|finding| &finding.duels) {
        match rows.iter_mut().find(|row| row.rival == duel.rival) {
            Some(row) => row.duels.push(duel),
            None => rows.push(Row { rival: &duel.rival, duels: vec![duel] }),
        }
    }
    let share = |row: &Row<'_>| row.wins() as f64 / row.duels.len() as f64;
    rows.sort_by(|a, b| {
        let is_baseline = |row: &Row<'_>| BASELINES.contains(&row.rival);
        (is_baseline(a).cmp(&is_baseline(b))).then(share(a).total_cmp(&share(b)))
    });
    rows
}
