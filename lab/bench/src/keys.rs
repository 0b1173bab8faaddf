//! Keys and the order in which they come, all from one seed.

/// SplitMix64 (Steele, Lea, Flood: "Fast splittable pseudorandom number generators", 2014).
#[derive(Clone, Debug)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Random {
        Random(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        scramble(self.0)
    }

    /// A number below `bound`, by multiplication (Lemire).
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(bound)) >> 64) as u64
    }

    /// In `[0, 1)`.
    fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }
}

/// SplitMix64's finaliser: one to one on 64 bits, so scrambled numbers differ where numbers do.
pub(crate) fn scramble(n: u64) -> u64 {
    let n = (n ^ n >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let n = (n ^ n >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    n ^ n >> 31
}

/// The keys of one experiment: numbers, scrambled by one permutation of all 64-bit integers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Keys {
    pub(crate) count: u64,
    pub(crate) seed: u64,
}

impl Keys {
    /// The key of a number: those below `count` are inserted, others are missing.
    pub(crate) fn key(self, number: u64) -> u64 {
        scramble(number.wrapping_add(scramble(self.seed)))
    }

    /// All keys, each once, in a random order (Fisher and Yates); another `salt`, another order.
    pub(crate) fn shuffled(self, salt: u64) -> Vec<u64> {
        self.shuffled_from(0, salt)
    }

    /// As many keys that are not there.
    pub(crate) fn missing(self, salt: u64) -> Vec<u64> {
        self.shuffled_from(self.count, salt)
    }

    /// The keys in two parts, each in a random order: one for each of two threads. Other salts give
    /// other orders of the same parts.
    pub(crate) fn halves(self, salt: u64) -> [Vec<u64>; 2] {
        let middle = self.count / 2;
        [(0, middle), (middle, self.count - middle)]
            .map(|(first, count)| Keys { count, ..self }.shuffled_from(first, salt ^ first))
    }

    fn shuffled_from(self, first: u64, salt: u64) -> Vec<u64> {
        let mut random = self.random(salt);
        let mut keys: Vec<u64> = (first..first + self.count).map(|n| self.key(n)).collect();
        for last in (1..keys.len()).rev() {
            keys.swap(last, random.below(last as u64 + 1) as usize);
        }
        keys
    }

    /// As many keys as there are, drawn by Zipf's law: some of them often.
    pub(crate) fn zipfian(self, zipf: &Zipf, salt: u64) -> Vec<u64> {
        let mut random = self.random(salt);
        (0..self.count).map(|_| self.key(zipf.rank(&mut random))).collect()
    }

    /// The greatest keys, in order: `count` of them, or all.
    pub(crate) fn last(self, count: usize) -> Vec<u64> {
        let mut keys: Vec<u64> = (0..self.count).map(|n| self.key(n)).collect();
        let before = keys.len().saturating_sub(count);
        if before > 0 {
            keys.select_nth_unstable(before);
        }
        let mut last = keys.split_off(before);
        last.sort_unstable();
        last
    }

    fn random(self, salt: u64) -> Random {
        Random::new(scramble(self.seed ^ scramble(salt)))
    }
}

/// Ranks by Zipf's law, as YCSB draws them (Gray et al.: "Quickly generating billion-record synthetic
/// databases", SIGMOD 1994).
#[derive(Clone, Debug)]
pub(crate) struct Zipf {
    count: f64,
    theta: f64,
    alpha: f64,
    eta: f64,
    zeta: f64,
}

impl Zipf {
    /// Over ranks below `count`; `theta` in `(0, 1)`.
    pub(crate) fn new(count: u64, theta: f64) -> Zipf {
        let sum = |count: u64| (1..=count).map(|n| (n as f64).powf(-theta)).sum::<f64>();
        let zeta = sum(count);
        let floor = count as f64;
        let eta = (1.0 - (2.0 / floor).powf(1.0 - theta)) / (1.0 - sum(2) / zeta);
        Zipf { count: floor, theta, alpha: 1.0 / (1.0 - theta), eta, zeta }
    }

    pub(crate) fn rank(&self, random: &mut Random) -> u64 {
        let unit = random.unit();
        let scaled = unit * self.zeta;
        if scaled < 1.0 {
            return 0;
        }
        if scaled < 1.0 + 0.5_f64.powf(self.theta) {
            return 1.min(self.count as u64 - 1);
        }
        let rank = self.count * (self.eta * unit - self.eta + 1.0).powf(self.alpha);
        (rank as u64).min(self.count as u64 - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_holds_each_key_once_and_can_be_had_again() {
        let keys = Keys { count: 1000, seed: 7 };
        let (order, again, other) = (keys.shuffled(1), keys.shuffled(1), keys.shuffled(2));
        assert!(order == again && order != other);
        let sorted = |mut keys: Vec<u64>| {
            keys.sort_unstable();
            keys.dedup();
            keys
        };
        assert_eq!(sorted(order.clone()), sorted(other));
        assert_eq!(sorted(order.clone()).len(), 1000);
        let all: Vec<u64> = order.into_iter().chain(keys.missing(1)).collect();
        assert_eq!(sorted(all).len(), 2000);
    }

    #[test]
    fn halves_are_parts_of_all_keys_whatever_their_order() {
        let keys = Keys { count: 1001, seed: 7 };
        let sorted = |mut keys: Vec<u64>| {
            keys.sort_unstable();
            keys
        };
        let (one, other) = (keys.halves(1), keys.halves(2));
        assert!(one != other);
        assert_eq!(one.clone().map(sorted), other.map(sorted));
        assert_eq!(sorted(one.concat()), sorted(keys.shuffled(1)));
    }

    #[test]
    fn zipf_draws_the_first_rank_as_often_as_the_law_says() {
        let (zipf, mut random) = (Zipf::new(1000, 0.99), Random::new(1));
        let draws = 100_000;
        let mut counts = vec![0_u32; 1000];
        (0..draws).for_each(|_| counts[zipf.rank(&mut random) as usize] += 1);
        // The sum of n^-0.99 up to 1000 is 7.73.
        let first = f64::from(counts[0]) / f64::from(draws);
        assert!((first - 1.0 / 7.73).abs() < 0.005, "{first}");
        assert!(counts[0] > counts[1] && counts[1] > counts[10] && counts[10] > counts[900]);
    }

    #[test]
    fn zipf_stays_below_its_count() {
        for count in 1..20 {
            let (zipf, mut random) = (Zipf::new(count, 0.99), Random::new(count));
            assert!((0..1000).all(|_| zipf.rank(&mut random) < count));
        }
    }
}
