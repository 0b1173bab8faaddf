//! Which key is evicted next.
//!
//! ```text
//!   keys of each database, in their order
//!   ├────h────────h──────────h─────h────────┤   hands, each of which goes on from its last key
//!        │        │          │     │
//!        └────────┴── samples ─────┘ ──► candidates (the best 16) ──► the best of them
//! ```
//! As in Redis, the key to be evicted is the best of some samples and of the best ones of earlier samples. Redis takes
//! samples from random places of a hash table; keys here lie in order, and a random place would prefer keys behind gaps. So
//! hands that begin at random places go round all keys, and take each in its turn.

mod policy;

pub(crate) use policy::{Policy, Rank, WORDS, eviction_time};

use crate::dataset::Dataset;
use crate::failure::Failure;
use crate::random_place::random_place;
use crate::recency::{Decay, Recency};

/// Hands of a database.
const HANDS: usize = 8;
/// Candidates that are kept.
const CANDIDATES_MAX: usize = 16;
/// Times that samples are taken, if none of them can be evicted.
const ROUNDS_MAX: usize = 64;
/// A hand passes over fewer keys than this when any key is as good as another.
const SKIPPED_MAX: u64 = 4;

/// A key that may be evicted.
struct Candidate {
    score: u64,
    db: usize,
    key: Vec<u8>,
}

/// How keys are chosen.
pub(crate) struct Choice<'r> {
    /// The policy.
    pub(crate) policy: Policy,
    /// Keys that are looked at for each that is evicted, in each database.
    pub(crate) samples: usize,
    /// When keys were used, and the clock of that.
    pub(crate) recency: Option<&'r Recency>,
    /// See `recency`.
    pub(crate) clock: (u64, Decay),
}

/// The hands and the candidates.
#[derive(Default)]
pub(crate) struct Eviction {
    /// By database, of all keys or of those that expire: the last key, or entry of the expiry index, of each hand.
    hands: Vec<Vec<Vec<u8>>>,
    /// What the hands go round.
    policy: Option<Policy>,
    candidates: Vec<Candidate>,
    /// The database from which a random key is taken next.
    next_db: usize,
    /// There is more to be evicted than there was time for.
    pub(crate) is_running: bool,
    /// Keys that were evicted, if that is to be published.
    pub(crate) evicted: Vec<(usize, Vec<u8>)>,
}

impl Eviction {
    /// Removes the next key, and returns it with its database; `None`: there is none that the policy would evict.
    ///
    /// # Errors
    /// Those of the store; then nothing was removed.
    pub(crate) fn evict(
        &mut self,
        data: &mut Dataset<'_>,
        choice: &Choice<'_>,
        random: &mut dyn FnMut() -> u64,
    ) -> Result<Option<(usize, Vec<u8>)>, Failure> {
        if self.policy.replace(choice.policy) != Some(choice.policy) {
            self.hands = vec![Vec::new(); data.databases_of_all()];
            self.candidates.clear();
        }
        for _ in 0..ROUNDS_MAX {
            let chosen = match choice.policy.rank {
                Rank::Expiry => return evict_first_to_expire(data),
                Rank::Random => self.any(data, choice, random)?,
                Rank::LeastRecent | Rank::LeastFrequent => self.best(data, choice, random)?,
            };
            let Some((db, key)) = chosen else { return Ok(None) };
            if data.evict((db, &key), choice.policy.only_volatile)? {
                return Ok(Some((db, key)));
            }
        }
        Ok(None)
    }

    /// A key from the next database that has some.
    fn any(
        &mut self,
        data: &mut Dataset<'_>,
        choice: &Choice<'_>,
        random: &mut dyn FnMut() -> u64,
    ) -> Result<Option<(usize, Vec<u8>)>, Failure> {
        let databases = data.databases_of_all();
        for _ in 0..databases {
            self.next_db = (self.next_db + 1) % databases;
            let count = 1 + (random() % SKIPPED_MAX) as usize;
            let found = self.advance(data, (self.next_db, choice.policy), count, random)?;
            if let Some(key) = found.into_iter().next_back() {
                return Ok(Some((self.next_db, key)));
            }
        }
        Ok(None)
    }

    /// The best of some samples of each database, and of those of before.
    fn best(
        &mut self,
        data: &mut Dataset<'_>,
        choice: &Choice<'_>,
        random: &mut dyn FnMut() -> u64,
    ) -> Result<Option<(usize, Vec<u8>)>, Failure> {
        let each = choice.samples.div_ceil(HANDS).max(1);
        for db in 0..data.databases_of_all() {
            for _ in 0..choice.samples.clamp(1, HANDS) {
                let found = self.advance(data, (db, choice.policy), each, random)?;
                if found.is_empty() {
                    break;
                }
                for key in found {
                    let is_known = |one: &Candidate| one.db == db && one.key == key;
                    if !self.candidates.iter().any(is_known) {
                        self.candidates.push(Candidate { score: 0, db, key });
                    }
                }
            }
        }
        // Those of before may have been used since.
        for candidate in &mut self.candidates {
            candidate.score = score((candidate.db, &candidate.key), choice);
        }
        self.candidates.sort_by_key(|candidate| candidate.score);
        let excess = self.candidates.len().saturating_sub(CANDIDATES_MAX);
        self.candidates.drain(..excess);
        Ok(self.candidates.pop().map(|Candidate { db, key, .. }| (db, key)))
    }

    /// A hand goes on by up to so many keys, which are returned; none only if there are none.
    fn advance(
        &mut self,
        data: &mut Dataset<'_>,
        (db, policy): (usize, Policy),
        count: usize,
        random: &mut dyn FnMut() -> u64,
    ) -> Result<Vec<Vec<u8>>, Failure> {
        if self.hands[db].is_empty() {
            let Some((first, last)) = data.evictable_ends(db, policy.only_volatile)? else {
                return Ok(Vec::new());
            };
            self.hands[db] = (0..HANDS).map(|_| random_place(&first, &last, random)).collect();
        }
        let hand = &mut self.hands[db][random() as usize % HANDS];
        let mut found = data.evictable_from(db, policy.only_volatile, hand, count)?;
        if found.is_empty() {
            // Behind the last key comes the first one.
            found = data.evictable_from(db, policy.only_volatile, &[], count)?;
        }
        let Some((last, _)) = found.last() else {
            self.hands[db].clear();
            return Ok(Vec::new());
        };
        last.clone_into(hand);
        Ok(found.into_iter().map(|(_, key)| key).collect())
    }
}

/// The greater, the sooner the key is evicted.
fn score(place: (usize, &[u8]), choice: &Choice<'_>) -> u64 {
    let Some(recency) = choice.recency else { return 0 };
    let usage = recency.of(place, choice.clock);
    match choice.policy.rank {
        Rank::LeastFrequent => u64::from(u8::MAX - usage.count) << 48 | usage.idle_ms >> 16,
        _ => usage.idle_ms,
    }
}

/// Of the keys that expire, removes the one that does so first.
fn evict_first_to_expire(data: &mut Dataset<'_>) -> Result<Option<(usize, Vec<u8>)>, Failure> {
    let mut first: Option<(u64, usize, Vec<u8>)> = None;
    for db in 0..data.databases_of_all() {
        if let Some((at_ms, key)) = data.first_to_expire(db)?
            && first.as_ref().is_none_or(|(first_ms, ..)| at_ms < *first_ms)
        {
            first = Some((at_ms, db, key));
        }
    }
    let Some((at_ms, db, key)) = first else { return Ok(None) };
    data.evict((db, &key), true)?;
    data.pass_first_to_expire((db, &key), at_ms)?;
    Ok(Some((db, key)))
}
