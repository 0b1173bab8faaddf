//! A figure with its spread.

use serde::{Deserialize, Serialize};

/// A figure over all rounds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    /// The median; of an even number, the mean of the middle two.
    pub median: f64,
    /// The greatest, which in a ratio or a throughput is the best.
    pub best: f64,
    /// The least.
    pub worst: f64,
}

impl Spread {
    pub(crate) fn of(figures: impl IntoIterator<Item = f64>) -> Option<Spread> {
        let mut figures: Vec<f64> = figures.into_iter().collect();
        figures.sort_by(f64::total_cmp);
        let (&worst, &best) = (figures.first()?, figures.last()?);
        let (lower, upper) = (figures[(figures.len() - 1) / 2], figures[figures.len() / 2]);
        Some(Spread { median: f64::midpoint(lower, upper), best, worst })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn a_spread_of_an_even_number_has_the_middle_as_its_median() {
        let spread = Spread::of([4.0, 1.0, 3.0, 2.0]).unwrap();
        assert_eq!(spread, Spread { median: 2.5, best: 4.0, worst: 1.0 });
        assert_eq!(Spread::of([]), None);
    }
}
