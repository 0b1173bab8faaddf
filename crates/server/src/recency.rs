//! When keys were last used, and how often: what eviction, OBJECT IDLETIME, OBJECT FREQ and memcached's `mg` ask.
//!
//! ```text
//!   hash of database and key ──► bucket of 8 slots (a cache line) ──► slot with the tag of the key
//!                                                                     or the one unused for longest
//! ```
//! The table is volatile and of a fixed size, whatever the number of keys. A key that is not in it counts as unused since the table
//! was made. Two keys of one bucket and tag share a slot: one key in two million or so is confused with another.
//! The counter is Redis's, of Morris's kind: it rises with a probability that falls with its value, and falls with time.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;

/// Buckets of the table: 8 MiB.
const BUCKETS: usize = 1 << 17;
/// Slots of a bucket.
const SLOTS: usize = 8;
/// The counter of a key that was used for the first time.
const COUNT_FIRST: u8 = 5;
/// Milliseconds of a tick: the unit of times.
const TICK_MS: u64 = 10;
/// The tick at which the table is made. A key can be noted as used 31 days before.
const TICK_MADE: u64 = 1 << 28;

/// A key's record; all zero: none.
#[derive(Clone, Copy, Default)]
struct Slot {
    /// Tag of the key, never 0 of one that is used.
    tag: u16,
    count: u8,
    is_fetched: bool,
    /// In ticks.
    used: u32,
}

/// How a counter rises and falls: `lfu-log-factor`, `lfu-decay-time`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Decay {
    /// The larger, the slower it rises.
    pub(crate) log_factor: u64,
    /// Minutes after which it is one less; 0: it does not fall.
    pub(crate) minutes: u64,
}

/// What is known of a key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Usage {
    /// Milliseconds since it was last used.
    pub(crate) idle_ms: u64,
    /// How often it was used, on a logarithmic scale.
    pub(crate) count: u8,
    /// It was read since it was written.
    pub(crate) is_fetched: bool,
}

/// What is known of all keys.
pub(crate) struct Recency {
    buckets: Box<[[Slot; SLOTS]]>,
    hasher: RandomState,
    made_ms: u64,
    random: u64,
}

impl Recency {
    /// No key has been used.
    pub(crate) fn new(now_ms: u64, seed: u64) -> Recency {
        let buckets = vec![[Slot::default(); SLOTS]; BUCKETS].into_boxed_slice();
        Recency { buckets, hasher: RandomState::new(), made_ms: now_ms, random: seed | 1 }
    }

    fn place(&self, db: usize, key: &[u8]) -> (usize, u16) {
        let hash = self.hasher.hash_one((db, key));
        (hash as usize % BUCKETS, (hash >> 48) as u16 | 1)
    }

    fn tick(&self, now_ms: u64) -> u32 {
        let ticks = TICK_MADE + now_ms.saturating_sub(self.made_ms) / TICK_MS;
        u32::try_from(ticks).unwrap_or(u32::MAX)
    }

    /// The key is used; whether it is read, and not written.
    pub(crate) fn note(&mut self, (db, key): (usize, &[u8]), is_read: bool, clock: (u64, Decay)) {
        let (now_ms, decay) = clock;
        let ((bucket, tag), tick) = (self.place(db, key), self.tick(now_ms));
        let slots = &mut self.buckets[bucket];
        match slots.iter_mut().find(|slot| slot.tag == tag) {
            Some(slot) => {
                let count = decayed(slot, tick, decay);
                self.random ^= self.random << 13;
                self.random ^= self.random >> 7;
                self.random ^= self.random << 17;
                slot.count = risen(count, decay, self.random);
                slot.used = tick;
                slot.is_fetched = is_read;
            }
            None => {
                let oldest = slots.iter_mut().min_by_key(|slot| (slot.tag != 0, slot.used));
                if let Some(slot) = oldest {
                    *slot = Slot { tag, count: COUNT_FIRST, is_fetched: is_read, used: tick };
                }
            }
        }
    }

    /// The key was last used so many milliseconds ago, and if that is given, so often.
    pub(crate) fn set(
        &mut self,
        (db, key): (usize, &[u8]),
        (idle_ms, count): (u64, Option<u8>),
        clock: (u64, Decay),
    ) {
        self.note((db, key), false, clock);
        let ((bucket, tag), tick) = (self.place(db, key), self.tick(clock.0));
        if let Some(slot) = self.buckets[bucket].iter_mut().find(|slot| slot.tag == tag) {
            let idle = u32::try_from(idle_ms / TICK_MS).unwrap_or(u32::MAX);
            slot.used = tick.saturating_sub(idle);
            slot.count = count.unwrap_or(COUNT_FIRST);
        }
    }

    /// The key was removed.
    pub(crate) fn forget(&mut self, (db, key): (usize, &[u8])) {
        let (bucket, tag) = self.place(db, key);
        if let Some(slot) = self.buckets[bucket].iter_mut().find(|slot| slot.tag == tag) {
            *slot = Slot::default();
        }
    }

    /// What is known of a key.
    pub(crate) fn of(&self, (db, key): (usize, &[u8]), clock: (u64, Decay)) -> Usage {
        let (now_ms, decay) = clock;
        let ((bucket, tag), tick) = (self.place(db, key), self.tick(now_ms));
        match self.buckets[bucket].iter().find(|slot| slot.tag == tag) {
            Some(slot) => Usage {
                idle_ms: u64::from(tick.saturating_sub(slot.used)) * TICK_MS,
                count: decayed(slot, tick, decay),
                is_fetched: slot.is_fetched,
            },
            None => {
                let idle_ms = now_ms.saturating_sub(self.made_ms);
                Usage { idle_ms, count: 0, is_fetched: false }
            }
        }
    }
}

/// The counter as time has left it.
fn decayed(slot: &Slot, tick: u32, decay: Decay) -> u8 {
    let idle_ms = u64::from(tick.saturating_sub(slot.used)) * TICK_MS;
    let periods = (idle_ms / 60_000).checked_div(decay.minutes).unwrap_or(0);
    slot.count.saturating_sub(periods.min(255) as u8)
}

/// The counter after one more use.
fn risen(count: u8, decay: Decay, random: u64) -> u8 {
    let above = u64::from(count.saturating_sub(COUNT_FIRST));
    let chance = above.saturating_mul(decay.log_factor).saturating_add(1);
    if random.is_multiple_of(chance) { count.saturating_add(1) } else { count }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DECAY: Decay = Decay { log_factor: 10, minutes: 1 };

    #[test]
    fn a_key_is_as_idle_as_it_was_not_used() {
        let mut recency = Recency::new(1000, 7);
        recency.note((0, b"a"), false, (2000, DECAY));
        let usage = recency.of((0, b"a"), (5000, DECAY));
        assert_eq!(usage, Usage { idle_ms: 3000, count: COUNT_FIRST, is_fetched: false });
        recency.note((0, b"a"), true, (5000, DECAY));
        assert!(recency.of((0, b"a"), (5000, DECAY)).is_fetched);
        // What is not in the table is the oldest.
        assert_eq!(recency.of((1, b"a"), (5000, DECAY)).idle_ms, 4000);
        recency.forget((0, b"a"));
        assert_eq!(recency.of((0, b"a"), (5000, DECAY)).idle_ms, 4000);
    }

    #[test]
    fn a_use_of_before_the_table_can_be_noted() {
        let mut recency = Recency::new(1000, 7);
        recency.set((0, b"a"), (70_000, Some(9)), (1000, DECAY));
        let usage = recency.of((0, b"a"), (2000, DECAY));
        assert_eq!((usage.idle_ms, usage.count), (71_000, 8));
        recency.set((0, b"a"), (0, None), (2000, DECAY));
        assert_eq!(recency.of((0, b"a"), (2000, DECAY)).count, COUNT_FIRST);
    }

    #[test]
    fn the_counter_rises_slower_and_slower_and_falls_with_time() {
        let mut recency = Recency::new(0, 7);
        for _ in 0..100 {
            recency.note((0, b"a"), true, (0, DECAY));
        }
        let after_100 = recency.of((0, b"a"), (0, DECAY)).count;
        for _ in 0..10_000 {
            recency.note((0, b"a"), true, (0, DECAY));
        }
        let after_10_000 = recency.of((0, b"a"), (0, DECAY)).count;
        assert!((7..30).contains(&after_100), "{after_100}");
        assert!((30..120).contains(&after_10_000), "{after_10_000}");
        let later = recency.of((0, b"a"), (3 * 60_000, DECAY)).count;
        assert_eq!(later, after_10_000 - 3);
    }

    #[test]
    fn the_table_keeps_what_was_used_last() {
        let mut recency = Recency::new(0, 7);
        // More keys than slots: the last ones are there.
        let key = |number: u64| number.to_le_bytes();
        for number in 0..1_200_000_u64 {
            recency.note((0, &key(number)), false, (number, DECAY));
        }
        let idle = |number: u64| recency.of((0, &key(number)), (1_200_000, DECAY)).idle_ms;
        let kept = (1_100_000..1_200_000).filter(|&number| idle(number) < 110_000).count();
        assert!(kept > 99_000, "{kept}");
    }
}
