//! The choice of records for operations, as YCSB draws them (Cooper et al.: "Benchmarking cloud serving
//! systems with YCSB", SoCC 2010, section 4).

use crate::keys::{Random, Zipf};
use crate::operation::THETA;

/// How records are chosen. Keys are a permutation of numbers, so favourites of [`Zipfian`] lie scattered
/// among all keys, which YCSB calls scrambled.
///
/// [`Zipfian`]: Distribution::Zipfian
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Distribution {
    /// Each as often as any other.
    Uniform,
    /// By Zipf's law, with YCSB's skew.
    Zipfian,
    /// By Zipf's law, the latest inserted most often.
    Latest,
}

/// Draws numbers of records that are there.
#[derive(Clone, Debug)]
pub(crate) struct Chooser {
    distribution: Distribution,
    zipf: Zipf,
    loaded: u64,
}

impl Chooser {
    /// Among `loaded` records, at least one, and what is inserted later.
    pub(crate) fn new(distribution: Distribution, loaded: u64) -> Chooser {
        let zipf = Zipf::new(if distribution == Distribution::Uniform { 2 } else { loaded }, THETA);
        Chooser { distribution, zipf, loaded }
    }

    /// One of the records that were loaded, or of the `inserted` that came after them: of those, the
    /// number is counted back from the latest.
    pub(crate) fn draw(&self, random: &mut Random, inserted: u64) -> Drawn {
        match self.distribution {
            Distribution::Uniform => Drawn::Loaded(random.below(self.loaded)),
            Distribution::Zipfian => Drawn::Loaded(self.zipf.rank(random)),
            Distribution::Latest => match self.zipf.rank(random) {
                rank if rank < inserted => Drawn::Inserted { back: rank },
                rank => Drawn::Loaded(self.loaded - 1 - (rank - inserted).min(self.loaded - 1)),
            },
        }
    }
}

/// A record that is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Drawn {
    /// A loaded record, by its number.
    Loaded(u64),
    /// Inserted since: 0 is the latest.
    Inserted {
        /// Insertions after it.
        back: u64,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    fn draws(distribution: Distribution, inserted: u64) -> Vec<Drawn> {
        let (chooser, mut random) = (Chooser::new(distribution, 100), Random::new(5));
        (0..10_000).map(|_| chooser.draw(&mut random, inserted)).collect()
    }

    #[test]
    fn only_records_that_are_there_are_drawn() {
        for distribution in [Distribution::Uniform, Distribution::Zipfian, Distribution::Latest] {
            for inserted in [0, 1, 50, 500] {
                assert!(draws(distribution, inserted).iter().all(|drawn| match *drawn {
                    Drawn::Loaded(number) => number < 100,
                    Drawn::Inserted { back } => back < inserted,
                }));
            }
        }
    }

    #[test]
    fn the_latest_is_drawn_most_often() {
        let often = |drawn| draws(Distribution::Latest, 3).iter().filter(|d| **d == drawn).count();
        let latest = often(Drawn::Inserted { back: 0 });
        assert!(latest > often(Drawn::Inserted { back: 1 }));
        assert!(often(Drawn::Loaded(99)) > often(Drawn::Loaded(0)));
        // The sum of n^-0.99 up to 100 is 5.31, so a fifth of all draws.
        assert!((1_700..2_100).contains(&latest), "{latest}");
    }
}
