//! Room for what commands write: while the data takes more than `maxmemory`, keys are evicted, as the policy says.
//!
//! What is evicted is removed in the turn of the command that needs the room, and so in its commit.

use std::time::Instant;

use tembo_kv::Error;

use crate::access::Access;
use crate::dataset::Dataset;
use crate::event_class::Classes;
use crate::eviction::Choice;
use crate::failure::Failure;
use crate::shared::Shared;

/// Keys that are evicted before the time is looked at.
const EVICTED_AT_ONCE: u64 = 16;
/// Of a linear congruential generator: Knuth's, for 64 bits.
const MULTIPLIER: u64 = 6_364_136_223_846_793_005;

/// Evicts keys as long as there is time for it, if the data takes too much, and notes whether what needs room is refused.
///
/// # Errors
/// The turn cannot be committed.
pub(crate) fn make_room(data: &mut Dataset<'_>, shared: &mut Shared) -> Result<(), Error> {
    data.adjust_footprint();
    let most = shared.settings.maxmemory;
    shared.is_over_memory = most > 0 && data.used_bytes() > most;
    shared.eviction.is_running = false;
    let Some(policy) = shared.settings.eviction.filter(|_| shared.is_over_memory) else {
        shared.stats.end_excess();
        return Ok(());
    };
    let pauses = shared.pause.is_on(shared.clock.steady_ms);
    if data.access() != Access::Open || pauses {
        // A replica removes what its primary does.
        shared.is_over_memory = false;
        return Ok(());
    }
    shared.stats.begin_excess();
    let (began, limit) = (Instant::now(), shared.settings.eviction_time);
    let is_published = shared.propagation.is_on || shared.settings.notified.has(Classes::EVICTED);
    let mut count = 0;
    while data.used_bytes() > most {
        let mut random = shared.random();
        let choice = Choice {
            policy,
            samples: shared.settings.samples,
            recency: shared.recency.as_ref(),
            clock: (shared.clock.steady_ms, shared.settings.decay),
        };
        let mut next = || {
            random = random.wrapping_mul(MULTIPLIER).wrapping_add(1);
            random >> 33
        };
        let evicted = match shared.eviction.evict(data, &choice, &mut next) {
            Ok(Some(evicted)) => evicted,
            Err(Failure::Turn(error)) => return Err(error),
            Err(Failure::Store(Error::Poisoned)) => return Err(Error::Poisoned),
            // Nothing can be evicted, or there is not even room to remove it.
            Ok(None) | Err(_) => return Ok(()),
        };
        if let Some(recency) = &mut shared.recency {
            recency.forget((evicted.0, &evicted.1));
        }
        shared.stats.evicted_keys += 1;
        // The items of memcached are not published.
        if evicted.0 < data.databases() {
            if is_published {
                shared.eviction.evicted.push(evicted);
            }
        } else {
            shared.items.stats.evictions += 1;
        }
        count += 1;
        if count % EVICTED_AT_ONCE == 0 && began.elapsed() >= limit {
            shared.eviction.is_running = true;
            break;
        }
    }
    shared.is_over_memory = false;
    if !shared.eviction.is_running {
        shared.stats.end_excess();
    }
    Ok(())
}
