//! Figures as they come in, round by round; what is reported later is computed within rounds.

use crate::finding::{Chart, Point, Series, Shape};
use crate::spread::Spread;

/// One figure a round for each series at each place of the x axis.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sheet {
    entries: Vec<Entry>,
}

#[derive(Clone, Debug)]
struct Entry {
    series: String,
    at: String,
    figures: Vec<f64>,
}

/// How a chart of a sheet is labelled.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Labels {
    pub(crate) title: &'static str,
    pub(crate) x: &'static str,
    pub(crate) y: &'static str,
}

impl Sheet {
    /// Adds the figure of another round.
    pub(crate) fn push(&mut self, series: &str, at: impl ToString, figure: f64) {
        let at = at.to_string();
        match self.entries.iter_mut().find(|entry| entry.series == series && entry.at == at) {
            Some(entry) => entry.figures.push(figure),
            None => {
                let (series, figures) = (series.to_owned(), vec![figure]);
                self.entries.push(Entry { series, at, figures });
            }
        }
    }

    fn figures(&self, series: &str, at: &str) -> &[f64] {
        let found = self.entries.iter().find(|entry| entry.series == series && entry.at == at);
        found.map_or(&[], |entry| &entry.figures)
    }

    /// A figure over all rounds; `None` if there is none.
    pub(crate) fn spread(&self, series: &str, at: impl ToString) -> Option<Spread> {
        Spread::of(self.figures(series, &at.to_string()).iter().copied())
    }

    /// One series divided by another at the same place, in the same round.
    pub(crate) fn ratio(&self, above: &str, below: &str, at: impl ToString) -> Option<Spread> {
        let at = at.to_string();
        self.ratio_between((above, &at), (below, &at))
    }

    /// One series at a place divided by another at a place of its own, in the same round.
    pub(crate) fn ratio_between(&self, above: (&str, &str), below: (&str, &str)) -> Option<Spread> {
        let pairs = self.figures(above.0, above.1).iter().zip(self.figures(below.0, below.1));
        Spread::of(pairs.filter(|(_, below)| **below > 0.0).map(|(above, below)| above / below))
    }

    /// A series divided by that of another sheet at the same place, in the same round.
    pub(crate) fn ratio_to(
        &self,
        below: &Sheet,
        series: &str,
        at: impl ToString,
    ) -> Option<Spread> {
        let at = at.to_string();
        let pairs = self.figures(series, &at).iter().zip(below.figures(series, &at));
        Spread::of(pairs.filter(|(_, below)| **below > 0.0).map(|(above, below)| above / below))
    }

    /// All of it, series and places in the order in which they came.
    pub(crate) fn chart(&self, shape: Shape, labels: Labels) -> Chart {
        let mut series: Vec<Series> = Vec::new();
        for entry in &self.entries {
            let Some(value) = Spread::of(entry.figures.iter().copied()) else { continue };
            let point = Point { at: entry.at.clone(), value };
            match series.iter_mut().find(|series| series.name == entry.series) {
                Some(series) => series.points.push(point),
                None => series.push(Series { name: entry.series.clone(), points: vec![point] }),
            }
        }
        let Labels { title, x, y } = labels;
        Chart { title: title.into(), x: x.into(), y: y.into(), shape, series }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn a_slow_round_changes_no_ratio() {
        let mut sheet = Sheet::default();
        for slowness in [1.0, 10.0, 2.0] {
            sheet.push("fast", "4 KiB", 8.0 / slowness);
            sheet.push("slow", "4 KiB", 2.0 / slowness);
        }
        let ratio = sheet.ratio("fast", "slow", "4 KiB").unwrap();
        assert_eq!((ratio.worst, ratio.median, ratio.best), (4.0, 4.0, 4.0));
        assert_eq!(sheet.ratio("fast", "absent", "4 KiB"), None);
        assert_eq!(sheet.spread("slow", "4 KiB").unwrap().median, 1.0);
    }
}
