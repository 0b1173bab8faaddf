//! `maxmemory-policy`: which keys are evicted, and which of them first.

use std::time::Duration;

/// Which of the keys is evicted first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rank {
    /// The one unused for longest.
    LeastRecent,
    /// The one used least often.
    LeastFrequent,
    /// Any.
    Random,
    /// The one that expires first.
    Expiry,
}

/// Which keys are evicted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Policy {
    /// Only those that expire.
    pub(crate) only_volatile: bool,
    /// See [`Rank`].
    pub(crate) rank: Rank,
}

/// The words of `maxmemory-policy`, in the order in which Redis names them.
pub(crate) const WORDS: &[&str] = &[
    "volatile-lru",
    "volatile-lfu",
    "volatile-random",
    "volatile-ttl",
    "allkeys-lru",
    "allkeys-lfu",
    "allkeys-random",
    "noeviction",
];

impl Policy {
    /// The policy of that name; `None`: nothing is evicted.
    pub(crate) fn of(word: &[u8]) -> Option<Policy> {
        let word = std::str::from_utf8(word).ok()?;
        let (keys, rank) = word.split_once('-')?;
        let rank = match rank {
            "lru" => Rank::LeastRecent,
            "lfu" => Rank::LeastFrequent,
            "random" => Rank::Random,
            "ttl" => Rank::Expiry,
            _ => return None,
        };
        Some(Policy { only_volatile: keys == "volatile", rank })
    }

    /// Whether it asks when keys were used.
    pub(crate) fn asks_usage(self) -> bool {
        matches!(self.rank, Rank::LeastRecent | Rank::LeastFrequent)
    }
}

/// How long keys are evicted for one command, by `maxmemory-eviction-tenacity`: as in Redis.
pub(crate) fn eviction_time(tenacity: u32) -> Duration {
    match tenacity {
        0..=10 => Duration::from_micros(50 * u64::from(tenacity)),
        11..=99 => Duration::from_micros(500).mul_f64(1.15_f64.powi(tenacity as i32 - 10)),
        _ => Duration::MAX,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_word_but_the_last_is_a_policy() {
        let policies: Vec<_> = WORDS.iter().map(|word| Policy::of(word.as_bytes())).collect();
        assert_eq!(policies.iter().filter(|policy| policy.is_some()).count(), 7);
        assert_eq!(policies.last(), Some(&None));
        assert_eq!(policies.iter().flatten().filter(|policy| policy.only_volatile).count(), 4);
    }
}
