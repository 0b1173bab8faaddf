//! A y axis: from a value to a height, and where its ticks stand.

/// A linear or logarithmic axis.
pub(super) struct Scale {
    low: f64,
    high: f64,
    logarithmic: bool,
}

impl Scale {
    /// That holds all of `values`.
    pub(super) fn of(values: impl Iterator<Item = f64> + Clone, logarithmic: bool) -> Scale {
        let positive = values.filter(|value| value.is_finite() && *value > 0.0);
        let high = positive.clone().fold(0.0, f64::max);
        let low = positive.fold(f64::INFINITY, f64::min);
        if high <= 0.0 {
            return Scale { low: 0.0, high: 1.0, logarithmic: false };
        }
        if logarithmic {
            let low = 10_f64.powf((low / 1.2).log10().floor());
            return Scale { low, high: round_up(high * 1.05), logarithmic };
        }
        let step = step(high * 1.02);
        Scale { low: 0.0, high: (high * 1.02 / step).ceil() * step, logarithmic }
    }

    /// Where a value stands: 0 at the bottom, 1 at the top.
    pub(super) fn height(&self, value: f64) -> f64 {
        let place = if self.logarithmic {
            (value.max(self.low) / self.low).ln() / (self.high / self.low).ln()
        } else {
            (value - self.low) / (self.high - self.low)
        };
        place.clamp(0.0, 1.0)
    }

    /// Round values, from two to about ten; the first stands at the bottom, the last at the top.
    pub(super) fn ticks(&self) -> Vec<f64> {
        if self.logarithmic {
            let decades = (self.high / self.low).log10();
            let steps: &[f64] = if decades < 2.0 { &[1.0, 2.0, 5.0] } else { &[1.0] };
            let (first, last) = (self.low.log10().round() as i32, self.high.log10().floor() as i32);
            let ticks =
                (first..=last).flat_map(|power| steps.iter().map(move |s| s * 10_f64.powi(power)));
            let mut ticks: Vec<f64> =
                ticks.filter(|tick| *tick < self.high / SAME).chain([self.high]).collect();
            ticks.retain(|tick| *tick >= self.low / SAME);
            return ticks;
        }
        let step = step(self.high - self.low);
        let count = ((self.high - self.low) / step).round() as u32;
        (0..=count).map(|n| self.low + f64::from(n) * step).collect()
    }
}

/// Values whose ratio is below this are the same.
const SAME: f64 = 1.0001;

/// The next of 1, 2 and 5 times a power of ten.
fn round_up(value: f64) -> f64 {
    let power = 10_f64.powf(value.log10().floor());
    [1.0, 2.0, 5.0]
        .map(|s| s * power)
        .into_iter()
        .find(|s| s * SAME >= value)
        .unwrap_or(10.0 * power)
}

/// The distance of about five round values below `span`.
fn step(span: f64) -> f64 {
    let rough = span / 5.0;
    let power = 10_f64.powf(rough.log10().floor());
    let steps = [1.0, 2.0, 2.5, 5.0, 10.0].map(|s| s * power);
    steps.into_iter().find(|s| *s >= rough).unwrap_or(rough)
}

/// Three digits, with a letter for thousands and more.
pub(crate) fn figure(value: f64) -> String {
    let size = value.abs();
    let (value, unit) = match size {
        _ if size >= 1e9 => (value / 1e9, " G"),
        _ if size >= 1e6 => (value / 1e6, " M"),
        _ if size >= 1e4 => (value / 1e3, " k"),
        _ => (value, ""),
    };
    let digits = match value.abs() {
        0.0 => 0,
        size if size >= 99.95 => 0,
        size if size >= 9.995 => 1,
        size if size >= 0.0995 => 2,
        _ => 4,
    };
    let text = format!("{value:.digits$}");
    let text =
        if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
    format!("{text}{unit}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_lie_within() {
        for (high, logarithmic) in
            [(7.3, false), (1234.0, false), (0.02, false), (5e6, true), (3.0, true)]
        {
            let scale = Scale::of([high / 50.0, high].into_iter(), logarithmic);
            let ticks = scale.ticks();
            assert!((2..=12).contains(&ticks.len()), "{high}: {ticks:?}");
            assert!(ticks.iter().all(|tick| (0.0..=1.0).contains(&scale.height(*tick))));
            assert!(scale.height(high) > scale.height(high / 2.0));
            // An axis says where it begins and where it ends.
            let ends = [ticks[0], ticks[ticks.len() - 1]].map(|tick| scale.height(tick));
            assert!(ends[0] < 1e-6 && ends[1] > 1.0 - 1e-6, "{high}: {ticks:?}");
        }
    }

    #[test]
    fn figures_are_short() {
        let figures = [0.0, 0.5, 1.25, 12.34, 123.4, 9999.0, 12_345.0, 2e6, 3.5e9].map(figure);
        assert_eq!(figures, ["0", "0.5", "1.25", "12.3", "123", "9999", "12.3 k", "2 M", "3.5 G"]);
    }
}
