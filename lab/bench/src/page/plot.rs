//! Charts as SVG that stands alone: colours follow the reader's light or dark.

use std::fmt::Write;

use super::colour::colours;
use super::escape;
use super::scale::{Scale, figure};
use crate::finding::{Chart, Series, Shape};

const WIDTH: f64 = 760.0;
/// Of the part between the axes.
const HEIGHT: f64 = 230.0;
const LEFT: f64 = 62.0;
const RIGHT: f64 = 12.0;
/// Title, and below it what the y axis is.
const TOP: f64 = 50.0;
const LEGEND_ROW: f64 = 18.0;
/// Width of a character of the legend, about.
const LETTER: f64 = 6.4;
/// Height of a line of labels.
const LINE: f64 = 13.0;
/// Letters between two labels of the x axis.
const GAP: f64 = 2.0;

/// How all plots look; a page has it once, a file has its own.
pub(super) const STYLE: &str = include_str!("plot.css");

/// The chart as a file of its own.
pub(super) fn file(chart: &Chart) -> String {
    with_style(chart, &format!("<style>{STYLE}</style>"))
}

/// The chart as one SVG element of a page that has the style.
pub(super) fn svg(chart: &Chart) -> String {
    with_style(chart, "")
}

fn with_style(chart: &Chart, style: &str) -> String {
    let mut out = String::new();
    let places = places(&chart.series);
    let legend = Legend::of(&chart.series);
    let heat = chart.shape == Shape::Heat;
    let inner = if heat { 26.0 * chart.series.len() as f64 } else { HEIGHT };
    let drawn = Drawn::new(chart, &places);
    let below = TOP + inner + if heat { 40.0 } else { 27.0 + LINE * drawn.label_lines() as f64 };
    let height = if heat { below } else { below + legend.height() };
    // Writing to a string cannot fail.
    let _ = write!(
        out,
        r#"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{}">{style}<rect class="ground" width="{WIDTH}" height="{height}"/><text class="title" x="8" y="18">{}</text>"#,
        escape(&chart.title),
        escape(&chart.title),
    );
    if heat {
        cells(&mut out, chart, &places);
    } else {
        drawn.axes(&mut out);
        match chart.shape {
            Shape::Lines | Shape::LogLines => drawn.lines(&mut out),
            _ => drawn.bars(&mut out),
        }
        legend.draw(&mut out, &chart.series, &drawn.colours, below);
    }
    out.push_str("</svg>");
    out
}

/// All places, in the order in which series have them.
pub(super) fn places(series: &[Series]) -> Vec<String> {
    let mut places: Vec<String> = Vec::new();
    for point in series.iter().flat_map(|series| &series.points) {
        if !places.contains(&point.at) {
            places.push(point.at.clone());
        }
    }
    places
}

struct Drawn<'c> {
    chart: &'c Chart,
    places: &'c [String],
    scale: Scale,
    colours: Vec<usize>,
    /// Labels of the x axis in lines, and each how many of them stands.
    labels: (Vec<Vec<String>>, usize),
}

impl<'c> Drawn<'c> {
    fn new(chart: &'c Chart, places: &'c [String]) -> Drawn<'c> {
        let points = chart.series.iter().flat_map(|series| &series.points);
        let values =
            points.flat_map(|point| [point.value.median, point.value.best, point.value.worst]);
        let logarithmic = matches!(chart.shape, Shape::LogBars | Shape::LogLines);
        let colours = colours(chart.series.iter().map(|series| series.name.as_str()));
        let mut drawn = Drawn {
            chart,
            places,
            scale: Scale::of(values, logarithmic),
            colours,
            labels: (Vec::new(), 1),
        };
        drawn.labels = drawn.labels();
        drawn
    }

    /// Labels that fit beside each other: in several lines, or only some where they are numbers.
    fn labels(&self) -> (Vec<Vec<String>>, usize) {
        let letters = (self.step() / LETTER - GAP).max(1.0) as usize;
        let is_number = |place: &String| place.parse::<f64>().is_ok();
        if !self.places.iter().all(is_number) {
            let labels: Vec<Vec<String>> =
                self.places.iter().map(|place| wrapped(place, letters)).collect();
            if labels.iter().flatten().all(|line| line.chars().count() <= letters + 1) {
                return (labels, 1);
            }
        }
        let widest = self.places.iter().map(|place| place.chars().count()).max().unwrap_or(1);
        let every = ((widest as f64 + GAP) * LETTER / self.step()).ceil().max(1.0) as usize;
        (self.places.iter().map(|place| vec![place.clone()]).collect(), every)
    }

    fn label_lines(&self) -> usize {
        self.labels.0.iter().map(Vec::len).max().unwrap_or(1)
    }

    fn y(&self, value: f64) -> f64 {
        TOP + HEIGHT * (1.0 - self.scale.height(value))
    }

    /// The width that a place has.
    fn step(&self) -> f64 {
        (WIDTH - LEFT - RIGHT) / self.places.len().max(1) as f64
    }

    fn middle(&self, at: &str) -> f64 {
        let place = self.places.iter().position(|place| place == at).unwrap_or(0);
        LEFT + self.step() * (place as f64 + 0.5)
    }

    fn axes(&self, out: &mut String) {
        for tick in self.scale.ticks() {
            let y = self.y(tick);
            let (right, text) = (WIDTH - RIGHT, figure(tick));
            let _ = write!(
                out,
                r#"<line class="grid" x1="{LEFT}" x2="{right}" y1="{y:.1}" y2="{y:.1}"/><text class="tick end" x="{}" y="{:.1}">{text}</text>"#,
                LEFT - 5.0,
                y + 4.0,
            );
        }
        let bottom = TOP + HEIGHT;
        for (place, lines) in self.places.iter().zip(&self.labels.0).step_by(self.labels.1) {
            let x = self.middle(place);
            for (nth, line) in lines.iter().enumerate() {
                let _ = write!(
                    out,
                    r#"<text class="tick middle" x="{x:.1}" y="{:.1}">{}</text>"#,
                    bottom + 15.0 + LINE * nth as f64,
                    escape(line)
                );
            }
        }
        let _ = write!(
            out,
            r#"<text class="tick middle" x="{:.1}" y="{:.1}">{}</text><text class="tick" x="8" y="36">{}</text>"#,
            (LEFT + WIDTH - RIGHT) / 2.0,
            bottom + 18.0 + LINE * self.label_lines() as f64,
            escape(&self.chart.x),
            escape(&self.chart.y),
        );
    }

    fn bars(&self, out: &mut String) {
        let count = self.chart.series.len().max(1) as f64;
        let width = (self.step() * 0.84 / count).min(48.0);
        for (nth, series) in self.chart.series.iter().enumerate() {
            let mut whiskers = Whiskers::default();
            for point in &series.points {
                let x = self.middle(&point.at) + (nth as f64 - count / 2.0) * width;
                let (y, value) = (self.y(point.value.median), point.value);
                let _ = write!(
                    out,
                    r#"<rect class="c{}" x="{x:.1}" y="{y:.1}" width="{:.1}" height="{:.1}"><title>{}</title></rect>"#,
                    self.colours[nth],
                    (width - 1.0).max(1.0),
                    (TOP + HEIGHT - y).max(0.5),
                    escape(&format!("{}, {}: {}", series.name, point.at, spread(value))),
                );
                if width > 5.0 && value.best > value.worst {
                    let ends = [value.worst, value.best].map(|value| self.y(value));
                    whiskers.add(x + width / 2.0 - 0.5, ends);
                }
            }
            whiskers.draw(out);
        }
    }

    fn lines(&self, out: &mut String) {
        for (nth, series) in self.chart.series.iter().enumerate() {
            let class = self.colours[nth];
            let place = |at: &str, value| format!("{:.1},{:.1}", self.middle(at), self.y(value));
            let path = series.points.iter().map(|point| place(&point.at, point.value.median));
            let path: Vec<String> = path.collect();
            let _ = write!(out, r#"<polyline class="s{class}" points="{}"/>"#, path.join(" "));
            if series.points.len() > 60 {
                continue;
            }
            let mut whiskers = Whiskers::default();
            for point in &series.points {
                let ends = [point.value.worst, point.value.best].map(|value| self.y(value));
                whiskers.add(self.middle(&point.at), ends);
                let _ = write!(
                    out,
                    r#"<circle class="c{class}" cx="{:.1}" cy="{:.1}" r="3.5"><title>{}</title></circle>"#,
                    self.middle(&point.at),
                    self.y(point.value.median),
                    escape(&format!("{}, {}: {}", series.name, point.at, spread(point.value))),
                );
            }
            whiskers.draw(out);
        }
    }
}

/// From the worst to the best of each point of a series: one path, since each line of its own took a sixth of the page.
#[derive(Default)]
struct Whiskers {
    path: String,
}

impl Whiskers {
    fn add(&mut self, x: f64, [low, high]: [f64; 2]) {
        // Writing to a string cannot fail.
        let _ = write!(self.path, "M{x:.1} {low:.1}V{high:.1}");
    }

    fn draw(&self, out: &mut String) {
        if !self.path.is_empty() {
            let _ = write!(out, r#"<path class="whisker" d="{}"/>"#, self.path);
        }
    }
}

/// A label in lines of about so many letters.
fn wrapped(label: &str, letters: usize) -> Vec<String> {
    let mut lines: Vec<String> = vec![String::new()];
    for word in label.split(' ') {
        let last = lines.len() - 1;
        let len = lines[last].chars().count();
        if len > 0 && len + 1 + word.chars().count() > letters {
            lines.push(word.into());
        } else {
            if len > 0 {
                lines[last].push(' ');
            }
            lines[last].push_str(word);
        }
    }
    lines
}

fn spread(value: crate::Spread) -> String {
    let [median, worst, best] = [value.median, value.worst, value.best].map(figure);
    format!("{median} ({worst} to {best})")
}

/// A row of cells for each series: the more, the darker.
fn cells(out: &mut String, chart: &Chart, places: &[String]) {
    let values =
        chart.series.iter().flat_map(|series| &series.points).map(|point| point.value.median);
    let most = values.fold(0.0, f64::max).max(1.0);
    let widest = chart.series.iter().map(|series| series.name.chars().count()).max().unwrap_or(0);
    let left = 16.0 + LETTER * widest as f64;
    let width = (WIDTH - left - RIGHT) / places.len().max(1) as f64;
    for (row, series) in chart.series.iter().enumerate() {
        let y = TOP + 26.0 * row as f64;
        let _ = write!(
            out,
            r#"<text class="tick end" x="{}" y="{:.1}">{}</text>"#,
            left - 6.0,
            y + 15.0,
            escape(&series.name)
        );
        for (column, point) in series.points.iter().enumerate() {
            let shade = (point.value.median / most).sqrt();
            let _ = write!(
                out,
                r#"<rect class="heat" x="{:.2}" y="{y:.1}" width="{:.2}" height="22" fill-opacity="{shade:.3}"><title>{}: {}</title></rect>"#,
                left + column as f64 * width,
                width,
                escape(&point.at),
                figure(point.value.median),
            );
        }
    }
    let bottom = TOP + 26.0 * chart.series.len() as f64 + 16.0;
    let _ = write!(
        out,
        r#"<text class="tick" x="{left}" y="{bottom:.1}">{} (darkest: {} {})</text>"#,
        escape(&chart.x),
        figure(most),
        escape(&chart.y),
    );
}

/// Names of series in rows.
struct Legend {
    /// Where each name begins: from the left, and its row.
    starts: Vec<(f64, usize)>,
}

impl Legend {
    fn of(series: &[Series]) -> Legend {
        let (mut x, mut row) = (LEFT, 0);
        let mut starts = Vec::new();
        for series in series {
            let width = 26.0 + LETTER * series.name.chars().count() as f64;
            if x + width > WIDTH && x > LEFT {
                (x, row) = (LEFT, row + 1);
            }
            starts.push((x, row));
            x += width;
        }
        Legend { starts }
    }

    fn height(&self) -> f64 {
        self.starts.last().map_or(0.0, |(_, row)| (*row as f64 + 1.0) * LEGEND_ROW) + 4.0
    }

    fn draw(&self, out: &mut String, series: &[Series], colours: &[usize], top: f64) {
        for (nth, (series, (x, row))) in series.iter().zip(&self.starts).enumerate() {
            let y = top + *row as f64 * LEGEND_ROW;
            let _ = write!(
                out,
                r#"<rect class="c{}" x="{x:.1}" y="{y:.1}" width="11" height="11"/><text class="tick" x="{:.1}" y="{:.1}">{}</text>"#,
                colours[nth],
                x + 15.0,
                y + 10.0,
                escape(&series.name),
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Spread;
    use crate::finding::Point;

    #[test]
    fn the_ranges_of_a_series_are_one_path_as_high_as_they_reach() {
        let value = |worst, best| Spread { median: 5.0, best, worst };
        let [narrow, wide] = [value(4.0, 6.0), value(0.0, 10.0)];
        let point = |at: &str, value| Point { at: at.into(), value };
        let points = vec![point("1", narrow), point("2", wide)];
        let series = vec![Series { name: "one".into(), points }];
        let chart = Chart {
            title: "title".into(),
            x: "x".into(),
            y: "y".into(),
            shape: Shape::Lines,
            series,
        };
        let drawn = svg(&chart);
        let (_, path) = drawn.split_once(r#"class="whisker" d="M"#).unwrap_or_default();
        let (path, rest) = path.split_once('"').unwrap_or_default();
        assert!(!rest.contains("whisker"), "{drawn}");
        let lengths = path.split('M').map(|line| {
            let (from, to) = line.split_once('V').unwrap_or_default();
            let (_, from) = from.split_once(' ').unwrap_or_default();
            from.parse::<f64>().unwrap_or_default() - to.parse::<f64>().unwrap_or_default()
        });
        let lengths: Vec<f64> = lengths.collect();
        // The least is 0 and the most is the top of the axis, or below it.
        assert_eq!(lengths.len(), 2, "{path}");
        assert!((lengths[1] / lengths[0] - 5.0).abs() < 0.1, "{lengths:?}");
        assert!(lengths[1] <= HEIGHT, "{lengths:?}");
    }
}
