//! How a turn begins and ends: keys expire; what was written is committed and synced.

use std::time::{Duration, Instant};

use tembo_kv::{Error as StoreError, Store};

use crate::dataset::Dataset;
use crate::error::Error;
use crate::event_class::Classes;
use crate::failure::Failure;
use crate::latency::Stage;
use crate::observed::Event;
use crate::shared::Shared;
use crate::waiting::WaitEnd;

/// Times that some keys are expired in a turn, whatever time is left.
const EXPIRIES_MAX: usize = 32;

/// How long keys are expired in a turn that has commands to execute, and in one that has none.
const EXPIRY_TIME: (Duration, Duration) = (Duration::from_micros(250), Duration::from_millis(1));

/// How long the server waits before it tries a sync again that has found the disk full.
const SYNC_AGAIN_MS: u64 = 50;

/// Removes keys that are due, before the turn's commands. `now` is a clock that never goes back.
pub(crate) fn expire(
    data: &mut Dataset<'_>,
    shared: &mut Shared,
    is_idle: bool,
    now: impl Fn() -> Instant,
) -> Result<(), Error> {
    let pauses = shared.pause.is_on(shared.clock.steady_ms);
    if pauses || shared.is_disk_full() || data.next_due_ms() >= data.now_ms() {
        return Ok(());
    }
    let notified = shared.settings.notified;
    let is_wanted = [Classes::EXPIRED, Classes::HASH, Classes::GENERIC];
    let is_published = is_wanted.into_iter().any(|class| notified.has(class));
    data.record_expired(is_published || shared.propagation.is_on);
    let began = now();
    let until = began + if is_idle { EXPIRY_TIME.1 } else { EXPIRY_TIME.0 };
    let mut rounds = 0..EXPIRIES_MAX;
    let go_on = || rounds.next().is_some_and(|round| round == 0 || now() < until);
    let expired = data.expire(go_on);
    let took = now().duration_since(began);
    shared.latency.record(Stage::Expiry, took);
    let threshold_ms = shared.settings.latency_threshold_ms;
    if threshold_ms > 0 && took.as_millis() as u64 >= threshold_ms {
        shared.observed.events.add(
            Event::ExpireCycle,
            shared.clock.wall_s(),
            took.as_millis() as u64,
        );
    }
    match expired {
        Ok(expired) => shared.stats.expired_keys += expired,
        Err(Failure::Store(StoreError::Poisoned)) => {
            return Err(Error::Poisoned);
        }
        // What was removed so far is whole.
        Err(Failure::Store(StoreError::Full { .. })) => {
            data.postpone_expiry(data.now_ms() + 1000);
        }
        Err(_) => {
            // Nothing else has been written in this turn yet.
            data.abandon();
            drop(data.take_expired());
            data.postpone_expiry(data.now_ms() + 1000);
        }
    }
    Ok(())
}

/// Gives up what the turn wrote, because of this error.
#[cold]
pub(crate) fn abandon(
    data: &mut Dataset<'_>,
    shared: &mut Shared,
    error: StoreError,
) -> StoreError {
    data.abandon();
    shared.scripts.libraries.end_turn(false);
    error
}

/// Commits what the turn wrote and syncs it; `began`: the time now. If the disk has no room for the sync, what was committed
/// stays visible, [`Shared::is_disk_full`] holds, and a later call syncs it.
pub(crate) fn commit(
    data: &mut Dataset<'_>,
    shared: &mut Shared,
    mut began: Instant,
) -> Result<(), StoreError> {
    let has_written = data.has_written();
    let committed = data.commit();
    shared.scripts.libraries.end_turn(committed.is_ok());
    if let Err(error) = committed {
        data.abandon();
        return Err(error);
    }
    shared.replication.commit_turn();
    if has_written {
        let committed = Instant::now();
        shared.latency.record(Stage::Commit, committed.duration_since(began));
        began = committed;
    }
    let store = data.store();
    if std::mem::take(&mut shared.save_wanted) {
        shared.save_ok = store.save_snapshot("save").is_ok();
        if shared.save_ok {
            shared.saved_s = shared.clock.wall_s();
            shared.stats.saves += 1;
            shared.stats.changes = 0;
        }
    }
    sync(store, shared, began)?;
    if shared.is_disk_full() {
        return Ok(());
    }
    if shared.propagation.is_on {
        send_effects(shared);
    }
    settle(data, shared)?;
    // What it has changed may have found the disk full.
    sync(store, shared, began)?;
    if shared.replication.following().is_some() {
        shared.scripts.libraries.are_of_replica = true;
        let waits = shared.replication.end_waits();
        shared.released.extend(waits.into_iter().map(|token| (token, WaitEnd::Due)));
    }
    if shared.propagation.is_on && shared.replication.following().is_some() {
        // What has been executed before belongs to what those have that follow; what the primary sends does not.
        shared.replication.redis.end(true, shared.clock.steady_ms);
        shared.propagation.end();
    }
    Ok(())
}

/// Syncs what was committed earlier in a turn that has failed: replies show it, and a replica acknowledges it.
pub(crate) fn end_failed(data: &mut Dataset<'_>, shared: &mut Shared) -> Result<(), StoreError> {
    sync(data.store(), shared, Instant::now())?;
    if shared.is_disk_full() {
        return Ok(());
    }
    settle(data, shared)?;
    sync(data.store(), shared, Instant::now())
}

/// Does what REPLICAOF has asked for within EXEC. If that is refused, the client is sent an error in the place of its replies.
fn settle(data: &mut Dataset<'_>, shared: &mut Shared) -> Result<(), StoreError> {
    let client = shared.replication.asked_by();
    match shared.replication.settle(data, shared.clock.steady_ms) {
        Err(StoreError::Poisoned) => Err(StoreError::Poisoned),
        Err(error) => {
            shared.refused = client.map(|client| (client, error));
            Ok(())
        }
        Ok(()) => Ok(()),
    }
}

/// Syncs what is visible, unless a moment ago the disk had no room for that; `began`: the time now.
fn sync(store: &Store, shared: &mut Shared, began: Instant) -> Result<(), StoreError> {
    if store.durable() == store.visible() {
        shared.sync_again_ms = None;
        return Ok(());
    }
    let now_ms = shared.clock.steady_ms;
    if shared.sync_again_ms.is_some_and(|again_ms| now_ms < again_ms) {
        return Ok(());
    }
    match store.sync() {
        Ok(()) => {
            shared.sync_again_ms = None;
            shared.latency.record(Stage::Sync, began.elapsed());
            Ok(())
        }
        Err(StoreError::NotDurable(_)) => {
            shared.sync_again_ms = Some(now_ms + SYNC_AGAIN_MS);
            Ok(())
        }
        // Whatever the reason is: what was executed may be lost, and no later sync can find out.
        Err(_) => Err(StoreError::Poisoned),
    }
}

/// Sends the effects of what is durable to the servers of Redis that follow.
#[cold]
fn send_effects(shared: &mut Shared) {
    if shared.propagation.is_broken {
        return break_stream(shared, shared.propagation.size());
    }
    if shared.propagation.size() > 0 {
        let limits = shared.settings.stream_limits();
        shared.replication.redis.append(shared.propagation.take_turn(), limits);
    }
}

/// The turn has failed. Which of its effects are in the store is not known if some were sent: those that follow begin anew.
#[cold]
pub(crate) fn lose_effects(shared: &mut Shared) {
    // These keys are there again.
    shared.eviction.evicted.clear();
    if !shared.propagation.is_on {
        return;
    }
    let lost = shared.propagation.size();
    shared.propagation.fail();
    if shared.propagation.is_broken {
        break_stream(shared, lost);
    }
}

/// Those that follow begin anew. Commands may wait for places in the `lost` bytes that are never sent.
fn break_stream(shared: &mut Shared, lost: usize) {
    shared.replication.redis.end(false, shared.clock.steady_ms);
    shared.replication.redis.pass_over(lost);
    shared.propagation.end();
}
